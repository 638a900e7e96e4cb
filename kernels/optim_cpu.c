/* Optimizers, float32: one pass over memory. */
#include "kernels/impl.h"

#include <math.h>

static void sgd_tensor(const struct lk_sgd_args *a, const struct lk_optim_tensor *p)
{
    float rate = (float)a->rate->learning_rate, unscale = (float)a->rate->unscale;
    const float *restrict grad = p->grad;
    float *restrict param = p->param, *restrict m = p->m;
    float decay = (float)p->weight_decay, momentum = (float)a->momentum;

    if (!m) {
        for (size_t i = 0; i < p->n; i++)
            param[i] -= rate * (unscale * grad[i] + decay * param[i]);
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        float step = momentum * m[i] + (unscale * grad[i] + decay * param[i]);

        m[i] = step;
        param[i] -= rate * step;
    }
}

void lk_sgd_cpu(const void *args)
{
    const struct lk_sgd_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        sgd_tensor(a, &a->tensors[i]);
}

static void adamw_tensor(const struct lk_adamw_args *a, const struct lk_optim_tensor *p)
{
    const float *restrict grad = p->grad;
    float *restrict param = p->param, *restrict m = p->m, *restrict v = p->v;
    float keep = (float)(1 - a->rate->learning_rate * p->weight_decay);
    float beta1 = (float)a->beta1, rest1 = (float)(1 - a->beta1);
    float beta2 = (float)a->beta2, rest2 = (float)(1 - a->beta2);
    float rate = (float)a->rate->corrected, root = (float)a->rate->root;
    float eps = (float)a->eps, unscale = (float)a->rate->unscale;

    for (size_t i = 0; i < p->n; i++) {
        float g = unscale * grad[i];

        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        param[i] = keep * param[i] - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
}

void lk_adamw_cpu(const void *args)
{
    const struct lk_adamw_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        adamw_tensor(a, &a->tensors[i]);
}
