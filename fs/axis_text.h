/* rows.tsv and cols.tsv of a tensor: a line for each row, or column, of its planes. */
#ifndef TM_FS_AXIS_TEXT_H
#define TM_FS_AXIS_TEXT_H

#include "compute/axis_tiles.h"

/* The size for planes like these; 0 where it does not fit. */
uint64_t tm_axis_text_size(const tm_planes *planes, tm_axis axis);

/* SOURCE is copied; the text keeps its tensor. LANE: of what is computed. */
TM_MUST_CHECK int tm_axis_text_new(const tm_tile_source *source, tm_axis axis, tm_lane lane,
                                   tm_blob **ret);

#endif
