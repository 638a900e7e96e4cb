/*
 * How long a job computes on another GPU than the cluster's, and kinds of GPU that are mixed, rank
 * by rank.
 *
 * Compute times are multiplied by the roofline's time on the new device over that on the old one
 * (sum over layers of max(flops / rate, bytes / memory rate)), so that the share of the device's
 * peak that the old one reached is kept. A job without layers but with flops_per_sample takes the
 * ratio of the rates, and its interval is widened to hold the ratio of the memories' rates. An
 * optimizer reads and writes each state once or twice: the memory sets its pace.
 *
 * A mix is the fastest of its kinds, whose ranks are as others of one kind are, and ranks that are
 * known to be slower (sim/step/known_stragglers.h), by the ratio of the kinds' compute.
 */
#ifndef LK_SIM_STEP_GPU_MIX_H
#define LK_SIM_STEP_GPU_MIX_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"

enum { LK_GPU_KINDS_MAX = 16, LK_GPU_MIX_MAX = 4096 /* ranks of a mix */ };

/* Groups of neighbouring ranks, in order. */
struct lk_gpu_mix {
    int n, ranks; /* groups; ranks of all */
    struct {
        const struct lk_cluster *gpu; /* whose, borrowed; NULL: the forecast's own cluster's */
        int ranks;
    } of[LK_GPU_KINDS_MAX];
};

/* New time over the old one, and bounds of it. */
struct lk_gpu_speed {
    double factor, lo, hi;
};

/*
 * Set what a job's compute and optimizer take on the GPU of `to` (NULL: the same) over those of
 * `from`. LK_EEVIDENCE names the one number that is missing.
 */
enum lk_status lk_gpu_speeds(const struct lk_job *j, const struct lk_cluster *from,
                             const struct lk_cluster *to, struct lk_gpu_speed *out_compute,
                             struct lk_gpu_speed *out_optimizer);

/* The speeds of a mix's kinds on a job. */
struct lk_gpu_kinds {
    const struct lk_cluster *fastest;  /* NULL: the own GPU */
    int n_fastest;                     /* ranks of the fastest kind */
    double slowness[LK_GPU_KINDS_MAX]; /* of each group: its compute over the fastest one's */
    struct lk_gpu_speed
        compute; /* of the fastest kind; its bounds are as wide as the widest kind\'s */
    struct lk_gpu_speed optimizer; /* of the group whose optimizer is slowest */
    bool one;                      /* all groups are of one cluster's GPU */
};
/* LK_EEVIDENCE as above. own: the cluster that the job's compute times are of. */
enum lk_status lk_gpu_kinds_of(const struct lk_job *j, const struct lk_cluster *own,
                               const struct lk_gpu_mix *mix, struct lk_gpu_kinds *out);
/* Set, of each rank of the mix, its compute over that of the fastest kind. LK_EEVIDENCE as above.
 */
enum lk_status lk_gpu_mix_slowness(const struct lk_job *j, const struct lk_cluster *own,
                                   const struct lk_gpu_mix *mix, double *out);

/*
 * Set what so many ranks of a mix are: all of them are the mix (*out_gpu NULL, *out_mix the mix);
 * fewer, if there are as many of the fastest kind, are of that (*out_mix NULL), and a mix of one
 * kind is that kind. LK_EUSAGE: nothing says which they are. LK_EEVIDENCE.
 */
enum lk_status lk_gpu_mix_take(const struct lk_job *j, const struct lk_cluster *own,
                               const struct lk_gpu_mix *mix, int ranks,
                               const struct lk_gpu_mix **out_mix,
                               const struct lk_cluster **out_gpu);

#endif
