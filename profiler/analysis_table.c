/* The analysis as result tables. */
#include "profiler/analysis_impl.h"

#include "base/array.h"
#include "base/coll.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Columns that several tables have. */
#define COLUMN_SHARE                                                                               \
    {                                                                                              \
        "share", "share of step", LK_DIM_NONE, 3                                                   \
    }
#define COLUMN_RANK                                                                                \
    {                                                                                              \
        "rank", "rank", LK_DIM_NONE, -1                                                            \
    }

enum lk_status lk_analysis_table_(const struct lk_analysis *a, const char *what,
                                  const struct lk_column *columns, size_t n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    const struct lk_run_info *info = lk_run_about(a->run);
    char *title = NULL;

    LK_TRY(lk_asprintf(&title, "%s: %s (%s%d rank%s, local batch %d, accumulation %d)", what,
                       a->run->dir, info->simulated ? "simulated, " : "", info->world_size,
                       info->world_size == 1 ? "" : "s", info->local_batch, info->accumulation));
    LK_TRY(lk_table_create(title, columns, n, out));
out:
    free(title);
    return st;
}

static double share(const struct lk_analysis *a, double s)
{
    return a->step_s > 0 ? s / a->step_s : NAN;
}

/* ---- Waterfall ---- */

static const struct lk_column waterfall_columns[] = {
    {"loss",      "loss",                LK_DIM_NONE, -1},
    {"text",      "where the step goes", LK_DIM_NONE, -1},
    {"mean_s",    "mean",                LK_DIM_TIME, 0 },
    COLUMN_SHARE,
    {"least_s",   "least rank",          LK_DIM_TIME, 0 },
    {"most_s",    "most",                LK_DIM_TIME, 0 },
    {"most_rank", "on rank",             LK_DIM_NONE, -1},
};

static enum lk_status waterfall_row(const struct lk_analysis *a, struct lk_table *t, int row)
{
    enum lk_status st = LK_OK;
    size_t most = 0, least = 0;

    for (size_t k = 1; k < a->run->n; k++) {
        if (a->ranks[k].losses_s[row] > a->ranks[most].losses_s[row])
            most = k;
        if (a->ranks[k].losses_s[row] < a->ranks[least].losses_s[row])
            least = k;
    }
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "loss", "%s", lk_loss_key((enum lk_loss)row)));
    LK_TRY(lk_table_text(t, "text", "%s", lk_loss_text((enum lk_loss)row)));
    LK_TRY(lk_table_number(t, "mean_s", a->losses_s[row]));
    LK_TRY(lk_table_number(t, "share", share(a, a->losses_s[row])));
    LK_TRY(lk_table_number(t, "least_s", a->ranks[least].losses_s[row]));
    LK_TRY(lk_table_number(t, "most_s", a->ranks[most].losses_s[row]));
    LK_TRY(lk_table_number(t, "most_rank", (double)most));
out:
    return st;
}

enum lk_status lk_analysis_waterfall_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    const struct lk_run *run = a->run;

    LK_TRY(lk_analysis_table_(a, "Waterfall", waterfall_columns, LK_COUNT(waterfall_columns), &t));
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        LK_TRY(waterfall_row(a, t, i));
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "loss", "step"));
    LK_TRY(lk_table_text(t, "text", "step"));
    LK_TRY(lk_table_number(t, "mean_s", a->step_s));
    LK_TRY(lk_table_number(t, "share", share(a, a->step_s)));
    LK_TRY(lk_table_note(t, "ideal: %s", a->reference));
    LK_TRY(lk_table_note(t,
                         "mean of %zu steps (%" PRIu32 " to %" PRIu32 "); the first %" PRIu64
                         " steps are warm-up and left out",
                         run->n_steps, run->steps[0], run->steps[run->n_steps - 1],
                         lk_run_about(run)->warmup_steps));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Ranks ---- */

