/* Optimizers, float32: one pass over memory. */
#include "kernels/impl.h"

#include <math.h>

void lk_sgd_cpu(const void *args)
{
    const struct lk_sgd_args *a = args;
    const float *restrict grad = a->grad;
    float *restrict param = a->param, *restrict buf = a->buf;
    float rate = (float)a->learning_rate, momentum = (float)a->momentum;
    float decay = (float)a->weight_decay;

    if (!buf) {
        for (size_t i = 0; i < a->n; i++)
            param[i] -= rate * (grad[i] + decay * param[i]);
        return;
    }
    for (size_t i = 0; i < a->n; i++) {
        float step = momentum * buf[i] + (grad[i] + decay * param[i]);

        buf[i] = step;
        param[i] -= rate * step;
    }
}

void lk_adamw_cpu(const void *args)
{
    const struct lk_adamw_args *a = args;
    const float *restrict grad = a->grad;
    float *restrict param = a->param, *restrict m = a->m, *restrict v = a->v;
    float keep = (float)(1 - a->learning_rate * a->weight_decay);
    float beta1 = (float)a->beta1, rest1 = (float)(1 - a->beta1);
    float beta2 = (float)a->beta2, rest2 = (float)(1 - a->beta2);
    float rate = (float)(a->learning_rate / (1 - pow(a->beta1, (double)a->t)));
    float root = (float)sqrt(1 / (1 - pow(a->beta2, (double)a->t)));
    float eps = (float)a->eps;

    for (size_t i = 0; i < a->n; i++) {
        float g = grad[i];

        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * g * g;
        param[i] = keep * param[i] - rate * m[i] / (sqrtf(v[i]) * root + eps);
    }
}
