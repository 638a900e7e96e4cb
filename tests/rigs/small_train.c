/* The configuration that tests of training start from. */
#include "tests/rigs/small_train.h"

#include "tests/rigs/waits.h"

struct lk_train_config small_train(const char *device, int steps)
{
    struct lk_train_config c = {.device = device,
                                .comm = "self",
                                .local_batch = 2,
                                .steps = steps,
                                .samples = 24,
                                .prefetch = 2,
                                .sampler.shuffle = true,
                                .seed = 5,
                                .timeout_ns = WAIT_PLENTY_NS};

    c.device_config.slowdown = 1;
    c.comm_config.world_size = 1;
    c.model = (struct lk_model_config){.name = "gpt-nano", .context = 16, .vocab = 64, .seed = 3};
    c.optim = (struct lk_optim_config){
        .kind = LK_OPTIM_ADAMW, .learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    c.reducer.ddp_rule = LK_DDP_TORCH_2;
    c.reducer.first_bytes = 65536;
    c.reducer.cap_bytes = 65536;
    c.reducer.accumulation = 1;
    c.reducer.no_sync = true;
    return c;
}
