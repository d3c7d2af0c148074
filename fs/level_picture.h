/* A level of detail as a picture (formats/picture.h), drawn when it is first read. */
#ifndef TM_FS_LEVEL_PICTURE_H
#define TM_FS_LEVEL_PICTURE_H

#include "compute/tiles.h"

/* Of LEVEL (0: the values themselves) and PLANE of a tensor stored as DTYPE; both axes have 1 to
 * 1024 cells. SOURCE is copied; the picture keeps its tensor. LANE: of what is computed. */
TM_MUST_CHECK int tm_level_picture_new(const tm_tile_source *source, unsigned level, uint64_t plane,
                                       tm_dtype dtype, tm_lane lane, tm_blob **ret);

#endif