/* X(column, heading, value) of struct lk_analysis_rank r */
#define RANK_COLUMNS(X)                                                                            \
    X("step_s", "step", r->step_s)                                                                 \
    X("forward_s", "forward", r->split.forward_s)                                                  \
    X("backward_s", "backward", r->split.backward_s)                                               \
    X("optimizer_s", "optimizer", r->split.optimizer_s)                                            \
    X("straggler_s", "straggler wait", r->split.straggler_s)                                       \
    X("wire_s", "queue and wire", r->split.wire_s)                                                 \
    X("input_s", "input", r->split.input_s)                                                        \
    X("gap_s", "gap", r->split.gap_s)

static const struct lk_column rank_columns[] = {COLUMN_RANK,
#define COLUMN(column, heading, value) {column, heading, LK_DIM_TIME, 0},
                                                RANK_COLUMNS(COLUMN)
#undef COLUMN
};

enum lk_status lk_analysis_rank_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_analysis_table_(a, "Ranks", rank_columns, LK_COUNT(rank_columns), &t));
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_analysis_rank *r = &a->ranks[k];

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_number(t, "rank", (double)k));
#define CELL(column, heading, value) LK_TRY(lk_table_number(t, column, value));
        RANK_COLUMNS(CELL)
#undef CELL
    }
    LK_TRY(lk_table_note(t,
                         "straggler wait, queue and wire, and input: what the rank's own compute "
                         "does not cover"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Overlap ---- */

static const struct lk_column overlap_columns[] = {
    COLUMN_RANK,
    {"pending_s",      "communication",      LK_DIM_TIME, 0},
    {"moving_s",       "of it moving",       LK_DIM_TIME, 0},
    {"exposed_s",      "exposed",            LK_DIM_TIME, 0},
    {"exposed_wait_s", "exposed wait",       LK_DIM_TIME, 0},
    {"exposed_wire_s", "exposed wire",       LK_DIM_TIME, 0},
    {"overlap",        "covered by compute", LK_DIM_NONE, 3},
    {"slowdown",       "compute outside",    LK_DIM_NONE, 3},
};

enum lk_status lk_analysis_overlap_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_analysis_table_(a, "Overlap", overlap_columns, LK_COUNT(overlap_columns), &t));
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_analysis_rank *r = &a->ranks[k];
        double exposed = r->split.straggler_s + r->split.wire_s;

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_number(t, "rank", (double)k));
        LK_TRY(lk_table_number(t, "pending_s", r->pending_s));
        LK_TRY(lk_table_number(t, "moving_s", r->moving_s));
        LK_TRY(lk_table_number(t, "exposed_s", exposed));
        LK_TRY(lk_table_number(t, "exposed_wait_s", r->split.straggler_s));
        LK_TRY(lk_table_number(t, "exposed_wire_s", r->split.wire_s));
        LK_TRY(lk_table_number(t, "overlap", r->pending_s > 0 ? 1 - exposed / r->pending_s : NAN));
        LK_TRY(lk_table_number(t, "slowdown", r->slowdown));
    }
    LK_TRY(lk_table_note(t, "compute outside: slowdown of compute while no collective was pending, "
                            "against the reference"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Buckets ---- */

static const struct lk_column bucket_columns[] = {
    {"bucket",     "bucket",      LK_DIM_NONE,  -1},
    {"bytes",      "size",        LK_DIM_BYTES, 0 },
    {"n",          "n",           LK_DIM_NONE,  -1},
    {"ready_s",    "ready after", LK_DIM_TIME,  0 },
    {"queue_s",    "queue",       LK_DIM_TIME,  0 },
    {"wait_s",     "wait",        LK_DIM_TIME,  0 },
    {"wire_s",     "wire",        LK_DIM_TIME,  0 },
    {"wire_p95_s", "wire p95",    LK_DIM_TIME,  0 },
    {"exposed_s",  "exposed",     LK_DIM_TIME,  0 },
    {"busbw_Bps",  "busbw",       LK_DIM_RATE,  0 },
    {"late_rank",  "late rank",   LK_DIM_NONE,  -1},
    {"late_share", "late at",     LK_DIM_NONE,  3 },
    {"late_by_s",  "by",          LK_DIM_TIME,  0 },
    {"unresolved", "unresolved",  LK_DIM_NONE,  3 },
};

static enum lk_status bucket_row(const struct lk_analysis *a, struct lk_table *t,
                                 const struct lk_analysis_bucket *b)
{
    enum lk_status st = LK_OK;
    double n = (double)b->n;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_number(t, "bucket", b->bucket));
    LK_TRY(lk_table_number(t, "bytes", (double)b->bytes));
    LK_TRY(lk_table_number(t, "n", n));
    LK_TRY(lk_table_number(t, "ready_s", b->ready_s));
    LK_TRY(lk_table_number(t, "queue_s", b->queue_s));
    LK_TRY(lk_table_number(t, "wait_s", b->wait_s));
    LK_TRY(lk_table_number(t, "wire_s", b->wire_s));
    LK_TRY(lk_table_number(t, "wire_p95_s", b->wire_p95_s));
    LK_TRY(lk_table_number(t, "exposed_s", b->exposed_s));
    if (b->bucket >= 0 && a->run->n > 1 && b->wire_s > 0)
        LK_TRY(lk_table_number(t, "busbw_Bps",
                               (double)b->bytes / b->wire_s *
                                   lk_coll_busbw_factor(LK_ALL_REDUCE, (int)a->run->n)));
    if (b->late_rank >= 0) {
        LK_TRY(lk_table_number(t, "late_rank", b->late_rank));
        LK_TRY(lk_table_number(t, "late_share", (double)b->n_late / n));
        LK_TRY(lk_table_number(t, "late_by_s", b->late_by_s));
    }
    if (a->run->n > 1)
        LK_TRY(lk_table_number(t, "unresolved", (double)b->n_unresolved / n));
out:
    return st;
}

enum lk_status lk_analysis_bucket_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_analysis_table_(a, "Buckets", bucket_columns, LK_COUNT(bucket_columns), &t));
    for (size_t i = 0; i < a->n_buckets; i++)
        LK_TRY(bucket_row(a, t, &a->buckets[i]));
    LK_TRY(lk_table_note(t, "ready after: from the start of the backward; queue: behind earlier "
                            "buckets; wait: for the last rank; wire: after all have arrived"));
    if (!a->aligned)
        LK_TRY(lk_table_note(t, "from durations: some rank's clock was never compared"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Stragglers ---- */

static const struct lk_column straggler_columns[] = {
    COLUMN_RANK,
    {"late_n",     "times last",           LK_DIM_NONE, -1},
    {"late_share", "share of collectives", LK_DIM_NONE, 3 },
    {"late_by_s",  "by",                   LK_DIM_TIME, 0 },
    {"slow_s",     "own slowness",         LK_DIM_TIME, 0 },
    {"input_s",    "input",                LK_DIM_TIME, 0 },
    {"waits_s",    "waits for others",     LK_DIM_TIME, 0 },
    {"clock_s",    "clock within",         LK_DIM_TIME, 0 },
};

enum lk_status lk_analysis_straggler_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    size_t unresolved = 0;

    LK_TRY(lk_analysis_table_(a, "Stragglers", straggler_columns, LK_COUNT(straggler_columns), &t));
    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_analysis_rank *r = &a->ranks[k];
        uint64_t clock_ns = a->run->ranks[k].uncertainty_ns;

        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_number(t, "rank", (double)k));
        LK_TRY(lk_table_number(t, "late_n", (double)r->n_late));
        LK_TRY(lk_table_number(t, "late_share",
                               a->n_meetings ? (double)r->n_late / (double)a->n_meetings : NAN));
        LK_TRY(lk_table_number(t, "late_by_s", r->n_late ? r->late_by_s : NAN));
        LK_TRY(lk_table_number(t, "slow_s", r->losses_s[LK_LOSS_SLOW_RANK]));
        LK_TRY(lk_table_number(t, "input_s", r->split.input_s));
        LK_TRY(lk_table_number(t, "waits_s", r->split.straggler_s));
        LK_TRY(lk_table_number(t, "clock_s",
                               clock_ns < LK_CLOCK_UNKNOWN_NS ? lk_ns_to_s_(clock_ns) : NAN));
    }
    for (size_t i = 0; i < a->n_meetings; i++)
        unresolved += !a->meetings[i].resolved;
    if (a->run->n > 1)
        LK_TRY(lk_table_note(t,
                             "%zu of %zu collectives are unresolved: the ranks arrived within "
                             "the clocks' uncertainty",
                             unresolved, a->n_meetings));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- Findings ---- */

