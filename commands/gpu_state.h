/* The state of a rank's GPU while it works: clock, power, throttling (profiler/record/nvml.h). */
#ifndef LK_COMMANDS_GPU_STATE_H
#define LK_COMMANDS_GPU_STATE_H

#include "base/json.h"
#include "base/status.h"
#include "facts/span.h"
#include "facts/trace.h"
#include "profiler/record/nvml.h"

#include <stdbool.h>
#include <stdint.h>

/* A zeroed one samples nothing. */
struct gpu_state {
    struct lk_nvml *nvml;
    struct lk_nvml_sampler *sampler; /* owns nvml once it runs */
    struct lk_gpu_limits limits;
    struct lk_gpu_summary summary; /* set by gpu_state_stop; n 0: no sample */
    bool needed;                   /* asked for by name: losing it is a failure, not a warning */
};

/*
 * Find the GPU that info names ("gpu_uuid", from lk_device_describe) and add its limits and links
 * to info. Where NVML cannot be used: LK_EUNSUPPORTED when it is needed, else a warning by local
 * rank 0. calls NULL: the driver's.
 */
enum lk_status gpu_state_open(struct gpu_state *g, bool needed, const struct lk_nvml_calls *calls,
                              struct lk_run_info *info);
/* Start sampling, into r's sinks (NULL: none). */
enum lk_status gpu_state_start(struct gpu_state *g, struct lk_recorder *r);
/*
 * Tell that `done` of `all` steps have ended: the summary begins after the warm-up (at least one
 * step, with which the set-up ends) and ends with the last step.
 */
void gpu_state_step(struct gpu_state *g, int64_t done, int64_t warmup, int64_t all);
/* Stop sampling, fill the summary and close NVML. A second call does nothing. */
enum lk_status gpu_state_stop(struct gpu_state *g);

/* Write a JSON object: MHz, W, J, shares; null where the GPU does not report it. */
void gpu_state_write(struct lk_json_out *o, const char *key, const struct gpu_state *g);

#endif
