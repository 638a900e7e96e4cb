/* The table of findings, their causes and their order. Divisions: the table, adding, causes. */
#include "base/array.h"
#include "profiler/analysis/analysis_impl.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ---- */

const struct lk_words lk_finding_id_words = LK_WORDS("a finding", LK_FINDING_LIST);

/* Return a row with what the ideal of a run of one rank has of it. */
static double with_own(const struct lk_analysis *a, enum lk_loss loss)
{
    return a->losses_s[loss] + (loss == LK_LOSS_INPUT  ? a->own_input_s
                                : loss == LK_LOSS_REST ? a->own_gap_s
                                                       : 0);
}

/* Rows of the waterfall that are findings as they are. */
static enum lk_status find_loss(struct lk_analysis *a, enum lk_finding_id id, enum lk_loss loss,
                                const char *text)
{
    double cost = with_own(a, loss);

    if (cost < LK_FINDING_LOSS_SHARE * a->step_s)
        return LK_OK;
    return lk_finding_add_(a, id, -1, cost, "%s, %s a step (%.1f %%)", text,
                           lk_time_text_(cost).buf, lk_percent_of_step_(a, cost));
}

static enum lk_status find_input(struct lk_analysis *a)
{
    return find_loss(a, LK_FINDING_INPUT, LK_LOSS_INPUT, "input bound: ranks wait for their batch");
}

static enum lk_status find_colocation(struct lk_analysis *a)
{
    return find_loss(a, LK_FINDING_COLOCATION, LK_LOSS_COLOCATION,
                     "co-location: compute is slower with several ranks on the node");
}

static enum lk_status find_overlap_slowdown(struct lk_analysis *a)
{
    return find_loss(a, LK_FINDING_OVERLAP_SLOWDOWN, LK_LOSS_OVERLAP,
                     "overlap slowdown: backward is slower while a collective is in flight");
}

static enum lk_status find_optimizer(struct lk_analysis *a)
{
    return find_loss(a, LK_FINDING_OPTIMIZER, LK_LOSS_OPTIMIZER,
                     "optimizer: it takes longer than in the reference");
}

static enum lk_status find_rest(struct lk_analysis *a)
{
    const char *ideal = a->modelled ? "the ideal has none" : "more than in the reference";
    double cost = a->losses_s[LK_LOSS_REST];

    if (fabs(cost) <= LK_FINDING_LOSS_SHARE * a->step_s)
        return LK_OK;
    /* A negative rest is time that the reference lost: there is nothing to win. */
    return lk_finding_add_(a, LK_FINDING_REST, -1, cost > 0 ? cost : NAN,
                           "host gaps: nothing runs in %.1f %% of the step (%s)",
                           lk_percent_of_step_(a, cost), ideal);
}

#define IS(finding) (UINT64_C(1) << LK_FINDING_##finding)

/* These make a run worthless: they come before all that costs time. */
static const uint64_t grave = IS(DUPLICATE_SHARDS) | IS(SHARED_GPU);

#define OF(loss) (1U << LK_LOSS_##loss)
/* While others wait for a rank, bytes move that its compute covers: that is in their wire. */
#define WAITING (OF(STRAGGLER) | OF(WIRE))

