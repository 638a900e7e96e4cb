/* The bound is how often an answer about planted causes is right that knows how they are drawn
 * (bench/lib/sick.h).
 */
#ifndef LK_BENCH_LIB_SICK_BOUND_H
#define LK_BENCH_LIB_SICK_BOUND_H

#include "bench/lib/sick.h"

/*
 * Set the posterior odds of all causes, given rates of plain runs: the densities of `draws` cases
 * of each cause with the same model, machine and configuration, times the likelihood of the rates.
 * The expected maximum of these odds is what no answer beats; estimated from few draws it is too
 * high, and how often the first of them is right is too low. draws: of each cause, e.g. 300.
 */
enum lk_status sick_posterior(const struct sick *s, const struct lk_doctor_row *rows, size_t n_rows,
                              size_t draws, double odds[LK_CAUSE_COUNT]);

#endif
