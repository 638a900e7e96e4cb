/* Optimizers, float64. */
#include "kernels/impl.h"

#include <math.h>

static void sgd_tensor(const struct lk_sgd_args *a, const struct lk_optim_tensor *p)
{
    const double *grad = p->grad;
    double *param = p->param, *m = p->m;

    for (size_t i = 0; i < p->n; i++) {
        double step = grad[i] + p->weight_decay * param[i];

        if (m)
            step = m[i] = a->momentum * m[i] + step;
        param[i] -= a->learning_rate * step;
    }
}

void lk_sgd_ref(const void *args)
{
    const struct lk_sgd_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        sgd_tensor(a, &a->tensors[i]);
}

static void adamw_tensor(const struct lk_adamw_args *a, const struct lk_optim_tensor *p)
{
    const double *grad = p->grad;
    double *param = p->param, *m = p->m, *v = p->v;
    double correction1 = 1 - pow(a->beta1, (double)a->t);
    double correction2 = 1 - pow(a->beta2, (double)a->t);

    for (size_t i = 0; i < p->n; i++) {
        double g = grad[i];

        param[i] -= a->learning_rate * p->weight_decay * param[i];
        m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
        param[i] -= a->learning_rate * (m[i] / correction1) / (sqrt(v[i] / correction2) + a->eps);
    }
}

void lk_adamw_ref(const void *args)
{
    const struct lk_adamw_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        adamw_tensor(a, &a->tensors[i]);
}
