/* The version of tensormorph, from meson.build. */
#ifndef TM_FS_VERSION_H
#define TM_FS_VERSION_H

#ifndef TM_VERSION
#error "TM_VERSION comes from meson.build"
#endif

#endif
