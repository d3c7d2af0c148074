#include "fs/fuse_caller.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

bool tm_caller_is_us(pid_t tid)
{
    return tid > 0 && syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

bool tm_caller_is_gone(pid_t tid)
{
    return tid > 0 && kill(tid, 0) < 0 && errno == ESRCH;
}

/* ---- Signals that wait for a thread, from /proc/TID/status ---- */

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

/* What asks a process to end, whether it handles that or not. */
static const uint64_t told_to_end = BIT(SIGHUP) | BIT(SIGINT) | BIT(SIGQUIT) | BIT(SIGTERM);
/* What does nothing, or stops or continues, where it is not handled. */
static const uint64_t harmless = BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCONT) |
                                 BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU);

/* The set of signals in the line that begins with KEY; 0 where there is none. */
static uint64_t signal_set(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line ? strtoull(line + strlen(key), NULL, 16) : 0;
}

bool tm_caller_wants_away(pid_t tid)
{
    char path[64], status[4096];
    if (tid <= 0)
        return true;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    TM_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof(status) - 1);
    if (n <= 0)
        return true; /* it is gone, or not ours to look at */
    status[n] = '\0';
    uint64_t pending = (signal_set(status, "\nSigPnd:") | signal_set(status, "\nShdPnd:")) &
                       ~signal_set(status, "\nSigBlk:") & ~signal_set(status, "\nSigIgn:");
    uint64_t handled = signal_set(status, "\nSigCgt:");
    return (pending & told_to_end) || (pending & ~handled & ~harmless);
}
