/* Read the operations of a pipeline. Divisions: rows, the grid of workers, steps. */
#include "profiler/pipeline/ops.h"

#include "base/array.h"
#include "base/csv.h"
#include "facts/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lk_pipe_type_row lk_pipe_types[LK_PIPE_TYPES] = {
#define ROW_(value, name, shown, scope, mean) [value] = {name, shown, scope, mean},
    LK_PIPE_TYPE_LIST(ROW_)
#undef ROW_
};

enum column { DP, STAGE, RANK, STEP, TYPE, START, DURATION, SEQ, CHUNK, MODEL_CHUNK, N_COLUMNS };

static const struct lk_csv_column columns[N_COLUMNS] = {
    [DP] = {"dp_rank", true},        [STAGE] = {"stage", true}, [RANK] = {"rank", true},
    [STEP] = {"step", true},         [TYPE] = {"optype", true}, [START] = {"start_ts", true},
    [DURATION] = {"duration", true}, [SEQ] = {"seq_id", true},  [CHUNK] = {"mc", false},
    [MODEL_CHUNK] = {"gmc", false},
};

enum { STAGES_MAX = 1 << 16, CHUNKS_MAX = UINT8_MAX };

/* The largest time, 3,000 years, and the largest number of a step. */
static const double TIME_MAX_S = 1e11;
static const int64_t STEP_MAX = (int64_t)1 << 53;

struct row {
    struct lk_pipe_op op;
    int64_t step;
    int dp, stage, rank;
};

/* ---- Rows ---- */

static int type_of(const char *name)
{
    int i = 0;

    while (i < LK_PIPE_TYPES && strcmp(lk_pipe_types[i].name, name) != 0)
        i++;
    return i;
}

/* Read a whole number into an int; -1 where it may be left out and is. */
static enum lk_status read_int(const struct lk_csv *t, size_t i, enum column c, int64_t max,
                               int *out)
{
    int64_t v = -1;

    if (columns[c].required || lk_csv_has(t, i, c))
        LK_PASS(lk_csv_int(t, i, c, columns[c].required ? 0 : -1, max, &v));
    *out = (int)v;
    return LK_OK;
}

static enum lk_status read_row(const struct lk_csv *t, size_t i, int type, struct row *r)
{
    int seq, chunk, model_chunk;

    LK_PASS(lk_csv_int(t, i, STEP, 0, STEP_MAX, &r->step));
    LK_PASS(read_int(t, i, DP, LK_RANKS_MAX - 1, &r->dp));
    LK_PASS(read_int(t, i, STAGE, STAGES_MAX - 1, &r->stage));
    LK_PASS(read_int(t, i, RANK, LK_RANKS_MAX - 1, &r->rank));
    LK_PASS(read_int(t, i, SEQ, INT32_MAX, &seq));
    LK_PASS(read_int(t, i, CHUNK, CHUNKS_MAX - 1, &chunk));
    LK_PASS(read_int(t, i, MODEL_CHUNK, STAGES_MAX * CHUNKS_MAX - 1, &model_chunk));
    LK_PASS(lk_csv_real(t, i, START, -TIME_MAX_S, TIME_MAX_S, &r->op.start_s));
    LK_PASS(lk_csv_real(t, i, DURATION, 0, TIME_MAX_S, &r->op.duration_s));
    r->op.seq = (uint32_t)seq;
    r->op.local = (uint8_t)(chunk < 0 ? 0 : chunk);
    r->op.chunk = model_chunk;
    r->op.line = (uint32_t)lk_csv_line(t, i);
    r->op.type = (uint8_t)type;
    return LK_OK;
}

static enum lk_status read_rows(const struct lk_csv *t, struct lk_pipe_ops *o, struct row **out)
{
    size_t n = lk_csv_rows(t);

