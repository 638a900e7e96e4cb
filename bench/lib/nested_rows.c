/* The rows of sim/collective/nccl_fit.c made anew; see the header. */
#include "bench/lib/nested_rows.h"

#include "base/stats.h"

#include <math.h>
#include <string.h>

enum { SOURCES_MAX = 64 };

/* The tables, and work space for all of their rows. */
struct tables {
    const struct lk_public_table *s;
    size_t n;
    struct lk_nccl_point *nccl;
};

static size_t nccl_points(const struct lk_public_table *s, struct lk_nccl_point *out,
                          enum lk_nccl_fabric *place)
{
    struct lk_nccl_machine m;
    struct lk_nccl_comm comm;

    if (s->machine < 0 || !lk_nccl_machine_of(&s->cluster, &m) ||
        !lk_nccl_comm_of(&m, s->ranks, s->nodes, &comm))
        return 0;
    *place = lk_nccl_fabric_of(&comm, m.topology.network);
    for (size_t i = 0; i < s->n; i++)
        out[i] = (struct lk_nccl_point){comm, s->coll, s->algo, s->bytes[i], s->us[i]};
    return s->n;
}

/* Return the factors assumed before any table: NCCL's own, with a wide spread of fill and hops. */
static struct lk_nccl_factors vague(void)
{
    struct lk_nccl_factors f = {{0}, {0.7, 0.7, 0.7, 0.7, 0.7, 0.5, 0.1}, {0}};

    return f;
}

static double ln_of_mean(const double *ln, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp(ln[i]);
    return log(sum / (double)n);
}

/*
 * Sources' own factors of a place, then their mean, with `all` as if that were one source. Of
 * launch, hops and LL between nodes it is the mean of the factors, since some labs are much slower
 * than others.
 */
static struct lk_nccl_factors pooled(const struct tables *t, const char *without, int place,
                                     const struct lk_nccl_factors *all)
{
    struct lk_nccl_factors f = *all, v = vague();
    bool between = place == -2 || place >= LK_NCCL_OVER;
    double values[LK_NCCL_FACTOR_COUNT][SOURCES_MAX + 1];
    size_t seen[LK_NCCL_FACTOR_COUNT] = {0};

    for (size_t i = 0; i < t->n; i++) {
        const char *source = t->s[i].source;
        size_t n = 0;
        bool first = true;

        for (size_t j = 0; j < i; j++)
            first &= strcmp(t->s[j].source, source) != 0;
        if (!first || (without && !strcmp(source, without)))
            continue;
        for (size_t j = i; j < t->n; j++) {
            enum lk_nccl_fabric at;
            size_t k;

            if (strcmp(t->s[j].source, source))
                continue;
            k = nccl_points(&t->s[j], t->nccl + n, &at);
            if (k && (place < 0 || (int)at == place) && (place != -2 || at >= LK_NCCL_OVER) &&
                (place != -1 || at < LK_NCCL_OVER))
                n += k;
        }
        if (!n)
            continue;
        v = vague();
        v = lk_nccl_fit(t->nccl, n, &v);
        for (int k = 0; k < LK_NCCL_FACTOR_COUNT; k++)
            if (seen[k] < SOURCES_MAX)
                values[k][seen[k]++] = v.ln[k];
    }
    for (int k = 0; k < LK_NCCL_FACTOR_COUNT; k++) {
        values[k][seen[k]++] = all->ln[k];
        f.ln[k] = k <= LK_NCCL_HOP_SIMPLE || (k == LK_NCCL_RATE_LL && between)
                      ? ln_of_mean(values[k], seen[k])
                      : lk_stats_mean(values[k], seen[k]);
    }
    return f;
}

void nested_rows(const struct lk_public_table *s, size_t n, struct lk_nccl_point *space,
                 const char *without, struct lk_nccl_factors *rows)
{
    const struct tables all = {s, n, space}, *t = &all;
    struct lk_nccl_factors own = vague(), inside = pooled(t, without, -1, &own),
                           between = pooled(t, without, -2, &own);

    for (int p = 0; p < LK_NCCL_FABRIC_COUNT; p++) {
        rows[p] = pooled(t, without, p, p < LK_NCCL_OVER ? &inside : &between);
        memcpy(rows[p].sd, lk_nccl_prior((enum lk_nccl_fabric)p).sd, sizeof rows[p].sd);
        memcpy(rows[p].error, lk_nccl_prior((enum lk_nccl_fabric)p).error, sizeof rows[p].error);
    }
}
