/* Lists of lines; see the header. */
#include "base/lines.h"

#include "base/array.h"

enum lk_status lk_lines_add(char ***lines, size_t *n, size_t *capacity, const char *fmt,
                            va_list args)
{
    LK_PASS(lk_array_grow(lines, capacity, *n + 1, sizeof **lines));
    LK_PASS(lk_vasprintf(&(*lines)[*n], fmt, args));
    lk_printable((*lines)[(*n)++]);
    return LK_OK;
}
