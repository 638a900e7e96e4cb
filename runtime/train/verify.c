/* --verify; see the header. */
#include "runtime/train/verify.h"

#include "base/array.h"
#include "base/rng.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* See the header: bound and floor. */
static const double bound_margin = 16;
static const double unit_roundoff = 0x1p-24; /* float32's */
/* A batch norm amplifies the roundings of what it normalises, too, not those of weights alone. */
static const double norm_margin = 8;
static const double kink_move = 0x1p-4, kink_margin = 0x1p8, kinks_many = 0.05;
static const double floor_ratio = 1e-3;

struct lk_verify {
    struct lk_verify_config config;
    struct lk_device *device; /* the reference */
    struct lk_stream *stream;
    struct lk_model *model;
    size_t elems;       /* of all parameters */
    double *grads;      /* gradients of the reference, all parameters in order */
    void *staging;      /* host copy of a parameter or gradient of the model under test */
    enum lk_dtype real; /* element type of that model */

    /* With factors narrower than float32: reference gradients of weights moved by the margin, and
     * the unmoved weights. Else NULL. */
    double *moved, *kept;
    double narrow; /* the factors' unit roundoff */

    /* With a hook that rounds: the gradients before a rank's share was added, and of each parameter
     * the sum of the norms of the ranks' shares. Else NULL. */
    double *before, *shares;

    double scale; /* of the model's gradients, in the step that is checked */
    int ranks;
    bool joint;                   /* all ranks' samples are one micro-batch of the reference */
    struct lk_shares *deal;       /* of the samples, to ranks and micro-batches */
    int most;                     /* samples of the largest batch of a rank */
    struct lk_sampler **samplers; /* by rank */
    uint64_t epoch;               /* the samplers' epoch */
    void *inputs;                 /* buffers of one micro-batch of the reference */
    int32_t *targets;

    /* Every rank's message to the others: struct verdict, then a hash per parameter. */
    uint64_t *words;
    size_t n_words;            /* words per rank */
    double bound;              /* float32's */
    double max_error, allowed; /* allowed: the bound where the error was the largest */
    double max_bound;
};

/* The result of one rank's gradient check. */
struct verdict {
    uint64_t failed; /* the first parameter beyond the bound, or none */
    double error;    /* error of that parameter, else the largest of all */
    double bound;    /* its bound */
};
enum { VERDICT_WORDS = sizeof(struct verdict) / sizeof(uint64_t) };
static const uint64_t none = UINT64_MAX;

static enum lk_status check_config(const struct lk_verify_config *c)
{
    const char *device = lk_device_name(lk_stream_device(c->compute));

    if (!strcmp(device, "timed") || c->model->ops->update)
        return lk_fail(LK_EUSAGE,
                       "nothing to verify: device %s with model %s computes no gradients", device,
                       c->model->ops->name);
    return LK_OK;
}

/* Return the samples of a micro-batch of the reference. */
static int reference_samples(const struct lk_verify *v)
{
    return v->joint ? (int)lk_shares_batch(v->deal) : v->most;
}

/* Return true if roundings, or weights moved by their margin, are likely to turn a relu. */
static bool turns_kinks(const struct lk_verify *v)
{
    double kinks = (double)v->config.model->kinks * v->config.shares.accumulation *
                   (double)lk_shares_batch(v->deal);

    return kinks * bound_margin * v->narrow > kinks_many;
}

static enum lk_status open_reference(struct lk_verify *v)
{
    const struct lk_device_config dc = {.slowdown = 1};
    const struct lk_track_info info = {.name = "reference", .kind = LK_TRACK_COMPUTE};
    struct lk_model_config mc = v->config.model_config;
    size_t at = 0, largest = 0;

