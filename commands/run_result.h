/* result.json of one run: losses, step times and estimates that rank 0 gives to the launcher. */
#ifndef LK_COMMANDS_RUN_RESULT_H
#define LK_COMMANDS_RUN_RESULT_H

#include "base/status.h"
#include "commands/gpu_state.h"
#include "runtime/train/trainer.h"

#include <stdint.h>

/* Write the result. gpu_state is rank 0's; one that was not sampled is left out. */
enum lk_status run_result_write(const char *path, const struct lk_train_result *r,
                                int64_t warmup_steps, const struct gpu_state *gpu_state);
/* Read a result; freed by lk_train_result_fini. */
enum lk_status run_result_read(const char *path, struct lk_train_result *out);

#endif
