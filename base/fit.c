/* Fits of lk_stats: lines, non-negative least squares, isotonic regression. */
#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { NNLS_MAX = 16 };

/* Gradients and pivots below these count as zero. They are relative: columns have norm 1. */
#define NNLS_GRADIENT_TOLERANCE 1e-13
#define NNLS_PIVOT_TOLERANCE    1e-12

/*
 * Householder QR of the rows x cols matrix in m (row major, `stride` apart) in place: R on and
 * above the diagonal of the first `pivots` columns, Q' applied to the columns behind them.
 */
static void householder(double *m, size_t rows, size_t cols, size_t stride, size_t pivots)
{
    for (size_t k = 0; k < pivots && k + 1 < rows; k++) {
        double norm = 0;
        double head;
        double scale;

        for (size_t i = k; i < rows; i++)
            norm += m[i * stride + k] * m[i * stride + k];
        norm = sqrt(norm);
        if (norm == 0)
            continue;
        head = m[k * stride + k];
        norm = head > 0 ? -norm : norm;     /* away from head: no cancellation */
        scale = 1 / (norm * (norm - head)); /* 2 / v'v with v = x - norm e_k */
        m[k * stride + k] = head - norm;
        for (size_t j = k + 1; j < cols; j++) {
            double dot = 0;

            for (size_t i = k; i < rows; i++)
                dot += m[i * stride + k] * m[i * stride + j];
            for (size_t i = k; i < rows; i++)
                m[i * stride + j] -= dot * scale * m[i * stride + k];
        }
        m[k * stride + k] = norm;
        for (size_t i = k + 1; i < rows; i++)
            m[i * stride + k] = 0;
    }
}

/*
 * The problem after one QR of [A y]: at most NNLS_MAX rows with the same minimum. r is rows x (m +
 * 1), its last column is Q'y.
 */
struct nnls {
    double r[NNLS_MAX][NNLS_MAX + 1];
    size_t rows, m;
    bool passive[NNLS_MAX]; /* free to be positive */
    double c[NNLS_MAX];
};

/* Solve unconstrained least squares on the passive columns into s; false if they are dependent. */
static bool solve_passive(const struct nnls *p, double *s)
{
    double work[NNLS_MAX][NNLS_MAX + 1];
    size_t column[NNLS_MAX];
    size_t k = 0;

    for (size_t j = 0; j < p->m; j++)
        if (p->passive[j])
            column[k++] = j;
    if (k > p->rows)
        return false;
    for (size_t i = 0; i < p->rows; i++) {
        for (size_t j = 0; j < k; j++)
            work[i][j] = p->r[i][column[j]];
        work[i][k] = p->r[i][p->m];
    }
    householder(&work[0][0], p->rows, k + 1, NNLS_MAX + 1, k);
    memset(s, 0, NNLS_MAX * sizeof *s);
    for (size_t j = k; j-- > 0;) {
        double v = work[j][k];

        if (fabs(work[j][j]) < NNLS_PIVOT_TOLERANCE)
            return false;
        for (size_t i = j + 1; i < k; i++)
            v -= work[j][i] * s[column[i]];
        s[column[j]] = v / work[j][j];
    }
    return true;
}

/* Return the column outside the passive set that lowers the residual fastest, or m. */
static size_t steepest(const struct nnls *p, const bool *refused)
{
    double residual[NNLS_MAX];
    double best = NNLS_GRADIENT_TOLERANCE;
    size_t choice = p->m;

    for (size_t i = 0; i < p->rows; i++) {
        residual[i] = p->r[i][p->m];
        for (size_t j = 0; j < p->m; j++)
            residual[i] -= p->r[i][j] * p->c[j];
    }
    for (size_t j = 0; j < p->m; j++) {
        double gradient = 0;

        if (p->passive[j] || refused[j])
            continue;
        for (size_t i = 0; i < p->rows; i++)
            gradient += p->r[i][j] * residual[i];
        if (gradient > best) {
            best = gradient;
            choice = j;
        }
    }
    return choice;
}

