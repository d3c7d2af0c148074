#include "compute/work_tile.h"

tm_work_tile *tm_work_of(const tm_tile *tile)
{
    return TM_CONTAINER((tm_tile *)(uintptr_t)tile, tm_work_tile, tile);
}

static void finish(tm_work_tile *work, int rc, const char *words, size_t bytes)
{
    if (rc == 0)
        tm_tile_made(&work->tile, bytes);
    else
        work->ops->forget(work);
    tm_shared_finish(&work->tile.shared, rc, words);
    tm_tile_unref(&work->tile);
}

void tm_work_tile_end(tm_work_tile *work, int rc, const char *words, size_t bytes)
{
    tm_gate_leave(&work->source.sched->scans);
    finish(work, rc, words, bytes);
}

/* It is let in. */
static void run(tm_job *job)
{
    tm_work_tile *work = TM_CONTAINER(TM_CONTAINER(job, tm_pass, job), tm_work_tile, pass);
    pthread_mutex_lock(&work->lock);
    int rc = work->cancelled ? -EINTR : work->ops->prepare(work);
    work->prepared = rc == 0;
    pthread_mutex_unlock(&work->lock);
    if (rc < 0)
        tm_work_tile_end(work, rc, rc == -EINTR ? "interrupted" : strerror(-rc), 0);
    else
        work->ops->go(work);
}

static void start(tm_shared *shared)
{
    tm_work_tile *work = tm_work_of(TM_CONTAINER(shared, tm_tile, shared));
    tm_tile_ref(&work->tile); /* until its end */
    pthread_mutex_lock(&work->lock);
    work->cancelled = work->prepared = false;
    work->pass = (tm_pass){.job = {.run = run, .lane = work->lane}};
    pthread_mutex_unlock(&work->lock);
    tm_gate_enter(&work->source.sched->scans, &work->pass);
}

static void cancel(tm_shared *shared)
{
    tm_work_tile *work = tm_work_of(TM_CONTAINER(shared, tm_tile, shared));
    if (tm_gate_withdraw(&work->source.sched->scans, &work->pass)) {
        finish(work, -EINTR, "interrupted", 0);
        return;
    }
    pthread_mutex_lock(&work->lock);
    work->cancelled = true;
    if (work->prepared)
        work->ops->stop(work);
    pthread_mutex_unlock(&work->lock);
}

static void hurry(tm_shared *shared, tm_lane lane)
{
    tm_work_tile *work = tm_work_of(TM_CONTAINER(shared, tm_tile, shared));
    pthread_mutex_lock(&work->lock);
    if (lane < work->lane) {
        work->lane = lane;
        if (work->prepared && work->ops->hurry)
            work->ops->hurry(work);
        tm_gate_hurry(&work->source.sched->scans, &work->pass, lane);
    }
    pthread_mutex_unlock(&work->lock);
}

static const tm_shared_ops shared_ops = {.start = start, .cancel = cancel, .hurry = hurry};

static void work_free(tm_tile *tile)
{
    tm_work_tile *work = tm_work_of(tile);
    tm_tile_done(tile);
    tm_tensor_unref(work->source.tensor);
    pthread_mutex_destroy(&work->lock);
    work->ops->forget(work);
    work->ops->free(work);
}

void tm_work_tile_init(tm_work_tile *work)
{
    tm_tensor_ref(work->source.tensor);
    tm_tile_init(&work->tile, &shared_ops, work_free);
    pthread_mutex_init(&work->lock, NULL);
}
