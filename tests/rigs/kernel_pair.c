#include "tests/rigs/kernel_pair.h"

#include "base/array.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static void **made; /* for pairs_free */
static size_t n_made, capacity;

static void *make(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(lk_array_grow(&made, &capacity, n_made + 1, sizeof *made), LK_OK);
    made[n_made++] = p;
    return p;
}

struct pair pair_zero(size_t n)
{
    return (struct pair){.n = n, .f = make(n, sizeof(float)), .d = make(n, sizeof(double))};
}

struct pair pair_random(struct lk_rng *g, size_t n, double range)
{
    struct pair p = pair_zero(n);

    for (size_t i = 0; i < n; i++) {
        p.f[i] = (float)(range * (2 * lk_rng_uniform(g) - 1));
        p.d[i] = (double)p.f[i];
    }
    return p;
}

void pairs_free(void)
{
    while (n_made > 0)
        free(made[--n_made]);
    free(made);
    made = NULL;
    capacity = 0;
}

void pair_align(struct pair *p)
{
    for (size_t i = 0; i < p->n; i++) {
        p->f[i] = (float)p->d[i];
        p->d[i] = (double)p->f[i];
    }
}

static double element_error(double f, double d)
{
    if (isnan(f) || isnan(d))
        return isnan(f) && isnan(d) ? 0 : INFINITY;
    if (isinf(f) || isinf(d))
        return f == d ? 0 : INFINITY;
    return fabs(f - d) / fmax(1, fabs(d));
}

double pair_error(const struct pair *p)
{
    double worst = 0;

    for (size_t i = 0; i < p->n; i++)
        worst = fmax(worst, element_error((double)p->f[i], p->d[i]));
    return worst;
}

int32_t *random_tokens(struct lk_rng *g, size_t n, size_t below)
{
    int32_t *tokens = make(n, sizeof *tokens);

    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)lk_rng_below(g, below);
    return tokens;
}