/* Move c towards s until a passive coefficient is 0; such coefficients become active. */
static void step_to_boundary(struct nnls *p, const double *s)
{
    double alpha = 1;
    size_t limit = p->m;

    for (size_t j = 0; j < p->m; j++)
        if (p->passive[j] && s[j] <= 0 && p->c[j] / (p->c[j] - s[j]) <= alpha) {
            alpha = p->c[j] / (p->c[j] - s[j]);
            limit = j;
        }
    for (size_t j = 0; j < p->m; j++) {
        p->c[j] += alpha * (s[j] - p->c[j]);
        if (p->passive[j] && (j == limit || p->c[j] <= 0)) {
            p->c[j] = 0;
            p->passive[j] = false;
        }
    }
}

static bool all_positive(const struct nnls *p, const double *s)
{
    for (size_t j = 0; j < p->m; j++)
        if (p->passive[j] && s[j] <= 0)
            return false;
    return true;
}

/* Lawson and Hanson, "Solving Least Squares Problems", 1974, chapter 23. */
static enum lk_status solve_nnls(struct nnls *p)
{
    bool refused[NNLS_MAX] = {false};
    double s[NNLS_MAX] = {0};

    for (size_t round = 0; round < 100 * (p->m + 1); round++) {
        size_t j = steepest(p, refused);

        if (j == p->m)
            return LK_OK;
        p->passive[j] = true;
        /* Refuse a column that, by rounding, depends on the others or has no positive optimum: it
         * would enter and leave for ever. */
        if (!solve_passive(p, s) || s[j] <= 0) {
            p->passive[j] = false;
            refused[j] = true;
            continue;
        }
        memset(refused, 0, sizeof refused);
        while (!all_positive(p, s)) {
            step_to_boundary(p, s);
            if (!solve_passive(p, s))
                return lk_fail(LK_EINTERNAL, "least squares: dependent columns");
        }
        memcpy(p->c, s, sizeof s);
    }
    return lk_fail(LK_EINTERNAL, "non-negative least squares did not end");
}

enum lk_status lk_stats_nnls(const double *a, const double *y, size_t n, size_t m, double *out_c)
{
    enum lk_status st = LK_OK;
    struct nnls p = {.rows = n < NNLS_MAX ? n : NNLS_MAX, .m = m};
    double norm[NNLS_MAX + 1] = {0};
    double *work = NULL;
    size_t stride = m + 1;

    if (!n || !m || m > NNLS_MAX)
        return lk_fail(LK_EINTERNAL, "non-negative least squares of %zu x %zu", n, m);
    LK_TRY(lk_alloc(&work, n * stride, sizeof *work));
    for (size_t i = 0; i < n; i++) {
        memcpy(&work[i * stride], &a[i * m], m * sizeof *a);
        work[i * stride + m] = y[i];
        for (size_t j = 0; j <= m; j++)
            norm[j] = hypot(norm[j], work[i * stride + j]);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= m; j++)
            work[i * stride + j] /= norm[j] > 0 ? norm[j] : 1;
    householder(work, n, stride, stride, m);
    p.rows = n < m ? n : m;
    for (size_t i = 0; i < p.rows; i++) {
        memcpy(p.r[i], &work[i * stride], m * sizeof *work);
        p.r[i][m] = work[i * stride + m];
    }
    LK_TRY(solve_nnls(&p));
    for (size_t j = 0; j < m; j++)
        out_c[j] = norm[j] > 0 ? p.c[j] * norm[m] / norm[j] : 0;
out:
    free(work);
    return st;
}

struct pool {
    double mean, weight;
    size_t count;
};

enum lk_status lk_stats_isotonic(double *y, const double *weight, size_t n)
{
    enum lk_status st = LK_OK;
    struct pool *pools = NULL;
    size_t used = 0;

    LK_TRY(lk_alloc(&pools, n, sizeof *pools));
    for (size_t i = 0; i < n; i++) {
        struct pool top = {.mean = y[i], .weight = weight ? weight[i] : 1, .count = 1};

        while (used && pools[used - 1].mean >= top.mean) {
            const struct pool *below = &pools[--used];
            double sum = below->weight + top.weight;

            top.mean = below->mean + top.weight / sum * (top.mean - below->mean);
            top.weight = sum;
            top.count += below->count;
        }
        pools[used++] = top;
    }
    for (size_t i = 0, k = 0; k < used; k++)
        for (size_t j = 0; j < pools[k].count; j++)
            y[i++] = pools[k].mean;
out:
    free(pools);
    return st;
}
