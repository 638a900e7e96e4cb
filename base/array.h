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

#define LK_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
