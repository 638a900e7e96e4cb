/* All probes share the clock, agreement and the end; and the probe of collectives is here. */
#include "runtime/probe/probe.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/progress.h"
#include "base/units.h"
#include "kernels/ops.h"
#include "runtime/probe/probe_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool lk_probe_over(const struct lk_probe_effort *e, size_t n, size_t least, double elapsed_s)
{
    double all = (double)(e->warmup + e->repetitions);

    lk_progress(NULL,
                e->budget_s > 0 ? fmax((double)n / all, elapsed_s / e->budget_s) : (double)n / all,
                1);
    return n >= e->warmup + e->repetitions ||
           (n >= e->warmup + least && e->budget_s > 0 && elapsed_s > e->budget_s);
}

enum lk_status lk_probe_extreme(struct lk_comm *comm, bool largest, double mine, double *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm);
    double *all = NULL;

    LK_TRY(lk_alloc(&all, world, sizeof *all));
    LK_TRY(lk_comm_gather(comm, LK_F64, &mine, 1, all));
    for (size_t r = 0; r < world; r++)
        mine = largest == (all[r] > mine) ? all[r] : mine;
    *out = mine;
out:
    free(all);
    return st;
}

/* ---- The clock ---- */

enum lk_status lk_probe_clock_init(struct lk_probe_clock *c, struct lk_stream *stream,
                                   uint64_t timeout_ns)
{
    enum lk_status st = LK_OK;

    *c = (struct lk_probe_clock){.stream = stream, .timeout_ns = timeout_ns};
    if (!stream)
        return LK_OK;
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->begin));
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->end));
out:
    if (st != LK_OK)
        lk_probe_clock_fini(c);
    return st;
}

void lk_probe_clock_fini(struct lk_probe_clock *c)
{
    lk_event_destroy(c->begin);
    lk_event_destroy(c->end);
    *c = (struct lk_probe_clock){0};
}

double lk_probe_between_s(struct lk_event *from, struct lk_event *to)
{
    uint64_t a = lk_event_time_ns(from), b = lk_event_time_ns(to);

    return a < b ? lk_s_from_ns(b - a) : 0;
}

double lk_probe_hold_s(const struct lk_probe_clock *c, size_t n)
{
    const double margin = 1.5, least_s = 50e-6, most_s = 0.2;
    double s = margin * c->put_s * (double)n + least_s;

    return s < most_s ? s : most_s;
}

static enum lk_status time_on_stream(struct lk_probe_clock *c, lk_probe_put call, void *ctx,
                                     size_t n, struct lk_probe_time *out)
{
    uint64_t start_ns = lk_now_ns(), put_ns, begin_ns, end_ns;

    LK_PASS(LK_LAUNCH(c->stream, wait, .seconds = lk_probe_hold_s(c, n)));
    LK_PASS(lk_event_record(c->begin, c->stream));
    for (size_t i = 0; i < n; i++)
        LK_PASS(call(ctx, c->stream));
    put_ns = lk_now_ns();
    LK_PASS(lk_event_record(c->end, c->stream));
    LK_PASS(lk_stream_sync(c->stream, lk_deadline_in(c->timeout_ns)));
    end_ns = lk_now_ns();
    begin_ns = lk_event_time_ns(c->begin);
    c->put_s = lk_s_from_ns(put_ns - start_ns) / (double)n;
    out->s = lk_probe_between_s(c->begin, c->end);
    out->host_s = end_ns > begin_ns ? lk_s_from_ns(end_ns - begin_ns) : 0;
    out->host_late = put_ns > begin_ns;
    return LK_OK;
}

enum lk_status lk_probe_clock_time(struct lk_probe_clock *c, lk_probe_put call, void *ctx, size_t n,
                                   struct lk_probe_time *out)
{
    uint64_t start_ns = lk_now_ns();

    if (c->stream)
        return time_on_stream(c, call, ctx, n, out);
    for (size_t i = 0; i < n; i++) {
        enum lk_status st = call(ctx, NULL);

        if (st != LK_OK)
            return st;
    }
    out->s = out->host_s = lk_s_from_ns(lk_now_ns() - start_ns);
    out->host_late = false;
    return LK_OK;
}

/* ---- Collectives ---- */

/* Limits of a burst's calls. A call on a stream is several commands (its kernel, events of ours and
 * NCCL's), and from about 1000 on CUDA's launches wait for the GPU: the time would then include the
 * host's part again. */