    mc.max_samples = reference_samples(v);
    mc.sync_batch_norm = false; /* its micro-batches hold what ranks would exchange */
    mc.blank = true;            /* every step copies the weights of the model under test */
    LK_PASS(lk_device_open("reference", &dc, &v->device));
    LK_PASS(lk_stream_create(v->device, &info, &v->stream));
    LK_PASS((v->config.create ? v->config.create : lk_model_create)(v->device, v->stream, &mc,
                                                                    &v->model));
    for (size_t i = 0; i < v->model->n_params; i++) {
        v->elems += v->model->params[i].elems;
        if (v->model->params[i].elems > largest)
            largest = v->model->params[i].elems;
    }
    LK_PASS(lk_alloc(&v->grads, v->elems, sizeof *v->grads));
    LK_PASS(lk_device_alloc_host(lk_stream_device(v->config.compute), largest * sizeof(double),
                                 &v->staging));
    if (v->narrow > unit_roundoff || turns_kinks(v) || v->config.model->n_buffers) {
        LK_PASS(lk_alloc(&v->moved, v->elems, sizeof *v->moved));
        LK_PASS(lk_alloc(&v->kept, v->elems, sizeof *v->kept));
    }
    if (v->config.rounded) {
        LK_PASS(lk_alloc(&v->before, v->elems, sizeof *v->before));
        LK_PASS(lk_alloc(&v->shares, v->model->n_params, sizeof *v->shares));
    }
    for (size_t i = 0; i < v->model->n_params; i++) {
        v->model->params[i].grad = v->grads + at;
        at += v->model->params[i].elems;
    }
    return LK_OK;
}

static size_t input_bytes(const struct lk_verify *v)
{
    const struct lk_sample_shape *s = &v->model->sample;

    return lk_sample_inputs(s) * lk_dtype_bytes(s->dtype);
}

static enum lk_status open_shares(struct lk_verify *v)
{
    struct lk_shares_config *c = &v->config.shares;

    if (c->sampler.samples == 0)
        c->sampler.samples = lk_dataset_samples(v->config.dataset);
    c->sampler.ranks = v->ranks;
    v->most = c->local_batch;
    for (int r = 0; c->sampler.batches && r < v->ranks; r++)
        v->most = (int)c->sampler.batches[r] > v->most ? (int)c->sampler.batches[r] : v->most;
    return lk_shares_create(c, &v->deal);
}

static enum lk_status open_samplers(struct lk_verify *v)
{
    struct lk_sampler_config sc = v->config.shares.sampler;
    size_t samples = (size_t)reference_samples(v);

    LK_PASS(lk_alloc(&v->samplers, (size_t)v->ranks, sizeof(struct lk_sampler *)));
    for (sc.rank = 0; sc.rank < v->ranks; sc.rank++)
        LK_PASS(lk_sampler_create(&sc, &v->samplers[sc.rank]));
    v->epoch = none;
    LK_PASS(lk_alloc(&v->inputs, samples, input_bytes(v)));
    return lk_alloc(&v->targets, samples * (size_t)v->model->sample.targets, sizeof *v->targets);
}

enum lk_status lk_verify_create(const struct lk_verify_config *config, struct lk_verify **out)
{
    struct lk_verify *v = NULL;
    enum lk_status st = check_config(config);
    double terms;

    if (st != LK_OK)
        return st;
    LK_TRY(lk_alloc(&v, 1, sizeof *v));
    v->config = *config;
    v->ranks = lk_comm_world_size(config->comm);
    v->joint = config->model->synchronises && v->ranks > 1;
    if (v->joint && config->rounded)
        LK_TRY(lk_fail(LK_EUNSUPPORTED, "--verify with a hook that rounds, and batch norm over all "
                                        "ranks: what each rank's roundings do is not known"));
    v->real = lk_device_real_dtype(lk_stream_device(config->compute));
    v->narrow = lk_device_unit_roundoff(lk_stream_device(config->compute));
    LK_TRY(open_shares(v));
    LK_TRY(open_reference(v));
    LK_TRY(open_samplers(v));
    v->n_words = VERDICT_WORDS + v->model->n_params;
    LK_TRY(lk_alloc(&v->words, (size_t)v->ranks * v->n_words, sizeof *v->words));
    terms = (double)config->shares.accumulation * (double)lk_shares_batch(v->deal) *
            v->model->positions;
    v->bound = bound_margin * unit_roundoff * (sqrt(terms) + (double)v->model->n_params);
    LK_HAND_OVER(out, v);
out:
    lk_verify_destroy(v);
    return st;
}

