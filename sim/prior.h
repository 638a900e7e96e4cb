/*
 * Priors are assumed where nothing was measured, each with its source. A forecast calls what it
 * takes from here "assumed" in its notes.
 */
#ifndef LK_SIM_PRIOR_H
#define LK_SIM_PRIOR_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The last three are 0 for want of a figure: published studies of stragglers count jobs, not ranks
 * (Lin et al. 2025, arXiv 2505.05713: not trivially hardware failures, but many factors).
 *
 * X(prior, value, source). All but the floor share and the tests are relative standard deviations.
 *
 * The scale error is that of the scaling law on public data (bench/accuracy_scaling): tier A series
 * of three counts or more in published_scaling.csv (110 series of 25 sources), last count from the
 * smaller ones by constants of other sources, ln(measured / predicted) over log2 of the step. Its
 * size differs from series to series: Student's t fits best with 1.5 to 2 degrees of freedom, both
 * to these and to the steps of one series taken together (103 series by proportion), which is to
 * say that the prior is worth two back-tests. Its scale is then 2.7 %.
 *
 * Where collectives were measured on the cluster, the error is that of forecasts from such points:
 * docs/accuracy.md's runs on shaped links, of replays and of PyTorch, and its demo, one rms a group
 * of runs (9 groups, without those of a slow rank that the forecast was not told of); each group
 * left out in turn, the scale is 1.6 to 2.1 %.
 *
 * The rescale error is from bench/net_torch.sh's sweeps and calibrations like tests/net/validate's:
 * all-reduces of 256 KiB up, measured on 4 and 8 ranks, ln(measured / rescaled from 2) a doubling.
 *
 * The batch errors are of one GPU's time at a local batch, in the same file, a doubling of the
 * batch (bench/accuracy_batch prints all three): from two batches by the line through them, such
 * that 1.5 sd hold 14 of 18 triples (8 sources), and from one batch by proportion, 1.4826 times the
 * median of |ln(measured / predicted)| of 63 pairs (18 sources). There the time doubles less than
 * twice, by a median factor of exp(-0.09): a floor of 18 % that does not grow.
 *
 * The preset error is that of a collective's time from datasheet numbers: rms of ln(model /
 * measured) over 12 all-reduce, all-gather and reduce-scatter size bands above 1 MiB of NCCL
 * 2.28's model (src/graph/tuning.cc) with nominal link rates, on six platforms.
 */
#define LK_PRIOR_LIST(X)                                                                           \
    X(LK_PRIOR_SCALE_ERROR, 0.027, "the scaling law on 110 published series")                      \
    X(LK_PRIOR_MEASURED_SCALE_ERROR, 0.019, "9 groups of runs on calibrated clusters")             \
    X(LK_PRIOR_SCALE_TESTS, 2, "of how alike the errors of one published series are")              \
    X(LK_PRIOR_PRESET_ERROR, 0.22, "NCCL's own cost model against public nccl-tests tables")       \
    X(LK_PRIOR_RESCALE_ERROR, 0.03,                                                                \
      "all-reduces of 256 KiB up on shaped links, 4 and 8 ranks from 2")                           \
    X(LK_PRIOR_BATCH_ERROR, 0.036, "line through two batches to the third, 18 published triples")  \
    X(LK_PRIOR_ONE_BATCH_ERROR, 0.15, "one batch to the next, 63 published pairs")                 \
    X(LK_PRIOR_FLOOR_SHARE, 0.18, "one batch to the next, 63 published pairs")                     \
    X(LK_PRIOR_BASE_ERROR, 0.01, "assumed: a configuration between measured ones")                 \
    X(LK_PRIOR_RUN_SD, 0.01, "assumed: one run after another on the same machine")                 \
    X(LK_PRIOR_RANK_SD, 0.01, "assumed: persistent differences between equal devices")             \
    X(LK_PRIOR_TRANSIENT_SD, 0.01, "assumed: one micro-batch after another on a device")           \
    X(LK_PRIOR_NODE_SD, 0, "nodes no slower than their ranks")                                     \
    X(LK_PRIOR_LINK_SD, 0, "links between nodes alike")                                            \
    X(LK_PRIOR_TAIL_SHARE, 0, "no micro-batch far slower than the others")

enum lk_prior { LK_PRIOR_LIST(LK_WORD_VALUE) LK_PRIOR_COUNT };

double lk_prior_value(enum lk_prior p);
/* Return the scale error to assume on a cluster with this many measured points. */
enum lk_prior lk_prior_of_scale(size_t n_points, bool preset);
const char *lk_prior_source(enum lk_prior p);

#endif
