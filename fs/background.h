/*
 * Indexes made in the background: one checkpoint after the other, in lane index, by threads that
 * give way to everything else. A checkpoint that is asked for twice is indexed once. Any thread.
 */
#ifndef TM_FS_BACKGROUND_H
#define TM_FS_BACKGROUND_H

#include "fs/session.h"

typedef struct tm_background tm_background;

/* ALL: whatever is mounted is indexed, without being asked for; members of collections too. */
TM_MUST_CHECK int tm_background_new(tm_session *session, bool all, tm_background **ret);
/* Stops soon, and keeps what is done; what is asked for from then on is not begun. Accept NULL. */
void tm_background_stop(tm_background *background);
void tm_background_free(tm_background *background); /* nobody asks any more */

/* Has M indexed: a checkpoint, or every checkpoint of a collection; levels of detail too where
 * PYRAMIDS are wanted. -ENOMEM. */
TM_MUST_CHECK int tm_background_index(tm_background *background, tm_mounted *m, bool pyramids,
                                      tm_req *req);
/* Neither M nor a member of it is indexed any further, until it is asked for. */
void tm_background_cancel(tm_background *background, const tm_mounted *m);

/* Whether M is being indexed, or will be; RET_DONE: how many bytes of it are done. */
bool tm_background_has(tm_background *background, const tm_mounted *m, uint64_t *ret_done);

#endif
