/* Private to kernels/: the implementations behind the rows of kernels/ops.c. */
#ifndef LK_KERNELS_IMPL_H
#define LK_KERNELS_IMPL_H

#include "kernels/ops.h"

/* args is a const struct lk_<op>_args *. lk_<op>_cuda exists in builds with CUDA only. */
#define LK_OP_IMPL_(op)                                                                            \
    void lk_##op##_cpu(const void *args);                                                          \
    void lk_##op##_ref(const void *args);                                                          \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *cuda);
LK_OP_LIST(LK_OP_IMPL_)
#undef LK_OP_IMPL_

#endif
