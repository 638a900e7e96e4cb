/* Ops that have no kernel for a GPU yet: asking for one is an error that names it. */
#include "kernels/impl.h"

#define ABSENT(op)                                                                                 \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *cuda)                    \
    {                                                                                              \
        (void)args;                                                                                \
        (void)cuda;                                                                                \
        return lk_fail(LK_EUNSUPPORTED, "the op " #op " has no CUDA kernel yet");                  \
    }

ABSENT(orthogonalize)
ABSENT(lars)
ABSENT(lamb)