    LK_PASS(lk_alloc(out, n, sizeof **out));
    for (size_t i = 0; i < n; i++) {
        const char *name;
        int type;

        LK_PASS(lk_csv_text(t, i, TYPE, &name));
        type = type_of(name);
        if (type == LK_PIPE_TYPES) {
            if (!o->n_unknown++)
                LK_PASS(lk_asprintf(&o->unknown, "'%.64s' in line %zu", name, lk_csv_line(t, i)));
            continue;
        }
        LK_PASS(read_row(t, i, type, &(*out)[o->n]));
        o->n++;
    }
    if (!o->n)
        return lk_fail(LK_EPARSE, "%s: there is no operation of a type that is known%s%s%s",
                       o->path, o->unknown ? " (" : "", o->unknown ? o->unknown : "",
                       o->unknown ? ")" : "");
    return LK_OK;
}

#define COMPARE(a, b)                                                                              \
    if ((a) != (b))                                                                                \
    return (a) < (b) ? -1 : 1

static int row_order(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    COMPARE(x->step, y->step);
    COMPARE(x->dp, y->dp);
    COMPARE(x->stage, y->stage);
    COMPARE(x->op.type, y->op.type);
    COMPARE(x->op.seq, y->op.seq);
    COMPARE(x->op.line, y->op.line);
    return 0;
}

static enum lk_status check_twice(const struct lk_pipe_ops *o, const struct row *rows)
{
    for (size_t i = 1; i < o->n; i++) {
        const struct row *a = &rows[i - 1], *b = &rows[i];

        if (a->step == b->step && a->dp == b->dp && a->stage == b->stage &&
            a->op.type == b->op.type && a->op.seq == b->op.seq && a->rank == b->rank)
            return lk_fail(LK_EPARSE,
                           "%s:%u: operation '%s' %u of rank %d in step %lld is in line "
                           "%u, too",
                           o->path, b->op.line, lk_pipe_types[b->op.type].name, b->op.seq, b->rank,
                           (long long)b->step, a->op.line);
    }
    return LK_OK;
}

/* ---- The grid of workers ---- */

