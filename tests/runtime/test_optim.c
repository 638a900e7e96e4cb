/* Optimizers over several parameters, on every device that computes, against plain formulas. */
#include "runtime/model/optim.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS = 3, ELEMS = 40, STEPS = 4 };
static const size_t elems[PARAMS] = {7, 1, 32};
static const bool decays[PARAMS] = {true, false, true};

static const struct {
    const char *device;
    size_t state; /* elements of state an element of a parameter */
    enum lk_optim_kind kind;
    double momentum, decay;
    bool buckets; /* one launch a bucket */
} rows[] = {
    {"cpu", 0, LK_OPTIM_SGD, 0, 0, false},         {"cpu", 0, LK_OPTIM_SGD, 0, 0.01, true},
    {"cpu", 1, LK_OPTIM_SGD, 0.9, 0.01, false},    {"reference", 1, LK_OPTIM_SGD, 0.9, 0, true},
    {"cpu", 2, LK_OPTIM_ADAMW, 0, 0.1, false},     {"reference", 2, LK_OPTIM_ADAMW, 0, 0, false},
    {"cpu", 2, LK_OPTIM_ADAMW, 0, 0.1, true},      {"cpu", 1, LK_OPTIM_LARS, 0.9, 0.1, false},
    {"cpu", 0, LK_OPTIM_LARS, 0, 0, true},         {"reference", 1, LK_OPTIM_LARS, 0.9, 0.1, true},
    {"cpu", 2, LK_OPTIM_LAMB, 0, 0.1, false},      {"cpu", 2, LK_OPTIM_LAMB, 0, 0, true},
    {"reference", 2, LK_OPTIM_LAMB, 0, 0.1, true},
};

/* Buckets that list the parameters in another order than their registration's. */
static size_t firsts[] = {0, 1, 3}, indices[] = {2, 1, 0};
static const struct lk_bucket_plan plan = {.n_buckets = 2, .first = firsts, .index = indices};

static struct lk_optim_config row_config(int i)
{
    return (struct lk_optim_config){.kind = rows[i].kind,
                                    .learning_rate = 0.05,
                                    .momentum = rows[i].momentum,
                                    .beta1 = 0.9,
                                    .beta2 = 0.95,
                                    .eps = 1e-8,
                                    .trust = 0.3,
                                    .weight_decay = rows[i].decay};
}

