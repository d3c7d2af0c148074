/* Cells of a tensor's blocks, as a scan gives them, on their way to the pyramids of its index. */
#ifndef TM_FS_PYRAMID_SINK_H
#define TM_FS_PYRAMID_SINK_H

#include "compute/blocks.h"
#include "compute/lod.h"
#include "formats/tiles_writer.h"

typedef struct tm_pyramid_sink {
    tm_tiles_writer *writer;
    uint32_t number; /* of the tensor in it */
    tm_pyramid pyramid;
    tm_blocks blocks;
    tm_lod_cell *coarse; /* level TM_PYRAMID_COARSE of all planes; owned, NULL: there is none */
} tm_pyramid_sink;

/* WRITER is borrowed; PYRAMID keeps some level. -ENOMEM. */
TM_MUST_CHECK int tm_pyramid_sink_init(tm_pyramid_sink *sink, tm_tiles_writer *writer,
                                       uint32_t number, const tm_pyramid *pyramid,
                                       const tm_blocks *blocks);
void tm_pyramid_sink_done(tm_pyramid_sink *sink); /* also of one that is all zeros */

/* The cells of BLOCK at the finest level that is kept. Several threads at once. */
TM_MUST_CHECK int tm_pyramid_sink_block(tm_pyramid_sink *sink, uint64_t block,
                                        const tm_lod_cell *cells, tm_req *req);
/* All blocks were put. */
TM_MUST_CHECK int tm_pyramid_sink_end(tm_pyramid_sink *sink, tm_req *req);

#endif
