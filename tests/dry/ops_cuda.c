/*
 * The launchers of kernels/, linked before those for the GPU in libkernels.a; see machine.h. Each
 * lets the GPU's launcher do its work, under the name gpu_OP_cuda (tools/cuda.mk): it asks cuBLASLt
 * and cuDNN, which check and compute nothing, and starts kernels, which are counted. The CPU's
 * definition then goes on the stream.
 */
#include "kernels/impl.h"
#include "tests/dry/launches.h"
#include "tests/dry/machine.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_cudnn_cuda.h"

_Thread_local size_t dry_kernels;

/* Kernels so far: our own, and one for each product and each plan of cuDNN's. */
static size_t started(void)
{
    size_t n = (size_t)(launches.n + fake_blas.products);

#ifdef LK_HAVE_CUDNN
    n += (size_t)fake_cudnn.runs;
#endif
    return n;
}

static enum lk_status launch(const struct lk_op *op,
                             enum lk_status (*on_gpu)(const void *args, const struct lk_cuda *c),
                             const void *args, const struct lk_cuda *c)
{
    size_t before = started();

    LK_PASS(on_gpu(args, c));
    dry_kernels = started() - before;
    return fake_cuda_calls.run_op(op, args, c);
}

#define LAUNCHER(op)                                                                               \
    enum lk_status gpu_##op##_cuda(const void *args, const struct lk_cuda *c);                     \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *c)                       \
    {                                                                                              \
        return launch(&lk_op_##op, gpu_##op##_cuda, args, c);                                      \
    }
LK_OP_LIST(LAUNCHER)
