/* Read tables of throughputs, and fill what they lack. */
#include "sim/throughput/throughput.h"

#include "base/array.h"
#include "base/csv.h"
#include "sim/step/config.h"
#include "sim/throughput/scaling.h"

#include <stdlib.h>
#include <string.h>

enum {
    COUNT_MAX = 1 << 24,
    USUAL_PER_NODE = 8, /* GPUs of DGX and HGX systems, the usual server */
};

enum { GPUS, NODES, THROUGHPUT, LOCAL_BATCH, ACCUMULATION, BUCKET_CAP, N_COLUMNS };

static const struct lk_csv_column columns[N_COLUMNS] = {
    [GPUS] = {"gpus|n_gpus|ranks|world_size", true},
    [NODES] = {"nodes|n_nodes", false},
    [THROUGHPUT] = {"throughput|throughput_per_s|samples_per_s", true},
    [LOCAL_BATCH] = {"local_batch|batch_per_gpu", false},
    [ACCUMULATION] = {"accumulation|grad_accum", false},
    [BUCKET_CAP] = {"bucket_cap|bucket_cap_bytes", false},
};

void lk_throughput_fini(struct lk_throughput_table *t)
{
    free(t->name);
    free(t->points);
    memset(t, 0, sizeof *t);
}

bool lk_throughput_same_batch(const struct lk_config *a, const struct lk_config *b)
{
    struct lk_config at = *a;

    at.world_size = b->world_size;
    at.nodes = b->nodes;
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
    enum lk_status st = LK_OK;
    double cap;

    *p = (struct lk_scaling_point){0};
    LK_TRY(count(csv, row, GPUS, 0, &p->config.world_size));
    LK_TRY(count(csv, row, NODES, 1, &p->config.nodes));
    LK_TRY(count(csv, row, LOCAL_BATCH, 0, &p->config.local_batch));
    LK_TRY(count(csv, row, ACCUMULATION, 1, &p->config.accumulation));
    LK_TRY(lk_csv_positive(csv, row, THROUGHPUT, &p->throughput));
    if (lk_csv_has(csv, row, BUCKET_CAP)) {
        LK_TRY(lk_csv_quantity(csv, row, BUCKET_CAP, LK_DIM_BYTES, 1, 1e12, &cap));
        p->config.cap_bytes = (uint64_t)cap;
    }
    if (p->config.nodes > p->config.world_size || p->config.world_size % p->config.nodes != 0)
        st = lk_csv_error(csv, row, NODES, "%d GPUs do not divide among %d nodes",
                          p->config.world_size, p->config.nodes);
out:
    return st;
}

static int by_batch_and_gpus(const void *a, const void *b)
{
    const struct lk_scaling_point *x = a, *y = b;
    double d = x->config.local_batch - y->config.local_batch;

    d = d != 0 ? d : x->config.accumulation - y->config.accumulation;
    d = d != 0 ? d : (double)x->config.cap_bytes - (double)y->config.cap_bytes;
    d = d != 0 ? d : x->config.world_size - y->config.world_size;
    d = d != 0 ? d : x->config.nodes - y->config.nodes;
    return (d > 0) - (d < 0);
}

/* Replace repeats by one point with their mean. */
static void merge(struct lk_throughput_table *t)
{
    size_t kept = 0;

    qsort(t->points, t->n, sizeof *t->points, by_batch_and_gpus);
    for (size_t i = 0; i < t->n;) {
        struct lk_scaling_point p = t->points[i];
        size_t n = 0;

        p.throughput = 0;
        for (; i + n < t->n && !by_batch_and_gpus(&t->points[i + n], &p); n++)
            p.throughput += t->points[i + n].throughput;
        p.throughput /= (double)n;
        i += n;
        t->points[kept++] = p;
    }
    t->n = kept;
}

enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct lk_throughput_table t = {0};

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &csv));
    LK_TRY(lk_strdup(&t.name, path));
    t.has_nodes = lk_csv_has_column(csv, NODES);
    LK_TRY(lk_array_grow(&t.points, &t.capacity, lk_csv_rows(csv) + 1, sizeof *t.points));
    for (; t.n < lk_csv_rows(csv); t.n++)
        LK_TRY(read_row(csv, t.n, &t.points[t.n]));
    if (!t.n) {
        st = lk_fail(LK_EPARSE, "%s: no rows", path);
        goto out;
    }
    merge(&t);
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

/* Return the GPUs of a full node. */
static int per_node(const struct lk_throughput_table *t, const struct lk_throughput_request *q,
                    bool *out_assumed)
{
    int fullest = 0, most_nodes = 0, least;

    *out_assumed = false;
    for (size_t i = 0; i < t->n; i++) {
        const struct lk_config *c = &t->points[i].config;

        most_nodes = c->nodes > most_nodes ? c->nodes : most_nodes;
        fullest = c->world_size / c->nodes > fullest ? c->world_size / c->nodes : fullest;
    }
    if (q->gpus_per_node > 0)
        return q->gpus_per_node;
    if (most_nodes > 1)
        return fullest;
    *out_assumed = !q->model;
    least = q->model ? q->model->cluster->gpus_per_node : USUAL_PER_NODE;
    return (t->has_nodes || !q->model) && fullest > least ? fullest : least;
}

enum lk_status lk_throughput_complete(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *q,
                                      struct lk_cluster *out_machine, bool *out_assumed)
{
    int gpus_per_node = per_node(t, q, out_assumed);

    *out_machine = q->model ? *q->model->cluster : (struct lk_cluster){0};
    out_machine->gpus_per_node = gpus_per_node;
    out_machine->nodes = 0;
    for (size_t i = 0; i < t->n && q->model; i++) {
        struct lk_config *c = &t->points[i].config;

        if (!t->has_nodes)
            c->nodes = (c->world_size - 1) / gpus_per_node + 1;
        if (c->world_size % c->nodes)
            return lk_fail(LK_EUSAGE, "%s: %d GPUs do not divide among %d nodes of %d", t->name,
                           c->world_size, c->nodes, gpus_per_node);
        if (!c->local_batch && q->grid.n_local_batches)
            c->local_batch = (int)q->grid.local_batches[0];
        if (!c->local_batch)
            return lk_fail(LK_EEVIDENCE,
                           "%s: no column local_batch, so the length of a step is not known; "
                           "--local-batch says that of all rows",
                           t->name);
        lk_config_set_cap(c, q->model->job, c->cap_bytes ? c->cap_bytes : q->model->job->cap_bytes);
        c->no_sync = q->model->job->no_sync;
    }
    return LK_OK;
}
