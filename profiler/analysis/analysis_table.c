/*
 * The analysis as result tables. Each table is a list of columns with the value that a row has
 * there; rows are ranks, or a function adds them.
 */
#include "profiler/analysis/analysis_impl.h"

#include "base/array.h"
#include "facts/coll.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Return a part of a step that is one pass's, s; NaN: passes are not known. */
static double pass(const struct lk_analysis *a, const struct lk_analysis_rank *r, enum lk_part part)
{
    return lk_run_periods(a->run) ? NAN : r->split.s[part];
}

/* Return s, or NaN where it is not known how long ranks waited for each other. */
static double wait(const struct lk_analysis *a, double s)
{
    return lk_knows_waits_(a) ? s : NAN;
}

/* Return a value that is about a rank's own work; NaN: that is not known. */
static double own(const struct lk_analysis *a, double value)
{
    return lk_run_has_compute(a->run) ? value : NAN;
}

/* Return the seconds from `from` to `to`, which may be negative. */
static double since(uint64_t from, uint64_t to)
{
    return to >= from ? lk_ns_to_s_(to - from) : -lk_ns_to_s_(from - to);
}

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define RANKS(X)                                                                                   \
    X("rank",        "rank",           LK_DIM_NONE, -1, lk_run_rank(a->run, k))                                 \
    X("host", "host", LK_DIM_NONE, LK_TABLE_DATA, a->run->traces[k].info.host) \
    X("step_s",      "step",           LK_DIM_TIME, 0,  r->step_s)                                 \
    X("compute_s",   "compute",        LK_DIM_TIME, 0,                                             \
      lk_run_periods(a->run) ? own(a, r->split.s[LK_PART_FORWARD]) : NAN)                          \
    X("forward_s",   "forward",        LK_DIM_TIME, 0,  pass(a, r, LK_PART_FORWARD))                        \
    X("backward_s",  "backward",       LK_DIM_TIME, 0,  pass(a, r, LK_PART_BACKWARD))                       \
    X("optimizer_s", "optimizer",      LK_DIM_TIME, 0,  pass(a, r, LK_PART_OPTIMIZER))                      \
    X("launch_s",    "launch",         LK_DIM_TIME, 0,                                             \
      r->launch.n ? r->split.s[LK_PART_LAUNCH] : NAN)                                              \
    X("straggler_s", "straggler wait", LK_DIM_TIME, 0,  wait(a, r->split.s[LK_PART_STRAGGLER]))            \
    X("wire_s",      "queue and wire", LK_DIM_TIME, 0,  r->split.s[LK_PART_WIRE])                           \
    X("input_s",     "input",          LK_DIM_TIME, 0,  r->split.s[LK_PART_INPUT])                          \
    X("gap_s",       "gap",            LK_DIM_TIME, 0,  r->split.s[LK_PART_GAP])
#define OVERLAP(X)                                                                                 \
    X("rank",           "rank",               LK_DIM_NONE, -1, lk_run_rank(a->run, k))                          \
    X("compute_s",      "compute",            LK_DIM_TIME, 0, own(a, s->compute_s))                \
    X("pending_s",      "communication",      LK_DIM_TIME, 0, s->comm_s)                           \
    X("moving_s",       "of it moving",       LK_DIM_TIME, 0, s->moving_s)                         \
    X("exposed_s",      "exposed",            LK_DIM_TIME, 0, s->exposed_s)                        \
    X("exposed_wait_s", "waiting",            LK_DIM_TIME, 0, wait(a, s->s[LK_PART_STRAGGLER]))    \
    X("exposed_wire_s", "blocking",           LK_DIM_TIME, 0, s->s[LK_PART_WIRE])                  \
    X("in_gaps_s",      "in host gaps",       LK_DIM_TIME, 0,                                      \
      own(a, s->exposed_s - s->s[LK_PART_STRAGGLER] - s->s[LK_PART_WIRE]))                         \
    X("overlap",        "covered by compute", LK_DIM_NONE, 3,                                      \
      s->comm_s > 0 ? own(a, 1 - s->exposed_s / s->comm_s) : NAN)                                  \
    X("slowdown",       "compute outside",    LK_DIM_NONE, 3, own(a, r->slowdown))
