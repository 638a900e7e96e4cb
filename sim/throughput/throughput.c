/*
 * Read tables of throughputs, and fill what they lack.
 *
 * Divisions: rows / contradictions / the file / runs / what a table lacks.
 */
#include "sim/throughput/throughput.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/log.h"
#include "base/stats.h"
#include "base/units.h"
#include "sim/step/config.h"
#include "sim/step/measured_runs.h"
#include "sim/throughput/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT_MAX = 1 << 24,
    USUAL_PER_NODE = 8, /* GPUs of DGX and HGX systems, the usual server */
};

enum { GPUS, NODES, THROUGHPUT, LOCAL_BATCH, ACCUMULATION, BUCKET_CAP, MEASURED_ON, N_COLUMNS };

static const struct lk_csv_column columns[N_COLUMNS] = {
    [GPUS] = {"gpus|n_gpus|ranks|world_size", true},
    [NODES] = {"nodes|n_nodes", false},
    [THROUGHPUT] = {"throughput|throughput_per_s|samples_per_s", true},
    [LOCAL_BATCH] = {"local_batch|batch_per_gpu", false},
    [ACCUMULATION] = {"accumulation|grad_accum", false},
    [BUCKET_CAP] = {"bucket_cap|bucket_cap_bytes", false},
    [MEASURED_ON] = {"measured_on|cluster", false},
};

enum lk_status lk_throughput_with(const struct lk_throughput_table *t,
                                  const struct lk_hypothesis *h, struct lk_throughput_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table *o = NULL;

    if (h->collectives || t->n >= LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "%s: a table takes no %s", t->name,
                       h->collectives ? "times of collectives" : "more rows");
    LK_TRY(lk_alloc(&o, 1, sizeof *o));
    *o = (struct lk_throughput_table){.name = t->name, .measured_on = t->measured_on};
    LK_TRY(lk_alloc(&o->points, t->n + 1, sizeof *o->points));
    memcpy(o->points, t->points, t->n * sizeof *o->points);
    o->points[t->n] = (struct lk_scaling_point){
        .config = h->config, .throughput = lk_config_samples(&h->config) / h->step_s};
    o->n = o->capacity = t->n + 1;
    LK_HAND_OVER(out, o);
out:
    lk_throughput_drop(o);
    return st;
}

void lk_throughput_drop(struct lk_throughput_table *with)
{
    if (with)
        free(with->points);
    free(with);
}

void lk_throughput_fini(struct lk_throughput_table *t)
{
    free(t->name);
    free(t->points);
    free(t->measured_on);
    memset(t, 0, sizeof *t);
}

bool lk_throughput_same_batch(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config at = *a;

    at.world_size = b->world_size;
    at.nodes = b->nodes;
    if (a->world_size == 1 || b->world_size == 1) {
        at.first_bytes = b->first_bytes;
        at.cap_bytes = b->cap_bytes;
    }
    return lk_config_equal(&at, b);
}

static enum lk_status count(const struct lk_csv *csv, size_t row, size_t col, int fallback,
                            int *out)
{
    int64_t v;

    *out = fallback;
    if (!lk_csv_has(csv, row, col) && !columns[col].required)
        return LK_OK;
    LK_PASS(lk_csv_int(csv, row, col, 1, COUNT_MAX, &v));
    *out = (int)v;
    return LK_OK;
}

static enum lk_status read_row(const struct lk_csv *csv, size_t row, struct lk_scaling_point *p)
{
    double cap;

