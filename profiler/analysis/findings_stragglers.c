/* Findings about who waits for whom. Divisions: one rank, a node, batches. */
#include "base/array.h"
#include "base/stats.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/step_turns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double persistent_share = 0.75; /* of the steps */
/* Ranks of a late node wait at most this share of what the others wait. */
static const double node_share = 0.5;
/* Compute that takes so much longer on average than in a rank's fast steps is uneven: where the GPU
 * clocks are known to be steady, and where they are not known. */
static const double uneven_share = 0.1, uneven_unknown_share = 0.2;
static const double steady_clock = 0.1; /* from the lowest to the highest, of the mean */
/* From this share on, lateness is mostly the ranks' own work, else mostly inherited. */
static const double own_share = 0.5;
/* So many steps show whether ranks take turns. */
enum { STEPS_OF_TURNS = 10 };

/* ---- One rank ---- */

struct late {
    size_t rank;     /* index of the rank that is last most often */
    size_t resolved; /* collectives */
    bool one;        /* it is last much more often than its share */
};

static struct late find_late(const struct lk_analysis *a)
{
    struct late l = {0};

    for (size_t k = 0; k < a->run->n; k++) {
        l.resolved += a->ranks[k].n_late;
        if (a->ranks[k].n_late > a->ranks[l.rank].n_late)
            l.rank = k;
    }
    l.one = (double)a->ranks[l.rank].n_late >= lk_share_of_one(a->run->n) * (double)l.resolved;
    return l;
}

/* Return the share of a rank's lateness that is its own: durations accuse, arrivals do not. */
static double own_of(const struct lk_analysis *a, size_t rank)
{
    const struct lk_analysis_rank *r = &a->ranks[rank];

    return r->late_by_s > 0 ? r->own_late_s / r->late_by_s : 0;
}

/* Return the same of all ranks' lateness. */
static double own_of_all(const struct lk_analysis *a)
{
    return a->late.lag_s > 0 ? a->late.own_s / a->late.lag_s : 0;
}

/* Return what the ranks but the late one wait for it. */
static double waited_s(const struct lk_analysis *a)
{
    double n = (double)a->run->n;

    return a->losses_s[LK_LOSS_STRAGGLER] * n / (n - 1);
}

/* Count the steps in which a rank is last at most of the resolved collectives; *of: the steps that
 * have some. */
static size_t steps_late(const struct lk_analysis *a, size_t rank, size_t *of)
{
    size_t n = 0;

    *of = 0;
    for (size_t s = 0; s < a->run->n_steps; s++) {
        size_t late = 0, resolved = 0;

        for (size_t i = a->first_collective[s]; i < a->first_collective[s + 1]; i++) {
            resolved += a->collectives[i].resolved;
            late += a->collectives[i].resolved && a->collectives[i].late_rank == (int)rank;
        }
        *of += resolved > 0;
        n += resolved > 0 && 2 * late > resolved;
    }
    return n;
}

/* Report a rank that is last at more than its share of the resolved collectives, mostly by its own
 * work. Steps that are too few to tell it from chance accuse nobody. */
enum lk_status lk_find_late_rank_(struct lk_analysis *a)
{
    const struct late l = find_late(a);
    size_t steps, of;
    bool persists;

    if (!l.resolved || !l.one || own_of(a, l.rank) < own_share ||
        a->losses_s[LK_LOSS_STRAGGLER] < LK_FINDING_LOSS_SHARE * a->step_s)
        return LK_OK;
    steps = steps_late(a, l.rank, &of);
    persists = lk_is_persistent(steps, of, a->run->n);
    if (!persists && steps < of)
        return LK_OK;
    LK_PASS(lk_finding_add_(a, LK_FINDING_LATE_RANK, persists ? (int)l.rank : -1,
                            persists ? waited_s(a) * own_of(a, l.rank) : NAN,
                            "late rank: %s is the last%s at %.0f %% of the collectives, by %s "
                            "on average (%sin %zu "
                            "of %zu step%s%s)",
                            lk_rank_text_(a, l.rank).buf,
                            (int)a->run->n < lk_run_world_size(a->run) ? " of those here" : "",
                            100 * (double)a->ranks[l.rank].n_late / (double)l.resolved,
                            lk_time_text_(a->ranks[l.rank].late_by_s).buf,
                            of < LK_FINDING_FEW                              ? ""
                            : (double)steps >= persistent_share * (double)of ? "persistent: "
                                                                             : "transient: ",
                            steps, of, of == 1 ? "" : "s",
                            persists ? "" : ", which may be chance"));
    if (!persists) {
        a->findings[a->n_findings - 1].most_s = 0;
        lk_finding_next_(a, "record more steps: 8 tell of 2 ranks, 5 of 4, 4 of 8");
    }
    return LK_OK;
}

