/*
 * Find what is wrong on one rank: parameters that differ from the others', every few steps, and
 * losses that are not finite. Ranks that differ go on without an error otherwise: their gradients
 * are averaged all the same. (The reducer compares shapes.)
 */
#include "runtime/rendezvous/agree.h"
#include "runtime/train/trainer_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct lk_store *store_of(const struct trainer *t)
{
    return t->config->comm_config.store;
}

enum lk_status lk_trainer_check_open(struct trainer *t)
{
    void *sum = NULL, *host = NULL;

    if (!t->config->check_every || t->ranks == 1 || !t->computes || !store_of(t))
        return LK_OK;
    LK_PASS(lk_device_alloc(t->device, sizeof *t->sum, &sum));
    t->sum = sum;
    LK_PASS(lk_device_alloc_host(t->device, sizeof *t->sum_host, &host));
    t->sum_host = host;
    return LK_OK;
}

/* Compute the checksum of parameters: whole words, since the gaps behind tensors are zero. */
static enum lk_status sum_up(struct trainer *t, const void *at, size_t bytes, uint64_t *out)
{
    uint64_t timeout_ns = t->config->timeout_ns;

    *out = 0;
    if (!at)
        return LK_OK;
    LK_PASS(LK_LAUNCH(t->compute, checksum, .sum = t->sum, .words = at, .n = (bytes + 3) / 4));
    LK_PASS(lk_stream_copy(t->compute, t->sum_host, t->sum, sizeof *t->sum));
    LK_PASS(lk_stream_sync(
        t->compute, lk_deadline_in(timeout_ns > UINT64_MAX / 2 ? UINT64_MAX : 2 * timeout_ns)));
    *out = *t->sum_host;
    return LK_OK;
}

/* Compare tensor by tensor; the ranks are known to differ. */
static enum lk_status name_param(struct trainer *t, const char *what)
{
    size_t real = lk_device_real_bytes(t->device), wide = lk_device_wide_bytes(t->device);
    struct lk_facts f = {0};
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->model->n_params; i++) {
        const struct lk_param *p = &t->model->params[i];
        char name[128];
        uint64_t data, exact;

        snprintf(name, sizeof name, "the checksum of %s", p->name);
        LK_TRY(sum_up(t, p->data, p->elems * real, &data));
        LK_TRY(sum_up(t, p->master, p->elems * wide, &exact));
        LK_TRY(lk_facts_add(&f, name, "%016" PRIx64, data ^ (exact << 1 | exact >> 63)));
    }
    LK_TRY(lk_facts_agree(&f, store_of(t), t->rank, t->ranks, what));
    st = lk_fail(LK_EVERIFY, "%s differ, but no tensor does", what);
out:
    lk_facts_fini(&f);
    return st;
}

/* Return true if all ranks' parameters are to be compared after `step` steps. */
static bool is_due(struct trainer *t, int64_t step)
{
    const struct lk_averaging_config *a = &t->config->averaging;
    bool equal =
        !lk_averaging_is_on(a) || step <= a->warmup || lk_averaging_is_due(a, step - 1, t->n_steps);

    t->check_waits |=
        step % t->config->check_every == 0 || step == t->n_steps || step == t->course.first_step;
    if (!t->check_waits || !equal)
        return false;
    t->check_waits = false;
    return true;
}

enum lk_status lk_trainer_check_params(struct trainer *t, int64_t step)
{
    const struct lk_model *m = t->model;
    bool equal = true;
    const void *weights;
    uint64_t sums[2];
    size_t bytes;
    char what[80];

    if (!t->sum_host || !is_due(t, step))
        return LK_OK;
    LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_VALUES, NULL));
    weights = lk_exchange_weights(t->exchange, &bytes);
    LK_PASS(sum_up(t, weights, bytes, &sums[0]));
    LK_PASS(sum_up(t, m->masters, m->masters_bytes, &sums[1]));
    if (step)
        snprintf(what, sizeof what, "the parameters after step %" PRId64, step - 1);
    else
        snprintf(what, sizeof what, "the initial parameters");
    LK_PASS(lk_store_agree(store_of(t), what, sums, &equal));
    return equal ? LK_OK : name_param(t, what);
}

enum lk_status lk_trainer_check_loss(struct trainer *t, int64_t step)
{
    char where[256] = "", host[128] = "";

    if (!t->computes || isfinite(t->loss[step]))
        return LK_OK;
    if (gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "unknown");
    LK_PASS(lk_model_not_finite(t->model, where, sizeof where));
    return lk_fail(LK_EVERIFY, "the loss of step %" PRId64 " is %s on host %s: %s", step,
                   isnan(t->loss[step]) ? "nan" : "infinite", host,
                   *where ? where : "the outputs of its last micro-batch are finite");
}

/* Name the first parameter whose reduced gradient is not finite. */
static enum lk_status find_overflow(struct trainer *t, const char **out)
{
    uint64_t timeout_ns = t->config->timeout_ns;
    bool wide = lk_device_wide_bytes(t->device) == sizeof(double);

    *out = NULL;
    LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_GRADIENTS, NULL));
    for (size_t i = 0; i < t->model->n_params && !*out; i++) {
        const struct lk_param *p = &t->model->params[i];
        double sum;

        LK_PASS(
            LK_LAUNCH(t->compute, sum_squares, .out = t->squares, .in = p->grad, .n = p->elems));
        LK_PASS(lk_stream_copy(t->compute, t->squares_host, t->squares,
                               lk_device_wide_bytes(t->device)));
        LK_PASS(lk_stream_sync(
            t->compute, lk_deadline_in(timeout_ns > UINT64_MAX / 2 ? UINT64_MAX : 2 * timeout_ns)));
        sum = wide ? *(const double *)t->squares_host : (double)*(const float *)t->squares_host;
        if (!isfinite(sum))
            *out = p->name;
    }
    return LK_OK;
}

enum lk_status lk_trainer_check_scale(struct trainer *t, int64_t step)
{
    bool fixed = t->scaler.config.kind == LK_LOSS_SCALE_FIXED;
    const char *param;

    if (!t->overflows || (!fixed && t->scaler.scale >= LK_SCALER_FLOOR))
        return LK_OK;
    LK_PASS(find_overflow(t, &param));
    return lk_fail(LK_EVERIFY,
                   "the gradients of step %" PRId64 " are not finite at a loss scale of %g, which "
                   "%s: first that of '%s'",
                   step, t->scale, fixed ? "is fixed" : "is the smallest",
                   param ? param : "no single parameter");
}
