#include "tests/kernel_pair.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

struct pair pair_zero(size_t n)
{
    struct pair p = {
        .n = n, .f = calloc(n ? n : 1, sizeof(float)), .d = calloc(n ? n : 1, sizeof(double))};

    ck_assert_ptr_nonnull(p.f);
    ck_assert_ptr_nonnull(p.d);
    return p;
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

void pair_free(struct pair *p)
{
    free(p->f);
    free(p->d);
    *p = (struct pair){0};
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
    int32_t *tokens = calloc(n ? n : 1, sizeof *tokens);

    ck_assert_ptr_nonnull(tokens);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)lk_rng_below(g, below);
    return tokens;
}