static double norm(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Apply one step of LARS or LAMB to a parameter, as their papers define them. */
static void layerwise_step(const struct lk_optim_config *c, double *w, const double *g, double *m,
                           double *v, size_t n, bool adapts, int t)
{
    double wd = adapts ? c->weight_decay : 0, of_w = norm(w, n), u[ELEMS], ratio;

    if (c->kind == LK_OPTIM_LARS) {
        ratio = adapts ? c->trust * of_w / (norm(g, n) + wd * of_w) : 1;
        for (size_t i = 0; i < n; i++) {
            m[i] = c->momentum * m[i] + c->learning_rate * ratio * (g[i] + wd * w[i]);
            w[i] -= m[i];
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m[i] = c->beta1 * m[i] + (1 - c->beta1) * g[i];
        v[i] = c->beta2 * v[i] + (1 - c->beta2) * g[i] * g[i];
        u[i] = m[i] / (1 - pow(c->beta1, t)) / (sqrt(v[i] / (1 - pow(c->beta2, t))) + c->eps) +
               wd * w[i];
    }
    ratio = adapts ? of_w / norm(u, n) : 1;
    for (size_t i = 0; i < n; i++)
        w[i] -= c->learning_rate * ratio * u[i];
}

/* Apply one step as defined in kernels/ops.h, in double. */
static void plain_step(const struct lk_optim_config *c, double *w, const double *g, double *m,
                       double *v, bool decay, int t)
{
    double wd = decay ? c->weight_decay : 0;

    if (c->kind == LK_OPTIM_SGD) {
        *m = c->momentum * *m + *g + wd * *w;
        *w -= c->learning_rate * *m;
        return;
    }
    *w -= c->learning_rate * wd * *w;
    *m = c->beta1 * *m + (1 - c->beta1) * *g;
    *v = c->beta2 * *v + (1 - c->beta2) * *g * *g;
    *w -= c->learning_rate / (1 - pow(c->beta1, t)) * *m /
          (sqrt(*v / (1 - pow(c->beta2, t))) + c->eps);
}

static void put(lk_real *to, size_t real, size_t i, double v)
{
    if (real == sizeof(double))
        ((double *)to)[i] = v;
    else
        ((float *)to)[i] = (float)v;
}

static double get(const lk_real *from, size_t real, size_t i)
{
    return real == sizeof(double) ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

START_TEST(follows_the_formulas)
{
    const struct lk_optim_config config = row_config(_i);
    const struct lk_optim_config *c = &config;
    const struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    struct lk_device_config dc = {.slowdown = 1};
    struct lk_rng g = lk_rng_init(11, 0);
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    struct lk_optim *o = NULL;
    struct lk_param params[PARAMS] = {{0}};
    double w[PARAMS][ELEMS], grad[PARAMS][ELEMS];
    double m[PARAMS][ELEMS] = {{0}}, v[PARAMS][ELEMS] = {{0}};
    /* float32: a few roundings a step, of numbers of order 1. */
    double tolerance;
    size_t real;

    ck_assert_int_eq(lk_device_open(rows[_i].device, &dc, &d), LK_OK);
    ck_assert_int_eq(lk_stream_create(d, &track, &s), LK_OK);
    real = lk_device_real_bytes(d);
    tolerance = real == sizeof(double) ? 1e-13 : 2e-6;
    for (size_t p = 0; p < PARAMS; p++) {
        void *data, *gradient;

        ck_assert_int_eq(lk_device_alloc(d, elems[p] * real, &data), LK_OK);
        ck_assert_int_eq(lk_device_alloc(d, elems[p] * real, &gradient), LK_OK);
        params[p] = (struct lk_param){
            .name = "p", .elems = elems[p], .data = data, .grad = gradient, .decay = decays[p]};
        for (size_t i = 0; i < elems[p]; i++) {
            put(data, real, i, lk_rng_normal(&g));
            w[p][i] = get(data, real, i);
        }
    }
    ck_assert_int_eq(lk_optim_create(d, c, params, PARAMS, &o), LK_OK);
    ck_assert_uint_eq(lk_optim_state_bytes(o), rows[_i].state * ELEMS * real);
    for (int t = 1; t <= STEPS; t++) {
        for (size_t p = 0; p < PARAMS; p++)
            for (size_t i = 0; i < elems[p]; i++) {
                put(params[p].grad, real, i, lk_rng_normal(&g));
                grad[p][i] = get(params[p].grad, real, i);
                if (c->kind == LK_OPTIM_SGD || c->kind == LK_OPTIM_ADAMW)
                    plain_step(c, &w[p][i], &grad[p][i], &m[p][i], &v[p][i], decays[p], t);
            }
        for (size_t p = 0; p < PARAMS && (c->kind == LK_OPTIM_LARS || c->kind == LK_OPTIM_LAMB);
             p++)
            layerwise_step(c, w[p], grad[p], m[p], v[p], elems[p], decays[p], t);
        lk_optim_begin(o, params, rows[_i].buckets ? &plan : NULL, c->learning_rate, t, 1);
        for (size_t b = 0; b < (rows[_i].buckets ? plan.n_buckets : 1); b++)
            ck_assert_int_eq(lk_optim_update(o, s, rows[_i].buckets ? b : LK_OPTIM_ALL), LK_OK);
        ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(WAIT_PLENTY_NS)), LK_OK);
    }
    for (size_t p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < elems[p]; i++)
            ck_assert_double_eq_tol(get(params[p].data, real, i), w[p][i], tolerance);
    lk_stream_destroy(s);
    lk_optim_destroy(o);
    for (size_t p = 0; p < PARAMS; p++) {
        lk_device_free(d, params[p].data);
        lk_device_free(d, params[p].grad);
    }
    lk_device_close(d);
}
END_TEST

/* One field of a good configuration is made bad. */
static const struct {
    enum lk_optim_kind kind;
    size_t field;
    double value;
} bad[] = {
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, learning_rate), 0},
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, learning_rate), NAN},
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, learning_rate), INFINITY},
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, momentum), 1},
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, momentum), -0.1},
    {LK_OPTIM_SGD, offsetof(struct lk_optim_config, weight_decay), -1},
    {LK_OPTIM_ADAMW, offsetof(struct lk_optim_config, beta1), 1},
    {LK_OPTIM_ADAMW, offsetof(struct lk_optim_config, beta2), 1},
    {LK_OPTIM_ADAMW, offsetof(struct lk_optim_config, eps), 0},
    {LK_OPTIM_LAMB, offsetof(struct lk_optim_config, beta2), 1},
    {LK_OPTIM_LARS, offsetof(struct lk_optim_config, momentum), 1},
    {LK_OPTIM_LARS, offsetof(struct lk_optim_config, trust), 0},
};

