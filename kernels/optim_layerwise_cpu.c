/* Optimizers whose rate adapts to a tensor's norms, float32: a pass over the norms, one over
 * memory. Norms are added in float64, in the order of elements. */
#include "kernels/impl.h"

#include <math.h>

static double norm(const float *x, size_t n)
{
    enum { BLOCK = 4096 };
    double sum = 0;

    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;

        sum += (double)lk_lanes_dot(x + first, x + first, count);
    }
    return sqrt(sum);
}

static void lars_tensor(const struct lk_lars_args *a, const struct lk_optim_tensor *p)
{
    const float *restrict grad = p->grad;
    float *restrict param = p->param, *restrict m = p->m;
    double of_param = norm(param, p->n), of_grad = norm(grad, p->n) * a->rate->unscale, ratio = 1;
    float decay = (float)p->weight_decay, momentum = (float)a->momentum, rate;
    float unscale = (float)a->rate->unscale;

    if (p->layerwise && of_param > 0 && of_grad > 0)
        ratio = a->trust * of_param / (of_grad + p->weight_decay * of_param);
    rate = (float)(a->rate->learning_rate * ratio);
    for (size_t i = 0; i < p->n; i++) {
        float step = rate * (unscale * grad[i] + decay * param[i]);

        if (m)
            step = m[i] = momentum * m[i] + step;
        param[i] -= step;
    }
}

void lk_lars_cpu(const void *args)
{
    const struct lk_lars_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        lars_tensor(a, &a->tensors[i]);
}

/* The update of an element, before the ratio. */
static float lamb_step(const struct lk_lamb_args *a, const struct lk_optim_tensor *p, size_t i)
{
    const float *param = p->param, *m = p->m, *v = p->v;
    float unbias = (float)(a->rate->corrected / a->rate->learning_rate);

    return m[i] * unbias / (sqrtf(v[i]) * (float)a->rate->root + (float)a->eps) +
           (float)p->weight_decay * param[i];
}

static void lamb_tensor(const struct lk_lamb_args *a, const struct lk_optim_tensor *p)
{
    const float *restrict grad = p->grad;
    float *restrict param = p->param, *restrict m = p->m, *restrict v = p->v;
    float beta1 = (float)a->beta1, rest1 = (float)(1 - a->beta1);
    float beta2 = (float)a->beta2, rest2 = (float)(1 - a->beta2);
    double of_param = norm(param, p->n), of_step = 0, ratio = 1;
    float rate, unscale = (float)a->rate->unscale;

    for (size_t i = 0; i < p->n; i++) {
        float g = unscale * grad[i], step;

        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        step = lamb_step(a, p, i);
        of_step += (double)step * (double)step;
    }
    of_step = sqrt(of_step);
    if (p->layerwise && of_param > 0 && of_step > 0)
        ratio = of_param / of_step;
    rate = (float)(a->rate->learning_rate * ratio);
    for (size_t i = 0; i < p->n; i++)
        param[i] -= rate * lamb_step(a, p, i);
}

void lk_lamb_cpu(const void *args)
{
    const struct lk_lamb_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        lamb_tensor(a, &a->tensors[i]);
}

/* ---- Their definitions, float64 ---- */

static double norm_ref(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

void lk_lars_ref(const void *args)
{
    const struct lk_lars_args *a = args;

    for (size_t t = 0; t < a->n_tensors; t++) {
        const struct lk_optim_tensor *p = &a->tensors[t];
        double *param = p->param, *m = p->m, ratio = 1;
        double of_param = norm_ref(param, p->n);
        double of_grad = norm_ref(p->grad, p->n) * a->rate->unscale;

        if (p->layerwise && of_param > 0 && of_grad > 0)
            ratio = a->trust * of_param / (of_grad + p->weight_decay * of_param);
        for (size_t i = 0; i < p->n; i++) {
            double g = ((const double *)p->grad)[i] * a->rate->unscale;
            double step = a->rate->learning_rate * ratio * (g + p->weight_decay * param[i]);

            if (m)
                step = m[i] = a->momentum * m[i] + step;
            param[i] -= step;
        }
    }
}

static double lamb_step_ref(const struct lk_lamb_args *a, const struct lk_optim_tensor *p, size_t i)
{
    const double *param = p->param, *m = p->m, *v = p->v;
    double unbiased = m[i] * (a->rate->corrected / a->rate->learning_rate);

    return unbiased / (sqrt(v[i]) * a->rate->root + a->eps) + p->weight_decay * param[i];
}

void lk_lamb_ref(const void *args)
{
    const struct lk_lamb_args *a = args;

    for (size_t t = 0; t < a->n_tensors; t++) {
        const struct lk_optim_tensor *p = &a->tensors[t];
        double *param = p->param, *m = p->m, *v = p->v, of_step = 0, ratio = 1;
        double of_param = norm_ref(param, p->n);

        for (size_t i = 0; i < p->n; i++) {
            double g = ((const double *)p->grad)[i] * a->rate->unscale, step;

            m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
            v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
            step = lamb_step_ref(a, p, i);
            of_step += step * step;
        }
        if (p->layerwise && of_param > 0 && of_step > 0)
            ratio = of_param / sqrt(of_step);
        for (size_t i = 0; i < p->n; i++)
            param[i] -= a->rate->learning_rate * ratio * lamb_step_ref(a, p, i);
    }
}
