/*
 * One rank of a run: the work of a process that a launcher started. It trains, and records its
 * spans and the state of its GPU.
 */
#ifndef LK_COMMANDS_RUN_RANK_H
#define LK_COMMANDS_RUN_RANK_H

#include "base/page.h"
#include "base/status.h"
#include "commands/gpu_state.h"
#include "commands/run_options.h"
#include "facts/host_load.h"
#include "facts/span.h"
#include "profiler/record/cupti.h"
#include "profiler/record/nvtx.h"
#include "profiler/record/span_file.h"
#include "runtime/rendezvous/rank_env.h"
#include "runtime/rendezvous/store.h"

/*
 * Environment variable that our own launcher sets to the directory that a rank writes to. Under
 * another launcher it is not set: a rank then writes to --out, which must be one directory that all
 * hosts share, and rank 0 makes the traces from all ranks' spans.
 */
#define RUN_DIR_ENV "LOCKSTEP_RUN_DIR"

/* Environment variable that our own launcher sets for ranks on other hosts: the mark that it left
 * in the directory (commands/agree.h). */
#define RUN_MARK_ENV "LOCKSTEP_RUN_MARK"

/* A library that CUDA's driver loads into the program: a tool that traces it, such as nsys. */
#define RUN_CUDA_TOOL_ENV "CUDA_INJECTION64_PATH"

/*
 * Run the rank to its end; rank 0 fills the page under another launcher. It writes
 * DIR/rank%d.spans, and rank 0 also DIR/result.json (run_grid.h). LK_EREPORTED: the rank failed and
 * has sent the error text to our own launcher, which prints it once for all ranks.
 */
enum lk_status run_rank(const struct run_options *o, const struct lk_rank_env *env,
                        struct lk_page *page);

/* Counters of what the host's processors do. */
struct run_load {
    struct lk_track *track; /* NULL: the load is not recorded */
    uint16_t names[LK_HOST_TIMES];
};

/* Recorder and sinks of one rank. A zeroed one records nothing. */
struct run_record {
    const struct run_options *options; /* this and the next three as given to run_record_start */
    const struct lk_rank_env *env;
    struct lk_store *store;
    const char *dir;
    struct lk_recorder *recorder; /* NULL: nothing is recorded */
    struct lk_span_file *spans;   /* NULL: no trace */
    struct lk_nvtx *nvtx;         /* NULL: no ranges for a tool */
    struct lk_cupti *gpu;         /* NULL: no records of a GPU */
    bool gpu_needed;        /* the user asked for GPU records by name: losing them is an error */
    char gpu_records[1024]; /* where they come from, or why there are none; "": no GPU */
    struct gpu_state state; /* clock, power and throttling of the GPU */
    struct run_load load;
};

/*
 * Make the recorder with the sinks that the options ask for; the spans go to DIR/rank%d.spans. c is
 * the configuration of the training to be recorded. All ranks of the store have to make this call.
 * Call run_record_stop even when it fails.
 */
enum lk_status run_record_start(struct run_record *r, const struct run_options *o,
                                const struct lk_rank_env *env, struct lk_store *store,
                                const char *dir, const struct lk_train_config *c);

/* End the recording of a rank whose status so far is st, with its text in lk_error_text. Return st,
 * or the first failure here. pre: nothing is emitted any more. Safe on a zeroed one. */
enum lk_status run_record_stop(struct run_record *r, enum lk_status st);

#endif
