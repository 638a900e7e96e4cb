/*
 * Attention by cuDNN's fused kernels on a GPU, where the library is found and has one for the
 * shape; otherwise by our own.
 */
#ifndef LK_KERNELS_DNN_H
#define LK_KERNELS_DNN_H

#include "kernels/ops.h"

#include <stdbool.h>

struct lk_cuda_dnn;

/*
 * Make an object that opens cuDNN when attention first asks for it; it caches plans and holds their
 * workspaces. deterministic: equal inputs give equal bits, which cuDNN's fastest backward pass does
 * not: it adds to dq in any order. pre: by is AUTO or CUDNN.
 */
enum lk_status lk_cuda_dnn_open(enum lk_attention by, bool deterministic, struct lk_cuda_dnn **out);
void lk_cuda_dnn_close(struct lk_cuda_dnn *d); /* NULL is legal. pre: nothing runs any more */

/*
 * Decide whose kernels run attention of a shape, once for each, by making cuDNN's plans, which
 * takes about a second: *out_taken is true if it is cuDNN, false if our own. cuDNN takes bfloat16,
 * heads of 64 or 128 channels. text: "cudnn 9.19.0", or "own" with the reason, that a plan failed
 * for one. An error when it must be cuDNN and is not: LK_EUNSUPPORTED, or that of the plan.
 */
enum lk_status lk_cuda_dnn_choose(struct lk_cuda_dnn *d, enum lk_dtype real,
                                  const struct lk_attention_shape *shape, bool *out_taken,
                                  char text[LK_ATTENTION_TEXT]);

/* Say what lk_cuda_dnn_choose is expected to decide, by cuDNN's heuristic: at once, with no plan
 * made and nothing remembered. */
enum lk_status lk_cuda_dnn_ask(struct lk_cuda_dnn *d, enum lk_dtype real,
                               const struct lk_attention_shape *shape,
                               char text[LK_ATTENTION_TEXT]);

/* Enqueue attention if it is cuDNN's turn; *out_taken: it was. pre: in a capture, the shape was
 * decided before. */
enum lk_status lk_cuda_dnn_forward(const struct lk_cuda *c,
                                   const struct lk_attention_forward_args *a, bool *out_taken);
enum lk_status lk_cuda_dnn_backward(const struct lk_cuda *c,
                                    const struct lk_attention_backward_args *a, bool *out_taken);

#endif
