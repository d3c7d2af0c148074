/* Only the last star ever has to give way: what stood before it has matched the shortest it can. */
#include "core/glob.h"

#include "core/text.h"

static size_t char_len(const char *text, size_t left)
{
    size_t n = tm_utf8_len(text, left);
    return n ? n : 1;
}

bool tm_glob_match(const char *pattern, size_t pattern_len, const char *text, size_t len)
{
    size_t p = 0, t = 0;
    size_t star = SIZE_MAX; /* what follows the last star of the pattern; SIZE_MAX: none yet */
    size_t star_end = 0;    /* where the run that it stands for ends in the text */
    while (t < len || p < pattern_len) {
        if (p < pattern_len && pattern[p] == '*') {
            star = ++p;
            star_end = t;
        } else if (p < pattern_len && t < len && pattern[p] == '?') {
            p++;
            t += char_len(text + t, len - t);
        } else if (p < pattern_len && t < len && pattern[p] == text[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX && star_end < len) {
            star_end += char_len(text + star_end, len - star_end);
            p = star;
            t = star_end;
        } else {
            return false;
        }
    }
    return true;
}