static const struct row {
    enum lk_status (*find)(struct lk_analysis *a);
    unsigned of;     /* rows of the waterfall that its time is of; a bit a row */
    uint64_t causes; /* a bit a finding */
    const char *next;
} rows[LK_FINDING_COUNT] = {
    [LK_FINDING_DUPLICATE_SHARDS] =
        {lk_find_duplicate_shards_, 0, 0,
         "give each rank its own samples: DistributedSampler with the rank and the number of "
         "ranks, a seed for each worker"},
    [LK_FINDING_SHARED_GPU] =
        {lk_find_shared_gpu_, 0, 0,
         "give each rank a GPU of its own: torch.cuda.set_device(LOCAL_RANK), "
         "CUDA_VISIBLE_DEVICES, fewer ranks a node"},
    [LK_FINDING_HOST_BUSY] = {lk_find_host_busy_, 0, 0,
                              "stop what else runs on this host, or give the job processors of its "
                              "own; then measure again"},
    [LK_FINDING_LATE_NODE] = {lk_find_late_node_, WAITING, IS(HOST_BUSY),
                              "compare this host with the others: power and cooling, storage, "
                              "network cards, other jobs; or run without it"},
    [LK_FINDING_THROTTLED] = {lk_find_throttled_, 0, IS(LATE_NODE),
                              "look at the power limit, the cooling and what else uses the GPU"},
    [LK_FINDING_GPU_CLOCK] = {lk_find_gpu_clock_, OF(SLOW_RANK) | WAITING,
                              IS(THROTTLED) | IS(LATE_NODE),
                              "compare this GPU's clocks, limits and temperature with the others' "
                              "(nvidia-smi -q -d CLOCK,POWER,PERFORMANCE), or take another one"},
    [LK_FINDING_SLOW_RANK] = {lk_find_slow_rank_, OF(SLOW_RANK) | WAITING,
                              IS(HOST_BUSY) | IS(GPU_CLOCK) | IS(LATE_NODE),
                              "see what this rank alone computes, and what else uses its "
                              "processors and GPU"},
    [LK_FINDING_RANK_INPUT] = {lk_find_rank_input_, OF(INPUT) | WAITING,
                               IS(HOST_BUSY) | IS(LATE_NODE),
                               "look at this rank's loader and storage: its workers, its share of "
                               "the data"},
    [LK_FINDING_RANK_LAUNCH] = {lk_find_rank_launch_, OF(LAUNCH) | WAITING,
                                IS(HOST_BUSY) | IS(LATE_NODE),
                                "look at this rank's host: processors that are shared or far from "
                                "the GPU, other work on them"},
    [LK_FINDING_CHECKPOINTS] = {lk_find_checkpoints_, OF(OPTIMIZER) | OF(REST) | OF(STRAGGLER), 0,
                                "write fewer checkpoints, each part from one rank, and in the "
                                "background (torch.distributed.checkpoint.async_save)"},
    [LK_FINDING_LOGGING] = {lk_find_logging_, OF(REST), 0,
                            "read results every so many steps, all at once, on one rank; "
                            ".item(), .cpu() and printed tensors wait"},
    [LK_FINDING_UNEVEN_BATCHES] = {lk_find_uneven_batches_, OF(SLOW_RANK) | WAITING, 0,
                                   "make batches alike: put samples of like length together "
                                   "(bucketing by length), or pack them to one length"},
    [LK_FINDING_SLOW_LINK] = {lk_find_slow_links_, WAITING, 0,
                              "look at this link's card, cable and switch port, their rate and "
                              "errors (ethtool, ip -s link), or run without it"},
    [LK_FINDING_UNEVEN_ENDS] =
        {lk_find_uneven_ends_, OF(STRAGGLER), IS(HOST_BUSY) | IS(SLOW_LINK),
         "measure the links: lockstep calibrate --pairs on these hosts, or nccl-tests' sendrecv on "
         "two at a time"},
    [LK_FINDING_LATE_RANK] = {lk_find_late_rank_, WAITING,
                              IS(HOST_BUSY) | IS(LATE_NODE) | IS(GPU_CLOCK) | IS(SLOW_RANK) |
                                  IS(RANK_INPUT) | IS(RANK_LAUNCH) | IS(CHECKPOINTS),
                              "see what this rank does before its collectives (--step=N)"},
    [LK_FINDING_STRAGGLERS] = {lk_find_stragglers_, OF(STRAGGLER),
                               IS(HOST_BUSY) | IS(LATE_NODE) | IS(SLOW_RANK) | IS(RANK_INPUT) |
                                   IS(RANK_LAUNCH) | IS(CHECKPOINTS) | IS(UNEVEN_BATCHES),
                               "even out what ranks do in a step: lengths of samples, loading, "
                               "other work on the hosts"},
    [LK_FINDING_ACCUMULATION] = {lk_find_accumulation_, OF(WIRE) | OF(STRAGGLER), 0,
                                 "reduce in the last micro-batch alone: DDP's no_sync() around the "
                                 "others"},
    [LK_FINDING_UNUSED_PARAMETERS] = {lk_find_unused_parameters_, OF(WIRE) | OF(STRAGGLER), 0,
                                      "switch find_unused_parameters off; if parameters go unused "
                                      "at times but never change, static_graph=True"},
    [LK_FINDING_SMALL_BUCKETS] =
        {lk_find_small_buckets_, OF(WIRE), 0,
         "make buckets larger: bucket_cap_mb; lockstep whatif --bucket-cap "
         "shows by how much"},
    [LK_FINDING_FIRST_BUCKET] = {lk_find_first_bucket_, OF(WIRE), 0,
                                 "make buckets smaller: bucket_cap_mb; lockstep whatif "
                                 "--bucket-cap shows by how much"},
    [LK_FINDING_WIRE] = {lk_find_wire_, OF(WIRE),
                         IS(HOST_BUSY) | IS(SLOW_LINK) | IS(ACCUMULATION) | IS(UNUSED_PARAMETERS) |
                             IS(SMALL_BUCKETS) | IS(FIRST_BUCKET),
                         "move fewer bytes (bfloat16 gradients, accumulation) or use faster links; "
                         "compare the bandwidth with that of lockstep calibrate"},
    [LK_FINDING_POOR_OVERLAP] = {lk_find_poor_overlap_, OF(WIRE),
                                 IS(ACCUMULATION) | IS(SMALL_BUCKETS) | IS(FIRST_BUCKET) | IS(WIRE),
                                 "try other sizes of buckets: lockstep whatif --bucket-cap"},
    [LK_FINDING_SYNCHRONISATION] = {lk_find_synchronisation_, OF(REST), IS(LOGGING),
                                    "keep results on the GPU and read them every so many steps; "
                                    ".item(), .cpu() and printed tensors wait"},
    [LK_FINDING_LAUNCH_BOUND] = {lk_find_launch_bound_, OF(REST),
                                 IS(HOST_BUSY) | IS(SYNCHRONISATION),
                                 "use larger batches, fused kernels, torch.compile or a CUDA "
                                 "graph"},
    [LK_FINDING_LATE_LAUNCHES] = {lk_find_late_launches_, OF(LAUNCH), IS(RANK_LAUNCH), NULL},
    [LK_FINDING_INPUT] = {find_input, OF(INPUT), IS(HOST_BUSY) | IS(RANK_INPUT),
                          "use more loader workers, prefetching and faster storage"},
    [LK_FINDING_COLOCATION] = {find_colocation, OF(COLOCATION), IS(SHARED_GPU) | IS(HOST_BUSY),
                               "give each rank processors and memory bandwidth of its own; bind "
                               "ranks to them"},
    [LK_FINDING_OVERLAP_SLOWDOWN] = {find_overlap_slowdown, OF(OVERLAP), IS(HOST_BUSY),
                                     "give collectives fewer SMs (NCCL_MAX_CTAS)"},
    [LK_FINDING_OPTIMIZER] = {find_optimizer, OF(OPTIMIZER), IS(CHECKPOINTS),
                              "use a fused optimizer, or shard its state"},
    [LK_FINDING_REST] = {find_rest, OF(REST),
                         IS(HOST_BUSY) | IS(CHECKPOINTS) | IS(SYNCHRONISATION) | IS(LAUNCH_BOUND),
                         "see what the host does between steps in the trace"},
    [LK_FINDING_TRAINING] = {lk_find_training_, 0, 0, NULL},
    [LK_FINDING_CLOCKS] = {lk_find_clocks_, 0, 0, NULL},
    [LK_FINDING_MISSING_RANKS] = {lk_find_missing_ranks_, 0, 0,
                                  "give the other ranks' traces, too"},
    [LK_FINDING_TRUNCATED] = {lk_find_truncated_, 0, 0, NULL},
    [LK_FINDING_LOST_SPANS] = {lk_find_lost_spans_, 0, 0, NULL},
    [LK_FINDING_GPU_RECORDS] = {lk_find_gpu_records_, 0, 0, NULL},
    [LK_FINDING_RECORDING_COST] = {lk_find_recording_cost_, 0, 0, NULL},
};