#define BUCKETS(X)                                                                                 \
    X("bucket",     "bucket",      LK_DIM_NONE,  -1, b->bucket)                                    \
    X("function",   "collective",  LK_DIM_NONE,  -1, b->function)                                  \
    X("bytes",      "size",        LK_DIM_BYTES, 0,  b->bytes ? (double)b->bytes : NAN)                             \
    X("n",          "n",           LK_DIM_NONE,  -1, n)                                            \
    X("ready_s",    "ready after", LK_DIM_TIME,  0,  b->ready_s)                                   \
    X("queue_s",    "queue",       LK_DIM_TIME,  0,  b->queue_s)                                   \
    X("launch_s",   "launch",      LK_DIM_TIME,  0,  b->launch_s)                                  \
    X("wait_s",     "wait",        LK_DIM_TIME,  0,  wait(a, b->wait_s))                                    \
    X("wire_s",     "wire",        LK_DIM_TIME,  0,  b->wire_s)                                    \
    X("wire_p95_s", "wire p95",    LK_DIM_TIME,  0,  b->wire_p95_s)                                \
    X("exposed_s",  "exposed",     LK_DIM_TIME,  0,  b->exposed_s)                                 \
    X("algbw_Bps",  "algbw",       LK_DIM_RATE,  0,                                                \
      b->wire_s > 0 && b->bytes && ranks > 1 ? (double)b->bytes / b->wire_s : NAN)                             \
    X("busbw_Bps",  "busbw",       LK_DIM_RATE,  0,                                                \
      b->bucket >= 0 && ranks > 1 && b->wire_s > 0 && b->bytes                                                 \
          ? (double)b->bytes / b->wire_s * lk_coll_busbw_factor(b->coll, b->ranks) : NAN)       \
    X("late_rank",  "late rank",   LK_DIM_NONE,  -1, late ? (double)lk_run_rank(a->run, (size_t)b->late_rank) : NAN)            \
    X("late_share", "late at",     LK_DIM_NONE,  3,  late ? (double)b->n_late / n : NAN)           \
    X("late_by_s",  "by",          LK_DIM_TIME,  0,  late ? b->late_by_s : NAN)                    \
    X("unresolved", "unresolved",  LK_DIM_NONE,  3,                                                \
      ranks > 1 ? wait(a, (double)b->n_unresolved / n) : NAN)
#define STRAGGLERS(X)                                                                              \
    X("rank",       "rank",                 LK_DIM_NONE, -1, lk_run_rank(a->run, k))                            \
    X("host", "host", LK_DIM_NONE, LK_TABLE_DATA, a->run->traces[k].info.host) \
    X("late_n",     "times last",           LK_DIM_NONE, -1, wait(a, (double)r->n_late))                    \
    X("late_share", "share of collectives", LK_DIM_NONE, 3,                                        \
      a->n_collectives ? wait(a, (double)r->n_late / (double)a->n_collectives) : NAN)                             \
    X("late_by_s",  "by",                   LK_DIM_TIME, 0,  r->n_late ? r->late_by_s : NAN)       \
    X("slow_s",     "own slowness",         LK_DIM_TIME, 0,                                        \
      lk_compares_ranks_(a) ? own(a, r->losses_s[LK_LOSS_SLOW_RANK]) : NAN)                        \
    X("input_s",    "input",                LK_DIM_TIME, 0,  r->split.s[LK_PART_INPUT])                     \
    X("waits_s",    "waits for others",     LK_DIM_TIME, 0,  wait(a, r->split.s[LK_PART_STRAGGLER]))       \
    X("clock_s",    "clock within",         LK_DIM_TIME, 0,                                        \
      clock_ns < LK_CLOCK_UNKNOWN_NS ? lk_ns_to_s_(clock_ns) : NAN)
