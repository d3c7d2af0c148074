#include "core/gate.h"

void tm_gate_init(tm_gate *gate, tm_pool *pool, unsigned limit, unsigned spared)
{
    assert(limit > spared);
    memset(gate, 0, sizeof(*gate));
    gate->pool = pool;
    gate->limit = limit;
    gate->spared = spared;
    pthread_mutex_init(&gate->lock, NULL);
    for (int lane = 0; lane < TM_LANE_COUNT; lane++)
        gate->lanes[lane].prev = gate->lanes[lane].next = &gate->lanes[lane];
}

void tm_gate_done(tm_gate *gate)
{
    assert(gate->inside == 0);
    pthread_mutex_destroy(&gate->lock);
}

static void unlink_pass(tm_pass *pass)
{
    pass->prev->next = pass->next;
    pass->next->prev = pass->prev;
    pass->waiting = false;
}

/* Lets in whom there is room for. The lock is held. */
static void let_in(tm_gate *gate)
{
    for (int lane = 0; lane < TM_LANE_COUNT; lane++) {
        tm_pass *head = &gate->lanes[lane];
        unsigned limit = lane <= TM_LANE_VISIBLE ? gate->limit : gate->limit - gate->spared;
        while (head->next != head && gate->inside < limit) {
            tm_pass *pass = head->next;
            unlink_pass(pass);
            gate->inside++;
            tm_pool_submit(gate->pool, &pass->job);
        }
    }
}

/* Behind those of its lane. The lock is held. */
static void link_pass(tm_gate *gate, tm_pass *pass)
{
    tm_pass *head = &gate->lanes[pass->job.lane];
    pass->prev = head->prev;
    pass->next = head;
    head->prev->next = pass;
    head->prev = pass;
    pass->waiting = true;
    let_in(gate);
}

void tm_gate_enter(tm_gate *gate, tm_pass *pass)
{
    pthread_mutex_lock(&gate->lock);
    link_pass(gate, pass);
    pthread_mutex_unlock(&gate->lock);
}

void tm_gate_hurry(tm_gate *gate, tm_pass *pass, tm_lane lane)
{
    pthread_mutex_lock(&gate->lock);
    if (pass->waiting && lane < pass->job.lane) {
        unlink_pass(pass);
        pass->job.lane = lane;
        link_pass(gate, pass);
    } else if (lane < pass->job.lane && tm_pool_withdraw(gate->pool, &pass->job)) {
        pass->job.lane = lane;
        tm_pool_submit(gate->pool, &pass->job);
    }
    pthread_mutex_unlock(&gate->lock);
}

bool tm_gate_withdraw(tm_gate *gate, tm_pass *pass)
{
    pthread_mutex_lock(&gate->lock);
    bool waiting = pass->waiting;
    if (waiting)
        unlink_pass(pass);
    pthread_mutex_unlock(&gate->lock);
    return waiting;
}

void tm_gate_leave(tm_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    assert(gate->inside > 0);
    gate->inside--;
    let_in(gate);
    pthread_mutex_unlock(&gate->lock);
}
