/* Comparisons; see the header. compare_files.c compares artefacts. */
#include "facts/compare.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

const struct lk_words lk_difference_words = LK_WORDS("a difference", LK_DIFFERENCE_LIST);

/* ---- Ratios ---- */

static bool has_interval(const struct lk_estimate *e)
{
    return e->lo > 0 && isfinite(e->hi) && e->lo <= e->value && e->value <= e->hi && e->lo < e->hi;
}

/* Return x / y with its interval. */
static struct lk_estimate divide(const struct lk_estimate *x, const struct lk_estimate *y)
{
    struct lk_estimate r = {x->value / y->value, NAN, NAN, x->n < y->n ? x->n : y->n};

    if (!has_interval(x) || !has_interval(y))
        return r;
    r.lo = r.value * exp(-hypot(log(x->value / x->lo), log(y->hi / y->value)));
    r.hi = r.value * exp(hypot(log(x->hi / x->value), log(y->value / y->lo)));
    return r;
}

struct lk_estimate lk_compare_welch(const double *a, size_t n_a, const double *b, size_t n_b,
                                    double level)
{
    const double *const v[] = {a, b};
    const size_t n[] = {n_a, n_b};
    double mean[2], of_mean[2], below = 0, total, df, half;

    for (int s = 0; s < 2; s++) {
        double sum = 0, squares = 0;

        for (size_t i = 0; i < n[s]; i++)
            sum += log(v[s][i]);
        mean[s] = sum / (double)n[s];
        for (size_t i = 0; i < n[s]; i++)
            squares += pow(log(v[s][i]) - mean[s], 2);
        of_mean[s] = squares / (double)(n[s] - 1) / (double)n[s]; /* variance of the mean */
        below += of_mean[s] * of_mean[s] / (double)(n[s] - 1);
    }
    total = of_mean[0] + of_mean[1];
    df = below > 0 ? floor(total * total / below * (1 + 1e-12)) : (double)(n_a + n_b - 2);
    half = lk_stats_student_t(level, df < 1 ? 1 : (size_t)df) * sqrt(total);
    return (struct lk_estimate){exp(mean[0] - mean[1]), exp(mean[0] - mean[1] - half),
                                exp(mean[0] - mean[1] + half), n_a < n_b ? n_a : n_b};
}

static enum lk_difference judge(const struct lk_estimate *ratio)
{
    return isnan(ratio->lo) ? LK_DIFFERENCE_UNKNOWN
           : ratio->lo > 1  ? LK_DIFFERENCE_FASTER
           : ratio->hi < 1  ? LK_DIFFERENCE_SLOWER
                            : LK_DIFFERENCE_NOISE;
}

/* ---- Rows ---- */

static void free_row(struct lk_compared *r)
{
    free(r->what);
    free(r->labels);
}

enum lk_status lk_compare_add(struct lk_comparison *c, struct lk_compared row,
                              const struct lk_estimate *ratio)
{
    enum lk_status st = lk_array_grow(&c->rows, &c->capacity, c->n + 1, sizeof *c->rows);
    bool less = row.dim == LK_DIM_TIME;

    if (st != LK_OK) {
        free_row(&row);
        return st;
    }
    row.ratio = ratio ? *ratio : divide(less ? &row.a : &row.b, less ? &row.b : &row.a);
    row.verdict = row.one_number ? LK_DIFFERENCE_NONE : judge(&row.ratio);
    c->rows[c->n++] = row;
    return LK_OK;
}

size_t lk_compare_count(const struct lk_comparison *c, enum lk_difference verdict)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n; i++)
        n += c->rows[i].verdict == verdict;
    return n;
}

void lk_comparison_fini(struct lk_comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        free_row(&c->rows[i]);
    free(c->rows);
    *c = (struct lk_comparison){0};
}

/* ---- The table ---- */

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLUMNS(X)                                                                                 \
    X("what",     "point",       LK_DIM_NONE, -1, r->what)                                         \
    X("other",    "other",       LK_DIM_NONE, -1, other)                                           \
    X("a",        "A",           dim,         -1, r->a.value)                                      \
    X("a_lo",     "from",        dim,         -1, r->a.lo)                                         \
    X("a_hi",     "to",          dim,         -1, r->a.hi)                                         \
    X("a_efficiency", "A's eff.", LK_DIM_NONE, 3, r->efficiency_a > 0 ? r->efficiency_a : NAN)     \
    X("a_evidence", "A's evidence", LK_DIM_NONE, -1, r->evidence_a)                                \
    X("b",        "B",           dim,         -1, r->b.value)                                      \
    X("b_lo",     "from",        dim,         -1, r->b.lo)                                         \
    X("b_hi",     "to",          dim,         -1, r->b.hi)                                         \
    X("b_efficiency", "B's eff.", LK_DIM_NONE, 3, r->efficiency_b > 0 ? r->efficiency_b : NAN)     \
    X("b_evidence", "B's evidence", LK_DIM_NONE, -1, r->evidence_b)                                \
    X("ratio",    "B's speed",   LK_DIM_NONE,  2, r->ratio.value)                                  \
    X("ratio_lo", "from",        LK_DIM_NONE,  2, r->ratio.lo)                                     \
    X("ratio_hi", "to",          LK_DIM_NONE,  2, r->ratio.hi)                                     \
    X("verdict",  "B is",        LK_DIM_NONE, -1, lk_difference_name(r->verdict))
/* clang-format on */

static enum lk_status add_row(const struct lk_compared *r, struct lk_table *t)
{
    const char other[] = {r->other, '\0'};
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    COLUMNS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status lk_compare_table(const struct lk_comparison *c, enum lk_dimension dim,
                                const char *title, struct lk_table **out)
{
    const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    for (size_t i = 0; i < c->n; i++) {
        if (c->rows[i].dim != dim)
            continue;
        if (!t)
            LK_TRY(lk_table_create(title, columns, LK_COUNT(columns), &t));
        LK_TRY(add_row(&c->rows[i], t));
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}