enum { BURST_MIN = 2, BURST_MAX = 1000, BURST_MAX_ON_STREAM = 100 };

/* Index of a rank's measurements of a row. */
enum { TIME, HOST_TIME, HOST_LATE, N_TIMES };

struct probe {
    struct lk_comm *comm;
    const struct lk_probe_collectives_config *config;
    struct lk_probe_rows rows;
    size_t cap_rows;
    struct lk_probe_clock clock;
    void *buf, *from; /* as large as the largest row needs; from: out of place */
    size_t *samples;  /* of each row, warm-up included */
    size_t rounds;    /* the most of them */
    double *mine;     /* N_TIMES per row, then the time since the start */
    double *all;      /* `mine` of every rank */
};

/* Return the `count` of a row's calls of so many bytes: the elements of a part if the buffer has
 * parts. On a GPU parts begin at multiples of 16 bytes, as in nccl-tests (all_gather.cu,
 * AllGatherGetCollByteCount). */
static size_t count_of(const struct probe *s, const struct lk_probe_row *row, uint64_t bytes)
{
    const uint64_t aligned = s->config->stream ? 16 / lk_dtype_bytes(row->dtype) : 1;
    uint64_t n = bytes / lk_dtype_bytes(row->dtype);

    if (row->coll == LK_ALL_GATHER || row->coll == LK_REDUCE_SCATTER) {
        n /= (uint64_t)row->ranks;
        n -= n % aligned;
    }
    return (size_t)n;
}

/* Return how many numbers a rank gives the others after a repetition. */
static size_t n_mine(const struct probe *s)
{
    return N_TIMES * s->rows.n + 1;
}

/* Return the ranks of this one's node; of a row of all ranks none, which stands for all. */
static struct lk_rank_group group_of(const struct probe *s, const struct lk_probe_row *row)
{
    const int rank = lk_comm_rank(s->comm);
    const struct lk_rank_group node = {
        .first = rank - rank % row->ranks, .stride = 1, .n = row->ranks};

    return row->inside ? node : (struct lk_rank_group){0};
}

static struct lk_coll_call call_of(const struct probe *s, const struct lk_probe_row *row)
{
    return (struct lk_coll_call){.coll = row->coll,
                                 .group = group_of(s, row),
                                 .algo = row->algo,
                                 .dtype = row->dtype,
                                 .buf = s->buf,
                                 .from = row->out_of_place ? s->from : NULL,
                                 .count = count_of(s, row, row->bytes),
                                 .index = -1};
}

static enum lk_status add_row(struct probe *s, struct lk_probe_row row)
{
    enum lk_status st = LK_OK;
    size_t n = s->config->effort.warmup + s->config->effort.repetitions;

    LK_TRY(lk_array_grow(&s->rows.row, &s->cap_rows, s->rows.n + 1, sizeof row));
    LK_TRY(lk_alloc(&row.time_s, n, sizeof *row.time_s));
    LK_TRY(lk_alloc(&row.wire_s, n, sizeof *row.wire_s));
    LK_TRY(lk_alloc(&row.host_s, n, sizeof *row.host_s));
    s->rows.row[s->rows.n++] = row;
    return LK_OK;
out:
    free(row.time_s);
    free(row.wire_s);
    return st;
}

/* Add a row of so many elements, if there are any. */
static enum lk_status add_count(struct probe *s, struct lk_probe_row row, size_t count)
{
    struct lk_coll_call call = {.coll = row.coll, .dtype = row.dtype, .count = count};

    row.bytes = lk_coll_call_bytes(&call, row.ranks);
    return row.bytes ? add_row(s, row) : LK_OK;
}

static enum lk_algo choice_at(const struct probe *s, const struct lk_probe_row *row, size_t count)
{
    struct lk_coll_call call = {.coll = row->coll,
                                .algo = row->algo,
                                .group = group_of(s, row),
                                .dtype = row->dtype,
                                .count = count};

    return lk_comm_choice(s->comm, &call);
}

/*
 * Add the sizes on both sides of the one from which the communicator runs the collective by another
 * algorithm, if it does so between `low` and `high` elements, which have rows: the time may jump
 * there, and nothing in the times of other sizes tells where.
 */
