#include "tests/rigs/model_bench.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/must.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_track_info track = {.name = "compute", .kind = LK_TRACK_COMPUTE};

static void take_gradients(struct bench *b)
{
    size_t real_bytes = lk_device_real_bytes(b->device);
    char *grad;

    must(lk_device_alloc(b->device, b->elems * real_bytes, &b->grads));
    memset(b->grads, 0x7f, b->elems * real_bytes);
    grad = b->grads;
    for (size_t i = 0; i < b->model->n_params; i++) {
        b->model->params[i].grad = grad;
        grad += b->model->params[i].elems * real_bytes;
    }
}

static void draw_batch(struct bench *b, const struct bench_row *r)
{
    const struct lk_sample_shape shape = r->context ? lk_sample_text(r->context) : b->model->sample;
    size_t n = (size_t)r->samples * lk_sample_inputs(&shape);
    size_t n_targets = (size_t)r->samples * (size_t)shape.targets;
    struct lk_rng g = lk_rng_init(77, 0);

    must(lk_alloc(&b->inputs, n, lk_dtype_bytes(shape.dtype)));
    for (size_t i = 0; i < n; i++)
        if (shape.dtype == LK_U8)
            ((uint8_t *)b->inputs)[i] = (uint8_t)lk_rng_below(&g, 256);
        else
            ((int32_t *)b->inputs)[i] = (int32_t)lk_rng_below(&g, (uint64_t)b->model->vocab);
    must(lk_alloc(&b->targets, n_targets, sizeof *b->targets));
    for (size_t i = 0; i < n_targets; i++)
        b->targets[i] = (int32_t)lk_rng_below(&g, (uint64_t)b->model->vocab);
    b->batch = (struct lk_batch){r->samples, shape, b->inputs, b->targets};
}

void bench_open_recorded(struct bench *b, const char *device, const struct bench_row *r,
                         struct lk_recorder *recorder)
{
    const struct lk_device_config config = {.slowdown = 1, .recorder = recorder};

    *b = (struct bench){.recorder = recorder};
    must(lk_device_open(device, &config, &b->device));
    must(lk_stream_create(b->device, &track, &b->stream));
    must(lk_model_create(b->device, b->stream, &r->config, &b->model));
    b->wide = lk_device_real_bytes(b->device) == sizeof(double);
    for (size_t i = 0; i < b->model->n_params; i++)
        b->elems += b->model->params[i].elems;
    if (!r->config.described)
        take_gradients(b);
    draw_batch(b, r);
}

void bench_open(struct bench *b, const char *device, const struct bench_row *r)
{
    bench_open_recorded(b, device, r, NULL);
}

void bench_close(struct bench *b)
{
    lk_stream_destroy(b->stream); /* first, as work of a refused pass may still run */
    lk_model_destroy(b->model);
    lk_device_free(b->device, b->grads);
    lk_device_close(b->device);
    lk_recorder_destroy(b->recorder);
    free(b->inputs);
    free(b->targets);
}