void lk_verify_destroy(struct lk_verify *v)
{
    if (!v)
        return;
    for (int r = 0; v->samplers && r < v->ranks; r++)
        lk_sampler_destroy(v->samplers[r]);
    free(v->samplers);
    lk_shares_destroy(v->deal);
    free(v->inputs);
    free(v->targets);
    lk_model_destroy(v->model);
    lk_stream_destroy(v->stream);
    lk_device_close(v->device);
    free(v->grads);
    free(v->moved);
    free(v->kept);
    free(v->before);
    free(v->shares);
    lk_device_free_host(lk_stream_device(v->config.compute), v->staging);
    free(v->words);
    free(v);
}

/* Copy bytes of the model under test into v->staging. */
static enum lk_status fetch_bytes(struct lk_verify *v, const void *from, size_t bytes)
{
    LK_PASS(lk_stream_copy(v->config.compute, v->staging, from, bytes));
    return lk_stream_sync(v->config.compute, lk_deadline_in(v->config.timeout_ns));
}

/* Copy elements of the model under test into v->staging. */
static enum lk_status fetch(struct lk_verify *v, const lk_real *from, size_t elems)
{
    return fetch_bytes(v, from, elems * lk_dtype_bytes(v->real));
}

/* Return element i of v->staging. */
static double staged(const struct lk_verify *v, size_t i)
{
    return lk_dtype_at(v->real, v->staging, i);
}

enum lk_status lk_verify_step_begin(struct lk_verify *v)
{
    for (size_t p = 0; p < v->model->n_params; p++) {
        const struct lk_param *own = &v->config.model->params[p];
        double *reference = v->model->params[p].data;

        LK_PASS(fetch(v, own->data, own->elems));
        for (size_t i = 0; i < own->elems; i++)
            reference[i] = staged(v, i);
    }
    return LK_OK;
}

/* ---- The reference ---- */

/* Read micro-batch n, counted from 0, of a rank's run, behind `before` samples of the buffers. */
static enum lk_status read_batch(struct lk_verify *v, int rank, uint64_t n, size_t before,
                                 struct lk_batch *out)
{
    const struct lk_share share = lk_shares_of(v->deal, rank, n);
    size_t n_targets = (size_t)v->model->sample.targets;

    if (share.epoch != v->epoch) {
        v->epoch = share.epoch;
        for (int r = 0; r < v->ranks; r++)
            lk_sampler_set_epoch(v->samplers[r], v->epoch);
    }
    for (size_t i = 0; i < (size_t)share.samples; i++)
        LK_PASS(lk_dataset_read(v->config.dataset,
                                lk_sampler_index(v->samplers[rank], share.first + i),
                                (char *)v->inputs + (before + i) * input_bytes(v),
                                v->targets + (before + i) * n_targets));
    *out = (struct lk_batch){.samples = (int)before + share.samples,
                             .shape = v->model->sample,
                             .inputs = v->inputs,
                             .targets = v->targets};
    return LK_OK;
}

/* Add the norms of a rank's share of the gradients, which is in v->grads with those of the ranks
 * before it. */
static void add_shares(struct lk_verify *v, int rank)
{
    size_t at = 0;

    for (size_t p = 0; v->shares && p < v->model->n_params; p++) {
        double sum = 0;

        for (size_t end = at + v->model->params[p].elems; at < end; at++) {
            double share = v->grads[at] - (rank ? v->before[at] : 0);

            sum += share * share;
            v->before[at] = v->grads[at];
        }
        v->shares[p] = (rank ? v->shares[p] : 0) + sqrt(sum);
    }
}

