/* GPUs through Vulkan: compute/vk/, or in a build without it compute/vk/stub.c. */
#ifndef TM_COMPUTE_VULKAN_H
#define TM_COMPUTE_VULKAN_H

#include "core/base.h"

bool tm_vulkan_is_built(void);

#endif
