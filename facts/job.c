/*
 * Jobs in files and in memory. Divisions: gradients and their order, compute, layers and runs, the
 * file, sums and buckets. Each struct has its JSON members as rows (base/member.h), and a check of
 * what rows cannot say.
 */
#include "facts/job.h"

#include "base/array.h"
#include "facts/config_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lk_words lk_job_optimizer_words = LK_WORDS("an optimizer", LK_JOB_OPTIMIZER_LIST);
const struct lk_words lk_job_recompute_words =
    LK_WORDS("a kind of recomputation", LK_JOB_RECOMPUTE_LIST);

/* ---- Gradients ---- */

static enum lk_status check_tensor(struct lk_json *v, void *base)
{
    const struct lk_job_tensor *t = base;
    struct lk_json *rows = lk_json_optional(v, "rows");

    if (!rows || (t->rows && t->elems % t->rows == 0))
        return LK_OK;
    return lk_json_error(rows, "must divide the %llu elements", (unsigned long long)t->elems);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_tensor, field, key, __VA_ARGS__)
static const struct lk_member tensor_rows[] = {
    ROW(name, "name", TEXT, REQUIRED, .help = "name of the parameter"),
    ROW(elems, "elements", UINT, REQUIRED, .min = 1, .max = LK_TENSOR_ELEMS_MAX,
        .help = "elements of the gradient"),
    ROW(dtype, "dtype", WORD, REQUIRED, .words = &lk_dtype_words,
        .help = "type of an element on the wire"),
    ROW(ready, "ready", NUMBER, OPTIONAL, .range = LK_RANGE_SHARE,
        .help = "share of backward after which the gradient is there; all have it or none",
        .without = "evenly over backward, in `ready_order`"),
    ROW(rows, "rows", UINT, SPARSE, .max = LK_TENSOR_ELEMS_MAX,
        .help = "first dimension of the parameter's matrix, for PowerSGD", .without = "not known"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record tensor_record = {.size = sizeof(struct lk_job_tensor),
                                               .rows = tensor_rows,
                                               .one_line = true,
                                               .check = check_tensor};

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

enum lk_status lk_job_order_gradients(struct lk_job *j)
{
    enum lk_status st = LK_OK;
    struct ready *order = NULL;

    if (!j->ready_order) {
        LK_TRY(lk_alloc(&j->ready_order, j->n_tensors, sizeof *j->ready_order));
        LK_TRY(lk_alloc(&order, j->n_tensors, sizeof *order));
    }
    for (size_t i = 0; order && i < j->n_tensors; i++)
        order[i] = (struct ready){j->tensors[i].ready, i};
    if (order)
        qsort(order, j->n_tensors, sizeof *order, compare_ready);
    for (size_t i = 0; order && i < j->n_tensors; i++)
        j->ready_order[i] = order[i].tensor;
    for (size_t i = 0; i < j->n_tensors && isnan(j->tensors[j->ready_order[i]].ready); i++)
        j->tensors[j->ready_order[i]].ready = (double)(i + 1) / (double)j->n_tensors;
out:
    free(order);
    return st;
}

/* Refuse sums of bytes that 64 bits cannot hold, and ready times that only some gradients have. */
static enum lk_status check_gradients(struct lk_json *root, const struct lk_job *j)
{
    struct lk_json *list = lk_json_optional(root, "gradients");
    uint64_t bytes = 0;
    size_t given = 0;

    for (size_t i = 0; i < j->n_tensors; i++) {
        bytes += j->tensors[i].elems * lk_dtype_bytes(j->tensors[i].dtype);
        if (bytes > INT64_MAX)
            return lk_json_error(lk_json_item(list, i), "the gradients exceed 2^63 bytes");
        given += isnan(j->tensors[i].ready) ? 0 : 1;
    }
    for (size_t i = 0; i < j->n_tensors && given && given < j->n_tensors; i++)
        if (isnan(j->tensors[i].ready))
            return lk_json_error(lk_json_item(list, i), "ready: is missing, others have it");
    return LK_OK;
}

/* Read a permutation of the gradients. */
static enum lk_status read_permutation(struct lk_json *list, struct lk_job *j)
{
    enum lk_status st = LK_OK;
    bool *seen = NULL;
    int64_t v;

    LK_TRY(lk_json_expect(list, LK_JSON_ARRAY));
    if (lk_json_count(list) != j->n_tensors)
        LK_TRY(lk_json_error(list, "has %zu entries for %zu gradients", lk_json_count(list),
                             j->n_tensors));
    LK_TRY(lk_alloc(&j->ready_order, j->n_tensors, sizeof *j->ready_order));
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

/* Read the order of the gradients, and set what the file does not give. */
static enum lk_status read_ready_order(struct lk_json *root, void *base, const void *file)
{
    struct lk_json *list = lk_json_optional(root, "ready_order");
    struct lk_job *j = base;

    (void)file;
    LK_PASS(check_gradients(root, j));
    if (list)
        LK_PASS(read_permutation(list, j));
    return lk_job_order_gradients(j);
}

static void write_ready_order(struct lk_json_out *o, const void *base, const void *file)
{
    const struct lk_job *j = base;

    (void)file;
    lk_json_out_compact(o);
    lk_json_out_array(o, "ready_order");
    for (size_t i = 0; i < j->n_tensors; i++)
        lk_json_out_int(o, NULL, (int64_t)j->ready_order[i]);
    lk_json_out_close(o);
}

static const struct lk_member_own ready_order = {"list of integers", read_ready_order,
                                                 write_ready_order, true};

/* ---- Compute, layers, runs ---- */

static enum lk_status check_compute(struct lk_json *v, void *base)
{
    const struct lk_job_compute *c = base;

    return c->forward_s.value + c->backward_s.value > 0
               ? LK_OK
               : lk_json_error(v, "forward and backward: one must be above 0");
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_compute, field, key, __VA_ARGS__)
static const struct lk_member compute_rows[] = {
    ROW(local_batch, "local_batch", INT, REQUIRED, .min = 1, .max = LK_BATCH_MAX,
        .help = "samples a micro-batch"),
    ROW(forward_s, "forward", QUANTITY, REQUIRED, .dim = LK_DIM_TIME,
        .help = "forward of a micro-batch"),
    ROW(backward_s, "backward", QUANTITY, REQUIRED, .dim = LK_DIM_TIME,
        .help = "backward of a micro-batch"),
    ROW(input_s, "input", QUANTITY, ASSUMED, .dim = LK_DIM_TIME,
        .help = "wait for a micro-batch's input"),
    ROW(optimizer_s, "optimizer", QUANTITY, ASSUMED, .dim = LK_DIM_TIME,
        .help = "optimizer of a step, behind its backward and its last bucket"),
    ROW(optimizer_hidden_s, "optimizer_hidden", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "the rest of it, beside backward and communication, which costs the step nothing",
        .without = "none is hidden"),
    ROW(gap_s, "gap", QUANTITY, ASSUMED, .dim = LK_DIM_TIME,
        .help = "time of a step outside all of these"),
    ROW(transient, "transient", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "relative sd of forward and backward from step to step"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record compute_record = {
    .size = sizeof(struct lk_job_compute), .rows = compute_rows, .check = check_compute};

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_sync_bn, field, key, __VA_ARGS__)
static const struct lk_member sync_bn_rows[] = {
    ROW(channels, "channels", INT, REQUIRED, .min = 1, .max = LK_CHANNELS_MAX,
        .help = "channels of the layer"),
    ROW(at, "at", NUMBER, REQUIRED, .range = LK_RANGE_SHARE,
        .help = "share of forward before it; its backward is at 1 minus that"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record sync_bn_record = {
    .size = sizeof(struct lk_job_sync_bn), .rows = sync_bn_rows, .one_line = true};

bool lk_job_collective_placed(const struct lk_job_collective *c, enum lk_coll *out)
{
    return lk_coll_find(c->function, strlen(c->function), out) && *out < LK_COLL_MODELLED &&
           c->bytes > 0;
}

static enum lk_status check_collective(struct lk_json *v, void *base)
{
    const struct lk_job_collective *c = base;
    const double last = c->every_micro_batch ? 2 : 3;

    if (!(c->at >= 0 && c->at <= c->needed && c->needed <= last))
        return lk_json_error(v, "at and needed: expected 0 to %g, needed not before at", last);
    return LK_OK;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_collective, field, key, __VA_ARGS__)
static const struct lk_member collective_rows[] = {
    ROW(function, "function", TEXT, REQUIRED,
        .help =
            "collective; all_reduce, reduce_scatter, all_gather and broadcast are modelled, the "
            "time of others is in `gap`"),
    ROW(bytes, "bytes", UINT, REQUIRED, .max = INT64_MAX,
        .help = "bytes that a rank hands in, of all_gather its own part; 0: not known"),
    ROW(ranks, "ranks", INT, SPARSE, .min = 1, .max = LK_RANKS_MAX, .help = "neighbours it joins",
        .without = "all ranks"),
    ROW(at, "at", NUMBER, REQUIRED,
        .help = "launched at: 0 to 1 in forward, to 2 in backward, to 3 in the optimizer"),
    ROW(needed, "needed", NUMBER, REQUIRED, .help = "compute waits there for its end"),
    ROW(every_micro_batch, "every_micro_batch", BOOL, REQUIRED,
        .help = "in each, and needed by 2; else in the step's last one"),
    ROW(exposed_s, "exposed", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "time of a step of the runs that compute did not hide"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record collective_record = {.size = sizeof(struct lk_job_collective),
                                                   .rows = collective_rows,
                                                   .one_line = true,
                                                   .check = check_collective};

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_layer, field, key, __VA_ARGS__)
static const struct lk_member layer_rows[] = {
    ROW(name, "name", TEXT, REQUIRED, .help = "name of the layer"),
    ROW(flops, "flops", QUANTITY, REQUIRED, .dim = LK_DIM_FLOP,
        .help = "operations of one sample, forward and backward"),
    ROW(bytes, "bytes", QUANTITY, OPTIONAL, .dim = LK_DIM_BYTES,
        .help = "memory traffic of one sample, forward and backward"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record layer_record = {.size = sizeof(struct lk_job_layer),
                                              .rows = layer_rows};

/* Take what older files say for it: no_sync is 1 for true, -1 for false. */
static enum lk_status read_no_sync(struct lk_json *v, int *no_sync, enum lk_reduction *out)
{
    if (*no_sync && lk_json_optional(v, "reduce"))
        return lk_json_error(lk_json_optional(v, "no_sync"), "`reduce` says it already");
    if (*no_sync)
        *out = *no_sync > 0 ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
    *no_sync = 0;
    return LK_OK;
}

static enum lk_status check_run(struct lk_json *v, void *base)
{
    struct lk_job_run *r = base;

    LK_PASS(read_no_sync(v, &r->no_sync, &r->config.reduce));
    return lk_json_int32(v, "nodes", 1, r->config.world_size, &r->config.nodes);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_run, field, key, __VA_ARGS__)
static const struct lk_member run_rows[] = {
    ROW(source, "source", TEXT, REQUIRED, .help = "directory or file that it is from"),
    ROW(place, "place", OBJECT, OPTIONAL, .of = &lk_place_record, .help = "where it ran",
        .without = "the job's"),
    LK_CONFIG_SIZE_ROWS(struct lk_job_run, config., 1, ""),
    ROW(config.reduce, "reduce", WORD, OPTIONAL, .words = &lk_reduction_words,
        .absent = LK_REDUCTION_LAST, .help = "micro-batches whose gradients are reduced"),
    ROW(no_sync, "no_sync", TRISTATE, SPARSE,
        .help = "older files': true is `reduce` \"last\", false \"every\"", .without = "not said"),
    LK_CONFIG_SCHEME_ROWS(struct lk_job_run, config.),
    ROW(config.first_bytes, "first_bucket_bytes", UINT, REQUIRED, .range = LK_RANGE_ABOVE_0,
        .help = "limit of the first bucket"),
    ROW(config.cap_bytes, "bucket_cap_bytes", UINT, REQUIRED, .range = LK_RANGE_ABOVE_0,
        .help = "limit of the others"),
    ROW(step_s, "step_s", NUMBERS, FILLED, .range = LK_RANGE_ABOVE_0,
        .count = offsetof(struct lk_job_run, n_steps),
        .help = "seconds of every step after warm-up, mean over ranks"),
    ROW(rank_compute_s, "rank_compute_s", PER_GPU, SPARSE, .range = LK_RANGE_ABOVE_0,
        .count = offsetof(struct lk_job_run, config.world_size),
        .help = "mean seconds of forward and backward a step, of each rank",
        .without = "not known"),
    ROW(losses_s, "losses_s", OBJECT, OPTIONAL, .of = &lk_losses_optional_record,
        .help = "where the step goes, seconds, mean over ranks, as `lockstep analyze` says it",
        .without = "not known"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record run_record = {
    .size = sizeof(struct lk_job_run), .rows = run_rows, .check = check_run};

static enum lk_status check_transformer(struct lk_json *v, void *base)
{
    const struct lk_job_transformer *t = base;

    return t->hidden % t->heads ? lk_json_error(lk_json_optional(v, "heads"),
                                                "%d heads do not divide %d", t->heads, t->hidden)
                                : LK_OK;
}

static bool has_transformer(const void *base)
{
    const struct lk_job_transformer *t = base;

    return t->layers > 0;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job_transformer, field, key, __VA_ARGS__)
static const struct lk_member transformer_rows[] = {
    ROW(layers, "layers", INT, REQUIRED, .min = 1, .max = LK_SHAPE_MAX, .help = "layers"),
    ROW(hidden, "hidden", INT, REQUIRED, .min = 1, .max = LK_SHAPE_MAX,
        .help = "width of the model"),
    ROW(heads, "heads", INT, REQUIRED, .min = 1, .max = LK_SHAPE_MAX,
        .help = "attention heads; they divide the width"),
    ROW(sequence, "sequence", INT, REQUIRED, .min = 1, .max = LK_SHAPE_MAX,
        .help = "tokens a sample"),
    ROW(vocabulary, "vocabulary", INT, OPTIONAL, .max = LK_SHAPE_MAX,
        .help = "outputs of the last layer", .without = "0: logits are not counted"),
    ROW(activation_bytes, "activation_bytes", INT, OPTIONAL, .min = 1, .max = 8, .absent = 2,
        .help = "bytes of an activation"),
    ROW(recompute, "recompute", WORD, OPTIONAL, .words = &lk_job_recompute_words,
        .help = "what backward computes again; a fused attention is `selective`"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record transformer_record = {.size = sizeof(struct lk_job_transformer),
                                                    .rows = transformer_rows,
                                                    .one_line = true,
                                                    .check = check_transformer,
                                                    .given = has_transformer};

/* ---- The file ---- */

static int compare_runs(const void *x, const void *y)
{
    const struct lk_job_run *a = x;
    const struct lk_job_run *b = y;

    if (a->config.world_size != b->config.world_size)
        return a->config.world_size < b->config.world_size ? -1 : 1;
    if (a->config.local_batch != b->config.local_batch)
        return a->config.local_batch < b->config.local_batch ? -1 : 1;
    if (a->config.accumulation != b->config.accumulation)
        return a->config.accumulation < b->config.accumulation ? -1 : 1;
    return strcmp(a->source, b->source);
}

void lk_job_settle_runs(struct lk_job *j)
{
    for (size_t i = 0; i < j->n_runs; i++) {
        struct lk_config *c = &j->runs[i].config;

        c->overlap = j->overlap;
        c->tensor_parallel = j->tensor_parallel;
        c->pipeline_parallel = j->pipeline_parallel;
    }
}

/* A run's GPUs hold whole replicas. */
static enum lk_status check_replicas(struct lk_json *root, const struct lk_job *j)
{
    for (size_t i = 0; i < j->n_runs; i++) {
        const struct lk_config *c = &j->runs[i].config;

        if (c->world_size % lk_config_replica_gpus(c))
            return lk_json_error(lk_json_item(lk_json_optional(root, "runs"), i),
                                 "gpus: %d are no whole replicas of %d", c->world_size,
                                 lk_config_replica_gpus(c));
        if (lk_rank_batches_check(c->batches, c->world_size, c->local_batch) != LK_OK)
            return lk_json_error(lk_json_item(lk_json_optional(root, "runs"), i),
                                 "local_batches: %s", lk_error_text());
    }
    return LK_OK;
}

/* Set the first bucket's limit by the rule, refuse batches out of order, and sort the runs. */
static enum lk_status check_job(struct lk_json *root, void *base)
{
    struct lk_job *j = base;

    LK_PASS(read_no_sync(root, &j->no_sync, &j->reduce));
    lk_job_settle_runs(j);
    LK_PASS(check_replicas(root, j));
    if (!lk_json_optional(root, "first_bucket_bytes"))
        j->first_bytes =
            lk_ddp_rule_first_bytes(j->ddp_rule, j->cap_bytes, j->cap_bytes != LK_BUCKET_CAP_BYTES);
    for (size_t i = 1; i < j->n_compute; i++)
        if (j->compute[i - 1].local_batch >= j->compute[i].local_batch)
            return lk_json_error(lk_json_item(lk_json_optional(root, "compute"), i),
                                 "local_batch: rows must be in rising order, each batch once");
    if (j->n_runs)
        qsort(j->runs, j->n_runs, sizeof *j->runs, compare_runs);
    return LK_OK;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_job, field, key, __VA_ARGS__)
static const struct lk_member job_rows[] = {
    ROW(name, "name", TEXT, REQUIRED, .help = "the model"),
    ROW(sample_unit, "sample_unit", TEXT, OPTIONAL, .absent_text = "sample",
        .help = "what a sample is: image, token, ..."),
    ROW(place, "place", OBJECT, OPTIONAL, .of = &lk_place_record,
        .help = "where the compute was measured, and the runs that do not say it",
        .without = "not known"),
    ROW(ddp_rule, "ddp_rule", WORD, OPTIONAL, .words = &lk_ddp_rule_words, .absent = LK_DDP_TORCH_2,
        .help = "whose bucketing ([DDP](ddp.md))"),
    ROW(first_bytes, "first_bucket_bytes", UINT, OPTIONAL, .range = LK_RANGE_ABOVE_0,
        .help = "limit of the first bucket in the runs",
        .without = "by the rule: 1048576, with torch-2.x a cap other than 26214400"),
    ROW(cap_bytes, "bucket_cap_bytes", UINT, OPTIONAL, .range = LK_RANGE_ABOVE_0,
        .absent = LK_BUCKET_CAP_BYTES, .help = "limit of the others in the runs"),
    ROW(accumulation, "accumulation", INT, OPTIONAL, .min = 1, .max = LK_ACCUMULATION_MAX,
        .absent = 1, .help = "micro-batches a step in the runs, and of forecasts that do not say"),
    ROW(reduce, "reduce", WORD, OPTIONAL, .words = &lk_reduction_words, .absent = LK_REDUCTION_LAST,
        .help = "micro-batches whose gradients are reduced"),
    ROW(no_sync, "no_sync", TRISTATE, SPARSE,
        .help = "older files': true is `reduce` \"last\", false \"every\"", .without = "not said"),
    LK_CONFIG_OVERLAP_ROW(struct lk_job, ),
    LK_CONFIG_SCHEME_ROWS(struct lk_job, ),
    LK_CONFIG_REPLICA_ROWS(struct lk_job, ),
    ROW(prefetch_depth, "prefetch_depth", INT, OPTIONAL, .max = LK_BATCH_MAX,
        .help = "batches prepared ahead"),
    ROW(recorded_buckets, "recorded_buckets", BOOL, OPTIONAL,
        .help = "the gradients are buckets, as an imported trace has them; what they consist of is "
                "not known"),
    ROW(find_unused_parameters, "find_unused_parameters", BOOL, OPTIONAL,
        .help = "DDP's option: one more small all-reduce a step"),
    ROW(global_norm, "global_norm", BOOL, OPTIONAL,
        .help = "gradients are clipped by their norm, or a step whose scaled loss overflowed is "
                "skipped: where gradients are sharded, an all-reduce of 4 bytes before the update"),
    ROW(optimizer, "optimizer", WORD, OPTIONAL, .words = &lk_job_optimizer_words,
        .help = "what keeps states beside the parameters: for memory"),
    ROW(master_weights, "master_weights", BOOL, OPTIONAL,
        .help = "float32 copies of parameters of fewer bits: for memory"),
    ROW(gradient_as_bucket_view, "gradient_as_bucket_view", BOOL, OPTIONAL,
        .help = "DDP's option: gradients live in the buckets, no second copy: for memory"),
    ROW(learning_rate_batch, "learning_rate_batch", INT64, SPARSE, .min = 1,
        .help = "global batch that the learning rate was tuned for", .without = "not known"),
    ROW(transformer, "transformer", OBJECT, OPTIONAL, .of = &transformer_record,
        .help = "shape of a model whose sample is one sequence: for memory of activations"),
    ROW(flops_per_sample, "flops_per_sample", QUANTITY, OPTIONAL, .dim = LK_DIM_FLOP,
        .help = "operations of one sample, forward and backward"),
    ROW(memory_fixed_bytes, "memory_fixed", QUANTITY, OPTIONAL, .dim = LK_DIM_BYTES,
        .help = "measured memory of a GPU, whatever the batch"),
    ROW(memory_per_sample_bytes, "memory_per_sample", QUANTITY, OPTIONAL, .dim = LK_DIM_BYTES,
        .help = "measured memory of each sample of a micro-batch"),
    ROW(noise_scale, "noise_scale", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "gradient noise scale in samples: for time and cost to a target"),
    ROW(target_samples, "target_samples", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "samples to the target at small batches"),
    ROW(learning_rate, "learning_rate", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "learning rate of the runs"),
    ROW(tensors, "gradients", LIST, FILLED, .of = &tensor_record,
        .count = offsetof(struct lk_job, n_tensors), .help = "tensors in registration order"),
    ROW(ready_order, "ready_order", OWN, OPTIONAL, .own = &ready_order,
        .help = "indices of `gradients` in the order of the first backward",
        .without = "by `ready`, last registered first"),
    ROW(compute, "compute", LIST, FILLED, .of = &compute_record,
        .count = offsetof(struct lk_job, n_compute),
        .help = "compute of one GPU, a row a local batch, in rising order"),
    ROW(sync_bn, "sync_batch_norm", LIST, OPTIONAL, .of = &sync_bn_record,
        .count = offsetof(struct lk_job, n_sync_bn),
        .help = "SyncBatchNorm layers in forward order"),
    ROW(collectives, "collectives", LIST, SPARSE, .of = &collective_record,
        .count = offsetof(struct lk_job, n_collectives),
        .help = "collectives of others than gradients, as the runs had them", .without = "none"),
    ROW(layers, "layers", LIST, OPTIONAL, .of = &layer_record,
        .count = offsetof(struct lk_job, n_layers),
        .help = "work of each layer: for forecasts of another GPU"),
    ROW(runs, "runs", LIST, OPTIONAL, .of = &run_record, .count = offsetof(struct lk_job, n_runs),
        .help = "measured runs", .without = "none: nothing to prove the forecast on"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_job_record = {.size = sizeof(struct lk_job),
                                        .rows = job_rows,
                                        .schema = LK_JOB_SCHEMA,
                                        .version = LK_JOB_VERSION,
                                        .check = check_job};

const struct lk_place *lk_job_run_place(const struct lk_job *j, const struct lk_job_run *r)
{
    return lk_place_known(&r->place) ? &r->place : &j->place;
}

/* ---- Sums and buckets ---- */

static uint64_t tensor_bytes(const struct lk_job_tensor *t)
{
    return t->elems * lk_dtype_bytes(t->dtype);
}

uint64_t lk_job_gradient_bytes(const struct lk_job *j)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < j->n_tensors; i++)
        sum += tensor_bytes(&j->tensors[i]);
    return sum;
}

enum lk_status lk_job_bucket_tensors(const struct lk_job *j, struct lk_bucket_tensor **out)
{
    struct lk_bucket_tensor *v;

    LK_PASS(lk_alloc(&v, j->n_tensors, sizeof *v));
    for (size_t i = 0; i < j->n_tensors; i++)
        v[i] = (struct lk_bucket_tensor){tensor_bytes(&j->tensors[i]), j->tensors[i].dtype};
    *out = v;
    return LK_OK;
}

enum lk_status lk_job_buckets(const struct lk_job *j, uint64_t first_bytes, uint64_t cap_bytes,
                              struct lk_bucket_plan *out)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_tensor *tensors = NULL;

    LK_TRY(lk_job_bucket_tensors(j, &tensors));
    LK_TRY(lk_bucket_rebuilt(tensors, j->n_tensors, j->ready_order, first_bytes, cap_bytes, out));
out:
    free(tensors);
    return st;
}

int lk_job_usual_batch(const struct lk_job *j)
{
    int best = j->n_compute ? j->compute[j->n_compute - 1].local_batch : 1;
    size_t most = 0;

    for (size_t i = 0; i < j->n_compute; i++) {
        size_t n = 0;

        for (size_t r = 0; r < j->n_runs; r++)
            n += j->runs[r].config.local_batch == j->compute[i].local_batch;
        if (n > most) {
            most = n;
            best = j->compute[i].local_batch;
        }
    }
    return best;
}

bool lk_job_has_shapes(const struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors; i++)
        if (j->tensors[i].rows)
            return true;
    return false;
}

uint64_t lk_tensor_rows(const struct lk_job_tensor *t, bool has_shapes)
{
    uint64_t rows = (uint64_t)sqrt((double)t->elems);

    if (has_shapes)
        return t->rows;
    while (rows > 1 && t->elems % rows)
        rows--;
    return rows;
}
