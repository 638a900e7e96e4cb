/*
 * The simplex method minimises a function of a few variables without derivatives (Nelder and Mead,
 * "A simplex method for function minimization", The Computer Journal 7, 1965). It is
 * deterministic.
 */
#ifndef LK_SIM_SIMPLEX_H
#define LK_SIM_SIMPLEX_H

#include "base/status.h"

#include <stddef.h>

enum { LK_SIMPLEX_MAX = 32 };

typedef enum lk_status lk_simplex_fn(const double *x, void *ctx, double *out);

/*
 * Minimise f. x has n variables (1..LK_SIMPLEX_MAX): the start, then the best found. `step` is the
 * size of the first simplex along each axis. *out_value is the value there; NULL is legal. A
 * failure of f ends the search.
 */
enum lk_status lk_simplex_minimise(lk_simplex_fn *f, void *ctx, double *x, size_t n, double step,
                                   int iterations, double *out_value);

#endif
