/* A level of detail as a picture (formats/picture.h), drawn when it is first read. */
#ifndef TM_FS_LEVEL_PICTURE_H
#define TM_FS_LEVEL_PICTURE_H

#include "compute/tiles.h"

typedef struct tm_level_picture {
    tm_tile_source source; /* copied; the picture keeps its tensor */
    unsigned level;        /* 0: the values themselves. Both axes have 1 to 1024 cells */
    uint64_t plane;
    tm_dtype dtype;   /* as it is stored */
    tm_lane lane;     /* of what is computed */
    tm_tensor *means; /* the means of the level, where they are known and all values finite;
                         kept. NULL: they are computed */
} tm_level_picture;

TM_MUST_CHECK int tm_level_picture_new(const tm_level_picture *params, tm_blob **ret);

#endif
