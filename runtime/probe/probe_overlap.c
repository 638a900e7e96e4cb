/* Repeat the measurement of overlap and convert times to slowdowns; see the headers. */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/probe/probe_impl.h"

#include <math.h>
#include <stdlib.h>

enum {
    CALLS_MAX = 1000, /* most calls of a timed stretch */
    CALLS_PILOT = 4,
    ATTEMPTS = 6 /* attempts at a repetition; each doubles the margins of the one before */
};

double lk_overlap_unit_s(const uint64_t *points_ns, size_t n_points, uint64_t from_ns,
                         uint64_t to_ns)
{
    size_t first = 0, last;

    if (n_points < 2 || points_ns[n_points - 1] < to_ns)
        return NAN;
    while (first < n_points && points_ns[first] < from_ns)
        first++;
    last = first;
    while (last + 1 < n_points && points_ns[last + 1] <= to_ns)
        last++;
    if (last == first)
        return NAN;
    return lk_s_from_ns(points_ns[last] - points_ns[first]) / (double)(last - first);
}

bool lk_overlap_keep(struct lk_probe_overlap *s, const double *all, size_t world, size_t late,
                     size_t calls)
{
    double wait = 0, wire = 0, delta = 0, traffic = 0;
    size_t waited = 0;

    for (size_t r = 0; r < world; r++) {
        const double *v = all + r * LK_OVERLAP_PHASES;

        if (r != late) {
            wait += v[LK_OVERLAP_WAIT] / v[LK_OVERLAP_QUIET] - 1;
            waited++;
        }
        wire += v[LK_OVERLAP_BOTH_COMPUTE] / v[LK_OVERLAP_QUIET] - 1;
        delta += v[LK_OVERLAP_BOTH] / v[LK_OVERLAP_TRAFFIC] - 1;
        traffic += v[LK_OVERLAP_TRAFFIC];
    }
    if (!isfinite(wait) || !isfinite(wire) || !isfinite(delta))
        return false;
    s->gamma_wait[s->n] = wait / (double)waited;
    s->gamma_wire[s->n] = wire / (double)world;
    s->delta[s->n] = delta / (double)world;
    s->call_s[s->n] = traffic / (double)world / (double)calls;
    s->n++;
    return true;
}

struct measure {
    struct lk_comm *comm;
    const struct lk_overlap_way *way;
    void *ctx;
    size_t calls; /* calls of a stretch */
};

/* Choose how many calls take target_s, the same number on all ranks. */
static enum lk_status choose_calls(struct measure *m, double target_s, double *all)
{
    enum lk_status st = LK_OK;
    double mine = 0, n;

    LK_TRY(m->way->traffic(m->ctx, CALLS_PILOT, &mine)); /* the first call also warms up */
    LK_TRY(m->way->traffic(m->ctx, CALLS_PILOT, &mine));
    LK_TRY(lk_comm_gather(m->comm, LK_F64, &mine, 1, all));
    n = all[0] > 0 ? CALLS_PILOT * target_s / all[0] : CALLS_MAX;
    m->calls = (size_t)(n < 1 ? 1 : n > CALLS_MAX ? CALLS_MAX : n);
out:
    return st;
}

static enum lk_status time_once(struct measure *m, int late, double mine[LK_OVERLAP_PHASES])
{
    enum lk_status st = LK_OK;

    LK_TRY(m->way->quiet(m->ctx, &mine[LK_OVERLAP_QUIET]));
    LK_TRY(m->way->wait(m->ctx, late, &mine[LK_OVERLAP_WAIT]));
    LK_TRY(m->way->traffic(m->ctx, m->calls, &mine[LK_OVERLAP_TRAFFIC]));
    LK_TRY(m->way->both(m->ctx, m->calls, &mine[LK_OVERLAP_BOTH], &mine[LK_OVERLAP_BOTH_COMPUTE]));
out:
    return st;
}

static enum lk_status too_short(void)
{
    return lk_fail(LK_EEVIDENCE,
                   "overlap: in %d attempts compute and collectives did not last as "
                   "long as each other: what else runs on this machine?",
                   (int)ATTEMPTS);
}

/* Repeat, alike on all ranks, until there are enough repetitions or the time is up. */
static enum lk_status repeat(struct measure *m, const struct lk_overlap_plan *plan, double *all,
                             struct lk_probe_overlap *s)
{
    size_t world = (size_t)lk_comm_world_size(m->comm), n = plan->warmup + plan->repetitions;
    enum lk_status st = LK_OK;
    uint64_t start_ns = lk_now_ns();
    double mine[LK_OVERLAP_PHASES];
    int attempts = 0;

    while (s->n < n) {
        size_t late = world > 1 ? s->n % world : SIZE_MAX;

        LK_TRY(time_once(m, world > 1 ? (int)late : -1, mine));
        mine[LK_OVERLAP_ELAPSED] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_TRY(lk_comm_gather(m->comm, LK_F64, mine, LK_OVERLAP_PHASES, all));
        if (!lk_overlap_keep(s, all, world, late, m->calls)) {
            if (!m->way->lengthen || ++attempts == ATTEMPTS)
                return too_short();
            m->way->lengthen(m->ctx);
            continue;
        }
        attempts = 0;
        if (s->n >= s->warmup + LK_PROBE_SAMPLES_MIN && plan->budget_s > 0 &&
            all[LK_OVERLAP_ELAPSED] > plan->budget_s)
            break;
    }
out:
    return st;
}

enum lk_status lk_overlap_measure(struct lk_comm *comm, const struct lk_overlap_way *way, void *ctx,
                                  const struct lk_overlap_plan *plan, struct lk_probe_overlap *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm), n = plan->warmup + plan->repetitions;
    struct lk_probe_overlap s = {.bytes = plan->bytes, .warmup = plan->warmup};
    struct measure m = {.comm = comm, .way = way, .ctx = ctx};
    double *all = NULL;

    LK_TRY(lk_alloc(&all, LK_OVERLAP_PHASES * world, sizeof *all));
    LK_TRY(lk_alloc(&s.gamma_wait, n, sizeof *s.gamma_wait));
    LK_TRY(lk_alloc(&s.gamma_wire, n, sizeof *s.gamma_wire));
    LK_TRY(lk_alloc(&s.delta, n, sizeof *s.delta));
    LK_TRY(lk_alloc(&s.call_s, n, sizeof *s.call_s));
    LK_TRY(choose_calls(&m, plan->target_s, all));
    LK_TRY(repeat(&m, plan, all, &s));
    *out = s;
    s = (struct lk_probe_overlap){0};
out:
    lk_probe_overlap_fini(&s);
    free(all);
    return st;
}
