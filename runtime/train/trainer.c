/* A rank's training loop; see the header. */
#include "runtime/train/trainer_impl.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "facts/noise.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The step of LK_PLANT_OVERFLOW. */
enum { OVERFLOW_STEP = 1 };

/* ---- A step ---- */

static enum lk_status next_batch(struct trainer *t, uint32_t step, int micro_batch,
                                 struct lk_batch *out)
{
    struct lk_span span = lk_span_begin(t->host, LK_SPAN_INPUT, 0, step, micro_batch);
    enum lk_status st = lk_loader_next(t->loader, lk_deadline_in(t->config->timeout_ns), out);

    lk_span_end(t->host, &span);
    /* LK_ETIMEOUT would mean a missing peer, but the loader is this rank's own. */
    return st == LK_ETIMEOUT ? lk_fail(LK_EIO, "%s", lk_error_text()) : st;
}

/* Take a rank's buffers behind what the compute stream has; the event is for that alone. */
static enum lk_status broadcast_buffers(struct trainer *t, struct lk_event *ready, int root)
{
    const struct lk_model *m = t->model;
    bool wide = lk_device_wide_bytes(t->device) == sizeof(double);
    const struct lk_coll_call call = {.coll = LK_BROADCAST,
                                      .dtype = wide ? LK_F64 : LK_F32,
                                      .buf = m->buffers[0].data,
                                      .count = m->buffer_elems,
                                      .index = -1,
                                      .root = root,
                                      .ready = ready};

    return lk_comm_between(t->comm, t->compute, t->net, t->buffers_there, &call);
}

/* Take rank 0's buffers; see struct lk_train_config. Where ranks may run out, those of the highest
 * rank that has not, as DDP does in Join. */
static enum lk_status take_buffers(struct trainer *t, int micro_batch)
{
    bool joins = t->config->sampler.uneven == LK_UNEVEN_JOIN;

    if (!t->buffers_ready || (micro_batch > 0 && t->config->reducer.no_sync))
        return LK_OK;
    return broadcast_buffers(
        t, t->buffers_ready[micro_batch],
        joins ? lk_shares_last_rank(t->shares, lk_trainer_first_batch(t, t->step), micro_batch)
              : 0);
}

/* At the end of an epoch in which ranks ran out, take the buffers of one that came to it, as Join
 * does. Parameters are equal, as ranks that ran out update theirs, too. */
static enum lk_status take_last_buffers(struct trainer *t)
{
    uint64_t n = lk_trainer_first_batch(t, t->step);
    int last = lk_shares_micro_batches(t->shares, n) - 1;

    if (!t->buffers_ready || t->config->sampler.uneven != LK_UNEVEN_JOIN ||
        !lk_shares_ends_epoch(t->shares, n))
        return LK_OK;
    return broadcast_buffers(t, t->buffers_ready[last], lk_shares_last_rank(t->shares, n, last));
}

/* The exchange's hook, of a backward in which a gradient is made infinite. */
struct planted {
    const struct trainer *trainer;
    struct lk_grad_hook hook;
};

static enum lk_status planted_ready(void *ctx, size_t param)
{
    const struct planted *p = ctx;
    const struct trainer *t = p->trainer;

    if (param == 0)
        LK_PASS(
            LK_LAUNCH(t->compute, fill, .x = t->model->params[0].grad, .n = 1, .value = INFINITY));
    return p->hook.ready(p->hook.ctx, param);
}

static enum lk_status planted_released(void *ctx, size_t param)
{
    const struct planted *p = ctx;

    return p->hook.released ? p->hook.released(p->hook.ctx, param) : LK_OK;
}