enum lk_status lk_find_stragglers_(struct lk_analysis *a)
{
    const struct late l = find_late(a);
    double cost = a->losses_s[LK_LOSS_STRAGGLER] * own_of_all(a);

    if (!l.resolved || l.one || own_of_all(a) < own_share ||
        cost < LK_FINDING_LOSS_SHARE * a->step_s)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_STRAGGLERS, -1, cost,
        "stragglers: ranks wait %s a step for the last to arrive, and it is not always the same "
        "rank",
        lk_time_text_(cost).buf);
}

/* Report lateness that no rank's own work explains: collectives end later on some ranks, which then
 * arrive late at the next. */
enum lk_status lk_find_uneven_ends_(struct lk_analysis *a)
{
    double inherited = 1 - own_of_all(a), cost = a->losses_s[LK_LOSS_STRAGGLER] * inherited;
    const struct lk_analysis_lateness *l = &a->late;
    char ends[256] = "";

    if (!(l->lag_s > 0) || inherited <= 1 - own_share || cost < LK_FINDING_LOSS_SHARE * a->step_s)
        return LK_OK;
    if (l->ends_apart_s > 0)
        snprintf(ends, sizeof ends, "; they end %s later on %s than on %s",
                 lk_time_text_(l->ends_apart_s).buf, lk_rank_text_(a, l->last_end).buf,
                 lk_rank_text_(a, l->first_end).buf);
    return lk_finding_add_(a, LK_FINDING_UNEVEN_ENDS, -1, cost,
                           "collectives end unevenly: %.0f %% of the ranks' lateness is inherited "
                           "from where the collective before ended, and no rank's own work "
                           "explains it%s: %s",
                           100 * inherited, ends, lk_links_known_(a));
}

/* ---- A node ---- */

/* Return what a rank waits for others at the collectives of a step, exposed or not. */
static double waits_s(const struct lk_analysis *a, size_t k)
{
    return a->ranks[k].split.comm_s - a->ranks[k].split.moving_s;
}

static const char *host_of(const struct lk_analysis *a, size_t k)
{
    return a->run->traces[k].info.host;
}

/* Return true if waits between hosts are longer than the clocks' errors: `apart_s` a step. */
static bool clocks_tell(const struct lk_analysis *a, double apart_s)
{
    double per_step = (double)a->n_collectives / (double)a->run->n_steps;
    uint64_t worst = 0;

    for (size_t k = 0; k < a->run->n; k++)
        if (a->run->ranks[k].uncertainty_ns > worst)
            worst = a->run->ranks[k].uncertainty_ns;
    return a->aligned && apart_s > 2 * per_step * lk_ns_to_s_(worst);
}

/* Report a host whose ranks the ranks of all other hosts wait for. */
enum lk_status lk_find_late_node_(struct lk_analysis *a)
{
    for (size_t h = 0; h < a->run->n; h++) {
        double inside = 0, outside = INFINITY, exposed = 0;
        size_t n_inside = 0, n_outside = 0;

        for (size_t k = 0; k < a->run->n; k++) {
            if (!strcmp(host_of(a, k), LK_HOST_UNKNOWN))
                return LK_OK;
            if (!strcmp(host_of(a, k), host_of(a, h))) {
                n_inside++;
                inside = fmax(inside, waits_s(a, k));
            } else {
                n_outside++;
                outside = fmin(outside, waits_s(a, k));
                exposed += a->ranks[k].losses_s[LK_LOSS_STRAGGLER];
            }
        }
        if (n_inside < 2 || !n_outside || inside > node_share * outside ||
            exposed / (double)n_outside < LK_FINDING_LOSS_SHARE * a->step_s ||
            !clocks_tell(a, outside - inside))
            continue;
        LK_PASS(lk_finding_add_(
            a, LK_FINDING_LATE_NODE, -1, exposed / (double)n_outside,
            "late node: the ranks of the other hosts wait at least %s a step for the %zu ranks of "
            "host %s, which wait at most %s for each other",
            lk_time_text_(outside).buf, n_inside, host_of(a, h), lk_time_text_(inside).buf));
        a->findings[a->n_findings - 1].host = host_of(a, h);
        return LK_OK;
    }
    return LK_OK;
}

