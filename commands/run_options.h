/* Options of `lockstep run` and `lockstep replay`, and what they mean for a rank. */
#ifndef LK_COMMANDS_RUN_OPTIONS_H
#define LK_COMMANDS_RUN_OPTIONS_H

#include "base/option.h"
#include "base/status.h"
#include "runtime/trainer.h"

#include <stdbool.h>
#include <stdint.h>

/* The command that the options were given to. */
struct run_form {
    const char *command;
    const struct lk_option *rows;
};
enum run_form_kind { RUN_FORM_RUN, RUN_FORM_REPLAY };

enum { RUN_DEVICE_CPU, RUN_DEVICE_TIMED, RUN_DEVICE_CUDA };
enum { RUN_COMM_AUTO, RUN_COMM_SELF, RUN_COMM_TCP, RUN_COMM_NCCL };
/* What is done where it makes sense, always or never. */
enum { RUN_AUTO, RUN_YES, RUN_NO };
extern const char *const run_devices[]; /* names, NULL-ended */
extern const char *const run_comms[];
extern const char *const run_switches[];

struct run_options {
    const struct run_form *form;
    /* job */
    int64_t ranks; /* 0: not given */
    int64_t steps, warmup;
    int64_t local_batch, accumulation;
    bool sync_every;
    int64_t seed;
    /* sweep */
    struct lk_ints scaling, local_batches;
    bool strong;
    int64_t repetitions; /* 0: not given */
    /* model */
    const char *model, *job;
    int64_t layers, heads, channels, context, vocab;
    /* data */
    const char *data;
    int64_t samples, prefetch;
    bool shuffle, drop_last;
    double input_delay_s;
    /* optimizer */
    int optimizer;
    double learning_rate, momentum, beta1, beta2, epsilon, weight_decay;
    int64_t lr_warmup, reference_batch;
    /* DDP */
    int ddp_rule, algorithm;
    uint64_t bucket_cap, first_bucket; /* first_bucket 0: by PyTorch's rule */
    int64_t noise_every;
    /* machine */
    int device, dtype, comm;
    int64_t nccl_min_ctas, nccl_max_ctas, nccl_cga; /* 0: NCCL's own */
    bool nccl_register, share_gpu;
    bool pin;
    double timeout_s;
    double timed_flops, timed_Bps;
    /* output */
    const char *out;
    int format;
    bool trace;
    int graph;       /* RUN_AUTO: where it can be */
    int nvtx;        /* RUN_AUTO: when a tool runs this program */
    int gpu_records; /* RUN_AUTO: on a GPU, where CUPTI can be used */
    int gpu_state;   /* RUN_AUTO: on a GPU, with a trace, where NVML can be used */
    const char *export_path, *import_path;
    const char *log;
    /* testing */
    bool verify;
    int64_t verify_steps;
    int plant;
    const char *fault, *slow_rank;
};

extern const struct lk_option run_option_rows[];
extern const struct lk_option replay_option_rows[];

/* Parses and checks: options that conflict, or would be ignored, are LK_EUSAGE. */
enum lk_status run_options_parse(int argc, char **argv, struct run_options *out);
/*
 * The same for replay, whose operand is a job file. What is not given is as the job has it, so the
 * file is read; its errors name file, line and key.
 */
enum lk_status run_options_parse_replay(int argc, char **argv, struct run_options *out);

/* Checks --fault for a run of so many ranks (INT_MAX: not known). */
enum lk_status run_options_check_fault(const struct run_options *o, int ranks);

/* LK_EUSAGE when --slow-rank names a rank that so many do not have. */
enum lk_status run_options_check_slow_rank(const struct run_options *o, int ranks);

/* Limit of the first bucket: as given, else 1 MiB when the cap was left alone, else the cap. */
uint64_t run_options_first_bucket(const struct run_options *o);

/*
 * The command line of a rank: "lockstep run" or "lockstep replay JOB" and every option of o that is
 * not at its default, as
 * "--name=value". Freed by run_argv_free.
 */
enum lk_status run_options_argv(const struct run_options *o, char ***out);
void run_argv_free(char **argv); /* NULL is legal */

/*
 * The trainer's configuration of one rank; texts belong to o. comm_config.store and recorder are
 * left for the caller.
 */
enum lk_status run_options_train(const struct run_options *o, int rank, int world_size,
                                 int local_rank, struct lk_train_config *out);

#endif
