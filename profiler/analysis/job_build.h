/*
 * Build a job (facts/job.h), the description of one optimizer step on one GPU, from measured runs.
 *
 * The runs must be of one job: the same tensors, model, sample unit, DDP rule, bucket limits,
 * accumulation and no_sync; they may differ in world size, local batch and repetition. Steady-state
 * steps only (after the warm-up, complete on every rank).
 *
 * Where each member comes from:
 *
 * - compute: one row a local batch, from the runs of the smallest world size that has this batch.
 *   From runs with one rank this is compute without communication and co-location; otherwise the
 *   row's `source` says that both are in it. forward_s and backward_s are means over steps, ranks
 *   and micro-batches of the FORWARD and BACKWARD ranges; optimizer_s, input_s and gap_s are the
 *   step's parts of profiler/analysis/steps.h (input and gap are not covered by compute or
 *   communication); optimizer_hidden_s what of the updates was, if any. Of sharded runs optimizer_s
 *   is that of all parameters: the shard's times the ranks that share.
 * - intervals: 90 %, bootstrap by run, then by block of consecutive steps within a run.
 * - transient: the standard deviation of a micro-batch's forward + backward, relative to the mean
 *   of its rank and run.
 * - ready: a tensor's GRADIENT instant, from start (0) to end (1) of the last micro-batch's
 *   BACKWARD range: median over steps of the runs of the smallest world size.
 * - ready_order: order of the GRADIENT instants of rank 0 in the last micro-batch of the first step
 *   in the trace that has all of them, of the first of these runs.
 * - collectives: what the runs of the smallest world size above one rank have beside gradients
 *   (profiler/analysis/job_collectives.h).
 * - runs: every run given, with its step times, each rank's mean compute, and where its steps went
 *   (profiler/analysis/analysis.h, against the run's natural reference among them).
 * - place: the device and the hosts that the traces name, of every run; the job's are those of its
 *   compute.
 * - sharding: that of all runs of several ranks; none where they differ.
 * - no_sync: of runs of several micro-batches; one micro-batch is the same either way, and the file
 *   then has true, which forecasts name as assumed.
 * - optimizer, master_weights, gradient_as_bucket_view: from the options of `lockstep run` in the
 *   trace; traces of other programs leave them unknown.
 * - noise_scale: from the counters "local gradient norm" and "gradient norm" of the runs with most
 *   ranks that have them (facts/noise.h), repetitions together.
 */
#ifndef LK_PROFILER_ANALYSIS_JOB_BUILD_H
#define LK_PROFILER_ANALYSIS_JOB_BUILD_H

#include "base/status.h"
#include "facts/job.h"
#include "profiler/analysis/run_set.h"

#include <stddef.h>

/* Build the job. LK_EEVIDENCE says which runs lack what (steady-state steps, GRADIENT instants);
 * LK_EUSAGE names two runs of different jobs and their difference. */
enum lk_status lk_job_build(const struct lk_run_set *set, struct lk_job *out);

#endif