static enum lk_status enqueue_micro_batch(struct trainer *t, int micro_batch,
                                          const struct lk_batch *batch)
{
    const struct lk_model_ops *model = t->model->ops;
    struct planted planted = {t, lk_exchange_hook(t->exchange)};
    struct lk_grad_hook hook = planted.hook;
    size_t wide = lk_device_wide_bytes(t->device);
    double seed =
        lk_exchange_seed(t->exchange) * (double)t->scaler.scale *
        lk_shares_weight(t->shares, t->rank, lk_trainer_first_batch(t, t->step), micro_batch);

    if (t->config->reducer.plant == LK_PLANT_OVERFLOW && t->rank == t->ranks - 1 &&
        lk_stream_step(t->compute) == OVERFLOW_STEP)
        hook = (struct lk_grad_hook){planted_ready, &planted, planted_released};
    LK_PASS(lk_exchange_forward_begin(t->exchange, micro_batch));
    LK_PASS(lk_stream_range_begin(t->compute, LK_SPAN_FORWARD, micro_batch));
    LK_PASS(take_buffers(t, micro_batch));
    LK_PASS(model->forward(t->model, batch, seed));
    LK_PASS(lk_stream_range_end(t->compute));
    LK_PASS(lk_stream_copy(t->compute, (char *)t->micro_loss + (size_t)micro_batch * wide,
                           t->model->loss, wide));
    LK_PASS(lk_exchange_backward_begin(t->exchange, micro_batch));
    LK_PASS(lk_stream_range_begin(t->compute, LK_SPAN_BACKWARD, micro_batch));
    LK_PASS(model->backward(t->model, batch, seed, micro_batch > 0, &hook));
    LK_PASS(lk_stream_range_end(t->compute));
    return lk_exchange_backward_end(t->exchange);
}

/* Take part in what the other ranks exchange in a micro-batch for which this one has no samples. */
static enum lk_status enqueue_shadow(struct trainer *t, int micro_batch)
{
    LK_PASS(lk_exchange_forward_begin(t->exchange, micro_batch));
    LK_PASS(take_buffers(t, micro_batch));
    LK_PASS(lk_exchange_backward_begin(t->exchange, micro_batch));
    LK_PASS(lk_stream_range_begin(t->compute, LK_SPAN_BACKWARD, micro_batch));
    LK_PASS(lk_exchange_shadow(t->exchange));
    LK_PASS(lk_stream_range_end(t->compute));
    return lk_exchange_backward_end(t->exchange);
}

/* Return false in the first steps of late gradients, which have none to apply. */
static bool is_due(const struct trainer *t)
{
    return !t->config->reducer.staleness || lk_exchange_owned(t->exchange).n;
}

/* Prepare the step's update anew, whatever of it was enqueued. pre: none of it has run. */
static void begin_update(struct trainer *t, uint32_t step)
{
    if (t->optim && is_due(t))
        lk_optim_begin(t->optim, lk_exchange_owned(t->exchange).params,
                       lk_exchange_buckets(t->exchange), t->rate,
                       (int64_t)step + 1 - t->scaler.skipped - t->config->reducer.staleness,
                       1 / (double)t->scaler.scale);
}

enum lk_status lk_trainer_update_bucket(void *ctx, size_t bucket)
{
    struct trainer *t = ctx;

    LK_PASS(lk_stream_range_begin(t->update, LK_SPAN_OPTIMIZER, (int32_t)bucket));
    LK_PASS(lk_optim_update(t->optim, t->update, bucket));
    return lk_stream_range_end(t->update);
}

/* Return element i of host memory with the device's wide type. */
static double wide_at(const struct trainer *t, const lk_wide *x, int i)
{
    return lk_device_wide_bytes(t->device) == sizeof(double) ? ((const double *)x)[i]
                                                             : (double)((const float *)x)[i];
}

/* Twice the timeout: a collective that waits for a peer times out first, and names the peer. */
static struct lk_deadline step_deadline(const struct trainer *t)
{
    uint64_t timeout_ns = t->config->timeout_ns;

    return lk_deadline_in(timeout_ns > UINT64_MAX / 2 ? UINT64_MAX : 2 * timeout_ns);
}

/* Enqueue the sum of squares of all reduced gradients, which all ranks get. */
static enum lk_status enqueue_squares(struct trainer *t)
{
    lk_real *gradients;
    size_t n;

    if (!t->squares || !is_due(t))
        return LK_OK;
    /* The time of a replayed job's optimizer has that of its sums. */
    for (size_t run = 0; t->optim && (gradients = lk_exchange_gradients(t->exchange, run, &n));
         run++)
        LK_PASS(LK_LAUNCH(t->compute, sum_squares, .out = t->squares, .in = gradients, .n = n,
                          .accumulate = run > 0));
    LK_PASS(lk_exchange_add_up(t->exchange, t->squares));
    return lk_stream_copy(t->compute, t->squares_host, t->squares, lk_device_wide_bytes(t->device));
}

