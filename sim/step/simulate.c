/* This file simulates one configuration with its trace. */
#include "sim/step/simulate.h"

#include "base/array.h"
#include "sim/step/config.h"
#include "sim/step/engine.h"

#include <math.h>

/* Describe the run for the traces. */
static enum lk_status describe(const struct lk_job *j, const struct lk_cluster *c,
                               const struct lk_config *config, const struct lk_sim_request *q,
                               struct lk_run_info *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_info i = {.world_size = config->world_size,
                            .nodes = config->nodes,
                            .local_batch = config->local_batch,
                            .accumulation = config->accumulation,
                            .no_sync = config->reduce == LK_REDUCTION_LAST,
                            .simulated = true,
                            .ddp_rule = j->ddp_rule,
                            .first_bytes = config->first_bytes,
                            .cap_bytes = config->cap_bytes,
                            .warmup_steps = LK_SIM_WARMUP,
                            .steps = (uint64_t)q->steps + LK_SIM_WARMUP,
                            .flops_per_sample = NAN};

    LK_TRY(lk_asprintf(&i.run_id, "simulated-%s-%d-%llu", j->name, config->world_size,
                       (unsigned long long)q->seed));
    LK_TRY(lk_strdup(&i.host, c->name));
    LK_TRY(lk_strdup(&i.device, c->gpu ? c->gpu : "gpu"));
    LK_TRY(lk_strdup(&i.comm, "simulated"));
    LK_TRY(lk_strdup(&i.model, j->name));
    LK_TRY(lk_strdup(&i.sample_unit, j->sample_unit));
    LK_TRY(lk_alloc(&i.tensors, j->n_tensors, sizeof *i.tensors));
    for (; i.n_tensors < j->n_tensors; i.n_tensors++) {
        struct lk_run_tensor *t = &i.tensors[i.n_tensors];

        t->elems = j->tensors[i.n_tensors].elems;
        t->dtype = j->tensors[i.n_tensors].dtype;
        LK_TRY(lk_strdup(&t->name, j->tensors[i.n_tensors].name));
    }
    *out = i;
    return LK_OK;
out:
    lk_run_info_fini(&i);
    return st;
}

enum lk_status lk_simulate_trace(const struct lk_job *job, const struct lk_cluster *cluster,
                                 const struct lk_config *config,
                                 const struct lk_sim_request *request, const char *dir,
                                 struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *cost = NULL;
    struct lk_config_model model = {0};
    struct lk_sim_trace record = {0};
    struct lk_sim_result result = {0};
    struct lk_run_info info = {0};

    LK_TRY(lk_cost_model_create(cluster, NULL, NULL, &cost));
    LK_TRY(lk_config_model_init(&model, job, cluster, cost, NULL, config));
    LK_TRY(describe(job, cluster, config, request, &info));
    LK_TRY(lk_sim_trace_init(&record, &info, job));
    LK_TRY(lk_engine_run(&model.step, request, &record, &result));
    LK_TRY(lk_sim_trace_write(&record, dir));
    if (out) {
        *out = result;
        result = (struct lk_sim_result){0};
    }
out:
    lk_sim_result_fini(&result);
    lk_sim_trace_fini(&record);
    lk_run_info_fini(&info);
    lk_config_model_fini(&model);
    lk_cost_model_destroy(cost);
    return st;
}
