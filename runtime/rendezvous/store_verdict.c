/* Choose and name the rank to blame; see the header. */
#include "runtime/rendezvous/store_server_impl.h"

#include <inttypes.h>
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

void lk_verdict_names(bool (*is)(const void *ctx, int rank), const void *ctx, int n, char *buf,
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

/* Return progress as one number: 2n before collective n, 2n + 1 inside it. */
static uint64_t position(const struct lk_rank_view *r)
{
    return r->inside ? 2 * r->next - 1 : 2 * r->next;
}

static bool has_left(const void *ctx, int rank)
{
    const struct lk_rank_view *r = ctx;

    return r[rank].state == LK_RANK_LEFT;
}

static bool is_silent(const void *ctx, int rank)
{
    const struct lk_rank_view *r = ctx;

    return r[rank].state != LK_RANK_LEFT && !r[rank].answered;
}

struct behind {
    const struct lk_rank_view *ranks;
    uint64_t position;
};

static bool is_behind(const void *ctx, int rank)
{
    const struct behind *b = ctx;

    return b->ranks[rank].answered && position(&b->ranks[rank]) == b->position;
}

static bool any(bool (*is)(const void *ctx, int rank), const void *ctx, int n)
{
    for (int i = 0; i < n; i++)
        if (is(ctx, i))
            return true;
    return false;
}

void lk_verdict_stall(const struct lk_rank_view *ranks, int n, char *buf, size_t size)
{
    uint64_t first = 0;
    struct behind last = {ranks, UINT64_MAX};
    char names[256] = "";

    if (any(has_left, ranks, n)) {
        lk_verdict_names(has_left, ranks, n, names, sizeof names);
        snprintf(buf, size, "%s left the run before the others", names);
        return;
    }
    if (any(is_silent, ranks, n)) {
        lk_verdict_names(is_silent, ranks, n, names, sizeof names);
        snprintf(buf, size, "%s did not answer: stopped, or busy outside of collectives", names);
        return;
    }
    for (int i = 0; i < n; i++) {
        uint64_t p = position(&ranks[i]);

        first = p > first ? p : first;
        last.position = p < last.position ? p : last.position;
    }
    if (first == last.position) {
        snprintf(buf, size, "no rank is behind in collective %" PRIu64 ": its data do not arrive",
                 first / 2);
        return;
    }
    lk_verdict_names(is_behind, &last, n, names, sizeof names);
    snprintf(buf, size, "%s fell behind: %s collective %" PRIu64 ", others are in %" PRIu64, names,
             last.position % 2 ? "still in" : "did not enter", last.position / 2, first / 2);
}