/* Wait for the gradients of a scaled loss, and decide if the step is applied. */
static enum lk_status judge_scale(struct trainer *t)
{
    bool finite;

    if (!lk_scaler_is_on(&t->scaler))
        return LK_OK;
    LK_PASS(lk_stream_sync(t->compute, step_deadline(t)));
    finite = isfinite(wide_at(t, t->squares_host, 0));
    lk_scaler_step(&t->scaler, finite);
    t->overflows = !finite;
    return LK_OK;
}

static enum lk_status enqueue_clip(struct trainer *t)
{
    lk_real *gradients;
    size_t n;

    if (!(t->config->clip_norm > 0) || !is_due(t))
        return LK_OK;
    for (size_t run = 0; (gradients = lk_exchange_gradients(t->exchange, run, &n)); run++)
        LK_PASS(LK_LAUNCH(t->compute, clip, .x = gradients, .sum_squares = t->squares, .n = n,
                          .most = t->config->clip_norm, .scale = t->scale));
    return LK_OK;
}

/* Enqueue the update of all parameters, unless they were updated early or the step is skipped. */
static enum lk_status enqueue_update(struct trainer *t)
{
    if (t->update)
        return LK_OK;
    LK_PASS(lk_stream_range_begin(t->compute, LK_SPAN_OPTIMIZER, -1));
    LK_PASS(enqueue_squares(t));
    LK_PASS(judge_scale(t));
    if (t->overflows)
        return lk_stream_range_end(t->compute);
    LK_PASS(enqueue_clip(t));
    if (!t->optim)
        LK_PASS(t->model->ops->update(t->model));
    else if (is_due(t))
        LK_PASS(lk_optim_update(t->optim, t->compute, LK_OPTIM_ALL));
    LK_PASS(lk_stream_range_end(t->compute));
    return lk_exchange_updated(t->exchange);
}

/* Take and enqueue one batch after the other. Where an epoch ends, the last ones may be empty on
 * all ranks. */
static enum lk_status enqueue_step(struct trainer *t, uint32_t step)
{
    int n = lk_shares_micro_batches(t->shares, lk_trainer_first_batch(t, step));
    struct lk_batch batch;

    for (int i = 0; i < t->config->reducer.accumulation; i++) {
        LK_PASS(next_batch(t, step, i, &batch));
        if (i < n)
            LK_PASS(batch.samples ? enqueue_micro_batch(t, i, &batch) : enqueue_shadow(t, i));
    }
    return enqueue_update(t);
}

/* Take all batches before the graph is launched: their copies differ in every step. */
static enum lk_status next_batches(struct trainer *t, uint32_t step)
{
    for (int i = 0; i < t->config->reducer.accumulation; i++) {
        struct lk_batch batch, *known = &t->batches[i];

        LK_PASS(next_batch(t, step, i, &batch));
        if (t->graph &&
            (batch.inputs != known->inputs || batch.targets != known->targets ||
             batch.samples != known->samples || !lk_sample_equal(&batch.shape, &known->shape)))
            return lk_fail(LK_EINTERNAL, "micro-batch %d is not where the graph reads it", i);
        *known = batch;
    }
    return LK_OK;
}

static enum lk_status enqueue_batches(struct trainer *t)
{
    for (int i = 0; i < t->config->reducer.accumulation; i++)
        LK_PASS(enqueue_micro_batch(t, i, &t->batches[i]));
    return enqueue_update(t);
}

static enum lk_status capture_step(struct trainer *t)
{
    struct lk_graph *graph = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_graph_begin(t->compute));
    st = enqueue_batches(t);
    LK_KEEP(lk_graph_end(t->compute, &graph));
    LK_TRY(st);
    t->graph = graph;
    graph = NULL;
    if (t->rank == 0)
        lk_log(LK_LOG_TRAIN, LK_INFO, "steps are launched as a graph");
out:
    lk_graph_destroy(graph);
    return st;
}

/* Return true if the run can go on without a graph: it was not demanded, and this is the only rank
 * (several ranks could decide differently). */
static bool can_go_on_without(struct trainer *t)
{
    if (t->config->graph != LK_GRAPH_AUTO || t->ranks > 1)
        return false;
    lk_log(LK_LOG_TRAIN, LK_WARN, "steps are not launched as a graph: %s", lk_error_text());
    t->uses_graph = false;
    return lk_device_status(t->device) == LK_OK;
}

