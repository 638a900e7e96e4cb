/* The launchers of kernels/, linked before those for the GPU in libkernels.a; see machine.h. */
#include "kernels/impl.h"
#include "tests/dry/machine.h"
#include "tests/fakes/fake_cuda.h"

static enum lk_status launch(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    dry_record_kernel(op->name, (cudaStream_t)c->stream);
    return fake_cuda_calls.run_op(op, args, c);
}

#define LAUNCHER(op)                                                                               \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *c)                       \
    {                                                                                              \
        return launch(&lk_op_##op, args, c);                                                       \
    }
LK_OP_LIST(LAUNCHER)