    *p = (struct lk_scaling_point){0};
    LK_PASS(count(csv, row, GPUS, 0, &p->config.world_size));
    LK_PASS(count(csv, row, NODES, 0, &p->config.nodes));
    LK_PASS(count(csv, row, LOCAL_BATCH, 0, &p->config.local_batch));
    LK_PASS(count(csv, row, ACCUMULATION, 1, &p->config.accumulation));
    LK_PASS(lk_csv_positive(csv, row, THROUGHPUT, &p->throughput));
    if (lk_csv_has(csv, row, BUCKET_CAP)) {
        LK_PASS(lk_csv_quantity(csv, row, BUCKET_CAP, LK_DIM_BYTES, 1, 1e12, &cap));
        p->config.cap_bytes = (uint64_t)cap;
    }
    if (p->config.nodes && p->config.world_size % p->config.nodes != 0)
        return lk_csv_error(csv, row, NODES, "%d GPUs do not divide among %d nodes",
                            p->config.world_size, p->config.nodes);
    return LK_OK;
}

/* A row of the file. */
struct row {
    struct lk_scaling_point p;
    size_t line;
};

static int by_batch_and_gpus(const void *a, const void *b)
{
    const struct lk_config *x = &((const struct row *)a)->p.config;
    const struct lk_config *y = &((const struct row *)b)->p.config;
    double d = x->local_batch - y->local_batch;

    d = d != 0 ? d : x->accumulation - y->accumulation;
    d = d != 0 ? d : (double)x->cap_bytes - (double)y->cap_bytes;
    d = d != 0 ? d : x->world_size - y->world_size;
    d = d != 0 ? d : x->nodes - y->nodes;
    return (d > 0) - (d < 0);
}

/* ---- Contradictions ---- */

/* Of 913 pairs of neighbouring counts in the published series of bench/data, a GPU's throughput
 * grows by more than the first in 2, and the throughput of all by less than the second in 4. Over
 * counts in between it grows by more than the third in one series, but for those with such a pair.
 */
static const double GROWTH_DOUBTED = 1.25, GAIN_DOUBTED = 1.1, LONG_GROWTH_DOUBTED = 1.1;

static double of_a_gpu(const struct row *r)
{
    return r->p.throughput / r->p.config.world_size;
}

/* Doubts of one table that are told; the others are counted. */
enum { DOUBTS_TOLD = 5 };

/* Return true if there is room for one more doubt; count it. */
static bool may_tell(size_t *n_doubts)
{
    return (*n_doubts)++ < DOUBTS_TOLD;
}

/* Warns of a row of a batch. next: the one with the next smaller count; least: the one of the
 * smaller counts with the least throughput a GPU. */
static void check_growth(const char *name, const struct row *next, const struct row *least,
                         const struct row *b, size_t *n_doubts)
{
    const struct row *a =
        least == next || of_a_gpu(b) / of_a_gpu(next) > GROWTH_DOUBTED ? next : least;
    int from = a->p.config.world_size, to = b->p.config.world_size;
    double all = b->p.throughput / next->p.throughput, each = of_a_gpu(b) / of_a_gpu(a);

    if (each > (a == next ? GROWTH_DOUBTED : LONG_GROWTH_DOUBTED)) {
        if (!may_tell(n_doubts))
            return;
        lk_log(LK_LOG_SIM, LK_WARN,
               "%s:%zu: a GPU of %d brings %.3g times what one of %d brings (line %zu): is one of "
               "the two throughputs wrong, or of another job?",
               name, b->line, to, each, from, a->line);
    } else if (all < GAIN_DOUBTED && may_tell(n_doubts)) {
        lk_log(LK_LOG_SIM, LK_WARN,
               "%s:%zu: %d GPUs bring %.3g times the throughput of %d (line %zu): is it samples a "
               "second of all GPUs, and not a GPU's, or the time of a step?",
               name, b->line, to, all, next->p.config.world_size, next->line);
    }
}

/* Make one point of each configuration, the median of its rows, and warn of rows that contradict
 * each other. */
static enum lk_status merge(struct lk_throughput_table *t, struct row *rows, size_t n)
{
    enum lk_status st = LK_OK;
    const struct row *last = NULL, *least = NULL;
    double *repeats = NULL;
    size_t n_doubts = 0;