static enum lk_status launch_step(struct trainer *t, uint32_t step)
{
    enum lk_status st = LK_OK;

    LK_TRY(next_batches(t, step));
    if (!t->graph) {
        st = capture_step(t);
        if (st != LK_OK && can_go_on_without(t)) {
            begin_update(t, step);
            return enqueue_batches(t);
        }
        LK_TRY(st);
    }
    LK_TRY(lk_comm_graph_begin(t->comm, t->compute));
    LK_TRY(lk_graph_launch(t->graph, t->compute));
    LK_TRY(lk_comm_graph_end(t->comm, t->compute));
out:
    return st;
}

/* Return true if the step's work is the same as that of other steps, so that one graph serves
 * it. */
static bool is_alike(const struct trainer *t, int64_t step, bool verify)
{
    enum { FIRST_ALIKE = 2 };
    int noise_every = t->config->reducer.noise_every;

    return step - t->course.first_step >= FIRST_ALIKE && !verify &&
           lk_shares_is_whole(t->shares, lk_trainer_first_batch(t, step)) &&
           (noise_every == 0 || step % noise_every != 0);
}

/* Return this rank's part of the step's loss: its mean over ranks is the mean over all samples.
 * *own is the mean of this rank's samples; NaN: it had none. */
static double part_of_loss(const struct trainer *t, int64_t step, double *own)
{
    int n = t->config->reducer.accumulation;
    uint64_t first = lk_trainer_first_batch(t, step);
    double sum = 0, weights = 0;

    *own = NAN;
    if (!t->computes)
        return NAN;
    for (int i = 0; i < n; i++) {
        double weight = lk_shares_of_samples(t->shares, t->rank, first, i);

        if (weight > 0) /* else the entry is an earlier step's */
            sum += wide_at(t, t->micro_loss, i) * weight;
        weights += weight;
    }
    *own = sum / weights;
    return sum / n;
}

/* Store a step's loss and norms, and add them to the trace. */
static void keep(struct trainer *t, int64_t step)
{
    uint32_t at = (uint32_t)step;
    uint32_t measured;
    double own, weight;

    t->loss[step] = part_of_loss(t, step, &own);
    t->local_sq[step] = NAN;
    t->mean_sq[step] = NAN;
    if (!isnan(own) || (t->computes && isnan(t->loss[step])))
        lk_span_counter(t->host, t->counters[COUNTER_LOSS], at, own);
    lk_span_counter(t->host, t->counters[COUNTER_RATE], at, t->rate);
    if (t->config->clip_norm > 0 && t->computes && !t->overflows && is_due(t))
        lk_span_counter(t->host, t->counters[COUNTER_CLIPPED_NORM], at,
                        sqrt(wide_at(t, t->squares_host, 0)) / t->scale);
    if (lk_scaler_is_on(&t->scaler)) {
        lk_span_counter(t->host, t->counters[COUNTER_SCALE], at, t->scale);
        lk_span_counter(t->host, t->counters[COUNTER_SKIPPED], at, (double)t->scaler.skipped);
    }
    if (lk_device_clock_error_ns(t->device) > t->clock_error_ns) {
        t->clock_error_ns = lk_device_clock_error_ns(t->device);
        lk_span_counter(t->host, t->counters[COUNTER_CLOCK_ERROR], at, (double)t->clock_error_ns);
    }
    if (t->config->reducer.noise_every == 0 ||
        !lk_shares_is_whole(t->shares, lk_trainer_first_batch(t, step)) ||
        lk_exchange_norms(t->exchange, &measured, &t->local_sq[step], &t->mean_sq[step]) != LK_OK ||
        measured != at || t->overflows) {
        t->local_sq[step] = NAN;
        t->mean_sq[step] = NAN;
        return;
    }
    weight = lk_shares_weight(t->shares, t->rank, lk_trainer_first_batch(t, step),
                              0); /* of all micro-batches */
    t->local_sq[step] /= t->scale * t->scale * weight * weight;
    t->mean_sq[step] /= t->scale * t->scale;
    lk_span_counter(t->host, t->counters[COUNTER_LOCAL_NORM], at, sqrt(t->local_sq[step]));
    lk_span_counter(t->host, t->counters[COUNTER_MEAN_NORM], at, sqrt(t->mean_sq[step]));
}