/* Where ranks compute on hosts this is to be done instead. */
static const char *const on_host[LK_FINDING_COUNT] = {
    [LK_FINDING_SLOW_RANK] = "see what this rank alone computes, and what else uses its "
                             "processors",
    [LK_FINDING_OVERLAP_SLOWDOWN] = "give a rank's communication a processor of its own",
};

/* ---- Adding ---- */

struct lk_time_text lk_time_text_(double s)
{
    struct lk_time_text t;

    (void)lk_units_format(LK_DIM_TIME, s, t.buf, sizeof t.buf);
    return t;
}

/* Return the host of a rank where the run has several, else NULL. */
static const char *host_of(const struct lk_run *run, size_t rank)
{
    const char *host = run->traces[rank].info.host;

    for (size_t k = 0; k < run->n && strcmp(host, LK_HOST_UNKNOWN) != 0; k++)
        if (strcmp(host, run->traces[k].info.host) != 0)
            return host;
    return NULL;
}

struct lk_rank_text lk_rank_text_(const struct lk_analysis *a, size_t rank)
{
    const char *host = host_of(a->run, rank);
    struct lk_rank_text t;

    if (host)
        snprintf(t.buf, sizeof t.buf, "rank %d (%s)", lk_run_rank(a->run, rank), host);
    else
        snprintf(t.buf, sizeof t.buf, "rank %d", lk_run_rank(a->run, rank));
    return t;
}