    LK_TRY(lk_alloc(&repeats, n, sizeof *repeats));
    qsort(rows, n, sizeof *rows, by_batch_and_gpus);
    for (size_t i = 0, k; i < n; i += k) {
        struct row *first = &rows[i];
        size_t lo = i, hi = i;

        for (k = 0; i + k < n && !by_batch_and_gpus(&rows[i + k], first); k++) {
            repeats[k] = rows[i + k].p.throughput;
            lo = repeats[k] < rows[lo].p.throughput ? i + k : lo;
            hi = repeats[k] > rows[hi].p.throughput ? i + k : hi;
        }
        if (rows[hi].p.throughput > LK_REPEATS_DOUBTED * rows[lo].p.throughput &&
            may_tell(&n_doubts))
            lk_log(
                LK_LOG_SIM, LK_WARN,
                "%s:%zu: the same configuration of %d GPUs has %.3g times the throughput of line "
                "%zu; the median of its %zu rows counts",
                t->name, rows[hi].line, first->p.config.world_size,
                rows[hi].p.throughput / rows[lo].p.throughput, rows[lo].line, k);
        first->p.least = rows[lo].p.throughput;
        first->p.most = rows[hi].p.throughput;
        first->p.throughput = lk_stats_median(repeats, k);
        if (last && !lk_throughput_same_batch(&last->p.config, &first->p.config))
            last = least = NULL;
        if (last && last->p.config.world_size < first->p.config.world_size)
            check_growth(t->name, last, least, first, &n_doubts);
        if (!least || of_a_gpu(first) < of_a_gpu(least))
            least = first;
        last = first;
        t->points[t->n++] = first->p;
    }
    if (n_doubts > DOUBTS_TOLD)
        lk_log(LK_LOG_SIM, LK_WARN, "%s: %zu more rows contradict others in such ways", t->name,
               n_doubts - DOUBTS_TOLD);
out:
    free(repeats);
    return st;
}

/* ---- The file ---- */

/* Read where the rows were measured, all on one cluster. */
static enum lk_status read_place(const struct lk_csv *csv, struct lk_throughput_table *t)
{
    for (size_t i = 0; i < lk_csv_rows(csv); i++) {
        const char *word = NULL;

        if (lk_csv_has(csv, i, MEASURED_ON))
            LK_PASS(lk_csv_text(csv, i, MEASURED_ON, &word));
        if (i == 0 && word)
            LK_PASS(lk_strdup(&t->measured_on, word));
        if (i > 0 && (!word != !t->measured_on || (word && strcmp(word, t->measured_on) != 0)))
            return lk_csv_error(csv, i, MEASURED_ON,
                                "the first row says '%s': a table has rows of one cluster",
                                t->measured_on ? t->measured_on : "");
    }
    return LK_OK;
}

static enum lk_status read_rows(const struct lk_csv *csv, struct lk_throughput_table *t)
{
    enum lk_status st = LK_OK;
    size_t n = lk_csv_rows(csv);
    struct row *rows = NULL;

    if (!n)
        LK_TRY(lk_fail(LK_EPARSE, "%s: no rows", t->name));
    LK_TRY(lk_alloc(&rows, n, sizeof *rows));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(read_row(csv, i, &rows[i].p));
        rows[i].line = lk_csv_line(csv, i);
    }
    LK_TRY(lk_array_grow(&t->points, &t->capacity, n, sizeof *t->points));
    LK_TRY(merge(t, rows, n));
out:
    free(rows);
    return st;
}

enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct lk_throughput_table t = {0};

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &csv));
    LK_TRY(lk_strdup(&t.name, path));
    LK_TRY(read_place(csv, &t));
    LK_TRY(read_rows(csv, &t));
    if (t.n > LK_SCALING_POINTS_MAX) {
        st = lk_fail(LK_EPARSE, "%s: %zu configurations; at most %d", path, t.n,
                     LK_SCALING_POINTS_MAX);
        goto out;
    }
    for (size_t i = 1; i < t.n; i++)
        if ((t.points[i].config.local_batch > 0) != (t.points[0].config.local_batch > 0)) {
            st = lk_fail(LK_EPARSE, "%s: some rows have a local batch, others none", path);
            goto out;
        }
    *out = t;
    memset(&t, 0, sizeof t);
