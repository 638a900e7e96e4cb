/*
 * --verify checks that the ranks together compute what a single rank would compute:
 *
 *   gradient    every reduced gradient, as the optimizer gets it, against a float64 reference of
 *               the global batch: a second instance of the model on the reference device, with the
 *               same weights, gets the micro-batches of all ranks, one after the other; with
 *               SyncBatchNorm, whose statistics are of all of them, as one. The samples are taken
 *               from the samplers, not from the loaders.
 *   parameters  after the step, all ranks' parameters are the same, bit for bit.
 *
 * Every rank computes the whole reference by itself, so it depends on no collective. It is slow.
 *
 *     lk_verify_step_begin(v);
 *     a step, with its optimizer; streams synchronised
 *     lk_verify_step_end(v, step);
 *
 * The error of a gradient is |g - ref| / (|ref| + floor) in the Euclidean norm. floor is a
 * thousandth of the norm that the tensor would have if all gradients were equally large: a gradient
 * that is zero except for rounding (the bias of attention's keys) has no meaningful relative error.
 *
 * The bound is 16 u (sqrt(T) + P) with u = 2^-24, float32's unit roundoff. T is the number of
 * positions of the global batch, that is of terms summed in a gradient: independent roundings grow
 * like a random walk (Higham, Mary 2019, "A new approach to probabilistic rounding error
 * analysis"). P is the number of tensors, a measure of the length of the chain of ops through which
 * errors propagate. 16 is a margin: GPT and MLP models need a factor of 0.1 to 0.3 (1 to 8 ranks,
 * up to 40 steps). Every planted fault (runtime/train/reducer.h) is an error of 1 / (ranks + 1) or
 * more, thousands of times the bound; with one rank, faults of the all-reduce change nothing.
 *
 * With narrower factors in products (lk_device_unit_roundoff: 2^-10 for tf32, which float32 is
 * truncated to on the device cuda; 2^-8 for bfloat16, 2^-11 for float16) sums are float32 still,
 * but all their terms were rounded. With u = 2^-8 the formula above would exceed 1 and allow
 * anything. So the effect of such roundings is measured on the model: a second reference has every
 * weight multiplied by a random factor between 1 - 16 u and 1 + 16 u, and the change of a tensor's
 * gradient, in the measure above, is added to float32's bound. (Backward error: Higham 2002,
 * "Accuracy and Stability of Numerical Algorithms", section 1.5.) In a model with relus a rounding
 * sometimes turns one on or off, which changes its row's share of a gradient at once, and no
 * multiple of u bounds that: there the factors range from 1 - 1/16 to 1 + 1/16 at least, so that
 * some relus turn. A network of images has so many relus that float32's roundings turn some, too:
 * where that is likely, gradients are compared with those of moved weights in float32 as well, with
 * factors from 1 - 2^-12 to 1 + 2^-12, which turn a few hundred times as many. Batch norms of few
 * rows divide by deviations that may be small, and amplify all roundings before them: with them
 * weights are moved in float32 as well, by 128 u.
 *
 * Where a communication hook rounds gradients to a type with unit roundoff w, every element is
 * rounded once on each of N ranks and once at each of N - 1 sums. So an element is off by at most
 * N w times the sum of the ranks' absolute values, and, in float16, by N 2^-25 where it is below
 * the normal numbers. The reference has each rank's share of a gradient; N w times the sum of their
 * norms is added to the bound, in the measure above.
 *
 * Gradients of 16 bits are compared as the optimizer takes them, without the loss's scale. What
 * float16 loses below its normal numbers is in no bound: with a scale that is too small the check
 * fails, as it should.
 *
 * Where gradients are clipped by their global norm, the reference's are, by its own norm.
 *
 * With roundings added to the CPU's ops (tests/fakes/fake_ops.h; no GPU) GPT models needed factors
 * of 1.2 to 4.8 instead of 16, and up to 9.8 in runs with large steps; bounds are 0.006 to 0.03 for
 * tf32 and about 0.1 for bfloat16 (the suite trainer_cuda prints some). So with bfloat16 a fault of
 * 1 / (ranks + 1) is detected up to about 6 ranks; with more, verify in float32.
 */
#ifndef LK_RUNTIME_VERIFY_H
#define LK_RUNTIME_VERIFY_H

#include "base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"
#include "runtime/train/data.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_verify_config {
    struct lk_comm *comm;                /* borrowed, as all pointers here */
    struct lk_stream *compute;           /* the stream that `model` trains on */
    struct lk_model *model;              /* its params' grads are the reduced ones */
    struct lk_model_config model_config; /* the configuration of `model` */
    /* Creates the reference's model; NULL: lk_model_create. */
    enum lk_status (*create)(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out);
    struct lk_dataset *dataset;
    struct lk_shares_config shares; /* the sampler's rank and, when 0, samples are filled in */
    bool rounded;                   /* a hook rounds what is sent to the type `wire` */
    enum lk_dtype wire;
    double clip_norm; /* the model's gradients were clipped to this norm; 0: they were not */
    uint64_t timeout_ns;
};

struct lk_verify;
/* Create a verifier. LK_EUSAGE on a device (timed) or for a model (replay) that computes
 * nothing. */
enum lk_status lk_verify_create(const struct lk_verify_config *config, struct lk_verify **out);
void lk_verify_destroy(struct lk_verify *v); /* NULL is legal */

/* Copy the parameters to the reference. pre: the streams are idle. */
enum lk_status lk_verify_step_begin(struct lk_verify *v);
/*
 * Check step number `step`, counted from 0, of this run's data. The model's gradients are `scale`
 * times those of the loss; 0: they overflowed, the step was skipped, and only parameters are
 * compared. Collective: all ranks get the same
 * result. LK_EVERIFY names the check, the step, the parameter and the ranks. pre: the streams are
 * idle.
 */
enum lk_status lk_verify_step_end(struct lk_verify *v, uint32_t step, double scale);

/* Return the largest gradient error seen on any rank, and its bound. */
double lk_verify_max_error(const struct lk_verify *v);
double lk_verify_allowed(const struct lk_verify *v);
/* The largest bound that any gradient was held against; only tests ask. */
double lk_verify_bound(const struct lk_verify *v);

#endif
