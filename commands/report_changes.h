/* The changes that bring most, for the page of a report: sentences, the best one first. */
#ifndef LK_COMMANDS_REPORT_CHANGES_H
#define LK_COMMANDS_REPORT_CHANGES_H

#include "base/page.h"
#include "base/status.h"
#include "facts/forecast.h"

#include <stddef.h>

enum { REPORT_CHANGES = 3 };
struct report_changes {
    char *says[REPORT_CHANGES];
    size_t n;
};

/* Take them off the page of runs: actions that were tried on a cluster and gain, with the gain's
 * interval; else what the findings advise, with what they cost and in how many runs. */
enum lk_status report_changes_of_runs(const struct lk_page *page, struct report_changes *out);
/* Take them off a what-if: the points on most GPUs that surely gain. */
enum lk_status report_changes_of_forecast(const struct lk_forecast *f, struct report_changes *out);
void report_changes_fini(struct report_changes *c);

#endif
