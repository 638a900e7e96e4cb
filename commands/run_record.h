/* Recording of one rank of a run: its spans and their sinks. */
#ifndef LK_COMMANDS_RUN_RECORD_H
#define LK_COMMANDS_RUN_RECORD_H

#include "base/span.h"
#include "base/status.h"
#include "commands/gpu_state.h"
#include "commands/run_options.h"
#include "profiler/cupti.h"
#include "profiler/nvtx.h"
#include "profiler/span_file.h"
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/store.h"

/* Recorder and sinks of one rank. A zeroed one records nothing. */
struct run_record {
    struct lk_recorder *recorder; /* NULL: nothing is recorded */
    struct lk_span_file *spans;   /* NULL: no trace */
    struct lk_nvtx *nvtx;         /* NULL: no ranges for a tool */
    struct lk_cupti *gpu;         /* NULL: no records of a GPU */
    bool gpu_needed;              /* asked for by name: losing them is a failure */
    struct gpu_state state;       /* clock, power and throttling of the GPU */
};

/*
 * Make the recorder with the sinks that the options ask for; the spans go to DIR/rank%d.spans. c
 * is what the rank will train. Collective over the store's ranks. Call run_record_stop after a
 * failure, too.
 */
enum lk_status run_record_start(struct run_record *r, const struct run_options *o,
                                const struct lk_rank_env *env, struct lk_store *store,
                                const char *dir, const struct lk_train_config *c);

/* Record round trips to rank 0's clock in the trace; do nothing without a trace. */
enum lk_status run_record_clocks(struct run_record *r, const struct lk_rank_env *env,
                                 struct lk_store *store, enum lk_clock_moment moment);

/* End the recording of a rank whose status so far is st, with its text in lk_error_text. Return st,
 * or the first failure here. pre: nothing is emitted any more. Safe on a zeroed one. */
enum lk_status run_record_stop(struct run_record *r, enum lk_status st);

#endif
