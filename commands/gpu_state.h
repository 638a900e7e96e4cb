/* The state of a rank's GPU beside its run: clock, power, throttling (profiler/nvml.h). */
#ifndef LK_COMMANDS_GPU_STATE_H
#define LK_COMMANDS_GPU_STATE_H

#include "base/json.h"
#include "base/span.h"
#include "base/status.h"
#include "base/trace.h"
#include "profiler/nvml.h"

#include <stdbool.h>
#include <stdint.h>

/* A zeroed one samples nothing. */
struct gpu_state {
    struct lk_nvml *nvml;
    struct lk_nvml_sampler *sampler; /* owns nvml once it runs */
    struct lk_gpu_limits limits;
    struct lk_gpu_summary summary; /* when it was stopped; n 0: nothing */
    bool needed;                   /* asked for by name: losing it is a failure, not a warning */
};

/*
 * Finds the GPU that info names ("gpu_uuid", from lk_device_describe) and adds to info what it can.
 * Where NVML cannot be used: LK_EUNSUPPORTED when it is needed, else a warning by local rank 0.
 * calls NULL: the driver's.
 */
enum lk_status gpu_state_open(struct gpu_state *g, bool needed, const struct lk_nvml_calls *calls,
                              struct lk_run_info *info);
/* Starts sampling, into r's sinks (NULL: none). */
enum lk_status gpu_state_start(struct gpu_state *g, struct lk_recorder *r);
/*
 * After `done` of `all` steps: the summary is of what comes after the warm-up (at least one step,
 * with which the set-up ends) and before the last step's end.
 */
void gpu_state_step(struct gpu_state *g, int64_t done, int64_t warmup, int64_t all);
/* Stops sampling and fills the summary. Again: nothing. */
enum lk_status gpu_state_stop(struct gpu_state *g);

/* As a JSON object: MHz, W, J, shares; null where the GPU does not say. */
void gpu_state_write(struct lk_json_out *o, const char *key, const struct gpu_state *g);

#endif