static const struct lk_column finding_columns[] = {
    {"finding", "finding", LK_DIM_NONE, -1},
    {"cost_s",  "cost",    LK_DIM_TIME, 0 },
    COLUMN_SHARE,
};

enum lk_status lk_analysis_finding_table(const struct lk_analysis *a, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_analysis_table_(a, "Findings", finding_columns, LK_COUNT(finding_columns), &t));
    for (size_t i = 0; i < a->n_findings; i++) {
        LK_TRY(lk_table_row(t));
        LK_TRY(lk_table_text(t, "finding", "%s", a->findings[i].text));
        LK_TRY(lk_table_number(t, "cost_s", a->findings[i].cost_s));
        LK_TRY(lk_table_number(t, "share", share(a, a->findings[i].cost_s)));
    }
    if (!a->n_findings)
        LK_TRY(lk_table_note(t, "nothing stands out"));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

/* ---- One step ---- */

static const struct lk_column step_columns[] = {
    {"seq",       "collective", LK_DIM_NONE,  -1},
    {"bucket",    "bucket",     LK_DIM_NONE,  -1},
    {"bytes",     "size",       LK_DIM_BYTES, 0 },
    COLUMN_RANK,
    {"ready_s",   "ready",      LK_DIM_TIME,  0 },
    {"arrival_s", "arrival",    LK_DIM_TIME,  0 },
    {"end_s",     "end",        LK_DIM_TIME,  0 },
    {"queue_s",   "queue",      LK_DIM_TIME,  0 },
    {"wait_s",    "wait",       LK_DIM_TIME,  0 },
    {"wire_s",    "wire",       LK_DIM_TIME,  0 },
    {"late",      "late",       LK_DIM_NONE,  -1},
};