double lk_percent_of_step_(const struct lk_analysis *a, double s)
{
    return a->step_s > 0 ? 100 * s / a->step_s : 0;
}

enum lk_status lk_finding_add_(struct lk_analysis *a, enum lk_finding_id id, int rank,
                               double cost_s, const char *fmt, ...)
{
    bool host = lk_run_info_on_host(lk_run_about(a->run)) && on_host[id];
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    LK_PASS(
        lk_array_grow(&a->findings, &a->findings_capacity, a->n_findings + 1, sizeof *a->findings));
    a->findings[a->n_findings] =
        (struct lk_finding){.id = id,
                            .cost_s = cost_s,
                            .most_s = NAN,
                            .next = host ? on_host[id] : rows[id].next,
                            .rank = rank,
                            .host = rank < 0 ? NULL : host_of(a->run, (size_t)rank),
                            .cause = -1};
    LK_PASS(lk_strdup(&a->findings[a->n_findings].text, text));
    a->n_findings++;
    return LK_OK;
}

void lk_finding_next_(struct lk_analysis *a, const char *next)
{
    a->findings[a->n_findings - 1].next = next;
}

int lk_finding_is_grave_(enum lk_finding_id id)
{
    return (int)(grave >> id & 1);
}

/* ---- Causes ---- */

/* Order findings by cost, behind the grave ones; those without a cost last, as the table has them.
 */
