/* The options of run and replay that say what ranks divide and when gradients are reduced. */
#ifndef LK_COMMANDS_RUN_SHARDING_H
#define LK_COMMANDS_RUN_SHARDING_H

#include "base/status.h"
#include "facts/config.h"
#include "facts/job.h"
#include "runtime/train/trainer.h"

#include <stdbool.h>

/* As the options have them. */
struct run_sharding {
    int scheme; /* --sharding: 0: auto, else one more than the lk_sharding */
    int reduce; /* --reduce: 0: auto, else one more than the lk_reduction */
    int group;  /* --shard-group; 0: not given */
    bool sync_every;
};

/* Return the scheme; DDP where none is asked for. */
enum lk_sharding run_sharding_scheme(const struct run_sharding *s);
/*
 * Check the options, and what else they exclude, in train, which options filled. LK_EUSAGE names
 * both. replay: the job may say more; mpi: the communicator.
 */
enum lk_status run_sharding_check(const struct run_sharding *s, const struct lk_train_config *train,
                                  bool replay, bool mpi);
/* Check that groups (0: none) divide so many ranks; LK_EUSAGE else. One rank divides nothing. */
enum lk_status run_sharding_check_ranks(int group, int ranks);
/* Take the job's sharding, and the micro-batches that it reduces, unless other ones are given. */
void run_sharding_take(struct run_sharding *s, const struct lk_job *job);
/* Fill the reducer's configuration; what is not asked for is as the sharding's library does. */
void run_sharding_fill(const struct run_sharding *s, struct lk_reducer_config *c);

#endif
