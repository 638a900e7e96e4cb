/* Findings about ranks. Divisions: GPUs, what one rank does more than the others, what is known
 * of the ranks. */
#include "base/array.h"
#include "base/stats.h"
#include "facts/rank_batches.h"
#include "profiler/analysis/analysis_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A clock this share below the others' explains a slow rank. NVIDIA's clocks move in steps of 15
 * MHz; two steps are 2 %. */
static const double slow_clock = 0.03;
static const double throttled_share = 0.05; /* of the samples of a GPU's state */
static const double unresolved_share = 0.5; /* of the collectives */
/* So many ranks have a finding of their own, the worst ones. */
enum { RANKS_TOLD = 8 };

/* ---- GPUs ---- */

static double clock_of(const struct lk_analysis *a, size_t k)
{
    const struct lk_gpu_summary *g = &a->ranks[k].gpu;

    return g->n >= LK_FINDING_FEW ? g->quantity[LK_GPU_SM_CLOCK_MHZ].mean : NAN;
}

/* Set *out to the median clock of the ranks but k; NaN when there are none. */
static enum lk_status clock_of_others(const struct lk_analysis *a, size_t k, double *out)
{
    double *clocks = NULL;
    size_t n = 0;

    LK_PASS(lk_alloc(&clocks, a->run->n, sizeof *clocks));
    for (size_t i = 0; i < a->run->n; i++)
        if (i != k && !isnan(clock_of(a, i)))
            clocks[n++] = clock_of(a, i);
    *out = n > 0 ? lk_stats_median(clocks, n) : NAN;
    free(clocks);
    return LK_OK;
}

/* Report GPUs whose clock is so much below the others' that it explains a slow rank. At the others'
 * clock, compute takes as much less as the clock is lower, at most. */
enum lk_status lk_find_gpu_clock_(struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++) {
        double own = clock_of(a, k), others;
        char why[LK_GPU_TEXT], throttled[LK_GPU_TEXT + 64] = "";

        LK_PASS(clock_of_others(a, k, &others));
        if (isnan(own) || isnan(others) || own > (1 - slow_clock) * others)
            continue;
        lk_gpu_throttle_text(&a->ranks[k].gpu, why);
        if (why[0])
            (void)snprintf(throttled, sizeof throttled, ", throttled %.0f %% of the time (%s)",
                           100 * a->ranks[k].gpu.throttled, why);
        LK_PASS(lk_finding_add_(
            a, LK_FINDING_GPU_CLOCK, (int)k, lk_compute_s_(a, k) * (1 - own / others),
            "GPU clock: %s: its GPU runs at %.0f MHz, %.0f %% below the others' %.0f MHz%s",
            lk_rank_text_(a, k).buf, own, 100 * (1 - own / others), others, throttled));
    }
    return LK_OK;
}

/* Report GPUs that are throttled, with the most throttled one as an example. */
enum lk_status lk_find_throttled_(struct lk_analysis *a)
{
    size_t n = 0, sampled = 0, worst = 0;
    char text[LK_GPU_TEXT];

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_gpu_summary *g = &a->ranks[k].gpu;

        sampled += g->n > 0;
        n += g->n > 0 && g->throttled >= throttled_share;
        if (g->n > 0 && g->throttled > 0 &&
            !(a->ranks[worst].gpu.throttled >= g->throttled && a->ranks[worst].gpu.n > 0))
            worst = k;
    }
    if (!n)
        return LK_OK;
    lk_gpu_summary_text(&a->ranks[worst].gpu, text);
    return lk_finding_add_(
        a, LK_FINDING_THROTTLED, (int)worst, NAN,
        "throttled: %zu of %zu GPUs do not hold their clock; most that of %s: %s", n, sampled,
        lk_rank_text_(a, worst).buf, text);
}

/* ---- What one rank does more than the others ---- */

/* A loss of each rank, and how much of it is the rank's own. */
struct own {
    double s;
    size_t rank; /* index */
};

