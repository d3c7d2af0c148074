#include "core/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

struct tm_log {
    pthread_mutex_t lock; /* guards all; innermost, held while a line is written out */
    int fd;               /* -1: none */
    bool to_syslog;
    char *lines[TM_LOG_LINES]; /* a ring */
    unsigned first, count;
    char last[TM_LOG_LINE_MAX]; /* the text of the newest line, to notice repeats */
    unsigned repeats;
};

static const struct {
    const char *name;
    int priority;
} levels[] = {
    [TM_LOG_ERROR] = {"error", LOG_ERR},
    [TM_LOG_WARNING] = {"warning", LOG_WARNING},
    [TM_LOG_INFO] = {"info", LOG_INFO},
};

int tm_log_new(const char *to, tm_log **ret)
{
    tm_log *log = TM_NEW(tm_log);
    if (!log)
        return -ENOMEM;
    log->fd = -1;
    log->to_syslog = to && strcmp(to, "syslog") == 0;
    if (to && !log->to_syslog) {
        log->fd = open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
        if (log->fd < 0) {
            int rc = -errno;
            free(log);
            return rc;
        }
    }
    if (log->to_syslog)
        openlog("tmorph", LOG_PID | LOG_NDELAY, LOG_DAEMON);
    pthread_mutex_init(&log->lock, NULL);
    *ret = log;
    return 0;
}

/* "2026-11-30T12:34:56Z warning: words\n", malloc'ed. */
static char *format_line(tm_log_level level, const char *text)
{
    char when[32], *line;
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return asprintf(&line, "%s %s: %s\n", when, levels[level].name, text) < 0 ? NULL : line;
}

static void emit(tm_log *log, tm_log_level level, const char *text)
{
    char *line = format_line(level, text);
    if (!line)
        return;
    if (log->fd >= 0)
        tm_ignore((int)write(log->fd, line, strlen(line))); /* nowhere to say that it failed */
    if (log->to_syslog)
        syslog(levels[level].priority, "%s", text);
    unsigned at = (log->first + log->count) % TM_LOG_LINES;
    if (log->count == TM_LOG_LINES) {
        free(log->lines[at]);
        log->first = (log->first + 1) % TM_LOG_LINES;
    } else {
        log->count++;
    }
    log->lines[at] = line;
}

static void emit_repeats(tm_log *log)
{
    char text[64];
    if (log->repeats == 0)
        return;
    snprintf(text, sizeof(text), "the last line came %u more times", log->repeats);
    log->repeats = 0;
    emit(log, TM_LOG_INFO, text);
}

void tm_log_free(tm_log *log)
{
    if (!log)
        return;
    emit_repeats(log);
    for (unsigned i = 0; i < TM_LOG_LINES; i++)
        free(log->lines[i]);
    tm_closep(&log->fd);
    if (log->to_syslog)
        closelog();
    pthread_mutex_destroy(&log->lock);
    free(log);
}

void tm_log_add(tm_log *log, tm_log_level level, const char *fmt, ...)
{
    char text[TM_LOG_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    pthread_mutex_lock(&log->lock);
    if (log->count > 0 && strcmp(text, log->last) == 0) {
        log->repeats++;
    } else {
        emit_repeats(log);
        memcpy(log->last, text, sizeof(text));
        emit(log, level, text);
    }
    pthread_mutex_unlock(&log->lock);
}

char *tm_log_text(tm_log *log, size_t *ret_len)
{
    pthread_mutex_lock(&log->lock);
    emit_repeats(log);
    size_t len = 0;
    for (unsigned i = 0; i < log->count; i++)
        len += strlen(log->lines[(log->first + i) % TM_LOG_LINES]);
    char *text = malloc(len + 1);
    size_t at = 0;
    for (unsigned i = 0; text && i < log->count; i++) {
        const char *line = log->lines[(log->first + i) % TM_LOG_LINES];
        size_t n = strlen(line);
        memcpy(text + at, line, n);
        at += n;
    }
    pthread_mutex_unlock(&log->lock);
    if (text) {
        text[at] = '\0';
        *ret_len = at;
    }
    return text;
}
