/*
 * A forecast: the configurations asked for, each with interval, evidence, efficiency and losses,
 * with notes on all of them.
 *
 *     request -> grid of configurations
 *             -> evidence: a prediction of each            (sim/forecast/evidence.h)
 *             -> reference of each, predicted once         (the smallest measured count)
 *             -> points, with efficiency over the reference
 *             -> answer: the most GPUs, best of a count, knee (facts/forecast_answer.h)
 *
 * `predict` is a request to it, with one or the other source of evidence; `whatif`
 * (sim/whatif/whatif.h) has a grid of its own over machines and configurations, and takes the
 * points from here. lk_forecast_point_of is the one place through which each estimate passes.
 *
 * Efficiency is throughput a GPU over the reference's, at the same local batch and accumulation, in
 * strong scaling at the same global batch. It is formed draw by draw where both have draws; against
 * a reference without draws the ends of the interval are taken. Where the reference cannot be
 * forecast, the points are, and a note says why they have no efficiency.
 */
#ifndef LK_SIM_FORECAST_FORECAST_H
#define LK_SIM_FORECAST_FORECAST_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The grid of a forecast. An empty list takes the evidence's own value; arrays are borrowed. */
struct lk_predict_request {
    const int64_t *world_sizes; /* required */
    size_t n_world_sizes;
    const int64_t *local_batches; /* empty: the batch that most runs have */
    size_t n_local_batches;
    const int64_t *accumulations;
    size_t n_accumulations;
    const int64_t *no_syncs; /* 1, 0: reduce gradients on the last micro-batch alone, or on all */
    size_t n_no_syncs;
    const uint64_t *caps; /* bucket caps; the first bucket's limit follows (lk_config_set_cap) */
    size_t n_caps;
    const uint64_t *first_buckets; /* limits of the first bucket */
    size_t n_first_buckets;
    int64_t global_batch; /* > 0: strong scaling, samples a step; accumulation follows from it,
                             and the local batch shrinks where it would exceed the share */
    double level;         /* of the intervals, e.g. 0.90 */
    int draws;            /* e.g. 200 */
    uint64_t seed;
    bool whatif; /* the source serves sim/whatif/whatif.h: it shows no back-tests, and refers to
                    plain DDP */
};

/* Forecast the grid from the evidence. A point that has no evidence or makes no sense is left out,
 * and a note gives the first one's reason; that is the failure when no point is left: LK_EEVIDENCE,
 * which names what is missing and the cheapest run that would supply it, or LK_EUSAGE. */
enum lk_status lk_forecast_run(const struct lk_evidence_source *evidence,
                               const struct lk_predict_request *request, struct lk_forecast *out);

/*
 * Find the knee of weak scaling in full nodes: the largest number of nodes, up to `most`, within
 * which each further node adds at least half of the throughput that the first one delivers. The
 * rest of the configuration is as in `like`. The nodes tried grow by a quarter, so above eight
 * nodes the knee is found to a quarter.
 */
enum lk_status lk_knee_find(const struct lk_evidence_source *e, const struct lk_config *like,
                            int most, int *out_nodes);

/* Open the runs of a job and the model of its steps on a cluster, both borrowed, as a source of
 * evidence; of the request level, draws, seed, global batch and `whatif` are read. The caller
 * closes it by its hook. */
enum lk_status lk_step_evidence(const struct lk_job *job, const struct lk_cluster *cluster,
                                const struct lk_predict_request *q, struct lk_evidence_source *out);

/* Make the point of a prediction. reference NULL: its efficiency is not known (NaN). */
enum lk_status lk_forecast_point_of(const struct lk_prediction *p,
                                    const struct lk_prediction *reference, double level,
                                    struct lk_forecast_point *out);
/* Note how many points were left out, and why the first was; for n of 0 nothing. */
enum lk_status lk_forecast_note_left_out(struct lk_forecast *f, size_t n, const char *first);
/* Note what was drawn because no run varied it; nothing was: no note. */
enum lk_status lk_forecast_note_unvaried(struct lk_forecast *f, const struct lk_unvaried *u);
/* Note why the reference of some efficiency cannot be forecast; NULL: all can. */
enum lk_status lk_forecast_note_no_reference(struct lk_forecast *f, const char *why);
/* Append a point to the forecast. */
enum lk_status lk_forecast_add(struct lk_forecast *f, const struct lk_forecast_point *p);

#endif
