/* Chart the ranks of one run: a step of each, and how long each took in every step. */
#ifndef LK_REPORTS_PLOT_RANKS_H
#define LK_REPORTS_PLOT_RANKS_H

#include "base/status.h"
#include "facts/step_times.h"
#include "facts/trace.h"
#include "reports/chart/chart.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Chart one step on every rank, on rank 0's clock: compute, input and optimizer above, collectives
 * below, split into waiting for the last rank and moving bytes. step < 0 takes the counted step of
 * median length. LK_EEVIDENCE when the traces lack the step.
 */
enum lk_status lk_chart_timeline(struct lk_chart *out, const struct lk_trace *traces, size_t n,
                                 int64_t step);
/* Chart ranks' times in steps as a heat map: a straggler is a bright row. Cells of many ranks or
 * steps are joined, and show the most of them. LK_EEVIDENCE when nothing is known. */
enum lk_status lk_chart_stragglers(struct lk_chart *out, const struct lk_step_times *r);

#endif