/* Verify a step; an error names the planted fault, if any. */
static enum lk_status check_step(struct trainer *t, uint32_t step)
{
    static const char *const plants[] = {LK_PLANT_LIST(LK_WORD_NAME)};
    enum lk_plant plant = t->config->reducer.plant;
    enum lk_status st;

    LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_VALUES | LK_WHOLE_GRADIENTS, NULL));
    st = lk_verify_step_end(t->verify, step, t->overflows ? 0 : t->scale);
    return plant == LK_PLANT_NONE ? st : lk_fail_context(st, "planted %s", plants[plant]);
}

static enum lk_status run_step(struct trainer *t, int64_t step)
{
    const struct lk_train_config *c = t->config;
    int64_t global_batch = lk_shares_batch(t->shares) * c->reducer.accumulation;
    uint32_t at = (uint32_t)step;
    bool verify = t->verify && (c->verify_steps == 0 || step < c->verify_steps);
    struct lk_span span;
    uint64_t began_ns;

    t->rate = lk_optim_rate(&t->schedule, step - t->scaler.skipped, global_batch);
    t->scale = (double)t->scaler.scale;
    t->overflows = false;
    if (verify) {
        LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_VALUES, NULL));
        LK_PASS(lk_verify_step_begin(t->verify));
    }
    t->step = step;
    began_ns = lk_now_ns();
    span = lk_span_begin(t->host, LK_SPAN_STEP, 0, at, -1);
    lk_stream_set_step(t->compute, at);
    lk_stream_set_step(t->net, at);
    if (t->update)
        lk_stream_set_step(t->update, at);
    LK_PASS(lk_exchange_step_begin(
        t->exchange, at, lk_shares_micro_batches(t->shares, lk_trainer_first_batch(t, step))));
    begin_update(t, at);
    if (t->uses_graph && is_alike(t, step, verify))
        LK_PASS(launch_step(t, at));
    else
        LK_PASS(enqueue_step(t, at));
    LK_PASS(take_last_buffers(t));
    if (lk_averaging_is_due(&c->averaging, step, t->n_steps))
        LK_PASS(lk_averaging_enqueue(t->averaging));
    LK_PASS(lk_stream_sync(t->compute, step_deadline(t)));
    if (t->model->gap_s > 0)
        lk_sleep_until_ns(lk_monotonic_ns() + lk_ns_from_s(t->model->gap_s));
    lk_span_end(t->host, &span);
    t->ended_ns = lk_now_ns();
    t->step_s[step] = lk_s_from_ns(t->ended_ns - began_ns);
    keep(t, step);
    if (verify)
        LK_PASS(check_step(t, at));
    LK_PASS(lk_trainer_check_loss(t, step));
    LK_PASS(lk_trainer_check_scale(t, step));
    LK_PASS(lk_trainer_check_params(t, step + 1));
    t->course.trained_s += t->step_s[step];
    LK_PASS(lk_trainer_checkpoint(t, step + 1));
    if (c->progress)
        LK_PASS(c->progress(c->progress_ctx, step, t->loss[step]));
    lk_log(LK_LOG_TRAIN, LK_DEBUG, "step %lld: loss %.6f, %.3f ms", (long long)step, t->loss[step],
           t->step_s[step] * 1e3);
    return LK_OK;
}

/* Run all steps. A step ends when the device has finished it, so no warm-up work falls into the
 * counted time. */
static enum lk_status run_steps(struct trainer *t)
{
    int64_t skipped = lk_train_skipped(t->config);
    uint64_t began_ns = 0, start_ns = t->config->checkpoint.began_ns, now_ns;

    LK_PASS(lk_trainer_check_params(t, t->course.first_step));
    now_ns = lk_now_ns();
    t->course.starts++;
    if (start_ns && start_ns < now_ns)
        t->course.starting_s += lk_s_from_ns(now_ns - start_ns);
    for (int64_t step = t->course.first_step; step < t->n_steps; step++) {
        if (step == skipped)
            began_ns = lk_now_ns();
        LK_PASS(run_step(t, step));
    }
    t->counted_s = lk_s_from_ns(t->ended_ns - began_ns);
    return LK_OK;
}

/* ---- Results ---- */

