#include "tools/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "core/units.h"

enum {
    BAR_CELLS = 30,
    BAR_PERIOD_MS = 100,
    LINE_PERIOD_MS = 10000, /* where it is read later, not watched */
    TIME_BYTES = 32
};

void tm_progress_init(tm_progress *p, const char *what)
{
    *p = (tm_progress){.what = what, .on_terminal = isatty(STDERR_FILENO) == 1};
}

/* "1:02:03" of SECONDS, rounded. */
static const char *clock_text(double seconds, char ret[TIME_BYTES])
{
    uint64_t s = seconds > 0 ? (uint64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(ret, TIME_BYTES, "%u:%02u:%02u", (unsigned)(s / 3600), (unsigned)(s / 60 % 60),
                 (unsigned)(s % 60));
    else
        snprintf(ret, TIME_BYTES, "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
    return ret;
}

/* "12.3 of 45.6 GB, 4.5 GB/s, 0:07 left" */
static void print_numbers(const tm_progress *p, uint64_t done, uint64_t total, uint64_t now)
{
    char a[TM_SIZE_TEXT_MAX], b[TM_SIZE_TEXT_MAX], c[TM_SIZE_TEXT_MAX], left[TIME_BYTES];
    double seconds = (double)(now - p->started_ns) / 1e9;
    double rate = seconds > 0 ? (double)(done - p->started_at) / seconds : 0;
    fprintf(stderr, "%s of %s", tm_size_text(done, a), tm_size_text(total, b));
    if (rate >= 1)
        fprintf(stderr, ", %s/s, %s left", tm_size_text((uint64_t)rate, c),
                clock_text((double)(total - done) / rate, left));
}

static void print_bar(const tm_progress *p, uint64_t done, uint64_t total, uint64_t now)
{
    double share = total ? (double)done / (double)total : 1;
    int full = (int)(share * BAR_CELLS);
    fprintf(stderr, "\r\033[K%s [", p->what);
    for (int i = 0; i < BAR_CELLS; i++)
        fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d %% ", (int)(share * 100));
    print_numbers(p, done, total, now);
    fflush(stderr);
}

static void print_line(const tm_progress *p, uint64_t done, uint64_t total, uint64_t now)
{
    fprintf(stderr, "tmorph: %s: ", p->what);
    print_numbers(p, done, total, now);
    fputc('\n', stderr);
}

void tm_progress_tell(tm_progress *p, uint64_t done, uint64_t total)
{
    uint64_t now = tm_now_ns();
    uint64_t period = (uint64_t)(p->on_terminal ? BAR_PERIOD_MS : LINE_PERIOD_MS) * 1000000;
    if (p->started_ns == 0) {
        p->started_ns = p->told_ns = now;
        p->started_at = done;
    }
    if (now - p->told_ns < period)
        return;
    p->told_ns = now;
    if (p->on_terminal)
        print_bar(p, done, total, now);
    else
        print_line(p, done, total, now);
    p->shown |= p->on_terminal;
}

void tm_progress_end(tm_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}
