/* lockstep calibrate: what its files share. */
#ifndef LK_COMMANDS_CALIBRATE_H
#define LK_COMMANDS_CALIBRATE_H

#include "base/cluster.h"
#include "base/coll.h"
#include "base/option.h"
#include "base/stats.h"
#include "base/status.h"
#include "commands/calibrate_tables.h"
#include "runtime/launch.h"
#include "runtime/sweep.h"
#include "runtime/sweep_rates.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_nvml_calls;

struct calibrate_options {
    struct lk_ints ranks;
    /* Comma-separated names; NULL: the device's default. */
    const char *collectives, *algorithms, *dtypes;
    struct lk_sizes sizes; /* n 0: the device's default */
    int64_t repetitions, warmup;
    double budget_s;
    bool colocation, overlap;
    uint64_t overlap_bytes; /* 0: the device's default */
    struct lk_ints block, overlap_ctas, overlap_GBps;
    int64_t nccl_ctas; /* 0: by the GPU */
    bool rates;
    struct lk_sizes copy_sizes;
    const char *out, *name;
    int device;
    int64_t nccl_min_ctas, nccl_max_ctas; /* 0: NCCL's choice */
    bool nccl_register, share_gpu;
    bool pin;
    double timeout_s;
    int format;
    const char *log;
};

enum { CALIBRATE_CPU, CALIBRATE_CUDA };
extern const char *const calibrate_devices[]; /* names, NULL-ended */
extern const struct lk_option calibrate_option_rows[];

/* The names in the options, and defaults where nothing was given. */
struct calibrate_plan {
    enum lk_coll colls[LK_COLL_COUNT];
    size_t n_colls;
    enum lk_algo algos[LK_ALGO_COUNT];
    size_t n_algos;
    enum lk_dtype dtypes[LK_DTYPE_COUNT];
    size_t n_dtypes;
    struct lk_sizes sizes;
    uint64_t overlap_bytes;
};
/* LK_EUSAGE names the word that is unknown or there twice, or what does not go together. */
enum lk_status calibrate_plan(const struct calibrate_options *o, struct calibrate_plan *out);
/* The sweep of collectives, in bursts of this length on the calling thread; it borrows the plan. */
struct lk_sweep_collectives_config calibrate_sweep(const struct calibrate_options *o,
                                                   const struct calibrate_plan *p, double burst_s);

/* Whether each rank is bound to one CPU. With a GPU never: CUDA, CUPTI and NCCL have threads of
 * their own in it, which would all take turns there. */
bool calibrate_pins(const struct calibrate_options *o);

/* Set by our launcher: the file that rank 0 writes its part of the cluster to. */
#define CALIBRATE_PART_ENV "LOCKSTEP_CALIBRATE_PART"
/* ...and the file that it writes its tables to (commands/calibrate_tables.h): of GPUs. */
#define CALIBRATE_TABLES_ENV "LOCKSTEP_CALIBRATE_TABLES"
/* Set by it where a run before has measured the rates of a GPU. */
#define CALIBRATE_NO_RATES_ENV "LOCKSTEP_CALIBRATE_NO_RATES"
/* Set by it where ranks outnumber the CPUs: the overlap probe would measure co-location. */
#define CALIBRATE_NO_OVERLAP_ENV "LOCKSTEP_CALIBRATE_NO_OVERLAP"

/*
 * Measures as one rank. On rank 0 *out is the part of the cluster that this number of ranks shows:
 * points, co-location, overlap and straggler law, of GPUs also its header, no fits; elsewhere it is
 * empty. tables are filled in on rank 0 of GPUs.
 * LK_EREPORTED: our launcher has the text.
 */
enum lk_status calibrate_rank(const struct calibrate_options *o, const struct lk_rank_env *env,
                              struct lk_cluster *out, struct calibrate_tables *tables);

/* What GPUs are measured with; for tests. */
struct calibrate_gpu {
    const struct calibrate_options *options;
    const struct lk_rank_env *env;
    struct lk_store *store; /* NULL for one rank */
    const struct lk_cuda_calls *cuda_calls;
    const struct lk_nccl_calls *nccl_calls;
    const struct lk_nvml_calls *nvml_calls; /* NULL, all three: the libraries' */
    const struct lk_product_shape *shapes;  /* NULL: GPT-2's */
    size_t n_shapes;
};
/* The same on GPUs: collectives by NCCL, copies, products, overlap. */
enum lk_status calibrate_gpu(const struct calibrate_gpu *g, struct lk_cluster *c,
                             struct calibrate_tables *tables);

/* ---- From samples to the cluster's numbers (calibrate_points.c) ---- */

/*
 * Median of the samples and its bootstrap interval; stream: of the draws. The median, because a
 * call that another process of the machine held up says nothing of the collective.
 */
enum lk_status calibrate_median(const double *v, size_t n, uint64_t stream,
                                struct lk_estimate *out);
/*
 * The samples of a row that count, behind its warm-up. Alone from the last rank's arrival, as in
 * the step model. In a burst ranks of CPUs arrive as they come; streams are held for as long as
 * each host takes, which is no part of it: again from the last arrival.
 */
const double *calibrate_samples(const struct lk_sweep_row *r);
/* Medians of the rows in place, of the first row's element type, as points; `nodes` of them all. */
enum lk_status calibrate_add_points(const struct lk_sweep_rows *rows, int nodes,
                                    struct lk_cluster *c);
/* kappa at this many ranks, and the spread of the ranks' times as the straggler law. */
enum lk_status calibrate_add_colocation(const struct lk_sweep_colocation *s, int ranks_per_node,
                                        struct lk_cluster *c);
/* proxy: measured by a stand-in. The source says how. */
enum lk_status calibrate_add_overlap(const struct lk_sweep_overlap *s, bool proxy,
                                     const char *source, struct lk_cluster *c);
/* Of products the best rate as the device's flop/s; of the largest copy within it its memory rate.
 */
enum lk_status calibrate_add_rates(const struct lk_rate_rows *rows, struct lk_cluster *c);
/*
 * Moves what `part` has into `c`: points and kappas are appended; of the rest c keeps what it has.
 * part is empty then.
 */
enum lk_status calibrate_merge(struct lk_cluster *c, struct lk_cluster *part);

#endif
