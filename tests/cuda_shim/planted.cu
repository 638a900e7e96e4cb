/* A sum over 64 threads, and possible faults in it. */
#include "kernels/ptx.cuh"

extern "C" {
#include "tests/cuda_shim/planted.h"
}

namespace
{

enum { THREADS = 64 };

struct alignas(16) pack4 {
    float x[4];
};

enum fault {
#define FAULT(fault, races, bounds) fault_##fault,
    PLANTED_LIST(FAULT)
#undef FAULT
};

/* Sum by halves in shared memory; within the last warp lane to lane. */
template <enum fault F> __global__ void sum_kernel(float *out, const float *in, size_t n)
{
    LK_SHARED(float, sums, THREADS);
    unsigned t = threadIdx.x;
    volatile float local[4];

    local[F == fault_local_store_out_of_bounds ? t % 4 + 1 : t % 4] = 1;
    if (F == fault_exit_before_barrier && t == 7)
        return;
    if (F != fault_memory_not_set || t != 63)
        sums[F == fault_shared_store_out_of_bounds ? t + 1 : t] =
            in[blockIdx.x * THREADS + t + (F == fault_global_load_out_of_bounds ? n - 1 : 0)] *
            local[t % 4];
    if (F == fault_two_barriers && t < 32)
        __syncthreads();
    else if (F != fault_missing_barrier)
        __syncthreads();
    if (F == fault_missing_lane && t == 5)
        return;
    if (t < 32)
        sums[t] += sums[t + 32];
    for (unsigned half = 16; half > 0; half /= 2) {
        float other;

        if (t >= 32)
            break;
        if (F != fault_missing_warp_barrier)
            __syncwarp();
        other = sums[(t + half) % 32];
        if (F != fault_missing_warp_barrier)
            __syncwarp();
        sums[t] += other;
    }
    if (F == fault_missing_lane)
        sums[t] = __shfl_xor_sync(0xffffffffU, sums[t], 1);
    if (F == fault_misaligned_load && t == 0)
        sums[0] += 0 * load<2>(in + 1).x[0];
    if (t == 0)
        out[F == fault_race_of_blocks               ? 0
            : F == fault_global_store_out_of_bounds ? blockIdx.x + 1
                                                    : blockIdx.x] = sums[0];
}

/* Sum in the order in which the threads come. */
template <enum fault F> __global__ void unordered_kernel(float *out, const float *in, size_t)
{
    LK_SHARED(float, sum, 1);
    unsigned t = threadIdx.x;

    if (t == 0)
        sum[0] = 0;
    __syncthreads();
    atomicAdd(&sum[0], in[blockIdx.x * THREADS + t] / static_cast<float>(t + 3));
    __syncthreads();
    if (t == 0)
        out[blockIdx.x] = sum[0];
}

/* Sum numbers that asynchronous copies have brought, twice. */
template <enum fault F> __global__ void copy_kernel(float *out, const float *in, size_t)
{
    LK_SHARED(pack4, shared, THREADS / 4);
    const float *sums = shared[0].x;
    unsigned t = threadIdx.x;
    float sum = 0;

    for (int round = 0; round < 2; round++) {
        if (t < THREADS / 4)
            copy_async(&shared[t], in + blockIdx.x * THREADS + 4 * t, true);
        if (F == fault_exit_before_copy_wait && round == 1)
            return;
        if (F != fault_missing_copy_wait)
            wait_for_copies();
        if (F != fault_missing_copy_barrier)
            __syncthreads();
        sum = 0;
        for (unsigned i = 0; i < THREADS; i++)
            sum += sums[(t + i) % THREADS];
        if (F != fault_copy_over_reads)
            __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = sum;
}

constexpr bool copies(enum fault f)
{
    return f == fault_missing_copy_wait || f == fault_missing_copy_barrier ||
           f == fault_copy_over_reads || f == fault_exit_before_copy_wait;
}

template <enum fault F>
enum lk_status run(const struct lk_cuda *c, float *out, const float *in, size_t n)
{
    return lk_launch(c, "planted", dim3((unsigned)(n / THREADS)),
                     F == fault_too_many_threads ? 1056U : (unsigned)THREADS,
                     F == fault_too_much_shared ? 49 << 10 : 0,
                     F == fault_sums_in_any_order ? unordered_kernel<F>
                     : copies(F)                  ? copy_kernel<F>
                                                  : sum_kernel<F>,
                     out, in, n);
}

} // namespace

#define DEFINE(fault, races, bounds)                                                               \
    extern "C" enum lk_status planted_##fault(const struct lk_cuda *c, float *out,                 \
                                              const float *in, size_t n)                           \
    {                                                                                              \
        return run<fault_##fault>(c, out, in, n);                                                  \
    }
PLANTED_LIST(DEFINE)
