/* Optimizers, float64. */
#include "kernels/impl.h"

#include <math.h>

void lk_sgd_ref(const void *args)
{
    const struct lk_sgd_args *a = args;
    const double *grad = a->grad;
    double *param = a->param, *buf = a->buf;

    for (size_t i = 0; i < a->n; i++) {
        double step = grad[i] + a->weight_decay * param[i];

        if (buf)
            step = buf[i] = a->momentum * buf[i] + step;
        param[i] -= a->learning_rate * step;
    }
}

void lk_adamw_ref(const void *args)
{
    const struct lk_adamw_args *a = args;
    const double *grad = a->grad;
    double *param = a->param, *m = a->m, *v = a->v;
    double correction1 = 1 - pow(a->beta1, (double)a->t);
    double correction2 = 1 - pow(a->beta2, (double)a->t);

    for (size_t i = 0; i < a->n; i++) {
        double g = grad[i];

        param[i] -= a->learning_rate * a->weight_decay * param[i];
        m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
        param[i] -= a->learning_rate * (m[i] / correction1) / (sqrt(v[i] / correction2) + a->eps);
    }
}