#define GPUS(X)                                                                                    \
    X("rank",             "rank",       LK_DIM_NONE,  -1, lk_run_rank(a->run, k))                               \
    X("host", "host", LK_DIM_NONE, LK_TABLE_DATA, a->run->traces[k].info.host) \
    X("sm_clock_mhz",     "clock MHz",  LK_DIM_NONE,  0,  g->quantity[LK_GPU_SM_CLOCK_MHZ].mean)   \
    X("sm_clock_min_mhz", "least",      LK_DIM_NONE,  0,  g->quantity[LK_GPU_SM_CLOCK_MHZ].min)    \
    X("sm_clock_max_mhz", "most",       LK_DIM_NONE,  0,  g->quantity[LK_GPU_SM_CLOCK_MHZ].max)    \
    X("sm_clock_top_mhz", "of",         LK_DIM_NONE,  0,  r->gpu_max_mhz)                          \
    X("memory_clock_mhz", "memory MHz", LK_DIM_NONE,  0,                                           \
      g->quantity[LK_GPU_MEMORY_CLOCK_MHZ].mean)                                                   \
    X("power_w",          "power",      LK_DIM_POWER, 0,  g->power_w)                              \
    X("power_limit_w",    "limit",      LK_DIM_POWER, 0,  r->gpu_limit_w)                          \
    X("step_energy_j",    "J a step",   LK_DIM_NONE,  1,  g->power_w * a->step_s)                  \
    X("temperature_c",    "hottest C",  LK_DIM_NONE,  0,  g->quantity[LK_GPU_TEMPERATURE_C].max)   \
    X("throttled",        "throttled",  LK_DIM_NONE,  3,  g->throttled)                            \
    X("reasons",          "by",         LK_DIM_NONE,  -1, why[0] ? why : NULL)                     \
    X("n",                "samples",    LK_DIM_NONE,  -1, (double)g->n)
#define STEP(X)                                                                                    \
    X("seq",       "collective", LK_DIM_NONE,  -1, x->seq)                                         \
    X("bucket",    "bucket",     LK_DIM_NONE,  -1, x->bucket)                                      \
    X("bytes",     "size",       LK_DIM_BYTES, 0,  (double)x->bytes)                               \
    X("rank",      "rank",       LK_DIM_NONE,  -1, lk_run_rank(a->run, rank))                                   \
    X("ready_s",   "ready",      LK_DIM_TIME,  0,  since(origin_ns, ready))                        \
    X("called_s",  "called",     LK_DIM_TIME,  0,                                                  \
      x->launched_ns ? since(origin_ns, x->launched_ns) : NAN)                                     \
    X("arrival_s", "arrival",    LK_DIM_TIME,  0,  since(origin_ns, x->arrival_ns))                \
    X("end_s",     "end",        LK_DIM_TIME,  0,  since(origin_ns, x->end_ns))                    \
    X("queue_s",   "queue",      LK_DIM_TIME,  0,  since(ready, x->due_ns))                        \
    X("launch_s",  "launch",     LK_DIM_TIME,  0,                                                  \
      x->by_kernel ? since(x->due_ns, x->arrival_ns) : NAN)                                        \
    X("wait_s",    "wait",       LK_DIM_TIME,  0,                                                  \
      wait(a, since(x->arrival_ns, a->begin_ns[rank * a->n_collectives + collective])))                           \
    X("wire_s",    "wire",       LK_DIM_TIME,  0,  lk_ns_to_s_(m->wire_ns))                        \
    X("late",      "late",       LK_DIM_NONE,  -1,                                                 \
      m->late_rank != (int)rank ? NULL : m->resolved ? "last" : "unresolved")

static const struct lk_column ranks_columns[] = {RANKS(LK_TABLE_COLUMN)};
static const struct lk_column overlap[] = {OVERLAP(LK_TABLE_COLUMN)};
static const struct lk_column buckets[] = {BUCKETS(LK_TABLE_COLUMN)};
static const struct lk_column stragglers[] = {STRAGGLERS(LK_TABLE_COLUMN)};
static const struct lk_column gpus[] = {GPUS(LK_TABLE_COLUMN)};
static const struct lk_column step_columns[] = {STEP(LK_TABLE_COLUMN)};
/* clang-format on */

/* ---- Rows and notes ---- */

static enum lk_status fill_buckets(const struct lk_analysis *a, struct lk_table *t)
{
    int ranks = lk_run_gradient_ranks(a->run);
    enum lk_status st = LK_OK;

