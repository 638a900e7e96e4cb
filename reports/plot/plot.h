/*
 * The plots of a report. Each makes NAME.csv, NAME.gp, NAME.svg and NAME.png in a directory.
 * Measured values are points with error bars, predicted ones a line in a band, ideal ones dashed.
 */
#ifndef LK_REPORTS_PLOT_PLOT_H
#define LK_REPORTS_PLOT_PLOT_H

#include "base/status.h"
#include "facts/forecast.h"
#include "facts/trace.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * Plot throughput and efficiency against GPUs, for one or more forecasts of the same job (e.g. this
 * machine and a preset). If points differ in batch or buckets, only those with the first point's
 * local batch, accumulation and bucket cap are drawn. pre: 1 <= n <= 4.
 */
enum lk_status lk_plot_efficiency(const char *dir, const char *name, const char *title,
                                  const struct lk_forecast *forecasts, size_t n);

/*
 * Plot throughput, statistical efficiency, time and (with a price) cost to the target against GPUs,
 * for the points that fit and differ from the first such in GPUs alone. LK_EEVIDENCE when no point
 * has a time to the target.
 */
enum lk_status lk_plot_plan(const char *dir, const char *name, const char *title,
                            const struct lk_forecast *f);
bool lk_plot_plan_possible(const struct lk_forecast *f);

/* Plot the waterfall from the ideal step to the measured one. The losses sum to the step. */
enum lk_status lk_plot_waterfall(const char *dir, const char *name, const char *title,
                                 const double losses_s[LK_LOSS_COUNT]);

/*
 * Plot one step on every rank, on rank 0's clock: compute, input and optimizer above, all-reduce
 * below, split into waiting for the last rank and moving bytes. step < 0 takes the counted step of
 * median length. LK_EEVIDENCE when the traces lack the step.
 */
enum lk_status lk_plot_timeline(const char *dir, const char *name, const char *title,
                                const struct lk_trace *traces, size_t n, int64_t step);

/* A size of measured collectives: bus bandwidths in bytes/s; NaN: nothing is expected. */
struct lk_plot_size {
    double bytes, busbw, expected, lo, hi;
};

/* A curve: one collective on one count of GPUs. */
struct lk_plot_collective {
    char *label;
    struct lk_plot_size *sizes; /* by rising bytes */
    size_t n;
};

/* Plot bus bandwidth against size of n curves, measured and expected. pre: n >= 1. */
enum lk_status lk_plot_collectives(const char *dir, const char *name, const char *title,
                                   const struct lk_plot_collective *curves, size_t n);

#endif