/* Average loss, step time and local norm over the ranks, in one all-reduce after the run. */
static enum lk_status average(struct trainer *t)
{
    double *const columns[] = {t->loss, t->step_s, t->local_sq};
    size_t n = (size_t)t->n_steps;
    float *buf = NULL;
    enum lk_status st = LK_OK;

    if (t->ranks == 1)
        return LK_OK;
    LK_TRY(lk_alloc(&buf, LK_COUNT(columns) * n, sizeof *buf));
    for (size_t i = 0; i < LK_COUNT(columns) * n; i++)
        buf[i] = (float)columns[i / n][i % n];
    LK_TRY(lk_comm_run(t->comm, &(struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                                       .dtype = LK_F32,
                                                       .buf = buf,
                                                       .count = LK_COUNT(columns) * n,
                                                       .index = -1}));
    for (size_t i = 0; i < LK_COUNT(columns) * n; i++)
        columns[i / n][i % n] = (double)buf[i] / t->ranks;
out:
    free(buf);
    return st;
}

static enum lk_status estimate_noise(struct trainer *t, struct lk_estimate *out)
{
    const struct lk_train_config *c = t->config;
    int micro_batches = lk_exchange_norms_micro_batches(t->exchange);
    struct lk_noise noise;
    enum lk_status st = LK_OK;

    lk_noise_init(&noise, lk_trainer_small_batch(t) * micro_batches,
                  (double)lk_shares_batch(t->shares) * micro_batches);
    for (int64_t i = lk_train_skipped(c); i < t->n_steps; i++)
        if (!isnan(t->local_sq[i]))
            LK_TRY(lk_noise_add(&noise, t->local_sq[i], t->mean_sq[i]));
    *out = lk_noise_estimate(&noise);
out:
    lk_noise_fini(&noise);
    return st;
}

static enum lk_status finish(struct trainer *t, struct lk_train_result *out)
{
    const struct lk_train_config *c = t->config;

    /* The last steps' gradients may be on their way: nobody takes them. */
    LK_PASS(lk_stream_sync(t->net, lk_deadline_in(c->timeout_ns)));
    LK_PASS(average(t));
    LK_PASS(estimate_noise(t, &out->noise));
    out->loss = t->loss;
    out->step_s = t->step_s;
    out->n = t->n_steps;
    out->skipped = lk_train_skipped(c);
    out->loss_scale = lk_scaler_is_on(&t->scaler) ? (double)t->scaler.scale : NAN;
    out->overflown = t->scaler.skipped;
    out->course = t->course;
    out->samples = lk_trainer_mean_samples(t);
    out->counted_s = t->counted_s;
    out->verify_max_error = t->verify ? lk_verify_max_error(t->verify) : NAN;
    out->verify_allowed = t->verify ? lk_verify_allowed(t->verify) : NAN;
    t->loss = NULL;
    t->step_s = NULL;
    if (c->export_path)
        LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_VALUES, NULL));
    if (c->export_path && t->rank == 0)
        LK_PASS(lk_model_export(t->model, c->export_path));
    return t->checkpoints ? lk_checkpoints_wait(t->checkpoints) : LK_OK;
}

/* Make the device and the other ranks fail, so that nothing waits for a failed rank. */
static enum lk_status give_up(struct trainer *t, enum lk_status st)
{
    char text[1024];

    snprintf(text, sizeof text, "%s", lk_error_text());
    if (t->device)
        lk_device_fail(t->device, st, text);
    if (!t->config->comm_config.store)
        return st;
    return lk_store_report(t->config->comm_config.store, st, text);
}

enum lk_status lk_train(const struct lk_train_config *config, struct lk_train_result *out)
{
    struct trainer t = {.config = config,
                        .ranks = config->comm_config.world_size,
                        .rank = config->comm_config.rank,
                        .n_steps = config->steps + config->warmup_steps};
    enum lk_status st = LK_OK;

    LK_TRY(lk_trainer_open(&t));
    LK_TRY(run_steps(&t));
    LK_TRY(finish(&t, out));
out:
    if (st != LK_OK)
        st = give_up(&t, st);
    lk_trainer_close(&t);
    return st;
}

void lk_train_result_fini(struct lk_train_result *r)
{
    free(r->loss);
    free(r->step_s);
    memset(r, 0, sizeof *r);
}