/* ---- Batches ---- */

/* Return the time that a rank's own compute takes in the i-th step. */
static double compute_s(const struct lk_analysis *a, size_t k, size_t i)
{
    const struct lk_rank_steps *r = &a->run->ranks[k];
    struct lk_step_split x;

    lk_step_split(r, lk_rank_step(r, a->run->steps[i]), NULL, &x);
    return x.s[LK_PART_FORWARD] + x.s[LK_PART_BACKWARD] - x.gap_s[LK_PART_FORWARD] -
           x.gap_s[LK_PART_BACKWARD];
}

/* Tell whether the clocks of all GPUs are known, and whether all of those that are are steady. */
static bool clocks_steady(const struct lk_analysis *a, bool *known)
{
    *known = true;
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_gpu_summary *g = &a->ranks[k].gpu;

        if (g->n < LK_FINDING_FEW || isnan(g->quantity[LK_GPU_SM_CLOCK_MHZ].mean))
            *known = false;
        else if (g->quantity[LK_GPU_SM_CLOCK_MHZ].max - g->quantity[LK_GPU_SM_CLOCK_MHZ].min >
                 steady_clock * g->quantity[LK_GPU_SM_CLOCK_MHZ].mean)
            return false;
    }
    return true;
}

/* How compute varies: by how much longer it takes on average than in the fastest tenth of a rank's
 * steps, mean over ranks; and the most steps in which one rank is the slowest. */
struct turns {
    double longer;
    size_t most;
};

static enum lk_status find_turns(const struct lk_analysis *a, struct turns *out)
{
    size_t n = a->run->n, n_steps = a->run->n_steps;
    enum lk_status st = LK_OK;
    double *steps = NULL;
    size_t *slowest = NULL;

    *out = (struct turns){0};
    LK_TRY(lk_alloc(&steps, n * n_steps, sizeof *steps));
    LK_TRY(lk_alloc(&slowest, n, sizeof *slowest));
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n_steps; i++)
            steps[k * n_steps + i] = compute_s(a, k, i);
    for (size_t i = 0; i < n_steps; i++) {
        size_t slow = 0;

        for (size_t k = 1; k < n; k++)
            slow = steps[k * n_steps + i] > steps[slow * n_steps + i] ? k : slow;
        slowest[slow]++;
        out->most = slowest[slow] > out->most ? slowest[slow] : out->most;
    }
    for (size_t k = 0; k < n; k++) {
        double mean = lk_stats_mean(steps + k * n_steps, n_steps);
        double fast = lk_stats_quantile(steps + k * n_steps, n_steps, 0.1); /* sorts */

        out->longer += fast > 0 ? (mean / fast - 1) / (double)n : 0;
    }
out:
    free(steps);
    free(slowest);
    return st;
}

/*
 * Report compute that varies from step to step, on ranks in turns, as lengths of samples do. Where
 * the host computes, or waits in place of a GPU, other work of the machine does the same, and
 * nothing tells them apart.
 */
enum lk_status lk_find_uneven_batches_(struct lk_analysis *a)
{
    size_t n = a->run->n, n_steps = a->run->n_steps;
    double cost = a->losses_s[LK_LOSS_STRAGGLER];
    struct turns t;
    bool known;

    if (n < 2 || n_steps < STEPS_OF_TURNS || cost < LK_FINDING_LOSS_SHARE * a->step_s ||
        lk_run_info_on_host(lk_run_about(a->run)) || !clocks_steady(a, &known))
        return LK_OK;
    LK_PASS(find_turns(a, &t));
    if (t.longer < (known ? uneven_share : uneven_unknown_share) ||
        (double)t.most >= lk_share_of_one(n) * (double)n_steps)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_UNEVEN_BATCHES, -1, cost,
        "uneven batches: a rank computes %.0f %% longer on average than in its fastest steps, and "
        "ranks take turns: none is the slowest in more than %zu of %zu steps (GPU clocks: %s)",
        100 * t.longer, t.most, n_steps, known ? "steady" : "not known");
}