static int finding_order(const void *a, const void *b)
{
    const struct lk_finding *x = a, *y = b;
    double cx = isnan(x->cost_s) ? -1 : fabs(x->cost_s);
    double cy = isnan(y->cost_s) ? -1 : fabs(y->cost_s);

    if (lk_finding_is_grave_(x->id) != lk_finding_is_grave_(y->id))
        return lk_finding_is_grave_(x->id) ? -1 : 1;
    if (cx != cy)
        return (cx < cy) - (cx > cy);
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static bool explains(const struct lk_analysis *a, const struct lk_finding *cause,
                     const struct lk_finding *effect)
{
    const char *host = effect->rank < 0 ? effect->host : a->run->traces[effect->rank].info.host;

    if (!(rows[effect->id].causes >> cause->id & 1))
        return false;
    if (cause->rank >= 0 && effect->rank >= 0 && cause->rank != effect->rank)
        return false;
    if (cause->host && host && strcmp(cause->host, host) != 0)
        return false;
    if (cause->most_s <= 0 || cause->most_s < fabs(effect->cost_s))
        return false;
    return isnan(cause->cost_s) || isnan(effect->cost_s) ||
           2 * cause->cost_s >= fabs(effect->cost_s);
}

/* Return the index of the finding that causes another: the most costly one, but if that one in turn
 * may cause the next, the next, which is more direct. -1: none. pre: they are by cost. */
static int cause_of(const struct lk_analysis *a, const struct lk_finding *effect)
{
    int found = -1;

    for (size_t k = 0; k < a->n_findings; k++) {
        const struct lk_finding *f = &a->findings[k];

        if (explains(a, f, effect) &&
            (found < 0 || (rows[f->id].causes >> a->findings[found].id & 1)))
            found = (int)k;
    }
    return found;
}

/* Append the findings that `cause` has, each with those that it has itself, from `from` to `to`;
 * at: the new place of each. The depth is at most that of the table. */
static void place(const struct lk_finding *from, size_t n, int cause, int depth,
                  struct lk_finding *to, size_t *used)
{
    for (size_t i = 0; i < n && depth < LK_FINDING_COUNT; i++) {
        size_t at = *used;

        if (from[i].cause != cause)
            continue;
        to[at] = from[i];
        to[at].depth = depth;
        to[at].next = depth == 0 ? from[i].next : NULL;
        ++*used;
        place(from, n, (int)i, depth + 1, to, used);
        for (size_t k = at + 1; k < *used; k++)
            if (to[k].depth == depth + 1)
                to[k].cause = (int)at;
    }
}

static void find_causes(struct lk_analysis *a)
{
    qsort(a->findings, a->n_findings, sizeof *a->findings, finding_order);
    for (size_t i = 0; i < a->n_findings; i++)
        a->findings[i].cause = cause_of(a, &a->findings[i]);
}

/* Give causes whose cost is not known that of their most costly consequence, which mending them
 * mends, too. Consequences have higher ids than their causes. */
static void inherit_costs(struct lk_analysis *a)
{
    for (int id = LK_FINDING_COUNT - 1; id >= 0; id--)
        for (size_t i = 0; i < a->n_findings; i++) {
            const struct lk_finding *f = &a->findings[i];
            struct lk_finding *cause = f->cause < 0 ? NULL : &a->findings[f->cause];

            if ((int)f->id != id || !cause || isnan(f->cost_s))
                continue;
            if (isnan(cause->cost_s) || (cause->inherited && f->cost_s > cause->cost_s)) {
                cause->cost_s = f->cost_s;
                cause->inherited = true;
            }
        }
}

/* The ledger holds what of the waterfall's rows, and in all, no finding has taken yet. */
struct ledger {
    double left_s[LK_LOSS_COUNT], all_s;
};

static struct ledger ledger_of(const struct lk_analysis *a)
{
    double beyond =
        a->step_s - a->losses_s[LK_LOSS_IDEAL] - a->reference_own_s + a->own_input_s + a->own_gap_s;
    struct ledger l = {.all_s = isnan(beyond) ? a->step_s : fmax(0, beyond)};

    for (int i = LK_LOSS_IDEAL + 1; i < LK_LOSS_COUNT; i++) {
        double left = with_own(a, (enum lk_loss)i) - lk_reference_own_(a, (enum lk_loss)i);

        l.left_s[i] = isnan(left) ? l.all_s : fmax(0, left);
    }
    return l;
}

/* Take at most a time from some rows, and return it. */
static double take(struct ledger *l, unsigned rows_, double s)
{
    double taken = 0, most = fmin(s, l->all_s);

    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        double part = rows_ >> i & 1 ? fmin(l->left_s[i], most - taken) : 0;

        l->left_s[i] -= part;
        taken += part;
    }
    l->all_s -= taken;
    return taken;
}

