/* Known truths: runs of the program to whom something was done, held against what that must cost.
 */
#ifndef LK_BENCH_LIB_TRUTH_H
#define LK_BENCH_LIB_TRUTH_H

#include "profiler/analysis/analysis.h"

#define TRUTH_ALLOWED 0.03 /* an error of this share of the step */

struct truth_run {
    struct lk_run_set set;
    struct lk_analysis a;
};
void truth_run_fini(struct truth_run *r);

/* `PROGRAM run WORDS` into the folder's `name`, and what it wrote, for the caller to end. */
enum lk_status truth_run(const char *program, const char *dir, const char *name, const char *words,
                         struct lk_run_set *out);

/* Prints rows found and as they must be, LK_LOSS_COUNT each, and says how many are wrong. */
int truth_compare(const char *name, double step_s, const double *found_s, const double *truth_s);
/* LK_EVERIFY when there are any. */
enum lk_status truth_verdict(int wrong);

/* The rest of main: runs check in a folder that is removed again. Returns the exit code. */
int truth_main(const char *who, enum lk_status (*check)(const char *dir, char **argv), char **argv);

#endif
