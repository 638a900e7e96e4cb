/* The sweep of collectives; see the header. */
#include "runtime/sweep.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/sweep_impl.h"

#include <stdlib.h>
#include <string.h>

enum { BURST_MIN = 2, BURST_MAX = 1000 };

enum lk_status lk_sweep_gather(struct lk_comm *comm, const double *mine, size_t n, double *all)
{
    struct lk_coll_call call = {
        .coll = LK_ALL_GATHER, .dtype = LK_F64, .buf = all, .count = n, .index = -1};

    memcpy(all + (size_t)lk_comm_rank(comm) * n, mine, n * sizeof *mine);
    return lk_comm_run(comm, &call);
}

enum lk_status lk_sweep_barrier(struct lk_comm *comm)
{
    return lk_comm_run(comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1});
}

void lk_sweep_rows_fini(struct lk_sweep_rows *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->row[i].time_s);
        free(r->row[i].wire_s);
    }
    free(r->row);
    *r = (struct lk_sweep_rows){0};
}

struct sweep {
    struct lk_comm *comm;
    const struct lk_sweep_collectives_config *config;
    struct lk_sweep_rows rows;
    size_t cap_rows;
    void *buf;    /* as large as the largest row needs */
    double *mine; /* one a row, then the time since the start */
    double *all;  /* the same of every rank */
};

/* Elements of a call: of a part where the buffer has parts. */
static size_t count_of(const struct sweep *s, enum lk_coll coll, uint64_t bytes)
{
    bool parted = coll == LK_ALL_GATHER || coll == LK_REDUCE_SCATTER;
    uint64_t world = (uint64_t)lk_comm_world_size(s->comm);

    return (size_t)(bytes / lk_dtype_bytes(s->config->dtype) / (parted ? world : 1));
}

static struct lk_coll_call call_of(const struct sweep *s, const struct lk_sweep_row *row)
{
    return (struct lk_coll_call){.coll = row->coll,
                                 .algo = row->algo,
                                 .dtype = row->dtype,
                                 .buf = s->buf,
                                 .count = count_of(s, row->coll, row->bytes),
                                 .index = -1};
}

static enum lk_status add_row(struct sweep *s, struct lk_sweep_row row)
{
    enum lk_status st = LK_OK;
    size_t n = s->config->warmup + s->config->repetitions;

    LK_TRY(lk_array_grow(&s->rows.row, &s->cap_rows, s->rows.n + 1, sizeof row));
    LK_TRY(lk_alloc(&row.time_s, n, sizeof *row.time_s));
    LK_TRY(lk_alloc(&row.wire_s, n, sizeof *row.wire_s));
    s->rows.row[s->rows.n++] = row;
    return LK_OK;
out:
    free(row.time_s);
    return st;
}

/* The rows of one collective, algorithm and timing; a barrier has one, of no bytes. */
static enum lk_status add_sizes(struct sweep *s, enum lk_coll coll, enum lk_algo algo,
                                enum lk_timing timing)
{
    struct lk_sweep_row row = {.coll = coll,
                               .algo = algo,
                               .timing = timing,
                               .dtype = s->config->dtype,
                               .ranks = lk_comm_world_size(s->comm),
                               .burst = 1,
                               .warmup = s->config->warmup};
    enum lk_status st = LK_OK;

    if (coll == LK_BARRIER)
        return add_row(s, row);
    for (size_t i = 0; i < s->config->n_bytes; i++) {
        struct lk_coll_call call = {.coll = coll, .dtype = row.dtype};

        call.count = count_of(s, coll, s->config->bytes[i]);
        row.bytes = lk_coll_call_bytes(&call, row.ranks);
        if (row.bytes)
            LK_TRY(add_row(s, row));
    }
out:
    return st;
}

static enum lk_status plan(struct sweep *s)
{
    static const enum lk_timing timings[] = {LK_TIMING_ALONE, LK_TIMING_BACK_TO_BACK};
    const struct lk_sweep_collectives_config *g = s->config;
    enum lk_status st = LK_OK;
    uint64_t largest = 0;

