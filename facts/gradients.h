/*
 * Gradient lists for jobs that were not profiled: from a table of tensors, or from a count of
 * parameters. The result is a job with gradients, PyTorch's default bucket limits and one
 * micro-batch a step, but without compute times, so facts/job.h's writer would refuse it.
 */
#ifndef LK_FACTS_GRADIENTS_H
#define LK_FACTS_GRADIENTS_H

#include "base/status.h"
#include "facts/job.h"

#include <stdbool.h>

/*
 * Read a CSV table, one row a tensor in registration order: name; elements or shape ("64x3x7x7",
 * any separators); optionally dtype (else `dtype`) and ready (0..1, the share of backward after
 * which the gradient is ready; in all rows or none: then evenly over backward, the last registered
 * first). *out_timed is true if ready was given. LK_EPARSE names file, line and column. *out is
 * freed by lk_job_fini.
 */
enum lk_status lk_gradients_read(const char *path, enum lk_dtype dtype, struct lk_job *out,
                                 bool *out_timed);

/*
 * Make a job of that many parameters in LK_GRADIENTS_TENSORS equal tensors, fewer where there are
 * fewer parameters. The true sizes are unknown; the sum matters far more than the division.
 */
enum { LK_GRADIENTS_TENSORS = 64 };
enum lk_status lk_gradients_of_count(double parameters, enum lk_dtype dtype, struct lk_job *out);

/* Parse "124M", "1.5B", "7e9", "25557032": a count of 1 to 1e13 parameters. LK_EUSAGE otherwise. */
enum lk_status lk_gradients_parse_count(const char *text, double *out);

#endif
