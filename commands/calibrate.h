/* Declare what the files of `lockstep calibrate` share: its options, tables and GPU probes. */
#ifndef LK_COMMANDS_CALIBRATE_H
#define LK_COMMANDS_CALIBRATE_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"
#include "commands/command.h"
#include "facts/cluster.h"
#include "facts/coll.h"
#include "facts/host_load.h"
#include "reports/page.h"
#include "runtime/probe/probe.h"
#include "runtime/rendezvous/rank_env.h"
#include "sim/calibration.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_nvml_calls;

/* The command's options; option_rows in calibrate.c has a help text for each. All texts are
 * borrowed. "CTAs" are thread blocks of a collective's kernel, each on an SM of its own. */
struct calibrate_options {
    struct lk_ints ranks; /* counts of ranks, each measured in a run of its own */
    /* Comma-separated names; NULL: the device's default. */
    const char *collectives, *algorithms, *dtypes;
    struct lk_sizes sizes;       /* bytes of a collective; n 0: the device's default */
    int64_t repetitions, warmup; /* samples of each row, and samples before them that are dropped */
    double budget_s;             /* for the collectives of one count of ranks */
    bool colocation, overlap;    /* whether to measure them */
    uint64_t overlap_bytes;      /* of an all-reduce of that probe; 0: the device's default */
    /* The overlap probe's GPT block (samples, context, channels, heads), the CTAs of its collective
     * (a row each), and the GB/s that a surrogate for the collective copies (0: no limit). */
    struct lk_ints block, overlap_ctas, overlap_GBps;
    int nccl_ctas; /* CTAs that NCCL would use, where one GPU needs a surrogate; 0: by the GPU */
    bool rates;    /* whether to measure copies and matrix products */
    bool pairs;    /* whether to measure the links between any two hosts */
    uint64_t pair_bytes;        /* of a transfer of that probe */
    struct lk_sizes copy_sizes; /* bytes of a copy */
    const char *out, *name; /* path of the cluster file; name of the cluster, NULL: the host's */
    int device;             /* CALIBRATE_CPU or CALIBRATE_CUDA */
    int nccl_min_ctas, nccl_max_ctas; /* 0: NCCL's choice */
    /* NCCL allocates and registers the buffers; ranks may share a GPU (no file is written then). */
    bool nccl_register, share_gpu;
    bool pin;                /* bind each rank to a CPU; see calibrate_pins */
    double timeout_s;        /* longest wait for another rank */
    const char *secret_file; /* under another launcher; NULL: none */
    struct lk_page_options page;
    const char *log; /* level of the log, as --log takes it */
};

enum { CALIBRATE_CPU, CALIBRATE_CUDA };
extern const char *const calibrate_devices[]; /* names, NULL-ended */
extern const struct lk_command lk_command_calibrate;

/* The probe that the options ask for, with defaults for what is not given. */
struct calibrate_plan {
    enum lk_coll colls[LK_COLL_MODELLED];
    size_t n_colls;
    enum lk_algo algos[LK_ALGO_COUNT];
    size_t n_algos;
    enum lk_dtype dtypes[LK_DTYPE_COUNT];
    size_t n_dtypes;
    struct lk_sizes sizes;
    uint64_t overlap_bytes;
};
/* Make the plan. LK_EUSAGE names a word that is unknown or repeated, or options that conflict. */
enum lk_status calibrate_plan(const struct calibrate_options *o, struct calibrate_plan *out);
/* Return the configuration of the probe of collectives, in bursts of burst_s on the calling thread;
 * it borrows the plan. */
struct lk_probe_collectives_config calibrate_collectives_config(const struct calibrate_options *o,
                                                                const struct calibrate_plan *p,
                                                                double burst_s);

/* Tell a user at a terminal what is measured now; rank 0 does. from, to: lk_progress_begin's. */
void calibrate_announce(const struct lk_rank_env *env, double from, double to, const char *what);

/* Return true if each rank is bound to one CPU. With a GPU it never is: CUDA, CUPTI and NCCL have
 * threads of their own in it, which would all share that CPU. */
bool calibrate_pins(const struct calibrate_options *o);

/* ---- Tables (calibrate_tables.c) ---- */

/*
 * Tables that a calibration on GPUs prints beside the numbers of a cluster file. Rank 0 of each
 * count of ranks fills them and sends them to the launcher as JSON; the launcher joins them.
 */
enum {
    CALIBRATE_COLLECTIVES, /* as nccl-tests prints them */
    CALIBRATE_COPIES,      /* within the GPU, to it and from it */
    CALIBRATE_PRODUCTS,    /* matrix products */
    CALIBRATE_OVERLAP,
    CALIBRATE_TABLES
};

struct calibrate_tables {
    struct lk_table *table[CALIBRATE_TABLES]; /* owned */
};