static int own_order(const void *a, const void *b)
{
    const struct own *x = a, *y = b;

    if (x->s != y->s)
        return (x->s < y->s) - (x->s > y->s);
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Ranks that are looked at, with the steps in which each is above the others. */
struct suspects {
    struct own own[RANKS_TOLD];
    size_t above[RANKS_TOLD];
    size_t n, n_steps;
};

static int number_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Count the steps in which each suspect's part of the step is above the ranks' lower median. parts:
 * a bit for each of enum lk_part. */
static enum lk_status count_steps(const struct lk_analysis *a, unsigned parts, struct suspects *x)
{
    size_t n = a->run->n;
    double *at = NULL, *sorted = NULL, median;
    enum lk_status st = LK_OK;

    x->n_steps = a->run->n_steps;
    LK_TRY(lk_alloc(&at, n, sizeof *at));
    LK_TRY(lk_alloc(&sorted, n, sizeof *sorted));
    for (size_t i = 0; i < a->run->n_steps; i++) {
        for (size_t k = 0; k < n; k++) {
            const struct lk_rank_steps *r = &a->run->ranks[k];
            struct lk_step_split split;

            lk_step_split(r, lk_rank_step(r, a->run->steps[i]), NULL, &split);
            at[k] = 0;
            for (int part = 0; part < LK_PART_COUNT; part++)
                at[k] += parts >> part & 1 ? split.s[part] - split.gap_s[part] : 0;
            sorted[k] = at[k];
        }
        qsort(sorted, n, sizeof *sorted, number_order);
        median = sorted[(n - 1) / 2];
        for (size_t k = 0; k < x->n; k++)
            x->above[k] += at[x->own[k].rank] > median;
    }
out:
    free(at);
    free(sorted);
    return st;
}

/* Return true if it happens in too many steps for chance, by the sign test over all ranks. */
static bool is_persistent(const struct suspects *x, size_t k, size_t ranks)
{
    return (double)ranks * lk_stats_binomial_tail(x->above[k], x->n_steps, 0.5) < LK_FINDING_CHANCE;
}

/* List the ranks that lose more by a row of the waterfall than the ranks' lower median, by a share
 * of the step; the worst ones. */
static enum lk_status find_suspects(const struct lk_analysis *a, enum lk_loss loss,
                                    struct suspects *out)
{
    struct own *own = NULL;
    double common;

    *out = (struct suspects){.n = 0};
    LK_PASS(lk_alloc(&own, a->run->n, sizeof *own));
    for (size_t k = 0; k < a->run->n; k++)
        own[k] = (struct own){a->ranks[k].losses_s[loss], k};
    qsort(own, a->run->n, sizeof *own, own_order);
    common = loss == LK_LOSS_SLOW_RANK ? 0 : own[a->run->n / 2].s;
    while (out->n < a->run->n && out->n < RANKS_TOLD &&
           own[out->n].s - common >= LK_FINDING_LOSS_SHARE * a->step_s) {
        out->own[out->n] = own[out->n];
        out->own[out->n].s -= common;
        out->n++;
    }
    free(own);
    return LK_OK;
}

/* Report the suspects that are above the others in too many steps for chance. text: how a rank and
 * the time are put; what follows says in how many steps. */
__attribute__((format(printf, 5, 0))) static enum lk_status
find_own(struct lk_analysis *a, enum lk_finding_id id, enum lk_loss loss, unsigned parts,
         const char *text)
{
    struct suspects x;
    char said[256];

    LK_PASS(find_suspects(a, loss, &x));
    if (!x.n)
        return LK_OK;
    LK_PASS(count_steps(a, parts, &x));
    for (size_t k = 0; k < x.n; k++) {
        bool persists = is_persistent(&x, k, a->run->n);

        if (!persists && x.above[k] < x.n_steps)
            continue;
        snprintf(said, sizeof said, text, lk_rank_text_(a, x.own[k].rank).buf,
                 lk_time_text_(x.own[k].s).buf);
        if (!persists) { /* nobody is accused of what may be chance, and it explains nothing */
            LK_PASS(lk_finding_add_(a, id, -1, NAN, "%s, in %zu of %zu steps, which may be chance",
                                    said, x.above[k], x.n_steps));
            a->findings[a->n_findings - 1].most_s = 0;
            lk_finding_next_(a, "record more steps: 8 tell of 2 ranks, 10 of 8, 17 of 1,024");
            continue;
        }
        LK_PASS(lk_finding_add_(a, id, (int)x.own[k].rank, x.own[k].s, "%s, in %zu of %zu steps",
                                said, x.above[k], x.n_steps));
    }
    return LK_OK;
}

/* Return the lower median of the ranks' batches. */
static int common_batch(const struct lk_rank_batches *b)
{
    int least = 0;

    for (int k = 0; k < b->n; k++) { /* the smallest batch that half of the ranks do not exceed */
        int up_to = 0;

        for (int i = 0; i < b->n; i++)
            up_to += b->of[i].batch <= b->of[k].batch ? b->of[i].ranks : 0;
        if (2 * up_to >= b->ranks && (!least || b->of[k].batch < least))
            least = b->of[k].batch;
    }
    return least;
}

/* Say of slow ranks, from a finding on, that they have more samples than is common: a batch of
 * their own is why they compute longer, and what to change. */
static enum lk_status name_batches(struct lk_analysis *a, size_t first)
{
    const struct lk_run_info *info = lk_run_about(a->run);
    struct lk_rank_batches b;
    int common;

    if (!*info->local_batches)
        return LK_OK;
    LK_PASS(lk_rank_batches_parse(info->local_batches, &b));
    common = common_batch(&b);
    for (size_t i = first; i < a->n_findings; i++) {
        struct lk_finding *f = &a->findings[i];
        int own = f->rank < 0 ? 0 : lk_rank_batches_at(&b, lk_run_rank(a->run, (size_t)f->rank));

        if (own <= common)
            continue;
        LK_PASS(lk_text_add(&f->text, "; it has %d samples a micro-batch, where %d are common", own,
                            common));
        f->next = "give it fewer samples: --rank-batches=balanced of whatif names the split";
    }
    return LK_OK;
}

enum lk_status lk_find_slow_rank_(struct lk_analysis *a)
{
    size_t first = a->n_findings;

    LK_PASS(find_own(a, LK_FINDING_SLOW_RANK, LK_LOSS_SLOW_RANK,
                     1U << LK_PART_FORWARD | 1U << LK_PART_BACKWARD,
                     "slow rank: %s computes %s a step longer than the common pace"));
    return name_batches(a, first);
}

enum lk_status lk_find_rank_input_(struct lk_analysis *a)
{
    return find_own(a, LK_FINDING_RANK_INPUT, LK_LOSS_INPUT, 1U << LK_PART_INPUT,
                    "late input: %s waits %s a step longer for its batches than the others");
}

enum lk_status lk_find_rank_launch_(struct lk_analysis *a)
{
    return find_own(a, LK_FINDING_RANK_LAUNCH, LK_LOSS_LAUNCH, 1U << LK_PART_LAUNCH,
                    "late launches of a rank: NCCL's kernels of %s start late, %s a step more than "
                    "the others'");
}

/* ---- What is known of the ranks ---- */

enum lk_status lk_find_clocks_(struct lk_analysis *a)
{
    size_t n = 0;
    uint64_t worst = 0;

    if (a->run->n < 2 || !a->n_collectives || !lk_knows_waits_(a))
        return LK_OK;
    if (!a->aligned)
        return lk_finding_add_(
            a, LK_FINDING_CLOCKS, -1, NAN,
            "clocks: some rank's clock was never compared, so wait and wire come from durations "
            "alone");
    for (size_t i = 0; i < a->n_collectives; i++)
        n += !a->collectives[i].resolved;
    for (size_t k = 0; k < a->run->n; k++)
        if (a->run->ranks[k].uncertainty_ns > worst)
            worst = a->run->ranks[k].uncertainty_ns;
    if (!worst || (double)n < unresolved_share * (double)a->n_collectives)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_CLOCKS, -1, NAN,
        "clocks: at %.0f %% of the collectives the last to arrive is unresolved (clocks agree "
        "within %s)",
        100 * (double)n / (double)a->n_collectives, lk_time_text_(lk_s_from_ns(worst)).buf);
}

/* Report that ranks are missing: what they made the others wait is not known. */
enum lk_status lk_find_missing_ranks_(struct lk_analysis *a)
{
    if ((int)a->run->n == lk_run_world_size(a->run))
        return LK_OK;
    return lk_finding_add_(a, LK_FINDING_MISSING_RANKS, -1, NAN,
                           "ranks: %zu of %d are here; what the others made them wait is %s",
                           a->run->n, lk_run_world_size(a->run),
                           a->run->n == 1 ? "unknown, and in the wire" : "known of these alone");
}
