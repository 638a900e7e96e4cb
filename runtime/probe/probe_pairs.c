/*
 * The probe of pairs. Members meet as in a tournament: in each round every member has one other, so
 * all pairs of a round move bytes at once and share no end; then the other direction. A barrier
 * begins every transfer.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/probe/probe.h"
#include "runtime/probe/probe_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return whom member x of n meets in a round (the circle method); -1: nobody. */
static int meets(int x, int n, int round)
{
    int m = n + n % 2, y;

    if (x == m - 1)
        y = round;
    else if (x == round)
        y = m - 1;
    else
        y = (2 * round - x + 2 * (m - 1)) % (m - 1);
    return y < n ? y : -1;
}

struct tournament {
    struct lk_comm *comm;
    const struct lk_probe_pairs_config *config;
    int me;          /* member, or -1 */
    double *arrived; /* rates from each member at this rank, of a repetition */
    double *all;     /* the same of all ranks */
};

static enum lk_status play(struct tournament *x, int round, bool up)
{
    const struct lk_probe_pairs_config *c = x->config;
    int other = x->me < 0 ? -1 : meets(x->me, (int)c->n_members, round);
    struct lk_pass p = {.to = -1, .from = -1, .bytes = c->bytes};

    if (other >= 0 && up == (x->me < other))
        p.to = c->members[other];
    else if (other >= 0)
        p.from = c->members[other];
    LK_PASS(lk_comm_barrier(x->comm));
    return lk_comm_pass(x->comm, &p, other < 0 ? NULL : &x->arrived[other]);
}

/* Play all rounds in both directions, and tell all ranks the rates. */
static enum lk_status repetition(struct tournament *x, struct lk_probe_pairs *out)
{
    size_t n = x->config->n_members;
    int rounds = (int)(n + n % 2) - 1;

    memset(x->arrived, 0, n * sizeof *x->arrived);
    for (int round = 0; round < rounds; round++)
        for (int up = 0; up < 2; up++)
            LK_PASS(play(x, round, up));
    LK_PASS(lk_comm_gather(x->comm, LK_F64, x->arrived, n, x->all));
    LK_PASS(lk_array_grow(&out->Bps, &out->capacity, (out->n + 1) * n * n, sizeof *out->Bps));
    for (size_t from = 0; from < n; from++)
        for (size_t to = 0; to < n; to++)
            out->Bps[(out->n * n + from) * n + to] =
                x->all[(size_t)x->config->members[to] * n + from];
    out->n++;
    return LK_OK;
}

enum lk_status lk_probe_pairs(struct lk_comm *comm, const struct lk_probe_pairs_config *config,
                              struct lk_probe_pairs *out)
{
    struct tournament x = {.comm = comm, .config = config, .me = -1};
    size_t n = config->n_members;
    struct lk_probe_pairs pairs = {.n_members = n, .warmup = config->effort.warmup};
    uint64_t begin_ns = lk_now_ns();
    double elapsed_s = 0;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < n; i++)
        x.me = config->members[i] == lk_comm_rank(comm) ? (int)i : x.me;
    LK_TRY(lk_alloc(&x.arrived, n, sizeof *x.arrived));
    LK_TRY(lk_alloc(&x.all, n * (size_t)lk_comm_world_size(comm), sizeof *x.all));
    while (!lk_probe_over(&config->effort, pairs.n, 1, elapsed_s)) {
        LK_TRY(repetition(&x, &pairs));
        LK_TRY(lk_probe_extreme(comm, true, lk_s_from_ns(lk_now_ns() - begin_ns), &elapsed_s));
    }
    *out = pairs;
    pairs = (struct lk_probe_pairs){0};
out:
    lk_probe_pairs_fini(&pairs);
    free(x.arrived);
    free(x.all);
    return st;
}

void lk_probe_pairs_fini(struct lk_probe_pairs *p)
{
    free(p->Bps);
    *p = (struct lk_probe_pairs){0};
}