/* Clip the reference's gradients by their norm, as the op clip does. */
static void clip(struct lk_verify *v)
{
    double sum = 0, factor;

    if (!(v->config.clip_norm > 0))
        return;
    for (size_t i = 0; i < v->elems; i++)
        sum += v->grads[i] * v->grads[i];
    factor = fmin(1, v->config.clip_norm / (sqrt(sum) + LK_CLIP_EPS));
    for (size_t i = 0; i < v->elems; i++)
        v->grads[i] *= factor;
    for (size_t p = 0; v->shares && p < v->model->n_params; p++)
        v->shares[p] *= factor;
}

/* Run one micro-batch of the reference, whose mean gradient weighs that much; it has what ranks
 * before it had, too, but for the first. */
static enum lk_status run_micro_batch(struct lk_verify *v, const struct lk_batch *batch,
                                      double weight, bool first)
{
    const double seed = weight / ((double)v->ranks * v->config.shares.accumulation);

    if (!batch->samples)
        return LK_OK;
    LK_PASS(v->model->ops->forward(v->model, batch, seed));
    return v->model->ops->backward(v->model, batch, seed, !first, NULL);
}

/* Run a micro-batch that has all ranks' samples. */
static enum lk_status run_joint(struct lk_verify *v, uint64_t n, int m)
{
    struct lk_batch batch = {0};
    double weight = 0;

    for (int rank = 0; rank < v->ranks; rank++) {
        LK_PASS(read_batch(v, rank, n + (uint64_t)m, (size_t)batch.samples, &batch));
        weight += lk_shares_weight(v->deal, rank, n, m);
    }
    return run_micro_batch(v, &batch, weight, m == 0);
}

/* Compute the gradient of this step's global batch, each rank's micro-batch with its weight, into
 * v->grads: rank by rank, or, where all ranks' samples are one micro-batch, one of these by the
 * other. */
static enum lk_status run_reference(struct lk_verify *v, uint32_t step)
{
    const uint64_t n = (uint64_t)step * (uint64_t)v->config.shares.accumulation;
    const int each = lk_shares_micro_batches(v->deal, n);
    struct lk_batch batch;
    bool first = true;

    for (int m = 0; v->joint && m < each; m++)
        LK_PASS(run_joint(v, n, m));
    for (int rank = 0; rank < v->ranks; rank++) {
        for (int m = 0; !v->joint && m < each; m++) {
            LK_PASS(read_batch(v, rank, n + (uint64_t)m, 0, &batch));
            LK_PASS(run_micro_batch(v, &batch, lk_shares_weight(v->deal, rank, n, m), first));
            first &= !batch.samples;
        }
        add_shares(v, rank); /* the reference's stream runs each op when it is enqueued */
    }
    LK_PASS(lk_stream_sync(v->stream, lk_deadline_in(v->config.timeout_ns)));
    clip(v);
    return LK_OK;
}

/* Multiply the weights by random factors, the same on all ranks. */
static void move_weights(struct lk_verify *v, uint32_t step)
{
    const double rounded =
        bound_margin * v->narrow * (v->config.model->n_buffers ? norm_margin : 1);
    const double turning = fmin(kink_move, kink_margin * bound_margin * v->narrow);
    const bool turns = v->model->kinks && (v->narrow > unit_roundoff || turns_kinks(v));
    const double most = turns ? fmax(rounded, turning) : rounded;
    double *kept = v->kept;

    for (size_t p = 0; p < v->model->n_params; p++) {
        const struct lk_param *reference = &v->model->params[p];
        struct lk_rng g = lk_rng_init(step, lk_rng_stream("verify", p));
        double *weights = reference->data;

        memcpy(kept, weights, reference->elems * sizeof *kept);
        for (size_t i = 0; i < reference->elems; i++)
            weights[i] *= 1 + most * (2 * lk_rng_uniform(&g) - 1);
        kept += reference->elems;
    }
}