START_TEST(bad_configurations)
{
    struct lk_device_config dc = {.slowdown = 1};
    struct lk_optim_config c = row_config(0);
    struct lk_device *d = NULL;
    struct lk_optim *o = NULL;

    c.kind = bad[_i].kind;
    memcpy((char *)&c + bad[_i].field, &bad[_i].value, sizeof(double));
    ck_assert_int_eq(lk_device_open("cpu", &dc, &d), LK_OK);
    ck_assert_int_eq(lk_optim_create(d, &c, NULL, 0, &o), LK_EUSAGE);
    ck_assert_ptr_null(o);
    lk_device_close(d);
}
END_TEST

/* The rate by rule, and the warm-up in steps and in epochs. */
static const struct {
    enum lk_lr_scaling scaling;
    int64_t reference;
    double after; /* of rate 0.1 at a global batch of 64 */
} rates[] = {
    {LK_LR_SCALING_LINEAR, 0, 0.1}, {LK_LR_SCALING_LINEAR, 16, 0.4}, {LK_LR_SCALING_SQRT, 16, 0.2},
    {LK_LR_SCALING_NONE, 16, 0.1},  {LK_LR_SCALING_SQRT, 256, 0.05},
};

START_TEST(rates_follow_the_rule)
{
    struct lk_optim_config c = {.learning_rate = 0.1,
                                .scaling = rates[_i].scaling,
                                .reference_batch = rates[_i].reference,
                                .warmup_steps = 4};

    ck_assert_double_eq_tol(lk_optim_rate(&c, 4, 64), rates[_i].after, 1e-15);
    ck_assert_double_eq_tol(lk_optim_rate(&c, 1, 64), rates[_i].after / 2, 1e-15);
}
END_TEST

static const struct {
    const char *text;
    int64_t steps; /* of 10.5 steps an epoch; -1: refused */
} warmups[] = {
    {"0", 0},        {"500", 500},     {"1epoch", 11}, {"0.5epochs", 6}, {"2epochs", 21},
    {"0epoch", 0},   {"", -1},         {"epoch", -1},  {"-1", -1},       {"1.5", -1},
    {"3 steps", -1}, {"nanepoch", -1}, {"1e10", -1},
};

START_TEST(warm_ups_are_steps_or_epochs)
{
    struct lk_optim_config c = {.warmup_steps = 7};
    enum lk_status st = lk_optim_parse_warmup(warmups[_i].text, &c);

    ck_assert_int_eq(st, warmups[_i].steps < 0 ? LK_EUSAGE : LK_OK);
    lk_optim_set_epoch(&c, 10.5);
    ck_assert_int_eq(c.warmup_steps, warmups[_i].steps < 0 ? 7 : warmups[_i].steps);
}
END_TEST

SUITE(optim, c)
{
    tcase_add_loop_test(c, rates_follow_the_rule, 0, LK_COUNT(rates));
    tcase_add_loop_test(c, warm_ups_are_steps_or_epochs, 0, LK_COUNT(warmups));
    tcase_add_loop_test(c, follows_the_formulas, 0, LK_COUNT(rows));
    tcase_add_loop_test(c, bad_configurations, 0, LK_COUNT(bad));
}
