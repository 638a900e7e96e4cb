/*
 * Test cases of every CUDA kernel, for any machine that runs them: a GPU (tests/cuda/gpu.c) or the
 * host (tests/cuda_shim). A case makes inputs, runs the op's CUDA launcher and its float64
 * definition, and compares within a bound that it states.
 */
#ifndef LK_TESTS_CUDA_CASES_H
#define LK_TESTS_CUDA_CASES_H

#include "base/rng.h"
#include "facts/dtype.h"
#include "kernels/cuda.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(case) */
#define CUDA_CASE_LIST(X)                                                                          \
    X(encoder_forward)                                                                             \
    X(encoder_backward)                                                                            \
    X(bytes_forward)                                                                               \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward)                                                                          \
    X(matmul_forward)                                                                              \
    X(matmul_backward)                                                                             \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(gelu)                                                                                        \
    X(relu)                                                                                        \
    X(cross_entropy)                                                                               \
    X(fused_loss)                                                                                  \
    X(gelu_bias)                                                                                   \
    X(epilogues)                                                                                   \
    X(optimizers)                                                                                  \
    X(layerwise)                                                                                   \
    X(orthogonalize)                                                                               \
    X(pixels)                                                                                      \
    X(convolution)                                                                                 \
    X(batchnorm)                                                                                   \
    X(maxpool)                                                                                     \
    X(avgpool)                                                                                     \
    X(add_relu)                                                                                    \
    X(sum_squares)                                                                                 \
    X(checksums)                                                                                   \
    X(vectors)                                                                                     \
    X(casts)                                                                                       \
    X(wait)                                                                                        \
    X(stand_ins)

/* The types that every case runs in. */
enum { CUDA_CASE_TYPES = 3 };
extern const enum lk_dtype cuda_case_types[CUDA_CASE_TYPES];

/* Memory functions of the machine. A call that fails ends the program. */
struct cuda_machine {
    void *(*alloc)(size_t bytes, const char *name);
    void (*free)(void *p);
    void (*copy)(void *to, const void *from, size_t bytes); /* between host and device; blocking */
};

enum { CUDA_RIG_BUFFERS_MAX = 16 };

/* One run of a case. */
struct cuda_rig {
    const struct cuda_machine *machine;
    struct lk_cuda cuda;
    bool compare; /* compare with the definition; false: only hash, for a run after the first */
    bool large;   /* shapes as in training; false: small enough for the host */
    bool
        counts; /* only count the host's work: no numbers are made, nothing is defined or checked */
    size_t shift; /* elements by which buffers start after an aligned address */
    struct lk_rng rng;
    struct {
        void *dev, *host;
    } made[CUDA_RIG_BUFFERS_MAX]; /* for buffers_free */
    size_t n_made;
    uint64_t hash;  /* of all results, bit for bit */
    double worst;   /* largest error as a part of its bound */
    char text[256]; /* "" or the first failure */
    /* The host's work in two runs, the first of which is compared: elements made, sent or checked,
     * and what the definitions cost. */
    double elements;
    struct lk_op_cost defined;
};

/* Return about how many seconds of a processor of a server the counted work takes. */
double cuda_rig_seconds(const struct cuda_rig *r);

struct cuda_case {
    const char *name;
    void (*run)(struct cuda_rig *r);
};

/* The cases of CUDA_CASE_LIST; a NULL name ends the array. */
extern const struct cuda_case cuda_cases[];

/* Run the cases of the optimizers, which are long: tests/cuda/case_optimizers.c. */
void cuda_case_optimizers(struct cuda_rig *r);
void cuda_case_layerwise(struct cuda_rig *r);
/* Run the case of orthonormal columns: tests/cuda/case_lowrank.c. */
void cuda_case_orthogonalize(struct cuda_rig *r);
/* Run the cases of image models: tests/cuda/case_image.c. */
void cuda_case_pixels(struct cuda_rig *r);
void cuda_case_convolution(struct cuda_rig *r);
void cuda_case_batchnorm(struct cuda_rig *r);
void cuda_case_maxpool(struct cuda_rig *r);
void cuda_case_avgpool(struct cuda_rig *r);
void cuda_case_add_relu(struct cuda_rig *r);
/* Run the cases of ops that do the work of several: tests/cuda/case_fused.c. */
void cuda_case_fused_loss(struct cuda_rig *r);
void cuda_case_gelu_bias(struct cuda_rig *r);
void cuda_case_epilogues(struct cuda_rig *r);

/* Return the bound of a product's elements, as a part of the largest, for k products a sum. */
double cuda_product_bound(const struct cuda_rig *r, size_t k);
/* Return the bound of a sum that is rounded before it is added to, where it is. */
double cuda_rounded_before(const struct cuda_rig *r, bool is);

/* Run attention of a shape, forward, and backward if so; one of the two results is compared. */
void cuda_case_attention(struct cuda_rig *r, const struct lk_attention_shape *s, bool backward);

/* Run a case on inputs that depend on its name alone, so that runs can be compared. */
void cuda_case_run(const struct cuda_case *c, struct cuda_rig *r);

#endif
