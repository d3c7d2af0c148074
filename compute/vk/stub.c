#include "compute/vulkan.h"

bool tm_vulkan_is_built(void)
{
    return false;
}