    for (const struct lk_analysis_bucket *b = a->buckets; b < a->buckets + a->n_buckets; b++) {
        double n = (double)b->n;
        bool late = b->late_rank >= 0;

        LK_TRY(lk_table_row(t));
        BUCKETS(LK_TABLE_CELL)
    }
    LK_TRY(lk_table_note(t,
                         "ready after: from the start of the %s; queue: behind earlier "
                         "buckets; wait: for the last rank; wire: after all have arrived",
                         lk_run_periods(a->run) ? "step" : "backward"));
    if (a->n_buckets && a->buckets[0].bucket < 0)
        LK_TRY(lk_table_note(t, "bucket -1: collectives of no gradients, by function and by power "
                                "of two of their size, whose mean is given"));
    if (lk_run_is_grouped(a->run))
        LK_TRY(lk_table_note(t, "some collectives are of groups smaller than the job: whom a rank "
                                "waited for is not known, and is in the wire"));
    if (a->launches)
        LK_TRY(lk_table_note(t, "launch: until its NCCL kernel starts, from when it is due"));
    if (!a->aligned && lk_knows_waits_(a))
        LK_TRY(lk_table_note(t, "from durations: some rank's clock was never compared"));
out:
    return st;
}

/* Add a rank's row to one of the tables that have a row a rank. */
static enum lk_status add_rank(const struct lk_analysis *a, enum lk_analysis_kind kind, size_t k,
                               struct lk_table *t)
{
    const struct lk_analysis_rank *r = &a->ranks[k];
    const struct lk_gpu_summary *g = &r->gpu;
    const struct lk_step_split *s = &r->split;
    uint64_t clock_ns = a->run->ranks[k].uncertainty_ns;
    enum lk_status st = LK_OK;
    char why[LK_GPU_TEXT];

    lk_gpu_throttle_text(g, why);
    LK_TRY(lk_table_row(t));
    if (kind == LK_ANALYSIS_RANKS) {
        RANKS(LK_TABLE_CELL)
    } else if (kind == LK_ANALYSIS_OVERLAP) {
        OVERLAP(LK_TABLE_CELL)
    } else if (kind == LK_ANALYSIS_STRAGGLERS) {
        STRAGGLERS(LK_TABLE_CELL)
    } else if (kind == LK_ANALYSIS_GPUS) {
        GPUS(LK_TABLE_CELL)
    }
out:
    return st;
}

static enum lk_status note_unresolved(const struct lk_analysis *a, struct lk_table *t)
{
    size_t unresolved = 0;

    for (size_t i = 0; i < a->n_collectives; i++)
        unresolved += !a->collectives[i].resolved;
    if (a->run->n < 2 || !lk_knows_waits_(a))
        return LK_OK;
    return lk_table_note(t,
                         "%zu of %zu collectives are unresolved: at these the ranks arrived within "
                         "the clocks' uncertainty",
                         unresolved, a->n_collectives);
}

/* ---- Tables ---- */

static const struct kind {
    const char *title;
    const struct lk_column *columns;
    size_t n_columns;
    enum lk_status (*fill)(const struct lk_analysis *a, struct lk_table *t); /* NULL: by rank */
    const char *note; /* NULL: none, or fill adds it */
} kinds[LK_ANALYSIS_TABLES] = {
#define COLUMNS(list) list, LK_COUNT(list)
    [LK_ANALYSIS_RANKS] = {"Ranks", COLUMNS(ranks_columns), NULL,
                           "straggler wait, queue and wire, and input: what the rank's own compute "
                           "does not cover"},
    [LK_ANALYSIS_OVERLAP] =
        {"Overlap", COLUMNS(overlap), NULL,
         "compute: kernels of a GPU, passes of a host; exposed: communication "
         "beside which the rank does not compute, since it waits for a rank, is "
         "blocked, or is in a gap where the host has launched nothing; compute "
         "outside: slowdown of compute while no collective was pending, against "
         "the reference"},
    [LK_ANALYSIS_BUCKETS] = {"Buckets", COLUMNS(buckets), fill_buckets, NULL},
    [LK_ANALYSIS_STRAGGLERS] = {"Stragglers", COLUMNS(stragglers), NULL, NULL},
    [LK_ANALYSIS_GPUS] = {"GPUs", COLUMNS(gpus), NULL,
                          "by NVML, while the steps ran; throttled: share of the samples at which "
                          "power, temperature or the hardware held the clock down"},
#undef COLUMNS
};

