/* job.json, in and out. */
#include "base/job.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/job_rows.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

/* A bucket limit; all 64 bits, because "no limit" is the largest. */
static enum lk_status read_bytes(struct lk_json *obj, const char *key, uint64_t *out)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_uint(obj, key, UINT64_MAX, out));
    if (*out == 0)
        st = lk_json_error(lk_json_optional(obj, key), "must be above 0");
out:
    return st;
}

static enum lk_status read_tensor(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_job_tensor *t = item;
    const char *text;
    int64_t elems;

    LK_TRY(lk_json_text_copy(v, "name", &t->name));
    LK_TRY(lk_json_int(v, "elements", 1, (int64_t)LK_TENSOR_ELEMS_MAX, &elems));
    t->elems = (uint64_t)elems;
    LK_TRY(lk_json_text(v, "dtype", &text));
    LK_TRY(lk_json_blame(v, "dtype", lk_dtype_from_name(text, &t->dtype)));
    t->ready = NAN;
    if (lk_json_optional(v, "ready")) {
        LK_TRY(lk_json_number(v, "ready", &t->ready));
        if (t->ready < 0 || t->ready > 1)
            LK_TRY(lk_json_error(lk_json_optional(v, "ready"), "must be from 0 to 1"));
    }
    if (lk_json_optional(v, "rows")) {
        LK_TRY(lk_json_uint(v, "rows", LK_TENSOR_ELEMS_MAX, &t->rows));
        if (!t->rows || t->elems % t->rows)
            LK_TRY(lk_json_error(lk_json_optional(v, "rows"), "must divide the %llu elements",
                                 (unsigned long long)t->elems));
    }
    LK_TRY(lk_json_end(v));
out:
    return st;
}

struct ready {
    double at;
    size_t tensor;
};

static int compare_ready(const void *x, const void *y)
{
    const struct ready *a = x;
    const struct ready *b = y;

    if (a->at != b->at && !isnan(a->at) && !isnan(b->at))
        return a->at < b->at ? -1 : 1;
    return (a->tensor < b->tensor) - (a->tensor > b->tensor);
}

/*
 * Without an order: by ready time, the tensor registered last first where they are equal. Either
 * all tensors have a time or none has: check_ready.
 */
static enum lk_status default_ready_order(struct lk_job *j)
{
    enum lk_status st = LK_OK;
    struct ready *order = NULL;

    LK_TRY(lk_alloc(&order, j->n_tensors, sizeof *order));
    for (size_t i = 0; i < j->n_tensors; i++)
        order[i] = (struct ready){j->tensors[i].ready, i};
    qsort(order, j->n_tensors, sizeof *order, compare_ready);
    for (size_t i = 0; i < j->n_tensors; i++)
        j->ready_order[i] = order[i].tensor;
out:
    free(order);
    return st;
}

/* All have a ready time or none has. */
static enum lk_status check_ready(struct lk_json *root, const struct lk_job *j)
{
    size_t given = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        given += isnan(j->tensors[i].ready) ? 0 : 1;
    for (size_t i = 0; i < j->n_tensors && given && given < j->n_tensors; i++)
        if (isnan(j->tensors[i].ready))
            return lk_json_error(lk_json_item(lk_json_optional(root, "gradients"), i),
                                 "ready: is missing, others have it");
    return LK_OK;
}

/* Without times: evenly over backward, in the order. */
static void default_ready(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors && isnan(j->tensors[j->ready_order[i]].ready); i++)
        j->tensors[j->ready_order[i]].ready = (double)(i + 1) / (double)j->n_tensors;
}

