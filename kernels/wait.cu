/* Hold the stream for a known time, for replayed jobs and for the check of recorded durations. */
#include "kernels/ptx.cuh"

namespace
{

__global__ void wait_kernel(uint64_t ns)
{
    uint64_t start = global_timer_ns();

    while (global_timer_ns() - start < ns) {
    }
}

template <class T> enum lk_status wait(const struct lk_wait_args &a, const struct lk_cuda *c)
{
    if (!(a.seconds > 0))
        return LK_OK;
    return lk_launch(c, "wait", dim3(1), 1, 0, wait_kernel, (uint64_t)(a.seconds * 1e9));
}

} // namespace

LK_CUDA_OP(wait)
