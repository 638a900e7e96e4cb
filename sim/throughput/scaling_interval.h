/*
 * A forecast of the scaling law with its interval: quantiles of the law's mixture
 * (sim/throughput/scaling.h), by two rules.
 *
 * The width is the law's own, unless a constant one scores better on published series of other
 * sources. Kinds of forecasts are judged each for itself: weak or strong scaling, at so many
 * doublings from the largest count of the rows. sim/throughput/scaling_widths.h holds the scores.
 *
 * More GPUs at the same local batch make no step faster. A count beyond the rows may turn out
 * faster than these, because they were disturbed, but none beyond it faster still: from the first
 * doubling on neither estimate nor ends of the step fall with the count.
 */
#ifndef LK_SIM_THROUGHPUT_SCALING_INTERVAL_H
#define LK_SIM_THROUGHPUT_SCALING_INTERVAL_H

#include "base/stats.h"
#include "sim/throughput/scaling.h"

/* The kinds that are judged, at 1 to LK_SCALING_DOUBLINGS doublings; the last holds all beyond. */
enum { LK_SCALING_DOUBLINGS = 5 };

struct lk_scaling_kind {
    bool strong;
    int doublings; /* 0: among the rows, or of another batch than all of them: not judged */
};
struct lk_scaling_kind lk_scaling_kind_of(const struct lk_scaling_point *points, size_t n,
                                          const struct lk_config *target);

/* Scores of 90 % intervals of a kind on published series, each with constants of other sources. */
struct lk_scaling_judged {
    int strong, doublings, tests, sources;
    double law, constant; /* scores of the law's own widths and of constant ones */
    double half;          /* the constant half width that is used; 0: the law's own */
};
/* Return that of a kind; NULL: no series has it. */
const struct lk_scaling_judged *lk_scaling_judged(struct lk_scaling_kind kind);

/* Half widths of ln of the throughput, by `strong` and by doublings less 1; NaN: the law's own. */
struct lk_scaling_widths {
    double half[2][LK_SCALING_DOUBLINGS];
};
void lk_scaling_widths_none(struct lk_scaling_widths *out); /* the law's own everywhere */
void lk_scaling_widths_init(struct lk_scaling_widths *out); /* as they were judged */

/* Compute samples a second at the target: median and interval at this level. Constant widths are
 * those of `widths`, in proportion to the normal distribution's at other levels than 0.9. */
enum lk_status lk_scaling_interval(const struct lk_scaling_prior *prior,
                                   const struct lk_scaling_widths *widths,
                                   const struct lk_scaling_point *points, size_t n,
                                   const struct lk_scaling_point *target, double level,
                                   struct lk_estimate *out);

#endif