/* Every tensor once. */
static enum lk_status read_ready_order(struct lk_json *root, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    struct lk_json *list;
    bool *seen = NULL;
    int64_t v;

    LK_TRY(lk_alloc(&j->ready_order, j->n_tensors, sizeof *j->ready_order));
    if (!lk_json_optional(root, "ready_order"))
        return default_ready_order(j);
    LK_TRY(lk_json_array(root, "ready_order", &list));
    if (lk_json_count(list) != j->n_tensors)
        LK_TRY(lk_json_error(list, "has %zu entries for %zu gradients", lk_json_count(list),
                             j->n_tensors));
    LK_TRY(lk_alloc(&seen, j->n_tensors, sizeof *seen));
    for (size_t i = 0; i < j->n_tensors; i++) {
        LK_TRY(lk_json_as_int(lk_json_item(list, i), 0, (int64_t)j->n_tensors - 1, &v));
        if (seen[v])
            LK_TRY(
                lk_json_error(lk_json_item(list, i), "gradient %lld is there twice", (long long)v));
        seen[v] = true;
        j->ready_order[i] = (size_t)v;
    }
out:
    free(seen);
    return st;
}

static enum lk_status read_compute(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_job_compute *c = item;

    LK_TRY(lk_json_int32(v, "local_batch", 1, LK_BATCH_MAX, &c->local_batch));
    LK_TRY(lk_quantity_rows_read(v, lk_job_compute_rows, c));
    if (c->forward_s.value + c->backward_s.value <= 0)
        LK_TRY(lk_json_error(v, "forward and backward: one must be above 0"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_time(struct lk_json *v, void *item)
{
    double *time_s = item;
    enum lk_status st = lk_json_as_number(v, time_s);

    return st != LK_OK || *time_s > 0 ? st : lk_json_error(v, "must be above 0");
}

static enum lk_status read_run(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_job_run *r = item;
    size_t ranks = 0;

    LK_TRY(lk_json_text_copy(v, "source", &r->source));
    LK_TRY(lk_json_int32(v, "gpus", 1, LK_RANKS_MAX, &r->gpus));
    LK_TRY(lk_json_int32(v, "nodes", 1, r->gpus, &r->nodes));
    LK_TRY(lk_json_int32(v, "local_batch", 1, LK_BATCH_MAX, &r->local_batch));
    LK_TRY(lk_json_int32(v, "accumulation", 1, LK_ACCUMULATION_MAX, &r->accumulation));
    LK_TRY(lk_json_bool(v, "no_sync", &r->no_sync));
    LK_TRY(read_bytes(v, "first_bucket_bytes", &r->first_bytes));
    LK_TRY(read_bytes(v, "bucket_cap_bytes", &r->cap_bytes));
    LK_TRY(lk_json_items(v, "step_s", LK_JSON_FILLED, read_time, &r->step_s, sizeof *r->step_s,
                         &r->n_steps));
    LK_TRY(lk_json_items(v, "rank_compute_s", LK_JSON_OPTIONAL, read_time, &r->rank_compute_s,
                         sizeof *r->rank_compute_s, &ranks));
    if (r->rank_compute_s && ranks != (size_t)r->gpus)
        LK_TRY(lk_json_error(lk_json_optional(v, "rank_compute_s"), "has %zu entries for %d GPUs",
                             ranks, r->gpus));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_sync_bn(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_job_sync_bn *b = item;

    LK_TRY(lk_json_int32(v, "channels", 1, LK_CHANNELS_MAX, &b->channels));
    LK_TRY(lk_json_number(v, "at", &b->at));
    if (b->at < 0 || b->at > 1)
        LK_TRY(lk_json_error(lk_json_optional(v, "at"), "must be from 0 to 1"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_layer(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_job_layer *l = item;

    LK_TRY(lk_json_text_copy(v, "name", &l->name));
    LK_TRY(lk_quantity_rows_read(v, lk_job_layer_rows, l));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

/* X(member): whole numbers from 1 that a shape needs. */
#define SHAPE_INTS(X) X(layers) X(hidden) X(heads) X(sequence)

static enum lk_status read_transformer(struct lk_json *root, struct lk_job_transformer *t)
{
    enum lk_status st = LK_OK;
    struct lk_json *v;
    int recompute = LK_JOB_RECOMPUTE_NONE;

    if (!lk_json_optional(root, "transformer"))
        return LK_OK;
    LK_TRY(lk_json_object(root, "transformer", &v));
#define READ_INT(member) LK_TRY(lk_json_int32(v, #member, 1, LK_SHAPE_MAX, &t->member));
    SHAPE_INTS(READ_INT)
#undef READ_INT
    if (t->hidden % t->heads)
        LK_TRY(lk_json_error(lk_json_optional(v, "heads"), "%d heads do not divide %d", t->heads,
                             t->hidden));
    LK_TRY(lk_json_int32_optional(v, "vocabulary", 0, LK_SHAPE_MAX, &t->vocabulary));
    t->activation_bytes = 2;
    LK_TRY(lk_json_int32_optional(v, "activation_bytes", 1, 8, &t->activation_bytes));
    LK_TRY(lk_json_choice_optional(v, "recompute", lk_job_recompute_names, LK_JOB_RECOMPUTE_COUNT,
                                   &recompute));
    t->recompute = (enum lk_job_recompute)recompute;
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static int compare_runs(const void *x, const void *y)
{
    const struct lk_job_run *a = x;
    const struct lk_job_run *b = y;

    if (a->gpus != b->gpus)
        return a->gpus < b->gpus ? -1 : 1;
    if (a->local_batch != b->local_batch)
        return a->local_batch < b->local_batch ? -1 : 1;
    if (a->accumulation != b->accumulation)
        return a->accumulation < b->accumulation ? -1 : 1;
    return strcmp(a->source, b->source);
}

/* Rows in rising order, each batch once; gradients whose bytes a 64-bit number holds. */
static enum lk_status check_lists(struct lk_json *root, const struct lk_job *j)
{
    uint64_t bytes = 0;

    for (size_t i = 1; i < j->n_compute; i++)
        if (j->compute[i - 1].local_batch >= j->compute[i].local_batch)
            return lk_json_error(lk_json_item(lk_json_optional(root, "compute"), i),
                                 "local_batch: rows must be in rising order, each batch once");
    for (size_t i = 0; i < j->n_tensors; i++) {
        bytes += j->tensors[i].elems * lk_dtype_bytes(j->tensors[i].dtype);
        if (bytes > INT64_MAX)
            return lk_json_error(lk_json_item(lk_json_optional(root, "gradients"), i),
                                 "the gradients exceed 2^63 bytes");
    }
    return LK_OK;
}

static enum lk_status read_lists(struct lk_json *root, struct lk_job *j)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_items(root, "gradients", LK_JSON_FILLED, read_tensor, &j->tensors,
                         sizeof *j->tensors, &j->n_tensors));
    LK_TRY(lk_json_items(root, "compute", LK_JSON_FILLED, read_compute, &j->compute,
                         sizeof *j->compute, &j->n_compute));
    LK_TRY(lk_json_items(root, "sync_batch_norm", LK_JSON_OPTIONAL, read_sync_bn, &j->sync_bn,
                         sizeof *j->sync_bn, &j->n_sync_bn));
    LK_TRY(lk_json_items(root, "layers", LK_JSON_OPTIONAL, read_layer, &j->layers,
                         sizeof *j->layers, &j->n_layers));
    LK_TRY(lk_json_items(root, "runs", LK_JSON_OPTIONAL, read_run, &j->runs, sizeof *j->runs,
                         &j->n_runs));
    LK_TRY(check_lists(root, j));
    LK_TRY(check_ready(root, j));
    LK_TRY(read_ready_order(root, j));
    default_ready(j);
    if (j->n_runs)
        qsort(j->runs, j->n_runs, sizeof *j->runs, compare_runs);
out:
    return st;
}

/* Members with defaults. */
static enum lk_status read_settings(struct lk_json *root, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    const char *text;
    int optimizer = LK_JOB_OPTIMIZER_UNKNOWN;
    bool set;

    j->ddp_rule = LK_DDP_TORCH_2;
    if (lk_json_optional(root, "ddp_rule")) {
        LK_TRY(lk_json_text(root, "ddp_rule", &text));
        LK_TRY(lk_json_blame(root, "ddp_rule", lk_ddp_rule_from_name(text, &j->ddp_rule)));
    }
    j->cap_bytes = LK_BUCKET_CAP_BYTES;
    set = lk_json_optional(root, "bucket_cap_bytes");
    if (set)
        LK_TRY(read_bytes(root, "bucket_cap_bytes", &j->cap_bytes));
    j->first_bytes = lk_ddp_rule_first_bytes(j->ddp_rule, j->cap_bytes, set);
    if (lk_json_optional(root, "first_bucket_bytes"))
        LK_TRY(read_bytes(root, "first_bucket_bytes", &j->first_bytes));
    j->accumulation = 1;
    LK_TRY(lk_json_int32_optional(root, "accumulation", 1, LK_ACCUMULATION_MAX, &j->accumulation));
    j->no_sync = true;
    LK_TRY(lk_json_bool_optional(root, "no_sync", &j->no_sync));
    LK_TRY(lk_json_int32_optional(root, "prefetch_depth", 0, LK_BATCH_MAX, &j->prefetch_depth));
    LK_TRY(lk_json_bool_optional(root, "find_unused_parameters", &j->find_unused_parameters));
    LK_TRY(lk_json_choice_optional(root, "optimizer", lk_job_optimizer_names,
                                   LK_JOB_OPTIMIZER_COUNT, &optimizer));
    j->optimizer = (enum lk_job_optimizer)optimizer;
    LK_TRY(lk_json_bool_optional(root, "master_weights", &j->master_weights));
    LK_TRY(lk_json_bool_optional(root, "gradient_as_bucket_view", &j->gradient_as_bucket_view));
    if (lk_json_optional(root, "learning_rate_batch"))
        LK_TRY(lk_json_int(root, "learning_rate_batch", 1, INT64_MAX, &j->learning_rate_batch));
    LK_TRY(read_transformer(root, &j->transformer));
out:
    return st;
}

static enum lk_status read_root(struct lk_json *root, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_job *j = ctx;

    LK_TRY(lk_json_schema(root, LK_JOB_SCHEMA, LK_JOB_VERSION));
    LK_TRY(lk_json_text_copy(root, "name", &j->name));
    if (lk_json_optional(root, "sample_unit"))
        LK_TRY(lk_json_text_copy(root, "sample_unit", &j->sample_unit));
    else
        LK_TRY(lk_strdup(&j->sample_unit, "sample"));
    LK_TRY(read_settings(root, j));
    LK_TRY(read_lists(root, j));
    LK_TRY(lk_quantity_rows_read(root, lk_job_root_rows, j));
    LK_TRY(lk_json_end(root));
out:
    return st;
}

enum lk_status lk_job_read(const char *path, struct lk_job *out)
{
    struct lk_job j;
    enum lk_status st;

    lk_job_init(&j);
    st = lk_json_read(path, read_root, &j);
    if (st == LK_OK)
        *out = j;
    else
        lk_job_fini(&j);
    return st;
}

/* ---- Writing ---- */

static void write_times(struct lk_json_out *o, const char *key, const double *v, size_t n)
{
    lk_json_out_compact(o);
    lk_json_out_array(o, key);
    for (size_t i = 0; i < n; i++)
        lk_json_out_number(o, NULL, v[i]);
    lk_json_out_close(o);
}

static void write_run(struct lk_json_out *o, const struct lk_job_run *r)
{
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "source", r->source);
    lk_json_out_int(o, "gpus", r->gpus);
    lk_json_out_int(o, "nodes", r->nodes);
    lk_json_out_int(o, "local_batch", r->local_batch);
    lk_json_out_int(o, "accumulation", r->accumulation);
    lk_json_out_bool(o, "no_sync", r->no_sync);
    lk_json_out_uint(o, "first_bucket_bytes", r->first_bytes);
    lk_json_out_uint(o, "bucket_cap_bytes", r->cap_bytes);
    write_times(o, "step_s", r->step_s, r->n_steps);
    if (r->rank_compute_s)
        write_times(o, "rank_compute_s", r->rank_compute_s, (size_t)r->gpus);
    lk_json_out_close(o);
}

static void write_gradients(struct lk_json_out *o, const struct lk_job *j)
{
    lk_json_out_array(o, "gradients");
    for (size_t i = 0; i < j->n_tensors; i++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", j->tensors[i].name);
        lk_json_out_int(o, "elements", (int64_t)j->tensors[i].elems);
        lk_json_out_text(o, "dtype", lk_dtype_name(j->tensors[i].dtype));
        lk_json_out_number(o, "ready", j->tensors[i].ready);
        if (j->tensors[i].rows)
            lk_json_out_uint(o, "rows", j->tensors[i].rows);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_compact(o);
    lk_json_out_array(o, "ready_order");
    for (size_t i = 0; i < j->n_tensors; i++)
        lk_json_out_int(o, NULL, (int64_t)j->ready_order[i]);
    lk_json_out_close(o);
}

static void write_layers(struct lk_json_out *o, const struct lk_job *j)
{
    lk_json_out_array(o, "sync_batch_norm");
    for (size_t i = 0; i < j->n_sync_bn; i++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_int(o, "channels", j->sync_bn[i].channels);
        lk_json_out_number(o, "at", j->sync_bn[i].at);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_array(o, "layers");
    for (size_t i = 0; i < j->n_layers; i++) {
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", j->layers[i].name);
        lk_quantity_rows_write(o, lk_job_layer_rows, &j->layers[i]);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
}

static void write_transformer(struct lk_json_out *o, const struct lk_job_transformer *t)
{
    if (!t->layers)
        return;
    lk_json_out_compact(o);
    lk_json_out_object(o, "transformer");
#define WRITE_INT(member) lk_json_out_int(o, #member, t->member);
    SHAPE_INTS(WRITE_INT)
    WRITE_INT(vocabulary)
    WRITE_INT(activation_bytes)
#undef WRITE_INT
    lk_json_out_text(o, "recompute", lk_job_recompute_names[t->recompute]);
    lk_json_out_close(o);
}

static void write_root(struct lk_json_out *o, const void *ctx)
{
    const struct lk_job *j = ctx;

    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", LK_JOB_SCHEMA);
    lk_json_out_int(o, "version", LK_JOB_VERSION);
    lk_json_out_text(o, "name", j->name);
    lk_json_out_text(o, "sample_unit", j->sample_unit);
    lk_json_out_text(o, "ddp_rule", lk_ddp_rule_name(j->ddp_rule));
    lk_json_out_uint(o, "first_bucket_bytes", j->first_bytes);
    lk_json_out_uint(o, "bucket_cap_bytes", j->cap_bytes);
    lk_json_out_int(o, "accumulation", j->accumulation);
    lk_json_out_bool(o, "no_sync", j->no_sync);
    lk_json_out_int(o, "prefetch_depth", j->prefetch_depth);
    lk_json_out_bool(o, "find_unused_parameters", j->find_unused_parameters);
    lk_json_out_text(o, "optimizer", lk_job_optimizer_names[j->optimizer]);
    lk_json_out_bool(o, "master_weights", j->master_weights);
    lk_json_out_bool(o, "gradient_as_bucket_view", j->gradient_as_bucket_view);
    if (j->learning_rate_batch)
        lk_json_out_int(o, "learning_rate_batch", j->learning_rate_batch);
    write_transformer(o, &j->transformer);
    lk_quantity_rows_write(o, lk_job_root_rows, j);
    write_gradients(o, j);
    lk_json_out_array(o, "compute");
    for (size_t i = 0; i < j->n_compute; i++) {
        lk_json_out_object(o, NULL);
        lk_json_out_int(o, "local_batch", j->compute[i].local_batch);
        lk_quantity_rows_write(o, lk_job_compute_rows, &j->compute[i]);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    write_layers(o, j);
    lk_json_out_array(o, "runs");
    for (size_t i = 0; i < j->n_runs; i++)
        write_run(o, &j->runs[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

enum lk_status lk_job_write(const char *path, const struct lk_job *j)
{
    return lk_json_write(path, write_root, j);
}
