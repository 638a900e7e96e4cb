/* Checked allocation and growth. Memory is released with free(). */
#ifndef LK_BASE_ARRAY_H
#define LK_BASE_ARRAY_H

#include "base/status.h"

#include <stddef.h>

/* n * size zeroed bytes in *out; n * size is checked for overflow; n == 0 gives a valid pointer. */
enum lk_status lk_alloc(void *out_ptr, size_t n, size_t size);

/*
 * Makes room for `need` items of `size` bytes in the growing array at *(void **)array, whose
 * capacity in items is *capacity. Grows by half, so appending is amortised O(1). On failure the
 * array is untouched.
 */
enum lk_status lk_array_grow(void *array, size_t *capacity, size_t need, size_t size);

/* A copy of a string, or of its first n bytes; freed by the caller with free(). */
enum lk_status lk_strdup(char **out, const char *text);
enum lk_status lk_strndup(char **out, const char *text, size_t n);

/* A formatted string; freed by the caller with free(). */
enum lk_status lk_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define LK_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
