/* Attention in a build without cuDNN's headers: our own kernels. */
#include "kernels/dnn.h"

#ifndef LK_HAVE_CUDNN

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>

/* Not NULL, so that the trace says why attention is our own. */
struct lk_cuda_dnn {
    enum lk_attention by;
};

enum lk_status lk_cuda_dnn_open(enum lk_attention by, bool deterministic, struct lk_cuda_dnn **out)
{
    struct lk_cuda_dnn *d = NULL;

    (void)deterministic;
    LK_PASS(lk_alloc(&d, 1, sizeof *d));
    d->by = by;
    *out = d;
    return LK_OK;
}

void lk_cuda_dnn_close(struct lk_cuda_dnn *d)
{
    free(d);
}

enum lk_status lk_cuda_dnn_choose(struct lk_cuda_dnn *d, enum lk_dtype real,
                                  const struct lk_attention_shape *shape, bool *out_taken,
                                  char text[LK_ATTENTION_TEXT])
{
    static const char why[] = "built without cuDNN's headers";

    (void)real;
    (void)shape;
    *out_taken = false;
    (void)snprintf(text, LK_ATTENTION_TEXT, "own: %s", why);
    return d->by == LK_ATTENTION_CUDNN ? lk_fail(LK_EUNSUPPORTED, "cuDNN's attention: %s", why)
                                       : LK_OK;
}

enum lk_status lk_cuda_dnn_ask(struct lk_cuda_dnn *d, enum lk_dtype real,
                               const struct lk_attention_shape *shape, char text[LK_ATTENTION_TEXT])
{
    bool taken;

    return lk_cuda_dnn_choose(d, real, shape, &taken, text);
}

enum lk_status lk_cuda_dnn_forward(const struct lk_cuda *c,
                                   const struct lk_attention_forward_args *a, bool *out_taken)
{
    (void)c;
    (void)a;
    *out_taken = false;
    return LK_OK;
}

enum lk_status lk_cuda_dnn_backward(const struct lk_cuda *c,
                                    const struct lk_attention_backward_args *a, bool *out_taken)
{
    (void)c;
    (void)a;
    *out_taken = false;
    return LK_OK;
}

#endif