double bench_real(const struct bench *b, const void *x, size_t i)
{
    return b->wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

double bench_loss(struct bench *b)
{
    must(b->model->ops->forward(b->model, &b->batch, NAN));
    must(lk_stream_sync(b->stream, lk_deadline_in(WAIT_PLENTY_NS)));
    return bench_real(b, b->model->loss, 0);
}

void bench_backward(struct bench *b, double seed, bool accumulate, const struct lk_grad_hook *hook)
{
    must(b->model->ops->backward(b->model, &b->batch, seed, accumulate, hook));
    must(lk_stream_sync(b->stream, lk_deadline_in(WAIT_PLENTY_NS)));
}

void bench_perturb(struct bench *b, double deviation)
{
    struct lk_rng g = lk_rng_init(5, 0);

    for (size_t i = 0; i < b->model->n_params; i++)
        for (size_t j = 0; j < b->model->params[i].elems; j++) {
            float v = (float)(deviation * lk_rng_normal(&g));

            if (b->wide)
                ((double *)b->model->params[i].data)[j] += (double)v;
            else
                ((float *)b->model->params[i].data)[j] += v;
        }
}

void bench_check_derivatives(const struct bench_row *r, double deviation, double h,
                             double tolerance, size_t most)
{
    struct bench b;
    size_t nonzero = 0;

    bench_open(&b, "reference", r);
    bench_perturb(&b, deviation);
    bench_loss(&b);
    bench_backward(&b, 0.5, false, NULL);
    for (size_t i = 0; i < b.model->n_params; i++) {
        double *data = b.model->params[i].data;
        const double *grad = b.model->params[i].grad;
        size_t step = most ? b.model->params[i].elems / most + 1 : 1;

        for (size_t j = 0; j < b.model->params[i].elems; j += step) {
            double at = data[j], up, down;

            data[j] = at + h;
            up = bench_loss(&b);
            data[j] = at - h;
            down = bench_loss(&b);
            data[j] = at;
            ck_assert_msg(fabs(grad[j] - 0.5 * (up - down) / (2 * h)) <= tolerance,
                          "%s[%zu]: gradient %.12g, difference %.12g", b.model->params[i].name, j,
                          grad[j], 0.5 * (up - down) / (2 * h));
            nonzero += fabs(grad[j]) > 100 * tolerance;
        }
    }
    ck_assert_uint_gt(nonzero, 50);
    bench_close(&b);
}

static void check_alike(const struct bench *cpu, const void *x, const struct bench *ref,
                        const void *y, size_t n, double tolerance, const char *name)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs(bench_real(cpu, x, i) - bench_real(ref, y, i)) <= tolerance,
                      "%s[%zu]: %g, reference %g", name, i, bench_real(cpu, x, i),
                      bench_real(ref, y, i));
}

void bench_check_devices(const struct bench_row *r, double deviation, double tolerance)
{
    struct bench cpu, ref;

    bench_open(&cpu, "cpu", r);
    bench_open(&ref, "reference", r);
    ck_assert_uint_eq(cpu.model->n_params, ref.model->n_params);
    for (size_t i = 0; i < cpu.model->n_params; i++)
        check_alike(&cpu, cpu.model->params[i].data, &ref, ref.model->params[i].data,
                    cpu.model->params[i].elems, 0, cpu.model->params[i].name);
    bench_perturb(&cpu, deviation);
    bench_perturb(&ref, deviation);
    ck_assert_double_eq_tol(bench_loss(&cpu), bench_loss(&ref), tolerance);
    bench_backward(&cpu, 1, false, NULL);
    bench_backward(&ref, 1, false, NULL);
    for (size_t i = 0; i < cpu.model->n_params; i++)
        check_alike(&cpu, cpu.model->params[i].grad, &ref, ref.model->params[i].grad,
                    cpu.model->params[i].elems, tolerance, cpu.model->params[i].name);
    for (size_t i = 0; i < cpu.model->n_buffers; i++)
        check_alike(&cpu, cpu.model->buffers[i].data, &ref, ref.model->buffers[i].data,
                    cpu.model->buffers[i].elems, tolerance, cpu.model->buffers[i].name);
    bench_close(&cpu);
    bench_close(&ref);
}

void bench_check_accumulation(const struct bench_row *r, double tolerance)
{
    struct bench b;
    double *once = NULL;

    bench_open(&b, "reference", r);
    must(lk_alloc(&once, b.elems, sizeof *once));
    bench_loss(&b);
    bench_backward(&b, 1, false, NULL);
    memcpy(once, b.grads, b.elems * sizeof *once);
    bench_loss(&b);
    bench_backward(&b, 2, true, NULL);
    for (size_t i = 0; i < b.elems; i++)
        ck_assert_double_eq_tol(((double *)b.grads)[i], 3 * once[i], tolerance);
    free(once);
    bench_close(&b);
}

void bench_check_refusal(const struct lk_model_config *config, const char *text)
{
    const struct lk_device_config device = {.slowdown = 1};
    struct lk_device *d;
    struct lk_stream *s;
    struct lk_model *m = NULL;

    must(lk_device_open("reference", &device, &d));
    must(lk_stream_create(d, &track, &s));
    ck_assert_msg(lk_model_create(d, s, config, &m) == LK_EUSAGE, "%s", lk_error_text());
    ck_assert_msg(strstr(lk_error_text(), text) != NULL, "%s", lk_error_text());
    ck_assert_ptr_null(m);
    lk_stream_destroy(s);
    lk_device_close(d);
}
