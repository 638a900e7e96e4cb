/* Checked allocation and growth. Memory is released with free(). */
#ifndef LK_BASE_ARRAY_H
#define LK_BASE_ARRAY_H

#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>

/* Allocate n * size zeroed bytes into *out. LK_ENOMEM also where n * size overflows; n == 0 gives a
 * valid pointer. */
enum lk_status lk_alloc(void *out_ptr, size_t n, size_t size);

/*
 * Make room for `need` items of `size` bytes in the growing array at *(void **)array, whose
 * capacity in items is *capacity. It grows by half, so appending is amortised O(1). On failure the
 * array is untouched.
 */
enum lk_status lk_array_grow(void *array, size_t *capacity, size_t need, size_t size);

/* Copy a string, or its first n bytes; the caller frees it. */
enum lk_status lk_strdup(char **out, const char *text);
enum lk_status lk_strndup(char **out, const char *text, size_t n);

/* Format a string; the caller frees it. */
enum lk_status lk_vasprintf(char **out, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
enum lk_status lk_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append to such a string; *text NULL: begin one. On failure it is as it was. */
enum lk_status lk_text_add(char **text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Compare two numbers, as a comparison for qsort does: -1, 0 or 1. */
#define LK_ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Set `at`, a size_t, to the first of n indices for which `is_before`, an expression of at, is
 * false: it is true for all before that one, and for none behind it. */
#define LK_BISECT(at, n, is_before)                                                                \
    for (size_t lo_ = 0, hi_ = (n); (at) = lo_ + (hi_ - lo_) / 2, lo_ < hi_;)                      \
        if (is_before)                                                                             \
            lo_ = (at) + 1;                                                                        \
        else                                                                                       \
            hi_ = (at)

/* Hand a pointer over: *out gets it, p becomes NULL, so that the cleanup behind leaves it alone. */
#define LK_HAND_OVER(out, p) ((void)(*(out) = (p), (p) = NULL))

#define LK_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
