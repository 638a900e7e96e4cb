/* This file minimises by the simplex of Nelder and Mead. */
#include "sim/simplex.h"

#include <string.h>

enum { MAX = LK_SIMPLEX_MAX };

struct vertex {
    double x[MAX], value;
};

struct search {
    lk_simplex_fn *f;
    void *ctx;
    size_t n;
    struct vertex v[MAX + 1]; /* sorted, best first */
};

static enum lk_status measure(const struct search *s, struct vertex *v)
{
    return s->f(v->x, s->ctx, &v->value);
}

/* Insert a vertex among the first k sorted ones; it overwrites the one at k. */
static void insert(struct search *s, size_t k, const struct vertex *v)
{
    struct vertex copy = *v;

    for (; k > 0 && s->v[k - 1].value > copy.value; k--)
        s->v[k] = s->v[k - 1];
    s->v[k] = copy;
}

/* Set the point beyond the centre of all vertices but the worst, at `t` times their distance. */
static enum lk_status away(const struct search *s, double t, struct vertex *out)
{
    for (size_t i = 0; i < s->n; i++) {
        double centre = 0;

        for (size_t k = 0; k < s->n; k++)
            centre += s->v[k].x[i] / (double)s->n;
        out->x[i] = centre + t * (centre - s->v[s->n].x[i]);
    }
    return measure(s, out);
}

static enum lk_status shrink(struct search *s)
{
    struct vertex best = s->v[0];

    for (size_t k = 1; k <= s->n; k++) {
        struct vertex v = s->v[k];

        for (size_t i = 0; i < s->n; i++)
            v.x[i] = (v.x[i] + best.x[i]) / 2;
        LK_PASS(measure(s, &v));
        insert(s, k, &v);
    }
    return LK_OK;
}

static enum lk_status move(struct search *s)
{
    size_t worst = s->n;
    struct vertex reflected, other;

    LK_PASS(away(s, 1, &reflected));
    if (reflected.value < s->v[0].value) {
        LK_PASS(away(s, 2, &other));
        insert(s, worst, other.value < reflected.value ? &other : &reflected);
    } else if (reflected.value < s->v[worst - 1].value) {
        insert(s, worst, &reflected);
    } else {
        LK_PASS(away(s, -0.5, &other));
        if (other.value < s->v[worst].value)
            insert(s, worst, &other);
        else
            LK_PASS(shrink(s));
    }
    return LK_OK;
}

enum lk_status lk_simplex_minimise(lk_simplex_fn *f, void *ctx, double *x, size_t n, double step,
                                   int iterations, double *out_value)
{
    struct search s = {.f = f, .ctx = ctx, .n = n};

    if (!n || n > MAX)
        return lk_fail(LK_EINTERNAL, "a simplex of %zu variables; 1 to %d are possible", n, MAX);
    for (size_t k = 0; k <= n; k++) {
        struct vertex v = {.value = 0};

        memcpy(v.x, x, n * sizeof *x);
        if (k)
            v.x[k - 1] += step;
        LK_PASS(measure(&s, &v));
        insert(&s, k, &v);
    }
    for (int i = 0; i < iterations; i++)
        LK_PASS(move(&s));
    memcpy(x, s.v[0].x, n * sizeof *x);
    if (out_value)
        *out_value = s.v[0].value;
    return LK_OK;
}