out:
    lk_throughput_fini(&t);
    lk_csv_free(csv);
    return st;
}

/* ---- Runs ---- */

static int by_point(const void *a, const void *b)
{
    const struct row x = {.p = *(const struct lk_scaling_point *)a},
                     y = {.p = *(const struct lk_scaling_point *)b};

    return by_batch_and_gpus(&x, &y);
}

static bool has_two_counts(const struct lk_throughput_table *t)
{
    for (size_t i = 1; i < t->n; i++)
        if (lk_throughput_same_batch(&t->points[i - 1].config, &t->points[i].config))
            return true;
    return false;
}

enum lk_status lk_throughput_of_runs(const struct lk_job *job, const struct lk_cluster *cluster,
                                     struct lk_throughput_table *out)
{
    enum lk_status st = LK_OK;
    const struct lk_runs runs = {.job = job, .cluster = cluster};
    const struct lk_config plain = lk_config_current(job);
    struct lk_throughput_table t = {0};

    LK_TRY(lk_strdup(&t.name, job->name));
    for (size_t i = 0; i < job->n_runs && t.n < LK_SCALING_POINTS_MAX; i++) {
        const struct lk_config *c = &job->runs[i].config;
        size_t n;

        if (!lk_runs_is_first(&runs, i) || !lk_config_same_scheme(c, &plain))
            continue;
        LK_TRY(lk_array_grow(&t.points, &t.capacity, t.n + 1, sizeof *t.points));
        t.points[t.n++] = (struct lk_scaling_point){
            .config = *c, .throughput = lk_config_samples(c) / lk_runs_mean(&runs, c, &n)};
    }
    if (t.n)
        qsort(t.points, t.n, sizeof *t.points, by_point);
    t.n = has_two_counts(&t) ? t.n : 0;
    *out = t;
    t = (struct lk_throughput_table){0};
out:
    lk_throughput_fini(&t);
    return st;
}

/* ---- What a table lacks ---- */

const struct lk_cluster *lk_throughput_measured_on(const struct lk_throughput_model *m)
{
    return m->measured_on ? m->measured_on : m->cluster;
}

/* Return the seconds that a job computes in a step of this configuration, by its row of the batch;
 * NaN: it has none. */
static double compute_s(const struct lk_job *j, const struct lk_config *c)
{
    for (size_t i = 0; i < j->n_compute; i++) {
        const struct lk_job_compute *row = &j->compute[i];

        if (row->local_batch == c->local_batch)
            return c->accumulation * (row->forward_s.value + row->backward_s.value) +
                   row->optimizer_s.value;
    }
    return NAN;
}

enum lk_status lk_throughput_say_compute(const struct lk_throughput_table *t,
                                         const struct lk_throughput_model *m,
                                         struct lk_forecast *out)
{
    static const double NOISE = 1.05; /* of times that agree */
    const struct lk_scaling_point *worst = NULL;
    char own[32], whole[32];
    double most = NOISE;

    for (size_t i = 0; m && i < t->n; i++) {
        const struct lk_config *c = &t->points[i].config;
        double ratio = compute_s(m->job, c) / (lk_config_samples(c) / t->points[i].throughput);

        if (ratio > most) {
            most = ratio;
            worst = &t->points[i];
        }
    }
    if (!worst)
        return LK_OK;
    (void)lk_units_format(LK_DIM_TIME, compute_s(m->job, &worst->config), own, sizeof own);
    (void)lk_units_format(LK_DIM_TIME, lk_config_samples(&worst->config) / worst->throughput, whole,
                          sizeof whole);
    return lk_forecast_say(out,
                           "%s computes %s a step, but %s has %s for the whole step on %d GPU%s: "
                           "of the job's times only the shares are used.",
                           m->job->name, own, t->name, whole, worst->config.world_size,
                           worst->config.world_size == 1 ? "" : "s");
}

