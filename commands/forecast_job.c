/* Forecast a job on a cluster; see the header. */
#include "commands/forecast_job.h"

#include "commands/axis_lists.h"
#include "commands/evidence_inputs.h"
#include "commands/inputs.h"
#include "facts/compare.h"
#include "sim/forecast/paired.h"

enum lk_status forecast_job(const char *job, const char *cluster,
                            const char *const axes[LK_AXIS_COUNT], bool whatif,
                            struct lk_forecast *out, struct lk_gains *drawn)
{
    enum lk_status st = LK_OK;
    static const struct machine_facts no_facts = {0};
    static const struct lk_plan_request plan = {.cost_factor = 1.5}; /* as PLAN_ROWS has it */
    struct axis_lists lists = {0};
    struct evidence_inputs in = {0};
    struct lk_cluster read = {0};

    LK_TRY(axis_lists_read(axes, &lists));
    LK_TRY(find_cluster(cluster, &read));
    in.request.grid = (struct lk_forecast_request){
        .level = LK_COMPARE_LEVEL,
        .draws = FORECAST_JOB_DRAWS,
        .seed = FORECAST_JOB_SEED,
        .network_seed = drawn ? lk_network_seed(FORECAST_JOB_SEED, &read) : 0, /* the seed */
        .compare = whatif,
        .plan = &plan};
    axis_lists_ask(&lists, &in.request.grid);
    LK_TRY(evidence_open_job(&job, 1, cluster, &no_facts, &in));
    LK_TRY(lk_forecast_run(&in.source, &in.request.grid, out, drawn));
out:
    evidence_fini(&in);
    lk_cluster_fini(&read);
    axis_lists_fini(&lists);
    return st;
}
