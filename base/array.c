/* Checked allocation and growth. */
#include "base/array.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The smallest capacity that lk_array_grow gives: below it, growing costs more than it saves. */
enum { MIN_CAPACITY = 8 };

enum lk_status lk_alloc(void *out_ptr, size_t n, size_t size)
{
    void *p = NULL;

    if (!size || n <= PTRDIFF_MAX / size)
        p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu items of %zu bytes", n, size);
    memcpy(out_ptr, &p, sizeof p);
    return LK_OK;
}

enum lk_status lk_array_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    size_t want = *capacity;
    size_t most = PTRDIFF_MAX / (size ? size : 1); /* the largest size of an object */
    void *old;
    void *p;

    if (need <= *capacity)
        return LK_OK;
    if (need > most)
        return lk_fail(LK_ENOMEM, "cannot grow an array to %zu items of %zu bytes", need, size);
    while (want < need)
        want = want < MIN_CAPACITY ? MIN_CAPACITY : want + want / 2;
    if (want > most)
        want = need;
    memcpy(&old, array, sizeof old);
    p = realloc(old, size ? want * size : 1);
    if (!p)
        return lk_fail(LK_ENOMEM, "cannot grow an array to %zu items of %zu bytes", want, size);
    memcpy(array, &p, sizeof p);
    *capacity = want;
    return LK_OK;
}

enum lk_status lk_strndup(char **out, const char *text, size_t n)
{
    char *p = strndup(text, n);

    if (!p)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu bytes", n);
    *out = p;
    return LK_OK;
}

enum lk_status lk_strdup(char **out, const char *text)
{
    return lk_strndup(out, text, strlen(text));
}

enum lk_status lk_vasprintf(char **out, const char *fmt, va_list ap)
{
    char *p = NULL;

    if (vasprintf(&p, fmt, ap) < 0)
        return lk_fail(LK_ENOMEM, "cannot format a string");
    *out = p;
    return LK_OK;
}

enum lk_status lk_asprintf(char **out, const char *fmt, ...)
{
    enum lk_status st;
    va_list ap;

    va_start(ap, fmt);
    st = lk_vasprintf(out, fmt, ap);
    va_end(ap);
    return st;
}

enum lk_status lk_text_add(char **text, const char *fmt, ...)
{
    char *more = NULL, *whole = NULL;
    enum lk_status st;
    va_list ap;

    va_start(ap, fmt);
    st = lk_vasprintf(&more, fmt, ap);
    va_end(ap);
    if (st == LK_OK && *text)
        st = lk_asprintf(&whole, "%s%s", *text, more);
    if (st == LK_OK) {
        free(*text);
        *text = whole ? whole : more;
    }
    if (whole || st != LK_OK)
        free(more);
    return st;
}
