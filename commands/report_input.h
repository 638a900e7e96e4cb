/* What the operands of `lockstep report` hold: forecasts, and runs with their analysis. */
#ifndef LK_COMMANDS_REPORT_INPUT_H
#define LK_COMMANDS_REPORT_INPUT_H

#include "base/status.h"
#include "profiler/analysis/run_set.h"
#include "reports/plot/plots.h"

#include <stddef.h>

enum { REPORT_OPERANDS_MAX = 64 };

struct analyzed;
/* All that was read; `in` borrows from the rest. */
struct report_input {
    struct lk_report_input in;
    struct lk_forecast forecasts[REPORT_OPERANDS_MAX];
    struct lk_run_set runs;
    struct analyzed *analyzed; /* of the runs */
    struct lk_plot_measured *measured;
    struct lk_plot_losses losses;
    struct lk_plot_ranks ranks;
    char *title, *losses_title, *machine;
};

/*
 * Read n operands: files of forecasts (.json) and folders of runs. title: of all plots; NULL: one
 * is made of model, hardware and date. report_input_fini frees *out, whatever is returned.
 */
enum lk_status report_input_read(const char *const *operands, size_t n, const char *title,
                                 struct report_input *out);
void report_input_fini(struct report_input *in);

#endif
