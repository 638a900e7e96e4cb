/*
 * The least squares problem behind a fit of the alpha-beta model. Private to sim/coll_fit.c.
 *
 * Non-negative, on relative errors, outliers weighted down (Huber, three rounds); where that is off
 * the large sizes, the rate from these and the hops from the small ones.
 */
#ifndef LK_SIM_COLL_SOLVE_H
#define LK_SIM_COLL_SOLVE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_COLL_PROBLEM_COLUMNS = 3, LK_COLL_PROBLEM_DRAWS = 200 };

/* Rows a[i] . (launch, alpha, 1/bandwidth) = t[i]. */
struct lk_coll_problem {
    size_t n;
    double *a;             /* n * LK_COLL_PROBLEM_COLUMNS, as measured */
    double *t;             /* s, less what the other kind of link took */
    double *scaled, *ones; /* work space: rows over their time and weight */
    bool launch_known;     /* more than one count of hops */
};
void lk_coll_problem_fini(struct lk_coll_problem *p);

/* Constants c[LK_COLL_PROBLEM_COLUMNS] from the rows picked, n of them; NULL: from all. One that
 * the rows do not tell is 0. */
enum lk_status lk_coll_problem_solve(const struct lk_coll_problem *p, const size_t *pick,
                                     double *c);
/* The same from LK_COLL_PROBLEM_DRAWS resamples of the rows: draws[constant * DRAWS + draw]. */
enum lk_status lk_coll_problem_resample(const struct lk_coll_problem *p, uint64_t seed,
                                        double *draws);
/* Relative error of row i. */
double lk_coll_problem_residual(const struct lk_coll_problem *p, const double *c, size_t i);
/* 1/bandwidth that was not resolved, because all sizes are small: the best rate that was seen. */
double lk_coll_problem_least_inverse(const struct lk_coll_problem *p);

#endif