static void move_back(struct lk_verify *v)
{
    const double *kept = v->kept;

    for (size_t p = 0; p < v->model->n_params; p++) {
        memcpy(v->model->params[p].data, kept, v->model->params[p].elems * sizeof *kept);
        kept += v->model->params[p].elems;
    }
}

/* Compute the gradients of the moved weights into v->moved; see the header. */
static enum lk_status run_moved(struct lk_verify *v, uint32_t step)
{
    if (!v->moved)
        return LK_OK;
    move_weights(v, step);
    LK_PASS(run_reference(v, step));
    memcpy(v->moved, v->grads, v->elems * sizeof *v->moved);
    move_back(v);
    return LK_OK;
}

/* ---- The checks ---- */

/* Return a thousandth of the root mean square of all reference gradients. */
static double rms_floor(const struct lk_verify *v)
{
    double sum = 0;

    for (size_t i = 0; i < v->elems; i++)
        sum += v->grads[i] * v->grads[i];
    return floor_ratio * sqrt(sum / (double)v->elems);
}

/* Return the norm of the difference relative to the reference's norm; 0 when both gradients are
 * zero. */
static double relative(double squares_of_difference, double squares, size_t elems, double floor)
{
    if (squares_of_difference == 0)
        return 0;
    return sqrt(squares_of_difference) / (sqrt(squares) + floor * sqrt((double)elems));
}

/* Return by how much a hook's roundings may move a parameter's gradient, in the Euclidean norm. */
static double rounded(const struct lk_verify *v, size_t p)
{
    static const double half_subnormal = 0x1p-25; /* float16's */
    double lost = v->config.wire == LK_F16 ? half_subnormal : 0;

    if (!v->shares)
        return 0;
    return v->ranks * (lk_dtype_unit_roundoff(v->config.wire) * v->shares[p] +
                       lost * sqrt((double)v->model->params[p].elems));
}

/* Compute the error and the bound of one parameter's gradient. */
static enum lk_status compare(struct lk_verify *v, size_t p, double floor, double *error,
                              double *bound)
{
    const struct lk_param *own = &v->config.model->params[p];
    const double *reference = v->model->params[p].grad;
    const double *moved = v->moved ? v->moved + (reference - v->grads) : reference;
    double difference = 0, change = 0, norm = 0;

    LK_PASS(fetch(v, own->grad, own->elems));
    for (size_t i = 0; i < own->elems; i++) {
        double off = staged(v, i) / v->scale - reference[i];

        difference += off * off;
        change += (moved[i] - reference[i]) * (moved[i] - reference[i]);
        norm += reference[i] * reference[i];
    }
    *error = relative(difference, norm, own->elems, floor);
    *bound = v->bound + relative(change, norm, own->elems, floor) +
             relative(rounded(v, p) * rounded(v, p), norm, own->elems, floor);
    return LK_OK;
}

static enum lk_status check_gradients(struct lk_verify *v, struct verdict *out)
{
    const double floor = rms_floor(v);
    struct verdict verdict = {.failed = none};

    for (size_t p = 0; p < v->model->n_params && verdict.failed == none; p++) {
        double error = 0, bound = 0;

        LK_PASS(compare(v, p, floor, &error, &bound));
        if (!(error <= bound)) /* NaN fails */
            verdict.failed = p;
        if (!(error <= verdict.error) || verdict.failed == p) {
            verdict.error = error;
            verdict.bound = bound;
        }
        if (v->max_bound < bound)
            v->max_bound = bound;
    }
    *out = verdict;
    return LK_OK;
}

/* Hash every bit, in order. Each round is a bijection of h for a given word, so data that differ in
 * one word never collide. */