enum lk_status lk_analysis_create_(const struct lk_analysis *a, const char *what,
                                   const struct lk_column *columns, size_t n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    const struct lk_run_info *info = lk_run_about(a->run);
    char *title = NULL, batch[16];

    LK_TRY(lk_asprintf(&title, "%s: %s (%s%d rank%s, local batch %s, accumulation %d)", what,
                       a->run->dir, info->simulated ? "simulated, " : "", info->world_size,
                       info->world_size == 1 ? "" : "s", lk_run_info_batches(info, batch),
                       info->accumulation));
    LK_TRY(lk_table_create(title, columns, n, out));
out:
    free(title);
    return st;
}

static bool has_gpus(const struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++)
        if (a->ranks[k].gpu.n)
            return true;
    return false;
}

enum lk_status lk_analysis_table(const struct lk_analysis *a, enum lk_analysis_kind kind,
                                 struct lk_table **out)
{
    const struct kind *k = &kinds[kind];
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    if (kind == LK_ANALYSIS_WATERFALL || kind == LK_ANALYSIS_FINDINGS)
        return lk_pool_of_one_(a, kind, out);
    if (kind == LK_ANALYSIS_HOSTS)
        return lk_analysis_hosts_(a, out);
    if (kind == LK_ANALYSIS_HOPS)
        return lk_analysis_hops_(a, out);
    if (kind == LK_ANALYSIS_KERNELS)
        return lk_analysis_kernels_(a, out);
    if (kind != LK_ANALYSIS_GPUS || has_gpus(a)) {
        LK_TRY(lk_analysis_create_(a, k->title, k->columns, k->n_columns, &t));
        if (k->fill)
            LK_TRY(k->fill(a, t));
        for (size_t rank = 0; !k->fill && rank < a->run->n; rank++)
            LK_TRY(add_rank(a, kind, rank, t));
        if (k->note && a->exposure_known)
            LK_TRY(lk_table_note(t, "%s", k->note));
        if (kind == LK_ANALYSIS_STRAGGLERS)
            LK_TRY(note_unresolved(a, t));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- One step ---- */

static enum lk_status step_row(const struct lk_analysis *a, struct lk_table *t, size_t collective,
                               size_t rank, uint64_t origin_ns)
{
    enum lk_status st = LK_OK;
    const struct lk_analysis_collective *m = &a->collectives[collective];
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = lk_rank_step(r, a->run->steps[m->step]);
    const struct lk_collective *x = &r->collectives[p->first_collective + m->index];
    uint64_t ready = x->ready_ns ? x->ready_ns : x->due_ns;

    LK_TRY(lk_table_row(t));
    STEP(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status lk_analysis_step_table(const struct lk_analysis *a, uint32_t step,
                                      struct lk_table **out)
{
    enum lk_status st = LK_OK;
    const struct lk_run *run = a->run;
    struct lk_table *t = NULL;
    uint64_t origin_ns = UINT64_MAX;
    size_t s = 0;

    while (s < run->n_steps && run->steps[s] != step)
        s++;
    if (s == run->n_steps)
        return lk_fail(LK_EUSAGE,
                       "step %" PRIu32 " is not there: %s has steps %" PRIu32 " to %" PRIu32
                       " after the warm-up",
                       step, run->dir, run->steps[0], run->steps[run->n_steps - 1]);
    for (size_t k = 0; k < run->n; k++) {
        uint64_t begin = lk_rank_step(&run->ranks[k], step)->begin_ns;

        origin_ns = begin < origin_ns ? begin : origin_ns;
    }
    LK_TRY(lk_analysis_create_(a, "Collectives of one step", step_columns, LK_COUNT(step_columns),
                               &t));
    for (size_t i = a->first_collective[s]; i < a->first_collective[s + 1]; i++)
        for (size_t k = 0; k < run->n; k++)
            LK_TRY(step_row(a, t, i, k, origin_ns));
    LK_TRY(lk_table_note(t, "step %" PRIu32 "; times are since the first rank began it", step));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
