#include "fs/tree.h"

static const char *const way_names[TM_RAW_WAY_COUNT] = {
    [TM_RAW_AUTO] = "auto",   [TM_RAW_PASSTHROUGH] = "passthrough", [TM_RAW_MAPPED] = "mapped",
    [TM_RAW_PREAD] = "pread", [TM_RAW_SYMLINK] = "symlink",
};

const char *tm_raw_way_name(tm_raw_way way)
{
    return way_names[way];
}

bool tm_raw_way_parse(const char *name, tm_raw_way *ret)
{
    for (int way = 0; way < TM_RAW_WAY_COUNT; way++) {
        if (strcmp(name, way_names[way]) == 0) {
            *ret = (tm_raw_way)way;
            return true;
        }
    }
    return false;
}
