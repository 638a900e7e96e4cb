/* The quantities of a job file by the object that they stand in. For base/job*.c only. */
#ifndef LK_BASE_JOB_ROWS_H
#define LK_BASE_JOB_ROWS_H

#include "base/quantity.h"

extern const struct lk_quantity_row lk_job_root_rows[];    /* of struct lk_job */
extern const struct lk_quantity_row lk_job_compute_rows[]; /* of struct lk_job_compute */
extern const struct lk_quantity_row lk_job_layer_rows[];   /* of struct lk_job_layer */

#endif
