/* Names of ranks; see the header. */
#include "runtime/rendezvous/rank_names.h"

#include <stdarg.h>
#include <stdio.h>

/* Append to a text that may already be full. */
static void add(char *buf, size_t size, size_t *at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add(char *buf, size_t size, size_t *at, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (*at >= size)
        return;
    va_start(ap, fmt);
    n = vsnprintf(buf + *at, size - *at, fmt, ap);
    va_end(ap);
    *at += n > 0 ? (size_t)n : 0;
}

void lk_rank_names(bool (*is)(const void *ctx, int rank), const void *ctx, int n, char *buf,
                   size_t size)
{
    int left = 0;
    size_t at = 0;

    for (int i = 0; i < n; i++)
        left += is(ctx, i);
    add(buf, size, &at, left == 1 ? "rank" : "ranks");
    for (int i = 0, said = 0; i < n; i++) {
        int last = i;

        if (!is(ctx, i))
            continue;
        while (last + 1 < n && is(ctx, last + 1))
            last++;
        if (last - i < 2) /* two in a row are a list, three or more a range */
            last = i;
        left -= last - i + 1;
        add(buf, size, &at, "%s%d", said == 0 ? " " : left ? ", " : " and ", i);
        if (last > i)
            add(buf, size, &at, " to %d", last);
        said++;
        i = last;
    }
}
