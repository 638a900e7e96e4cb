/* The table of what each rank's device did of the time of the steps
 * (profiler/analysis/breakdown.h). */
#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis_impl.h"
#include "profiler/analysis/breakdown.h"

#include <string.h>

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("rank", "rank",   LK_DIM_NONE, -1, lk_run_rank(a->run, k))                                   \
    X("n",    "events", LK_DIM_NONE, -1, (double)b->n)                                             \
    LK_BREAKDOWN_COLUMNS(X)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

/* Devices whose work is the host's. */
static const char *const of_host[] = {"cpu", "timed", "reference"};

static bool on_host(const struct lk_analysis *a)
{
    for (size_t i = 0; i < LK_COUNT(of_host); i++)
        if (!strcmp(lk_run_about(a->run)->device, of_host[i]))
            return true;
    return false;
}

/* Return true if some rank's trace has kernels: a GPU without records is only known by what the
 * host asked of it. */
static bool has_kernels(const struct lk_analysis *a)
{
    for (size_t k = 0; k < a->run->n; k++)
        for (size_t i = 0; i < a->run->traces[k].n_spans; i++)
            if (a->run->traces[k].spans[i].span.kind == LK_SPAN_KERNEL)
                return true;
    return false;
}

/* Add a rank's row. The steps are those after the warm-up or, where only some have records of
 * kernels, these. */
static enum lk_status add_row(const struct lk_analysis *a, size_t k, struct lk_table *t)
{
    const struct lk_run *run = a->run;
    const uint32_t *steps = run->n_steps < run->n_timed ? run->steps : NULL;
    struct lk_breakdown breakdown, *b = &breakdown;
    enum lk_status st = LK_OK;

    LK_TRY(lk_trace_breakdown(&run->traces[k], lk_run_about(run)->warmup_steps, steps, run->n_steps,
                              b));
    LK_TRY(lk_table_row(t));
    ROWS(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status lk_analysis_time_(const struct lk_analysis *a, struct lk_table **out)
{
    bool host = on_host(a);
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;

    if ((host && lk_run_has_compute(a->run)) || has_kernels(a)) {
        LK_TRY(lk_analysis_create_(a,
                                   host ? "What the hosts did of the time, compute and collectives"
                                        : "What the GPUs did of the time",
                                   columns, LK_COUNT(columns), &t));
        for (size_t k = 0; k < a->run->n; k++)
            LK_TRY(add_row(a, k, t));
        LK_TRY(lk_table_note(t, "span: from the first event of these steps to the last; exposed: "
                                "communication that no compute covers"));
    }
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
