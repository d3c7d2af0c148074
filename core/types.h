/* Forward names of the types that headers mention without needing their bodies. */
#ifndef TM_CORE_TYPES_H
#define TM_CORE_TYPES_H

typedef struct tm_blob tm_blob;     /* lazily readable bytes of an exactly known size */
typedef struct tm_tensor tm_tensor; /* a lazily readable n-d array */
typedef struct tm_model tm_model;   /* an ordered set of named tensors, with string metadata */
typedef struct tm_req tm_req;       /* what every operation carries: lane, cancel flag, error */
typedef struct tm_read tm_read;     /* one read under way: plan, fetch, run, reply */
typedef struct tm_plan tm_plan;     /* what one read needs */
typedef struct tm_sched tm_sched;   /* the threads that fetch and run */

#endif
