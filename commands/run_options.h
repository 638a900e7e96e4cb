/* Options of `lockstep run` and `lockstep replay`, and a rank's configuration made from them. */
#ifndef LK_COMMANDS_RUN_OPTIONS_H
#define LK_COMMANDS_RUN_OPTIONS_H

#include "base/option.h"
#include "base/status.h"
#include "reports/page.h"
#include "runtime/train/trainer.h"

#include <stdbool.h>
#include <stdint.h>

/* Choices of --device and --comm, from the registries of devices and communicators. */
enum {
#define RUN_DEVICE_(device, name) RUN_DEVICE_##device,
    LK_DEVICE_LIST(RUN_DEVICE_)
#undef RUN_DEVICE_
};
enum {
    RUN_COMM_AUTO,
#define RUN_COMM_(comm, name) RUN_COMM_##comm,
    LK_COMM_LIST(RUN_COMM_)
#undef RUN_COMM_
};
/* Choices of an option that acts where it makes sense, always or never. */
enum { RUN_AUTO, RUN_YES, RUN_NO };
extern const char *const run_devices[]; /* names, NULL-ended */
extern const char *const run_comms[];

struct lk_command;
struct lk_job;

struct run_options {
    const struct lk_command *command; /* that they were given to; set by run_options_complete */
    /* The trainer's configuration, as far as options fill it. What the others below give is added
     * by run_options_train. */
    struct lk_train_config train;
    /* job */
    int64_t ranks;     /* 0: not given */
    const char *hosts; /* other hosts to start them on; NULL: this one */
    const char *ssh;   /* the command that runs another there; NULL: RUN_SSH */
    int64_t seed;
    struct lk_ints local_batch;  /* one number, of all ranks, or one of each rank */
    struct lk_ints rank_samples; /* of each rank, an epoch; empty: not given */
    bool drop_last;
    bool sync_every;
    int sharding;    /* 0: auto, else one more than the lk_sharding */
    int reduce;      /* 0: auto, else one more than the lk_reduction */
    int overlap;     /* 0: auto, else one more than the lk_overlap_mode */
    int compression; /* 0: auto, else one more than the lk_compression */
    /* run grid */
    struct lk_ints scaling, local_batches, accumulations;
    struct lk_sizes bucket_caps;
    bool strong;
    int64_t repetitions; /* 0: not given */
    /* DDP */
    uint64_t first_bucket;  /* 0: by PyTorch's rule */
    const char *lr_warmup;  /* as lk_optim_parse_warmup reads it */
    const char *loss_scale; /* as lk_scaler_parse reads it */
    /* machine */
    int device, dtype, comm, algorithm;
    const char *fuse; /* as lk_fuse_parse reads it; NULL: nothing */
    bool pin;
    double timeout_s;
    const char *secret_file; /* under another launcher; NULL: none */
    int64_t restart;         /* starts after failures of ranks, at most */
    /* output */
    const char *out;
    bool force;
    struct lk_page_options page;
    bool trace, merged_trace;
    int graph;                /* RUN_AUTO: where it can be */
    int nvtx;                 /* RUN_AUTO: when a tool runs this program */
    int gpu_records;          /* RUN_AUTO: on a GPU, where CUPTI can be used */
    int64_t gpu_record_steps; /* after the warm-up; 0: all */
    int gpu_state;            /* RUN_AUTO: on a GPU, with a trace, where NVML can be used */
    const char *log;
    /* testing */
    const char *slow_rank;
    const char *gpu, *cluster; /* of a replay: kinds of GPU, and whose the job's times are of */
};

/* The default of --ssh asks for no password, and ends when a host does not answer. */
#define RUN_SSH "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15"

extern const struct lk_option run_rows[];
extern const struct lk_option replay_rows[]; /* those not in it have run's defaults */
extern const struct lk_command lk_command_run, lk_command_replay;

/*
 * Complete and check the parsed options of a command. LK_EUSAGE for options that conflict or would
 * be ignored. job: the operand of replay, a file that gives the values of options that are not
 * given, whose errors name file, line and key; NULL: the command is run.
 */
enum lk_status run_options_complete(const struct lk_command *c, const char *job,
                                    struct run_options *o);

/* Check the options of how ranks exchange gradients (commands/run_scheme.c). d: the defaults. */
enum lk_status run_options_check_scheme(const struct run_options *o, const struct run_options *d);

/* Check the options of how samples are shared (commands/run_shares.c), and, for a run of so many
 * ranks, that each has a number where numbers are of ranks. */
enum lk_status run_options_check_shares(const struct run_options *o, const struct run_options *d);
enum lk_status run_options_check_share_ranks(const struct run_options *o, int ranks);
/* Fill a rank's batch and what it is dealt; lists are o's. */
void run_options_fill_shares(const struct run_options *o, int rank, struct lk_train_config *c);
/* Set the batches of ranks that have their own. */
enum lk_status run_options_set_batches(const struct run_options *o, struct lk_config *c);
/* Return how many ranks the lists are of; 0: there are none. */
int run_options_listed_ranks(const struct run_options *o);

/* Check --fault for a run of `ranks` ranks (INT_MAX: not known). */
enum lk_status run_options_check_fault(const struct run_options *o, int ranks);

/* ---- The types of numbers (commands/run_precision.c) ---- */
extern const char *const run_dtypes[]; /* NULL-ended */
/* Return the type that is trained in. */
enum lk_dtype run_options_dtype(const struct run_options *o);
/* Read --loss-scale, and check it and --dtype against the others. d: the defaults. */
enum lk_status run_options_parse_precision(struct run_options *o);
enum lk_status run_options_check_precision(const struct run_options *o,
                                           const struct run_options *d);

/* Return the compression that is asked for; auto is none. */
enum lk_compression run_options_compression(const struct run_options *o);
/* Fill a rank's hook and averaging. pre: its sharding is filled. */
void run_options_fill_hook(const struct run_options *o, struct lk_train_config *c);
/* Take hook and period of averaging of the job where no other ones are given. */
void run_options_take_hook(const struct lk_job *job, struct run_options *o);

/* Check that --slow-rank names one of `ranks` ranks; LK_EUSAGE else. */
enum lk_status run_options_check_slow_rank(const struct run_options *o, int ranks);
/* Return a rank's factor: 1 for all but the slow one. */
enum lk_status run_options_slowdown(const struct run_options *o, int rank, double *out);

/* Return the limit of the first bucket: as given, else 1 MiB with the default cap, else the cap. */
/* Return true if the options ask for more than one configuration, or for lists of them. */
bool run_options_measure_several(const struct run_options *o);
uint64_t run_options_first_bucket(const struct run_options *o);

/*
 * Make the trainer's configuration of one rank; texts belong to o. The caller sets
 * comm_config.store and recorder.
 */
enum lk_status run_options_train(const struct run_options *o, int rank, int world_size,
                                 int local_rank, struct lk_train_config *out);

#endif
