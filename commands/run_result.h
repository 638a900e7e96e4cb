/* result.json of one run: losses, step times and what was estimated; from rank 0 to the launcher.
 */
#ifndef LK_COMMANDS_RUN_RESULT_H
#define LK_COMMANDS_RUN_RESULT_H

#include "base/status.h"
#include "commands/gpu_state.h"
#include "runtime/trainer.h"

#include <stdint.h>

/* gpu: of rank 0; nothing is written of one that was not sampled. */
enum lk_status run_result_write(const char *path, const struct lk_train_result *r,
                                int64_t warmup_steps, const struct gpu_state *gpu);
/* Freed by lk_train_result_fini. */
enum lk_status run_result_read(const char *path, struct lk_train_result *out);

#endif