static uint64_t hash_bytes(const void *data, size_t bytes, uint64_t start)
{
    const unsigned char *at = data;
    uint64_t h = start ^ bytes;

    for (; bytes; bytes -= bytes < 8 ? bytes : 8, at += 8) {
        uint64_t word = 0;

        memcpy(&word, at, bytes < 8 ? bytes : 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15U; /* 2^64 / golden ratio, odd */
        h ^= h >> 29;
    }
    return h;
}

static enum lk_status hash_parameters(struct lk_verify *v, uint64_t *hashes)
{
    for (size_t p = 0; p < v->model->n_params; p++) {
        const struct lk_param *own = &v->config.model->params[p];

        LK_PASS(fetch(v, own->data, own->elems));
        hashes[p] = hash_bytes(v->staging, own->elems * lk_dtype_bytes(v->real), 0);
        if (!own->master)
            continue;
        LK_PASS(fetch_bytes(v, own->master, own->elems * sizeof(float)));
        hashes[p] = hash_bytes(v->staging, own->elems * sizeof(float), hashes[p]);
    }
    return LK_OK;
}

/* Evaluate the gathered results of all ranks. */
static enum lk_status judge_gradients(struct lk_verify *v, uint32_t step)
{
    for (int r = 0; r < v->ranks; r++) {
        struct verdict verdict;

        memcpy(&verdict, v->words + (size_t)r * v->n_words, sizeof verdict);
        if (!(verdict.error <= v->max_error)) {
            v->max_error = verdict.error;
            v->allowed = verdict.bound;
        }
        if (verdict.failed != none)
            return lk_fail(LK_EVERIFY,
                           "verify: the gradient check failed in step %u: '%s' on rank %d is off "
                           "the float64 reference of the global batch by %.3g (relative; bound "
                           "%.3g)",
                           (unsigned)step, v->model->params[verdict.failed].name, r, verdict.error,
                           verdict.bound);
    }
    return LK_OK;
}

static enum lk_status judge_parameters(struct lk_verify *v, uint32_t step)
{
    for (size_t p = 0; p < v->model->n_params; p++) {
        char who[128] = "";
        size_t used = 0;

        for (int r = 1; r < v->ranks; r++)
            if (v->words[(size_t)r * v->n_words + VERDICT_WORDS + p] !=
                    v->words[VERDICT_WORDS + p] &&
                used < sizeof who)
                used +=
                    (size_t)snprintf(who + used, sizeof who - used, "%s%d", used ? ", " : "", r);
        if (used)
            return lk_fail(LK_EVERIFY,
                           "verify: the parameters check failed after step %u: '%s' is not bit for "
                           "bit rank 0's on rank %s",
                           (unsigned)step, v->model->params[p].name, who);
    }
    return LK_OK;
}

enum lk_status lk_verify_step_end(struct lk_verify *v, uint32_t step, double scale)
{
    uint64_t *own = v->words + (size_t)lk_comm_rank(v->config.comm) * v->n_words;
    const struct lk_coll_call call = {
        .coll = LK_ALL_GATHER, .dtype = LK_I64, .buf = v->words, .count = v->n_words, .index = -1};
    struct verdict verdict = {.failed = none};

    v->scale = scale;
    if (scale > 0) {
        LK_PASS(run_moved(v, step));
        LK_PASS(run_reference(v, step));
        LK_PASS(check_gradients(v, &verdict));
    }
    memcpy(own, &verdict, sizeof verdict);
    LK_PASS(hash_parameters(v, own + VERDICT_WORDS));
    LK_PASS(lk_comm_run(v->config.comm, &call));
    LK_PASS(judge_gradients(v, step));
    return judge_parameters(v, step);
}

double lk_verify_max_error(const struct lk_verify *v)
{
    return v->max_error;
}

double lk_verify_allowed(const struct lk_verify *v)
{
    return v->allowed;
}

double lk_verify_bound(const struct lk_verify *v)
{
    return v->max_bound > v->bound ? v->max_bound : v->bound;
}
