/*
 * --verify: is what the ranks computed together what one rank would have computed?
 *
 *   gradient    every reduced gradient, as the optimizer found it, against a float64 reference of
 *               the global batch: a second instance of the model on the reference device, with the
 *               same weights, is fed with the micro-batches of all ranks. Which samples those are
 *               comes from the samplers, not from the loaders.
 *   parameters  after the step, all ranks' parameters are the same, bit for bit.
 *
 * Every rank does the whole reference by itself, so it depends on no collective. It is slow.
 *
 *     lk_verify_step_begin(v);
 *     a step, with its optimizer; streams synchronised
 *     lk_verify_step_end(v, step);
 *
 * The error of a gradient is |g - ref| / (|ref| + floor) in the Euclidean norm, where floor is a
 * thousandth of what the tensor's norm would be were all gradients equally large: a gradient that
 * is zero but for rounding (the bias of attention's keys) has no relative error of its own.
 *
 * The bound is 16 u (sqrt(T) + P) with u = 2^-24, float32's unit roundoff. T, the positions of the
 * global batch, is how many terms are added up in a gradient: independent roundings add up like a
 * random walk (Higham, Mary 2019, "A new approach to probabilistic rounding error analysis"). P,
 * the number of tensors, stands for the length of the chain of ops through which errors are handed
 * on. 16 is a margin: GPT and MLP models show 0.1 to 0.3 in its place (1 to 8 ranks, up to 40
 * steps). Every planted fault (runtime/reducer.h) is an error of 1 / (ranks + 1) or more, thousands
 * of times the bound; with one rank those of the all-reduce change nothing and are none.
 *
 * Where the factors of products are narrower (lk_device_unit_roundoff: 2^-10 for tf32, which is
 * float32 on the device cuda, cut off and not rounded; 2^-8 for bfloat16) sums are float32 still,
 * and what counts is that everything that enters one was rounded. With u = 2^-8 the formula above
 * would be over 1, and allow anything. So the model says by itself what such roundings do: a second
 * reference has every weight moved by a random factor between 1 - 16 u and 1 + 16 u, and a tensor's
 * bound is how far its gradient went, in the measure above, beside float32's bound. (Backward
 * error: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 1.5.) Where a model
 * has relus, a rounding turns one on or off now and then, which changes its row's share of a
 * gradient at once: no multiple of u bounds that. There weights move by a sixteenth at least, so
 * that some relus turn.
 *
 * With roundings put into the CPU's ops (tests/fake_ops.h; no GPU) GPT models showed 1.2 to 4.8 in
 * the place of 16, and up to 9.8 in runs of large steps; bounds are 0.006 to 0.03 for tf32 and
 * about 0.1 for bfloat16 (the suite trainer_cuda prints some). So with bfloat16 a fault of 1 /
 * (ranks + 1) shows up to about 6 ranks; with more, verify in float32.
 */
#ifndef LK_RUNTIME_VERIFY_H
#define LK_RUNTIME_VERIFY_H

#include "base/status.h"
#include "runtime/comm.h"
#include "runtime/data.h"
#include "runtime/device.h"
#include "runtime/model.h"

#include <stdint.h>

struct lk_verify_config {
    struct lk_comm *comm;                /* borrowed, as all pointers here */
    struct lk_stream *compute;           /* on which `model` trains */
    struct lk_model *model;              /* its params' grads are the reduced ones */
    struct lk_model_config model_config; /* that it was made with */
    /* Makes the reference's model; NULL: lk_model_create. */
    enum lk_status (*create)(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out);
    struct lk_dataset *dataset;
    struct lk_sampler_config sampler; /* rank and, when 0, samples are filled in */
    int local_batch, accumulation;
    uint64_t timeout_ns;
};

struct lk_verify;
/* LK_EUSAGE on a device that does not compute (timed), or for a model that does not (replay). */
enum lk_status lk_verify_create(const struct lk_verify_config *config, struct lk_verify **out);
void lk_verify_destroy(struct lk_verify *v); /* NULL is legal */

/* Remembers the parameters. pre: the streams are idle. */
enum lk_status lk_verify_step_begin(struct lk_verify *v);
/*
 * Checks the step, which is the one numbered `step` from 0 of this run's data. Collective: all
 * ranks come to the same answer. LK_EVERIFY names the check, the step, the parameter and the ranks.
 * pre: the streams are idle.
 */
enum lk_status lk_verify_step_end(struct lk_verify *v, uint32_t step);

/* Largest gradient error seen on any rank, and what was allowed there. */
double lk_verify_max_error(const struct lk_verify *v);
double lk_verify_allowed(const struct lk_verify *v);
/* The largest bound that any gradient was held against. */
double lk_verify_bound(const struct lk_verify *v);

#endif