static int int_order(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* List the data-parallel ranks of the rows, rising. */
static enum lk_status list_dp(const struct row *rows, size_t n, int **out, size_t *n_out)
{
    size_t k = 0;

    LK_PASS(lk_alloc(out, n, sizeof **out));
    for (size_t i = 0; i < n; i++)
        if (!k || (*out)[k - 1] != rows[i].dp)
            (*out)[k++] = rows[i].dp;
    qsort(*out, k, sizeof **out, int_order);
    *n_out = 0;
    for (size_t i = 0; i < k; i++)
        if (!i || (*out)[i] != (*out)[*n_out - 1])
            (*out)[(*n_out)++] = (*out)[i];
    return LK_OK;
}

/* Set each row's worker, and each worker's rank, which must be its own. */
static enum lk_status place_rows(struct lk_pipe_ops *o, struct row *rows, const int *dp,
                                 uint32_t *line)
{
    for (size_t i = 0; i < o->n; i++) {
        struct row *r = &rows[i];
        const int *at = bsearch(&r->dp, dp, o->n_dp, sizeof *dp, int_order);
        size_t w = (size_t)(at - dp) * o->n_stages + (size_t)r->stage;
        struct lk_pipe_worker *worker = &o->workers[w];

        r->op.worker = (uint32_t)w;
        if (line[w] && worker->rank != r->rank)
            return lk_fail(
                LK_EPARSE,
                "%s:%u: ranks %d and %d (line %u) are both of dp rank %d, stage %d: keep "
                "one rank of each",
                o->path, r->op.line, r->rank, worker->rank, line[w], r->dp, r->stage);
        line[w] = line[w] ? line[w] : r->op.line;
        *worker = (struct lk_pipe_worker){.rank = r->rank, .dp_rank = r->dp, .stage = r->stage};
    }
    for (size_t w = 0; w < o->n_workers; w++)
        if (!line[w])
            return lk_fail(LK_EPARSE, "%s: there is no operation of dp rank %d, stage %zu", o->path,
                           dp[w / o->n_stages], w % o->n_stages);
    return LK_OK;
}

static int worker_order(const void *a, const void *b)
{
    const struct lk_pipe_worker *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static enum lk_status check_ranks(const struct lk_pipe_ops *o)
{
    enum lk_status st = LK_OK;
    struct lk_pipe_worker *w = NULL;

    LK_TRY(lk_alloc(&w, o->n_workers, sizeof *w));
    memcpy(w, o->workers, o->n_workers * sizeof *w);
    qsort(w, o->n_workers, sizeof *w, worker_order);
    for (size_t i = 1; i < o->n_workers && st == LK_OK; i++)
        if (w[i].rank == w[i - 1].rank)
            st = lk_fail(
                LK_EPARSE, "%s: rank %d is of dp rank %d, stage %d, and of dp rank %d, stage %d",
                o->path, w[i].rank, w[i - 1].dp_rank, w[i - 1].stage, w[i].dp_rank, w[i].stage);
out:
    free(w);
    return st;
}

static enum lk_status make_grid(struct lk_pipe_ops *o, struct row *rows)
{
    enum lk_status st = LK_OK;
    uint32_t *line = NULL;
    int *dp = NULL;

    LK_TRY(list_dp(rows, o->n, &dp, &o->n_dp));
    for (size_t i = 0; i < o->n; i++) {
        if (rows[i].stage >= (int)o->n_stages)
            o->n_stages = (size_t)rows[i].stage + 1;
        if (rows[i].op.local >= o->n_chunks)
            o->n_chunks = (size_t)rows[i].op.local + 1;
    }
    o->n_workers = o->n_dp * o->n_stages;
    if (o->n_workers > o->n) {
        st = lk_fail(LK_EPARSE, "%s: has %zu dp ranks, %zu stages, and only %zu operations",
                     o->path, o->n_dp, o->n_stages, o->n);
        goto out;
    }
    LK_TRY(lk_alloc(&o->workers, o->n_workers, sizeof *o->workers));
    LK_TRY(lk_alloc(&line, o->n_workers, sizeof *line));
    LK_TRY(place_rows(o, rows, dp, line));
    st = check_ranks(o);
out:
    free(line);
    free(dp);
    return st;
}

/* ---- Steps ---- */

/* Move the rows to operations, a step after the other, with times since the step's first start. */
static enum lk_status make_steps(struct lk_pipe_ops *o, const struct row *rows)
{
    size_t n_steps = 0;

    for (size_t i = 0; i < o->n; i++)
        n_steps += !i || rows[i].step != rows[i - 1].step;
    LK_PASS(lk_alloc(&o->ops, o->n, sizeof *o->ops));
    LK_PASS(lk_alloc(&o->steps, n_steps, sizeof *o->steps));
    LK_PASS(lk_alloc(&o->first, n_steps + 1, sizeof *o->first));
    for (size_t i = 0; i < o->n;) {
        double zero = rows[i].op.start_s;
        size_t end = i;

        for (; end < o->n && rows[end].step == rows[i].step; end++)
            zero = fmin(zero, rows[end].op.start_s);
        o->steps[o->n_steps] = rows[i].step;
        o->first[o->n_steps++] = i;
        for (; i < end; i++) {
            struct lk_pipe_op *op = &o->ops[i];

            *op = rows[i].op;
            op->start_s -= zero;
            if (op->chunk < 0)
                op->chunk = op->local * (int32_t)o->n_stages + rows[i].stage;
            o->present[op->type] = true;
        }
    }
    o->first[o->n_steps] = o->n;
    return LK_OK;
}

enum lk_status lk_pipe_ops_read(const char *path, struct lk_pipe_ops *out)
{
    enum lk_status st = LK_OK;
    struct lk_pipe_ops o = {0};
    struct lk_csv *t = NULL;
    struct row *rows = NULL;

    LK_TRY(lk_strdup(&o.path, path));
    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, &t));
    LK_TRY(read_rows(t, &o, &rows));
    lk_csv_free(t);
    t = NULL;
    qsort(rows, o.n, sizeof *rows, row_order);
    LK_TRY(check_twice(&o, rows));
    LK_TRY(make_grid(&o, rows));
    LK_TRY(make_steps(&o, rows));
    *out = o;
    o = (struct lk_pipe_ops){0};
out:
    free(rows);
    lk_csv_free(t);
    lk_pipe_ops_fini(&o);
    return st;
}

void lk_pipe_ops_fini(struct lk_pipe_ops *o)
{
    free(o->path);
    free(o->ops);
    free(o->workers);
    free(o->steps);
    free(o->first);
    free(o->unknown);
    *o = (struct lk_pipe_ops){0};
}
