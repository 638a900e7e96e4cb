/* Options of planning. */
#include "commands/plan_options.h"

struct lk_plan_request plan_request(const struct plan_options *o)
{
    return (struct lk_plan_request){
        .device_bytes = (double)o->device_memory,
        .price_per_hour = o->price,
        .power_W = o->power,
        .noise_scale = o->noise_scale,
        .target_samples = o->target_samples,
        .target_batch = o->target_batch,
        .gpu_mtbf_s = o->mtbf,
        .restart_s = o->restart,
        .checkpoint_s = o->checkpoint,
        .checkpoint_Bps = o->checkpoint_bandwidth,
        .cost_factor = o->cost_factor,
    };
}
