/*
 * Priors are the values that a forecast assumes where nothing was measured, each with its source.
 * The forecast's notes name every prior that it used as "assumed".
 */
#ifndef LK_SIM_PRIOR_H
#define LK_SIM_PRIOR_H

#include "base/quantity.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * X(prior, value, source). All are relative standard deviations but the tests, the shares, and
 * ORTHOGONAL, BUCKET, TENSOR and START, which are seconds, and LAUNCH_RANGE, a factor.
 *
 * MEASURED_SCALE_ERROR is the error of forecasts from collectives measured on the cluster, for each
 * doubling of the GPUs, over the time of the step's collectives, hidden or not: docs/accuracy.md's
 * runs on shaped links, of replays and of PyTorch, one rms for each of 9 groups of runs, without
 * those of a slow link or rank; so it counts as MEASURED_SCALE_TESTS back-tests. Over the whole
 * step it is 1.9 %, over what is exposed 71 %. With each group left out in turn intervals over the
 * collectives score 0.238, over the whole step 0.278, over what is exposed 1.295.
 *
 * SCALE_ERROR takes its place where none were measured. It is that of the scaling law, for each
 * doubling of the GPUs, on public data: the last count of a series of three or more is predicted
 * from the smaller ones, with constants of other sources (bench/accuracy_scaling; 110 tier A series
 * of 25 sources in published_scaling.csv). The errors of one series are alike, and series differ:
 * Student's t fits best with 1.5 to 2 degrees of freedom, and then has the scale 2.7 % of the step.
 * So the prior counts as SCALE_TESTS back-tests. How much of these steps is collectives is not
 * published: it is taken for as many times the step's error as on shaped links, 0.040 / 0.019.
 *
 * PRESET_ERROR is the error of a collective's time from datasheet numbers: the rms of ln(model /
 * measured) over 12 bands of size above 1 MiB of all-reduce, all-gather and reduce-scatter, for
 * NCCL 2.28's model (src/graph/tuning.cc) with nominal link rates, on six platforms.
 *
 * RESCALE_ERROR is the error of rescaled collectives for each doubling of the ranks: ln(measured /
 * rescaled from 2 ranks) of all-reduces of 256 KiB and more on 4 and 8 ranks, in
 * bench/net_torch.sh's sweeps and calibrations like tests/net/validate's.
 *
 * RESOLUTION is the error of a forecast of how two configurations compare on the same GPUs: the rms
 * of ln(measured / predicted ratio) of two bucket caps, or two accumulations, of one group and rank
 * count on shaped links. It is 1.9 % for 32 pairs of replays (0.9 to 2.3 % with a group left out)
 * and 3.1 % for 8 of PyTorch's DDP (2.0 and 3.9 %); both kinds count alike. It is no larger for
 * larger ratios. What the draws of two points have in common cancels in their ratio; this does not.
 *
 * BATCH_ERROR and ONE_BATCH_ERROR are errors of one GPU's time at a local batch, for each doubling
 * of the batch, on published_scaling.csv (bench/accuracy_batch prints them and FLOOR_SHARE). The
 * first is that of the line through two batches: 1.5 sd hold 14 of 18 triples (8 sources). The
 * second is that of one batch by proportion: 1.4826 times the median of |ln(measured / predicted)|
 * of 63 pairs (18 sources). In these pairs the time grows by a median factor of 2 exp(-0.09) for a
 * doubling, as if FLOOR_SHARE of it did not grow.
 *
 * SAMPLE_SD is the deviation of a collective's time that was sampled once: 95 % of the sizes that a
 * public table has twice agree within a factor of 1.46, which is 1.96 sqrt(2) times as much.
 *
 * OVERLAP_LINKS is how much longer compute takes while collectives run: 18.9 % in the mean and 40 %
 * at most over GPT and LLaMA training on 4 H100, A100, MI250 or MI210 joined inside a node
 * (arXiv:2507.03114). OVERLAP_NETWORK is that of slower links: NCCL takes one
 * processor a channel, 2 to 16 of an H100's 132 or an A100's 108, and then the bytes hardly load
 * the memory. OVERLAP_DELTA has no source: the few reports lie between 0 and 20 %.
 *
 * BUCKET is what a bucket takes of compute, a kernel's launch: 20 us, as NVIDIA's guide to
 * latencies in Nsight Systems shows it for a PyTorch program on a V100.
 *
 * TENSOR is what gathering or scattering takes of the host for each tensor: 0.37 to 0.46 ms for the
 * all-gather of a Llama 3 8B layer, 9 tensors, less BUCKET (pytorch#133369). Hooks in Python can
 * take much longer: under DeepSpeed's ZeRO-2 the backward of a model of 3 billion parameters
 * took 2.8 s longer than under DDP (TensorAuto/OpenTau#177). LAUNCH_RANGE holds 90 % of TENSOR and
 * START.
 *
 * START is how much later a collective starts in training than it could: NCCL's kernels did by 8 us
 * on average in a trace of 8 MI300X, by 144 us in one of 2 A100 that the host kept waiting.
 *
 * TURNS is how well the compute of ranks is known that outnumber their processors: a waiting rank
 * leaves its processor to another, and each message waits for its rank's turn. It is the rms of
 * ln(measured / predicted step) of four models on 3 and 4 ranks of 2 processors, from runs of 1 and
 * 2 ranks (docs/accuracy.md), over the share of compute in these steps.
 *
 * FIXED_SHARE is the share of a micro-batch's time that a step takes once, however many
 * micro-batches it has, where the job does not say what the optimizer takes: the rms of 2 (1 - y1 /
 * y2), y: samples a second at accumulation 1 and 2, of t5-base on an A100 in four precisions (7.8,
 * 21.9, 22.1 and 17.9 %, huggingface/transformers#15026), and of 8 % of BERT-base from 1 to 8 (a
 * course's notes). FIXED_REST is that where the optimizer is known.
 *
 * ORTHOGONAL is what PowerSGD's hook takes to orthogonalise one matrix, in seconds: 85 to 118 us
 * for 2 to 8 columns of 256 to 4096 (pytorch/pytorch#76673, where a kernel of its own takes half of
 * it). HOOK_ERROR is the error, of logarithms, of what a hook computes, and SHARD_ERROR that of the
 * collectives of a sharded step, which no run of plain DDP shows.
 *
 * The last three are 0 for want of a figure: published studies of stragglers count jobs, not ranks
 * (Lin et al. 2025, arXiv 2505.05713: not trivially hardware failures, but many factors).
 */
#define LK_PRIOR_LIST(X)                                                                           \
    X(LK_PRIOR_SCALE_ERROR, 0.056, "the scaling law on 110 published series")                      \
    X(LK_PRIOR_SCALE_TESTS, 2, "of how alike the errors of one published series are")              \
    X(LK_PRIOR_MEASURED_SCALE_ERROR, 0.04, "9 groups of runs on calibrated clusters")              \
    X(LK_PRIOR_MEASURED_SCALE_TESTS, 9, "these groups")                                            \
    X(LK_PRIOR_PRESET_ERROR, 0.22, "NCCL's own cost model against public nccl-tests tables")       \
    X(LK_PRIOR_RESCALE_ERROR, 0.03,                                                                \
      "all-reduces of 256 KiB up on shaped links, 4 and 8 ranks from 2")                           \
    X(LK_PRIOR_BATCH_ERROR, 0.036, "line through two batches to the third, 18 published triples")  \
    X(LK_PRIOR_ONE_BATCH_ERROR, 0.15, "one batch to the next, 63 published pairs")                 \
    X(LK_PRIOR_FLOOR_SHARE, 0.18, "one batch to the next, 63 published pairs")                     \
    X(LK_PRIOR_RESOLUTION, 0.025, "ratios of two configurations on shaped links, 40 pairs")        \
    X(LK_PRIOR_BASE_ERROR, 0.01, "assumed: a configuration between measured ones")                 \
    X(LK_PRIOR_RUN_SD, 0.01, "assumed: one run after another on the same machine")                 \
    X(LK_PRIOR_RANK_SD, 0.01, "assumed: persistent differences between equal devices")             \
    X(LK_PRIOR_TRANSIENT_SD, 0.01, "assumed: one micro-batch after another on a device")           \
    X(LK_PRIOR_SAMPLE_SD, 0.14, "307 sizes measured twice in public nccl-tests tables")            \
    X(LK_PRIOR_OVERLAP_LINKS, 0.19, "assumed: compute under collectives, arXiv:2507.03114")        \
    X(LK_PRIOR_OVERLAP_NETWORK, 0.06, "assumed: processors that NCCL's channels take")             \
    X(LK_PRIOR_OVERLAP_DELTA, 0.08, "assumed: collectives under compute")                          \
    X(LK_PRIOR_FIXED_SHARE, 0.17, "5 published ratios of accumulation, transformers#15026")        \
    X(LK_PRIOR_FIXED_REST, 0.03, "assumed: beside optimizer and host gap")                         \
    X(LK_PRIOR_ORTHOGONAL, 110e-6, "torch.linalg.qr on a GPU, pytorch#76673")                      \
    X(LK_PRIOR_HOOK_ERROR, 0.7, "assumed: a hook takes half or twice its time")                    \
    X(LK_PRIOR_SHARD_ERROR, 0.2, "assumed: units and prefetch of a sharded step")                  \
    X(LK_PRIOR_BUCKET, 20e-6, "one kernel's launch")                                               \
    X(LK_PRIOR_TENSOR, 40e-6, "the host's side of an FSDP all-gather, pytorch#133369")             \
    X(LK_PRIOR_START, 35e-6, "assumed: between the launches of two public traces")                 \
    X(LK_PRIOR_LAUNCH_RANGE, 3, "assumed: a third to three times")                                 \
    X(LK_PRIOR_TURNS, 0.25, "6 pairs of a model and a count of ranks on 2 processors")             \
    X(LK_PRIOR_NODE_SD, 0, "nodes no slower than their ranks")                                     \
    X(LK_PRIOR_LINK_SD, 0, "links between nodes alike")                                            \
    X(LK_PRIOR_TAIL_SHARE, 0, "no micro-batch far slower than the others")

enum lk_prior { LK_PRIOR_LIST(LK_WORD_VALUE) LK_PRIOR_COUNT };

double lk_prior_value(enum lk_prior p);
/* Return a draw of what is at least 0: its mean over the standard normal z is `mean`. */
double lk_prior_half_normal(double mean, double z);
/* Return a draw of what is known to LK_PRIOR_LAUNCH_RANGE, by a standard normal number. */
double lk_prior_within(double value, double z);
/* Return the scale error to assume on a cluster with this many measured points. */
enum lk_prior lk_prior_of_scale(size_t n_points);
/* Return as how many back-tests a scale error counts. */
size_t lk_prior_scale_tests(enum lk_prior p);
const char *lk_prior_source(enum lk_prior p);

/* A 90 % interval of a normal distribution is this many standard deviations to each side. */
#define LK_Z90 1.6448536269514722
/* Return the relative sd of a quantity by its interval; of one sample without, the prior's; else 0,
 * it is not known. */
double lk_prior_log_sd(const struct lk_quantity *q);

#endif
