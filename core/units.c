#include "core/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

/* What a unit stands for; 0: it is none. */
static uint64_t unit_of(const char *text)
{
    static const char letters[] = "KMGT";
    if (*text == '\0' || strcasecmp(text, "B") == 0)
        return 1;
    const char *letter = memchr(letters, toupper((unsigned char)*text), sizeof(letters) - 1);
    bool decimal = strcasecmp(text + 1, "B") == 0;
    if (!letter || !(decimal || text[1] == '\0' || strcasecmp(text + 1, "iB") == 0))
        return 0;
    uint64_t unit = 1;
    for (const char *l = letters; l <= letter; l++)
        unit *= decimal ? 1000 : 1024;
    return unit;
}

enum {
    FRACTION_SCALE_MAX = 1000000 /* six digits after the point: that of a terabyte still fits */
};

int tm_size_parse(const char *text, uint64_t *ret)
{
    uint64_t whole = 0, fraction = 0, scale = 1, size;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    for (; isdigit((unsigned char)*text); text++)
        if (tm_mul_overflow(whole, 10, &whole) ||
            tm_add_overflow(whole, (uint64_t)(*text - '0'), &whole))
            return -ERANGE;
    if (*text == '.')
        for (text++; isdigit((unsigned char)*text); text++) {
            if (scale == FRACTION_SCALE_MAX)
                return -EINVAL;
            fraction = fraction * 10 + (uint64_t)(*text - '0');
            scale *= 10;
        }
    uint64_t unit = unit_of(text);
    if (unit == 0)
        return -EINVAL;
    if (tm_mul_overflow(whole, unit, &size) ||
        tm_add_overflow(size, fraction * unit / scale, &size) || size > INT64_MAX)
        return -ERANGE;
    *ret = size;
    return 0;
}

const char *tm_size_text(uint64_t bytes, char ret[TM_SIZE_TEXT_MAX])
{
    static const char units[] = " kMGTPE";
    double x = (double)bytes;
    size_t u = 0;
    /* 999.5 would print as 1000 */
    for (; x >= 999.5 && u + 2 < sizeof(units); u++)
        x /= 1000;
    if (u == 0)
        snprintf(ret, TM_SIZE_TEXT_MAX, "%" PRIu64 " B", bytes);
    else
        snprintf(ret, TM_SIZE_TEXT_MAX, "%.*f %cB", x < 99.95 ? 1 : 0, x, units[u]);
    return ret;
}