/* Create the tables, without rows. */
enum lk_status calibrate_tables_create(struct calibrate_tables *t);
void calibrate_tables_fini(struct calibrate_tables *t); /* safe on a zeroed one */
/* Write the tables to a text, freed by the caller; append the rows of such a text. */
enum lk_status calibrate_tables_write(const struct calibrate_tables *t, char **text, size_t *size);
enum lk_status calibrate_tables_append(struct calibrate_tables *t, const char *text, size_t size);

/* Add a row for each size: the time in place, and the time out of place where it was measured. */
enum lk_status calibrate_show_collectives(struct calibrate_tables *t,
                                          const struct lk_probe_rows *rows);
/* Add rows of copies or products. */
enum lk_status calibrate_show_rates(struct calibrate_tables *t, const struct lk_rate_rows *rows);

/* A row of the overlap probe; samples and beside are borrowed. */
struct calibrate_overlap {
    const struct lk_probe_overlap
        *samples;                         /* gamma_wait, gamma_wire, delta, time of a collective */
    const struct lk_probe_beside *beside; /* what ran beside compute */
    int ranks;
    int ctas;     /* of a real collective: the limit given to NCCL; 0: its own choice */
    bool in_file; /* the cluster file has its numbers */
};
/* Add the row. */
enum lk_status calibrate_show_overlap(struct calibrate_tables *t,
                                      const struct calibrate_overlap *line);
/*
 * Move the tables of GPUs to the page, then those of the cluster file. least: the fewest ranks of a
 * run that our launcher started, for a note on a missing overlap probe; 0: another launcher started
 * the ranks.
 */
enum lk_status calibrate_print(const struct calibrate_options *o, const struct lk_cluster *c,
                               struct calibrate_tables *gpu, int least, struct lk_page *page);

/* ---- Pairs of hosts (calibrate_pairs.c) ---- */

/* The probe of pairs says this. */
struct calibrate_pairs {
    size_t n;      /* hosts, or ranks of one host; 0: not measured */
    bool network;  /* there are several hosts */
    size_t few;    /* so many repetitions are too few to tell; 0: they are enough */
    char *slow;    /* which host or pair is slow; NULL: none. Owned, as is: */
    char *exclude; /* hosts, as Slurm's --exclude takes them; NULL: none */
};
/* Measure all pairs of hosts over TCP, as one rank together with the others. On rank 0 c gets the
 * rates, and out what they say. pre: out is zeroed. */
enum lk_status calibrate_pairs(const struct calibrate_options *o, const struct lk_rank_env *env,
                               struct lk_store *store, struct lk_cluster *c,
                               struct calibrate_pairs *out);
/* Say it on the page. */
enum lk_status calibrate_pairs_say(const struct calibrate_pairs *p, struct lk_page *page);
void calibrate_pairs_fini(struct calibrate_pairs *p);

/* ---- Other work on the processors (calibrate_load.c) ---- */

struct calibrate_load {
    uint64_t began_ns;
    struct lk_host_load before;
};
/* Read the load as the calibration begins. LK_EIO: the system does not tell it. */
enum lk_status calibrate_load_begin(struct calibrate_load *l);
/*
 * Put what this rank saw into the store; all ranks have to. On rank 0 also say how much other work
 * took of the machine where it took most, and, in a calibration of CPUs, widen what it disturbed.
 */
enum lk_status calibrate_load_end(const struct calibrate_load *l, const struct lk_rank_env *env,
                                  struct lk_store *store, bool of_cpus, struct lk_cluster *c);

/* ---- GPUs (calibrate_gpu.c) ---- */

/* Environment variable that our launcher sets when an earlier run has measured a GPU's rates. */
#define CALIBRATE_NO_RATES_ENV "LOCKSTEP_CALIBRATE_NO_RATES"

/* Inputs of a calibration on GPUs, all borrowed; tests replace the libraries. */
struct calibrate_gpu {
    const struct calibrate_options *options;
    const struct lk_rank_env *env; /* this rank and the number of ranks */
    struct lk_store *store;        /* NULL for one rank */
    const struct lk_cuda_calls *cuda_calls;
    const struct lk_nccl_calls *nccl_calls;
    const struct lk_nvml_calls *nvml_calls; /* each of the three, NULL: the library's own */
    const struct lk_product_shape *shapes;  /* of the matrix products; NULL: GPT-2's */
    size_t n_shapes;
};
/*
 * Measure as one rank, together with the others of the run: collectives by NCCL, copies, matrix
 * products, overlap. On rank 0 c gets the part of the cluster that this number of ranks shows,
 * without fits, and the tables get their rows. pre: c is initialised.
 */
enum lk_status calibrate_gpu(const struct calibrate_gpu *g, struct lk_cluster *c,
                             struct calibrate_tables *tables);

#endif
