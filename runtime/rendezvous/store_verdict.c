/* Choose and name the rank to blame; see the header. */
#include "runtime/rendezvous/rank_names.h"
#include "runtime/rendezvous/store_server_impl.h"

#include <inttypes.h>
#include <stdio.h>

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
    char names[256] = "", where[64] = "";

    if (any(has_left, ranks, n)) {
        lk_rank_names(has_left, ranks, n, names, sizeof names);
        snprintf(buf, size, "%s left the run before the others", names);
        return;
    }
    if (any(is_silent, ranks, n)) {
        lk_rank_names(is_silent, ranks, n, names, sizeof names);
        for (int i = 0; i < n; i++)
            if (ranks[i].answered && ranks[i].inside && position(&ranks[i]) > first)
                first = position(&ranks[i]);
        if (first)
            snprintf(where, sizeof where, "; others are in collective %" PRIu64, first / 2);
        snprintf(buf, size, "%s did not answer: stopped, or busy outside of collectives%s", names,
                 where);
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
    lk_rank_names(is_behind, &last, n, names, sizeof names);
    snprintf(buf, size, "%s fell behind: %s collective %" PRIu64 ", others are in %" PRIu64, names,
             last.position % 2 ? "still in" : "did not enter", last.position / 2, first / 2);
}
