/* How lockstep compare is divided: its sides, files or forecasts made for it, and what it says. */
#ifndef LK_COMMANDS_COMPARE_IMPL_H
#define LK_COMMANDS_COMPARE_IMPL_H

#include "base/page.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "profiler/analysis/run_compare.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/forecast.h"

#include <stdbool.h>

struct forecast_question;

/* X(kind, name, schema of its file): a run is a folder. */
#define COMPARE_KIND_LIST(X)                                                                       \
    X(KIND_RUN, "run", "")                                                                         \
    X(KIND_CLUSTER, "cluster", LK_CLUSTER_SCHEMA)                                                  \
    X(KIND_FORECAST, "forecast", LK_FORECAST_SCHEMA)                                               \
    X(KIND_JOB, "job", LK_JOB_SCHEMA)

enum kind { COMPARE_KIND_LIST(LK_WORD_VALUE) KIND_COUNT };

enum { SIDES_MAX = 16 };

struct side {
    const char *name;
    enum kind kind;
    union {
        struct lk_run_set runs;
        struct lk_cluster cluster;
        struct lk_forecast forecast;
        struct lk_job job;
    } of; /* by kind, when read */
    bool read;
    struct lk_gains drawn; /* the draws of a forecast that was made here */
};

struct sides {
    struct side v[SIDES_MAX];
    int n;
    const char *job; /* whose forecasts on clusters the sides are; NULL: they are what was named */
};

/*
 * Read the sides that the question's operands name, of one kind; or, of a job and clusters,
 * forecast the job on each, by `axes`, the texts of LK_AXIS_RUN_LIST; page: gets what there is to
 * note of that. Call compare_sides_fini after a failure, too.
 */
enum lk_status compare_sides_open(const struct forecast_question *q,
                                  const char *const axes[LK_AXIS_COUNT], struct sides *out,
                                  struct lk_page *page);
void compare_sides_fini(struct sides *s);

#endif