static enum lk_status add_switch(struct probe *s, struct lk_probe_row row, size_t low, size_t high)
{
    enum lk_algo first = choice_at(s, &row, low);
    size_t below = low, above = high;

    if (low >= high || first == choice_at(s, &row, high))
        return LK_OK;
    while (above - below > 1) {
        size_t middle = below + (above - below) / 2;

        if (choice_at(s, &row, middle) == first)
            below = middle;
        else
            above = middle;
    }
    if (below != low)
        LK_PASS(add_count(s, row, below));
    return above == high ? LK_OK : add_count(s, row, above);
}

/* Add a row for each size, and those where AUTO's algorithm changes; a barrier has one row, without
 * bytes. */
static enum lk_status add_sizes(struct probe *s, struct lk_probe_row row)
{
    size_t before = 0;

    if (row.coll == LK_BARRIER)
        return add_row(s, row);
    for (size_t i = 0; i < s->config->n_bytes; i++) {
        size_t count = count_of(s, &row, s->config->bytes[i]);

        if (before)
            LK_PASS(add_switch(s, row, before, count));
        LK_PASS(add_count(s, row, count));
        before = count;
    }
    return LK_OK;
}

/* Add the rows of all types, places and timings of a collective and algorithm, among all ranks or
 * inside a node; a barrier has one type and place. */
static enum lk_status add_kinds(struct probe *s, enum lk_coll coll, enum lk_algo algo, bool inside)
{
    static const enum lk_timing timings[] = {LK_TIMING_ALONE, LK_TIMING_BACK_TO_BACK};
    const struct lk_probe_collectives_config *g = s->config;
    size_t n_dtypes = coll == LK_BARRIER ? 1 : g->n_dtypes;
    size_t n_places = coll != LK_BARRIER && g->out_of_place ? 2 : 1;
    struct lk_probe_row row = {.coll = coll,
                               .algo = algo,
                               .ranks = inside ? s->config->inside : lk_comm_world_size(s->comm),
                               .inside = inside,
                               .estimate_s = NAN,
                               .burst = 1,
                               .on_stream = g->stream != NULL,
                               .warmup = g->effort.warmup};

    for (size_t d = 0; d < n_dtypes; d++)
        for (size_t p = 0; p < n_places; p++)
            for (size_t t = 0; t < LK_COUNT(timings); t++) {
                row.dtype = g->dtypes[d];
                row.out_of_place = p > 0;
                row.timing = timings[t];
                LK_PASS(add_sizes(s, row));
            }
    return LK_OK;
}

/* Allocate a buffer and write it, so that its pages exist before anything is timed. */
static enum lk_status make_buffer(const struct probe *s, uint64_t bytes, void **out)
{
    enum lk_status st;

    if (s->config->stream)
        return lk_comm_alloc(s->comm, lk_stream_device(s->config->stream), (size_t)bytes, out);
    st = lk_alloc(out, (size_t)bytes, 1);
    if (st == LK_OK)
        memset(*out, 0, (size_t)bytes);
    return st;
}

static void free_buffer(const struct probe *s, void *p)
{
    if (s->config->stream)
        lk_comm_free(s->comm, lk_stream_device(s->config->stream), p);
    else
        free(p);
}

/* Return true if the collective is measured inside nodes, too. */
static bool has_inside(const struct probe *s, enum lk_coll coll)
{
    return s->config->inside > 1 && s->config->inside < lk_comm_world_size(s->comm) &&
           lk_comm_has_groups(s->comm) && coll != LK_BARRIER && coll != LK_BROADCAST;
}

static enum lk_status plan(struct probe *s)
{
    const struct lk_probe_collectives_config *g = s->config;
    uint64_t largest = 0;

    for (size_t c = 0; c < g->n_colls; c++)
        for (size_t a = 0; a < g->n_algos; a++)
            if (lk_comm_has(s->comm, g->colls[c], g->algos[a])) {
                LK_PASS(add_kinds(s, g->colls[c], g->algos[a], false));
                if (has_inside(s, g->colls[c]))
                    LK_PASS(add_kinds(s, g->colls[c], g->algos[a], true));
            }
    for (size_t i = 0; i < s->rows.n; i++)
        largest = s->rows.row[i].bytes > largest ? s->rows.row[i].bytes : largest;
    LK_PASS(make_buffer(s, largest, &s->buf));
    if (g->out_of_place)
        LK_PASS(make_buffer(s, largest, &s->from));
    LK_PASS(lk_alloc(&s->samples, s->rows.n, sizeof *s->samples));
    LK_PASS(lk_alloc(&s->mine, n_mine(s), sizeof *s->mine));
    LK_PASS(lk_alloc(&s->all, n_mine(s) * (size_t)lk_comm_world_size(s->comm), sizeof *s->all));
    return lk_probe_clock_init(&s->clock, g->stream, g->timeout_ns);
}

