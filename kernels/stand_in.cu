/*
 * Kernels that only take time, and surrogates for a collective.
 *
 * wait holds a stream, for replayed jobs and for the check of recorded durations. The surrogates
 * stand for a collective of NCCL on a machine with a single GPU: they take the same resources from
 * concurrent kernels. A block of NCCL's (2.28.9) has up to 640 threads (NCCL_MAX_NTHREADS,
 * src/include/device.h) of at most 96 registers (makefiles/common.mk, -maxrregcount=96) and 82240
 * bytes of dynamic shared memory (ncclShmemDynamicSize, for 8.0 and 9.0): 61440 of a
 * multiprocessor's 65536 registers, so that almost nothing else fits on it. The blocks here have
 * the same; where move copies by words, for memory that is not aligned, a few registers less.
 *
 * Unlike NCCL's, they send and receive no bytes over links, and add nothing.
 */
#include "kernels/ptx.cuh"

namespace
{

/* Values kept in registers. With all others, a thread has up to 96, as a GPU allocates them: by
 * eights (tools/kernels checks it; for 8.0, 9.0 and 10.0 without spills). */
enum { KEPT_HOLD = 87, KEPT_MOVE = 64 };
enum { THREADS = 640, SHARED_BYTES = 82240, UNROLL = 4 };

/* Registers that stay in use from the start of a kernel to its end. */
template <int KEPT> struct reserve {
    uint32_t x[KEPT];

    __device__ reserve()
    {
        for (int i = 0; i < KEPT; i++)
            x[i] = threadIdx.x + (unsigned)i;
    }

    /* Change the values in a way that the compiler can neither postpone to the end nor leave
     * out. */
    __device__ void use(uint32_t seed)
    {
        for (int i = 0; i < KEPT; i++)
            x[i] = (x[i] ^ seed) * 0x9e3779b1U;
    }

    __device__ void end(unsigned char *shared)
    {
        uint32_t sum = 0;

        for (int i = 0; i < KEPT; i++)
            sum = (sum ^ x[i]) * 0x85ebca6bU;
        reinterpret_cast<uint32_t *>(shared)[threadIdx.x] = sum;
    }
};

/* Wait until a time. One thread polls the clock, as one of NCCL's polls a flag; the others wait at
 * a barrier. */
template <int KEPT> __device__ void wait_until(uint64_t ns, reserve<KEPT> &r)
{
    uint64_t now = global_timer_ns();

    if (threadIdx.x == 0)
        for (; now < ns; now = global_timer_ns()) {
        }
    __syncthreads();
    r.use((uint32_t)now);
}

/* Hold the multiprocessors for a time. Waits in rounds, because registers used only once, at the
 * end, would not be occupied before. */
__global__ void __launch_bounds__(THREADS, 1) hold_kernel(uint64_t ns)
{
    const uint64_t round_ns = 10000;
    LK_SHARED_OF_LAUNCH(shared);
    uint64_t start = global_timer_ns(), waited = 0;
    reserve<KEPT_HOLD> r;

    while (waited < ns) {
        waited = ns - waited < round_ns ? ns : waited + round_ns;
        wait_until(start + waited, r);
    }
    r.end(shared);
}

/* Copy words, N at a time. A block takes every gridDim.x-th tile; consecutive tiles, of all blocks
 * together, are ns_a_tile apart; 0: without pause. */
template <int N>
__global__ void __launch_bounds__(THREADS, 1)
    move_kernel(uint32_t *to, const uint32_t *from, size_t words, double ns_a_tile)
{
    constexpr size_t TILE = (size_t)THREADS * UNROLL;
    LK_SHARED_OF_LAUNCH(shared);
    uint64_t start = global_timer_ns();
    size_t n = words / N;
    reserve<KEPT_MOVE> r;

    for (size_t tile = blockIdx.x; tile * TILE < n; tile += gridDim.x) {
        size_t first = tile * TILE + threadIdx.x;
        pack<uint32_t, N> x[UNROLL];

        r.use((uint32_t)tile);
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (first + (size_t)i * THREADS < n)
                x[i] = load<N>(from + (first + (size_t)i * THREADS) * N);
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (first + (size_t)i * THREADS < n)
                store<N>(to + (first + (size_t)i * THREADS) * N, x[i]);
        if (ns_a_tile > 0)
            wait_until(start + (uint64_t)((double)(tile + 1) * ns_a_tile), r);
    }
    if (blockIdx.x == 0 && n * N + threadIdx.x < words)
        to[n * N + threadIdx.x] = from[n * N + threadIdx.x];
    r.end(shared);
}

template <class T> enum lk_status hold(const struct lk_hold_args &a, const struct lk_cuda *c)
{
    if (!(a.seconds > 0))
        return LK_OK;
    return lk_launch_shared(c, "hold", dim3((unsigned)a.ctas), THREADS, SHARED_BYTES, hold_kernel,
                            (uint64_t)(a.seconds * 1e9));
}

template <int N>
enum lk_status move_by(const struct lk_move_args &a, uint32_t *to, const uint32_t *from,
                       const struct lk_cuda *c)
{
    double tile_bytes = (double)THREADS * UNROLL * N * sizeof *to;

    return lk_launch_shared(c, "move", dim3((unsigned)a.ctas), THREADS, SHARED_BYTES,
                            move_kernel<N>, to, from, a.bytes / sizeof *to,
                            a.Bps > 0 ? tile_bytes / a.Bps * 1e9 : 0);
}

template <class T> enum lk_status move(const struct lk_move_args &a, const struct lk_cuda *c)
{
    uint32_t *to = static_cast<uint32_t *>(a.to);
    const uint32_t *from = static_cast<const uint32_t *>(a.from);

    if (a.bytes == 0)
        return LK_OK;
    return fits<4>(to, from) ? move_by<4>(a, to, from, c) : move_by<1>(a, to, from, c);
}

/* ---- wait ---- */

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
LK_CUDA_OP(hold)
LK_CUDA_OP(move)