static size_t root_of(const struct lk_analysis *a, size_t i)
{
    while (a->findings[i].cause >= 0)
        i = (size_t)a->findings[i].cause;
    return i;
}

/* Pay each finding without a cause from the rows that it and its consequences are of: no second is
 * worth anything twice. Those whose own cost is known are paid first; a cause that has but its
 * consequence's gets what is left. The table has what is nearer to a cause first, and so it is
 * paid. A consequence is worth at most what its cause is. */
static void settle_worth(struct lk_analysis *a)
{
    struct ledger l = ledger_of(a);

    for (int turn = 0; turn < 2 * LK_FINDING_COUNT; turn++)
        for (size_t i = 0; i < a->n_findings; i++) {
            struct lk_finding *f = &a->findings[i];
            unsigned of = 0;

            if ((int)f->id != turn % LK_FINDING_COUNT || f->inherited != turn / LK_FINDING_COUNT ||
                f->cause >= 0 || isnan(f->cost_s))
                continue;
            for (size_t k = 0; k < a->n_findings; k++)
                of |= root_of(a, k) == i ? rows[a->findings[k].id].of : 0;
            f->cost_s = take(&l, of, f->cost_s);
        }
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].cause >= 0 && !isnan(a->findings[i].cost_s))
            a->findings[i].cost_s = fmin(a->findings[i].cost_s, a->findings[root_of(a, i)].cost_s);
}

/* Sort them again, by worth; causes keep their consequences. */
static enum lk_status sort_again(struct lk_analysis *a)
{
    size_t *new_place = NULL;

    LK_PASS(lk_alloc(&new_place, a->n_findings, sizeof *new_place));
    for (size_t i = 0; i < a->n_findings; i++)
        a->findings[i].depth = (int)i; /* the old place, for now */
    qsort(a->findings, a->n_findings, sizeof *a->findings, finding_order);
    for (size_t i = 0; i < a->n_findings; i++)
        new_place[a->findings[i].depth] = i;
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].cause >= 0)
            a->findings[i].cause = (int)new_place[a->findings[i].cause];
    free(new_place);
    return LK_OK;
}

/* Put consequences under their causes. */
static enum lk_status order_findings(struct lk_analysis *a)
{
    struct lk_finding *ordered = NULL;
    size_t used = 0;

    if (!a->n_findings)
        return LK_OK;
    find_causes(a);
    inherit_costs(a);
    find_causes(a); /* they are in another order now */
    settle_worth(a);
    LK_PASS(sort_again(a));
    LK_PASS(lk_alloc(&ordered, a->n_findings, sizeof *ordered));
    place(a->findings, a->n_findings, -1, 0, ordered, &used);
    memcpy(a->findings, ordered, used * sizeof *ordered);
    free(ordered);
    return LK_OK;
}

/* Findings that need compute in the traces, and those about what it leaves exposed. */
static const uint64_t of_compute = IS(SLOW_RANK) | IS(UNEVEN_BATCHES) | IS(POOR_OVERLAP) |
                                   IS(FIRST_BUCKET) | IS(LAUNCH_BOUND) | IS(COLOCATION) |
                                   IS(OVERLAP_SLOWDOWN) | IS(OPTIMIZER);
static const uint64_t of_exposure = IS(RANK_INPUT) | IS(RANK_LAUNCH) | IS(STRAGGLERS) |
                                    IS(ACCUMULATION) | IS(SMALL_BUCKETS) | IS(WIRE) |
                                    IS(LATE_LAUNCHES) | IS(INPUT) | IS(REST);

/* Return the findings that these traces cannot tell. */
static uint64_t untold(const struct lk_analysis *a)
{
    return (lk_run_has_compute(a->run) ? 0 : of_compute) | (a->exposure_known ? 0 : of_exposure);
}

enum lk_status lk_analysis_findings_(struct lk_analysis *a)
{
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        assert(rows[i].causes < UINT64_C(1) << i); /* causes stand before their consequences */
        if (!(untold(a) >> i & 1))
            LK_PASS(rows[i].find(a));
    }
    return order_findings(a);
}