/* Ask the communicator, which may not know, for its estimate of each row; once for both timings. */
static enum lk_status ask(struct probe *s)
{
    for (size_t i = 0; i < s->rows.n; i++) {
        struct lk_probe_row *row = &s->rows.row[i];
        struct lk_coll_call call = call_of(s, row);
        enum lk_status st;

        if (row->timing != LK_TIMING_ALONE)
            continue;
        st = lk_comm_estimate(s->comm, &call, &row->estimate_s);
        if (st == LK_EUNSUPPORTED)
            return LK_OK;
        if (st != LK_OK)
            return st;
    }
    return LK_OK;
}

struct one_call {
    struct lk_comm *comm;
    struct lk_coll_call call;
};

static enum lk_status make_call(void *ctx, struct lk_stream *stream)
{
    const struct one_call *c = ctx;

    return stream ? lk_comm_put(c->comm, stream, &c->call) : lk_comm_run(c->comm, &c->call);
}

/* Time a row's calls on this rank, from its own arrival. */
static enum lk_status time_row(struct probe *s, const struct lk_probe_row *row, double out[N_TIMES])
{
    struct one_call one = {s->comm, call_of(s, row)};
    struct lk_probe_time t;

    LK_PASS(lk_comm_barrier(s->comm));
    LK_PASS(lk_probe_clock_time(&s->clock, make_call, &one, row->burst, &t));
    out[TIME] = t.s / (double)row->burst;
    out[HOST_TIME] = t.host_s / (double)row->burst;
    out[HOST_LATE] = t.host_late;
    return LK_OK;
}

/*
 * Return true if a row has a sample in this round. Its samples are spread over all rounds, the
 * first in the first, so that drift of the machine is in all rows alike.
 */
static bool is_due(const struct probe *s, size_t i, size_t round)
{
    return round * s->samples[i] % s->rounds < s->samples[i];
}

/* Time every row that is due once; fill `mine` and `all`. */
static enum lk_status time_all(struct probe *s, size_t round, uint64_t start_ns)
{
    for (size_t i = 0; i < s->rows.n; i++)
        if (is_due(s, i, round))
            LK_PASS(time_row(s, &s->rows.row[i], &s->mine[N_TIMES * i]));
    s->mine[N_TIMES * s->rows.n] = lk_s_from_ns(lk_now_ns() - start_ns);
    return lk_comm_gather(s->comm, LK_F64, s->mine, n_mine(s), s->all);
}

/* Return the largest or smallest of the ranks' `i`-th numbers. */
static double extreme(const struct probe *s, size_t i, bool largest)
{
    double v = s->all[i];

    for (int r = 1; r < lk_comm_world_size(s->comm); r++) {
        double x = s->all[(size_t)r * n_mine(s) + i];

        v = largest == (x > v) ? x : v;
    }
    return v;
}

/* Choose how many calls fill a burst, the same on all ranks, from one call of each row. Leave the
 * seconds of a sample of each row in mine[i]. */
static void choose_bursts(struct probe *s)
{
    for (size_t i = 0; i < s->rows.n; i++) {
        double most = s->config->stream ? BURST_MAX_ON_STREAM : BURST_MAX;
        double call_s = extreme(s, N_TIMES * i + TIME, true), n = s->config->burst_s / call_s;

        if (s->rows.row[i].timing == LK_TIMING_BACK_TO_BACK) {
            n = n < BURST_MIN ? BURST_MIN : n > most ? most : n;
            s->rows.row[i].burst = (size_t)n;
        }
        s->mine[i] = call_s * (double)s->rows.row[i].burst;
    }
}

/* Return the seconds for each row that use up the budget, where rows that need less for all of
 * their samples leave the rest to the others. sample_s: of each row. */