enum lk_status lk_throughput_say_place(const struct lk_throughput_model *m, struct lk_forecast *out)
{
    const char *name = m ? m->cluster->name : NULL;

    if (!m)
        return LK_OK;
    if (m->measured_on)
        return lk_forecast_say(out, "The rows were measured on %s, and the forecast is for %s.",
                               m->measured_on->name, name);
    return m->is_said
               ? lk_forecast_say(out, "The rows were measured on %s, as was said.", name)
               : lk_forecast_say(
                     out, "The rows are taken as measured on %s (--measured-on says where).", name);
}

static bool is_elsewhere(const struct lk_throughput_request *q)
{
    return q->model && q->model->measured_on;
}

/* Return the GPUs of a full node of the rows' machine. */
static int per_node(const struct lk_throughput_table *t, const struct lk_throughput_request *q,
                    bool *out_assumed)
{
    int fullest = 0, most_nodes = 0, least;

    *out_assumed = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct lk_config *c = &t->points[i].config;

        most_nodes = c->nodes > most_nodes ? c->nodes : most_nodes;
        if (c->nodes && c->world_size / c->nodes > fullest)
            fullest = c->world_size / c->nodes;
    }
    if (q->gpus_per_node > 0 && !is_elsewhere(q))
        return q->gpus_per_node;
    if (most_nodes > 1)
        return fullest;
    *out_assumed = !q->model;
    least = q->model ? lk_throughput_measured_on(q->model)->gpus_per_node : USUAL_PER_NODE;
    return fullest > least ? fullest : least;
}

/* Place the rows that do not say their nodes on full ones. */
static enum lk_status place(struct lk_throughput_table *t, int gpus_per_node)
{
    for (size_t i = 0; i < t->n; i++) {
        struct lk_config *c = &t->points[i].config;

        if (c->nodes)
            continue;
        c->nodes = (c->world_size - 1) / gpus_per_node + 1;
        if (c->world_size % c->nodes)
            return lk_fail(LK_EUSAGE,
                           "%s: %d GPUs do not divide among %d nodes of %d: how many has a node "
                           "(--gpus-per-node, or a column nodes)?",
                           t->name, c->world_size, c->nodes, gpus_per_node);
    }
    return LK_OK;
}

enum lk_status lk_throughput_complete(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *q,
                                      struct lk_cluster *out_machine, bool *out_assumed)
{
    int gpus_per_node = per_node(t, q, out_assumed);

    *out_machine = q->model ? *q->model->cluster : (struct lk_cluster){0};
    if (!is_elsewhere(q))
        out_machine->gpus_per_node = gpus_per_node;
    else if (q->gpus_per_node > 0)
        out_machine->gpus_per_node = q->gpus_per_node;
    out_machine->nodes = 0;
    LK_PASS(place(t, gpus_per_node));
    for (size_t i = 0; i < t->n; i++) {
        struct lk_config *c = &t->points[i].config;

        if (!c->local_batch && q->grid.axes[LK_AXIS_LOCAL_BATCH].n)
            c->local_batch = (int)q->grid.axes[LK_AXIS_LOCAL_BATCH].v[0].count;
        if (!q->model)
            continue;
        if (!c->local_batch)
            return lk_fail(LK_EEVIDENCE,
                           "%s: no column local_batch, so the length of a step is not known; "
                           "--local-batch says that of all rows",
                           t->name);
        lk_config_set_cap(c, q->model->job, c->cap_bytes ? c->cap_bytes : q->model->job->cap_bytes);
        c->reduce = q->model->job->reduce;
    }
    return LK_OK;
}