    for (size_t c = 0; c < g->n_colls; c++)
        for (size_t a = 0; a < g->n_algos; a++)
            for (size_t t = 0; t < LK_COUNT(timings); t++)
                if (lk_comm_has(s->comm, g->colls[c], g->algos[a]))
                    LK_TRY(add_sizes(s, g->colls[c], g->algos[a], timings[t]));
    for (size_t i = 0; i < s->rows.n; i++)
        largest = s->rows.row[i].bytes > largest ? s->rows.row[i].bytes : largest;
    LK_TRY(lk_alloc(&s->buf, (size_t)largest, 1));
    LK_TRY(lk_alloc(&s->mine, s->rows.n + 1, sizeof *s->mine));
    LK_TRY(
        lk_alloc(&s->all, (s->rows.n + 1) * (size_t)lk_comm_world_size(s->comm), sizeof *s->all));
    memset(s->buf, 0, (size_t)largest); /* its pages exist before anything is timed */
out:
    return st;
}

/* Times a row's calls on this rank, from its own arrival. */
static enum lk_status time_row(const struct sweep *s, const struct lk_sweep_row *row, double *out_s)
{
    struct lk_coll_call call = call_of(s, row);
    enum lk_status st = LK_OK;
    uint64_t start_ns;

    LK_TRY(lk_sweep_barrier(s->comm));
    start_ns = lk_now_ns();
    for (size_t i = 0; i < row->burst; i++)
        LK_TRY(lk_comm_run(s->comm, &call));
    *out_s = lk_s_from_ns(lk_now_ns() - start_ns) / (double)row->burst;
out:
    return st;
}

/* Times every row once; mine and all are filled. */
static enum lk_status time_all(struct sweep *s, uint64_t start_ns)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < s->rows.n; i++)
        LK_TRY(time_row(s, &s->rows.row[i], &s->mine[i]));
    s->mine[s->rows.n] = lk_s_from_ns(lk_now_ns() - start_ns);
    LK_TRY(lk_sweep_gather(s->comm, s->mine, s->rows.n + 1, s->all));
out:
    return st;
}

static double extreme(const struct sweep *s, size_t row, bool largest)
{
    double v = s->all[row];

    for (int r = 1; r < lk_comm_world_size(s->comm); r++) {
        double x = s->all[(size_t)r * (s->rows.n + 1) + row];

        v = largest == (x > v) ? x : v;
    }
    return v;
}

/* How many calls fill a burst, from one call of each row: the same answer on all ranks. */
static enum lk_status choose_bursts(struct sweep *s)
{
    enum lk_status st = time_all(s, lk_now_ns());

    for (size_t i = 0; st == LK_OK && i < s->rows.n; i++) {
        double n = s->config->burst_s / extreme(s, i, true);

        if (s->rows.row[i].timing != LK_TIMING_BACK_TO_BACK)
            continue;
        n = n < BURST_MIN ? BURST_MIN : n > BURST_MAX ? BURST_MAX : n;
        s->rows.row[i].burst = (size_t)n;
    }
    return st;
}

enum lk_status lk_sweep_collectives(struct lk_comm *comm,
                                    const struct lk_sweep_collectives_config *config,
                                    struct lk_sweep_rows *out)
{
    enum lk_status st = LK_OK;
    struct sweep s = {.comm = comm, .config = config};
    uint64_t start_ns = lk_now_ns();

    if (lk_comm_world_size(comm) < 2) {
        *out = s.rows;
        return LK_OK;
    }
    LK_TRY(plan(&s));
    LK_TRY(choose_bursts(&s));
    for (size_t rep = 0; rep < config->warmup + config->repetitions; rep++) {
        LK_TRY(time_all(&s, start_ns));
        for (size_t i = 0; i < s.rows.n; i++) {
            s.rows.row[i].time_s[rep] = extreme(&s, i, true);
            s.rows.row[i].wire_s[rep] = extreme(&s, i, false);
            s.rows.row[i].n = rep + 1;
        }
        /* Rank 0's watch, so that all ranks stop together. */
        if (rep >= config->warmup && config->budget_s > 0 && s.all[s.rows.n] > config->budget_s)
            break;
    }
    *out = s.rows;
    s.rows = (struct lk_sweep_rows){0};
out:
    lk_sweep_rows_fini(&s.rows);
    free(s.buf);
    free(s.mine);
    free(s.all);
    return st;
}