static double share_of_budget(const struct probe *s, const double *sample_s, double all)
{
    double share_s = 0, last_s = -1;

    while (isfinite(share_s) && share_s != last_s) {
        double left_s = s->config->effort.budget_s;
        size_t others = 0;

        last_s = share_s;
        for (size_t i = 0; i < s->rows.n; i++) {
            bool fits = all * sample_s[i] <= last_s;

            left_s -= fits ? all * sample_s[i] : 0;
            others += !fits;
        }
        share_s = others ? left_s / (double)others : INFINITY;
    }
    return share_s;
}

/*
 * Choose how many samples each row gets: all, or where the budget does not allow it as many as its
 * share of the budget holds, but LK_PROBE_SAMPLES_MIN. The warm-up is cut first: the call that the
 * bursts were chosen from was one.
 */
static void choose_samples(struct probe *s)
{
    const struct lk_probe_effort *e = &s->config->effort;
    size_t all = e->warmup + e->repetitions,
           least = e->repetitions < LK_PROBE_SAMPLES_MIN ? e->repetitions : LK_PROBE_SAMPLES_MIN;
    double share_s = e->budget_s > 0 ? share_of_budget(s, s->mine, (double)all) : INFINITY;

    s->rounds = 1;
    for (size_t i = 0; i < s->rows.n; i++) {
        double n = fmin(fmax(share_s / s->mine[i], (double)least), (double)all);
        size_t *samples = &s->samples[i], *warmup = &s->rows.row[i].warmup;

        *samples = (size_t)n;
        *warmup = *samples - least < e->warmup ? *samples - least : e->warmup;
        s->rounds = *samples > s->rounds ? *samples : s->rounds;
    }
}

/* Time each row once, and choose by that what is measured. */
static enum lk_status choose(struct probe *s)
{
    s->rounds = 1;
    for (size_t i = 0; i < s->rows.n; i++)
        s->samples[i] = 1;
    LK_PASS(time_all(s, 0, lk_now_ns()));
    choose_bursts(s);
    choose_samples(s);
    return LK_OK;
}

/* Keep row i's times of a round, the slowest rank's and the fastest's. */
static void keep(struct probe *s, size_t i)
{
    struct lk_probe_row *row = &s->rows.row[i];

    row->time_s[row->n] = extreme(s, N_TIMES * i + TIME, true);
    row->wire_s[row->n] = extreme(s, N_TIMES * i + TIME, false);
    row->host_s[row->n] = extreme(s, N_TIMES * i + HOST_TIME, true);
    row->n_late += row->n >= row->warmup && extreme(s, N_TIMES * i + HOST_LATE, true) > 0;
    row->n++;
}

/* Return true if all rows have the fewest samples that are worth having beside their warm-up. */
static bool have_least(const struct probe *s)
{
    for (size_t i = 0; i < s->rows.n; i++) {
        const struct lk_probe_row *row = &s->rows.row[i];

        if (row->n < s->samples[i] && row->n < row->warmup + LK_PROBE_SAMPLES_MIN)
            return false;
    }
    return true;
}

enum lk_status lk_probe_collectives(struct lk_comm *comm,
                                    const struct lk_probe_collectives_config *config,
                                    struct lk_probe_rows *out)
{
    enum lk_status st = LK_OK;
    struct probe s = {.comm = comm, .config = config};
    uint64_t start_ns = lk_now_ns();
    size_t n = 0, least;

    if (lk_comm_world_size(comm) < 2) {
        *out = s.rows;
        return LK_OK;
    }
    LK_TRY(plan(&s));
    if (config->estimate)
        LK_TRY(ask(&s));
    LK_TRY(choose(&s));
    do {
        LK_TRY(time_all(&s, n, start_ns));
        for (size_t i = 0; i < s.rows.n; i++)
            if (is_due(&s, i, n))
                keep(&s, i);
        n++;
        least = have_least(&s) ? 0 : s.rounds;
        /* Use rank 0's clock, so that all ranks stop together. */
    } while (!lk_probe_over(&config->effort, n, least, s.all[N_TIMES * s.rows.n]) && n < s.rounds);
    *out = s.rows;
    s.rows = (struct lk_probe_rows){0};
out:
    lk_probe_rows_fini(&s.rows);
    lk_probe_clock_fini(&s.clock);
    free_buffer(&s, s.buf);
    free_buffer(&s, s.from);
    free(s.samples);
    free(s.mine);
    free(s.all);
    return st;
}
