/*
 * Jobs on which a cause of a known size was planted, for the doctor (sim/throughput/doctor.h).
 *
 * A case is a job of a known model on a preset's machine, with a share of the GPU's peak, ready
 * times, stragglers and costs of collectives of its own, drawn; and one cause of a known size, so
 * large that a step on all GPUs is 15 % longer for it, or, for the cause "batch", a batch so small
 * that over 10 % is lost with nothing wrong. The step model with all ranks and their stragglers
 * (sim/step/step.h) gives the step of every run; each rate has a noise of 2 %. A run that is
 * profiled is simulated with its trace, GPUs' kernels in it, and the program's analysis reads that;
 * times that it tells have a noise of 5 % more.
 */
#ifndef LK_BENCH_LIB_SICK_H
#define LK_BENCH_LIB_SICK_H

#include "facts/cluster.h"
#include "facts/known_models.h"
#include "sim/collective/coll_cost.h"
#include "sim/throughput/doctor.h"

struct sick {
    const struct lk_known_model *model;
    const struct lk_cluster *cluster;
    struct lk_job job;
    struct lk_cost_model *cost; /* a draw of the cluster's */
    struct lk_config most;
    double compute_s; /* of a sample, on a GPU */
    double fixed;     /* of a micro-batch: its time whatever its samples, over that of these */
    double rate;      /* collectives over the cost model's */
    enum lk_cause cause;
    double size, crowding;
    bool own; /* INPUT: each rank's loader, not the node's */
    int slow_gpu;
    double healthy_step_s; /* of all GPUs */
    uint64_t seed;
};

/* Read the clusters of which cases are; n of them, each to be freed by lk_cluster_fini. */
enum { SICK_CLUSTERS = 7 };
enum lk_status sick_clusters(struct lk_cluster out[SICK_CLUSTERS]);
/* Return the peak of a GPU; NaN: not known. */
double sick_peak(const struct lk_cluster *c);

/* Draw a case, which may not be one: its cause must count. sick_fini frees *s. */
enum lk_status sick_draw(uint64_t seed, const struct lk_cluster *clusters, struct sick *s,
                         bool *counts);
/*
 * Draw a case of a cause, of which the doctor would be told the same model, machine and
 * configuration, and whose row of rows[0] has the same rate as there. *weight is its density among
 * all cases that are drawn, up to a factor that all causes share; 0: it is none.
 */
enum lk_status sick_draw_like(const struct sick *known, const struct lk_doctor_row *least,
                              enum lk_cause cause, uint64_t seed, struct sick *s, double *weight);
void sick_fini(struct sick *s); /* zeroes it; safe on a zeroed one */

/* Compute the rate of a run, without noise. */
enum lk_status sick_rate(const struct sick *s, const struct lk_trial *t, double *out);
/* Measure a run as the doctor is told it. */
enum lk_status sick_measure(const struct sick *s, const struct lk_trial *t, bool profiled,
                            struct lk_doctor_row *out);
/* Return the log of the likelihood of a rate that was measured. */
double sick_log_likelihood(double measured, double rate);

#endif
