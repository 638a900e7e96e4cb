/* For tests: the findings of an analysis. */
#ifndef LK_TESTS_FINDINGS_H
#define LK_TESTS_FINDINGS_H

#include "profiler/analysis/analysis.h"

#include <stdbool.h>

/* Return true if a finding's text begins so. */
bool has_finding(const struct lk_analysis *a, const char *start);
/* Fail unless the rows sum to the step, lateness is own and inherited, and what findings are worth
 * is within what is lost: uncaused ones together, a consequence within its cause. */
void assert_adds_up(const struct lk_analysis *a);
/* Print all to standard error, to be seen where a test fails. */
void print_findings(const struct lk_analysis *a);

#endif