/* Seconds from `from` to `to`, negative when it is before. */
static double since(uint64_t from, uint64_t to)
{
    return to >= from ? lk_ns_to_s_(to - from) : -lk_ns_to_s_(from - to);
}

static enum lk_status step_row(const struct lk_analysis *a, struct lk_table *t, size_t meeting,
                               size_t rank, uint64_t origin_ns)
{
    enum lk_status st = LK_OK;
    const struct lk_meeting *m = &a->meetings[meeting];
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = lk_rank_step(r, a->run->steps[m->step]);
    const struct lk_transfer *x = &r->transfers[p->first_transfer + m->transfer];
    uint64_t ready = x->ready_ns ? x->ready_ns : x->arrival_ns;

    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_number(t, "seq", x->seq));
    LK_TRY(lk_table_number(t, "bucket", x->bucket));
    LK_TRY(lk_table_number(t, "bytes", (double)x->bytes));
    LK_TRY(lk_table_number(t, "rank", (double)rank));
    LK_TRY(lk_table_number(t, "ready_s", since(origin_ns, ready)));
    LK_TRY(lk_table_number(t, "arrival_s", since(origin_ns, x->arrival_ns)));
    LK_TRY(lk_table_number(t, "end_s", since(origin_ns, x->end_ns)));
    LK_TRY(lk_table_number(t, "queue_s", since(ready, x->arrival_ns)));
    LK_TRY(lk_table_number(t, "wait_s",
                           since(x->arrival_ns, a->begin_ns[rank * a->n_meetings + meeting])));
    LK_TRY(lk_table_number(t, "wire_s", lk_ns_to_s_(m->wire_ns)));
    if (m->late_rank == (int)rank)
        LK_TRY(lk_table_text(t, "late", "%s", m->resolved ? "last" : "unresolved"));
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
    LK_TRY(
        lk_analysis_table_(a, "Collectives of one step", step_columns, LK_COUNT(step_columns), &t));
    for (size_t i = a->first_meeting[s]; i < a->first_meeting[s + 1]; i++)
        for (size_t k = 0; k < run->n; k++)
            LK_TRY(step_row(a, t, i, k, origin_ns));
    LK_TRY(lk_table_note(t, "step %" PRIu32 "; times are since the first rank began it", step));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
