/* Who asks: the thread that a request of the kernel comes from, and whether it still wants an
 * answer. Threads are named by their ids in our PID namespace; 0, from another one, is nobody we
 * know. */
#ifndef TM_FS_FUSE_CALLER_H
#define TM_FS_FUSE_CALLER_H

#include <sys/types.h>

#include "core/base.h"

/* Whether it is a thread of this process: a source that leads into our own mount. To let it wait
 * would be to wait for ourselves. */
bool tm_caller_is_us(pid_t tid);

/*
 * Whether a thread that was interrupted wants to get away: it is being killed, or was told to end
 * (Ctrl-C, also where it handles that). Any other signal, a timer's or a child's, leaves it waiting
 * as it would for a disk: a read that ended then would be an error that no local file gives, and a
 * page fault would only be repeated, for ever where the signals come faster than the source.
 */
bool tm_caller_wants_away(pid_t tid);

bool tm_caller_is_gone(pid_t tid);

#endif
