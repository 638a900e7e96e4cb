/*
 * Private to kernels/NAME.cu: all inline PTX. A host compiler cannot compile it, so tests/cuda_shim
 * defines each of these functions by the text of NVIDIA's PTX ISA 9.0 (the section is named here).
 * The fragments below, those that kernels/attention.cuh makes of them and the shim's were compared
 * with that text element by element, twice and independently.
 */
#ifndef LK_KERNELS_PTX_CUH
#define LK_KERNELS_PTX_CUH

#include "kernels/device.cuh"

#include <type_traits>

#ifdef __CUDACC__

/*
 * Store a pack in global memory by one instruction for each 16 bytes ("st", .v4.b32 and .v2.b32).
 * Written as an assignment, nvcc splits it where the elements were converted one by one: loss.cu
 * had four stores of 4 bytes, optim.cu four of 2.
 */
template <int N, class T> __device__ inline void store(T *p, const pack<T, N> &x)
{
    if constexpr (sizeof x < 8) {
        *reinterpret_cast<pack<T, N> *>(p) = x;
    } else {
        uint32_t w[sizeof x / 4];
        size_t to = __cvta_generic_to_global(p);

        memcpy(w, &x, sizeof x);
        if constexpr (sizeof x == 8)
            asm volatile("st.global.v2.b32 [%0], {%1, %2};"
                         :
                         : "l"(to), "r"(w[0]), "r"(w[1])
                         : "memory");
        for (size_t i = 0; i + 4 <= sizeof x / 4; i += 4)
            asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                         :
                         : "l"(to + 4 * i), "r"(w[i]), "r"(w[i + 1]), "r"(w[i + 2]), "r"(w[i + 3])
                         : "memory");
    }
}

/* Compute d += a * b on the tensor cores; `shape` and `types` are PTX's words. */
#define LK_MMA(shape, types)                                                                       \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 "                           \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                 \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

/*
 * d += a * b of elements T: a (16, 16) row major, b (16, 8) column major, of 16 bits; d (16, 8)
 * float. A warp holds them in fragments, 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with
 * floating point type": with g = lane / 4 and t = lane % 4,
 *     a[0] = a(g, 2t..2t+1), a[1] = a(g + 8, same), a[2] = a(g, 2t+8..2t+9), a[3] = a(g + 8, same)
 *     b[0] = b(2t..2t+1, g), b[1] = b(2t+8..2t+9, g)
 *     d[0..1] = d(g, 2t..2t+1), d[2..3] = d(g + 8, same)
 */
template <class T>
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    if constexpr (std::is_same_v<T, bf16>)
        LK_MMA("m16n8k16", "bf16.bf16");
    else
        LK_MMA("m16n8k16", "f16.f16");
}

/*
 * As mma, for tf32: a (16, 8), b (8, 8), 9.7.14.5.7, "Matrix Fragments for mma.m16n8k8":
 *     a[0] = a(g, t), a[1] = a(g + 8, t), a[2] = a(g, t + 4), a[3] = a(g + 8, t + 4)
 *     b[0] = b(t, g), b[1] = b(t + 4, g); d as above
 */
__device__ inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    LK_MMA("m16n8k8", "tf32.tf32");
}

/* Return the bits of x rounded to tf32: 10 bits of mantissa, ties away from zero ("cvt", .rna). */
__device__ inline uint32_t to_tf32(float x)
{
    uint32_t bits;

    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

/* Return two elements T of 16 bits, rounded to nearest even, `low` in the lower half ("cvt",
 * .rn.bf16x2 and .rn.f16x2). */
template <class T> __device__ inline uint32_t two(float low, float high)
{
    uint32_t bits;

    if constexpr (std::is_same_v<T, bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/*
 * Return 2^x and 1 / x by one instruction each, with a relative error of at most 2^-22 and 2^-23;
 * arguments and results below 2^-126 become 0 ("ex2" and "rcp", .approx.ftz). exp2f and division
 * take 4 and about 8 instructions, for ends of the range that are not needed here.
 */
__device__ inline float exp2_fast(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float reciprocal_fast(float x)
{
    float y;

    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/*
 * Load four 8 x 8 matrices of 16-bit elements from shared memory (9.7.14.5.15, "ldmatrix"). Lane l
 * gives the address of row l % 8 of matrix l / 8, 16 bytes, 16-byte aligned. It gets from each
 * matrix i r[i] = (row l / 4, columns 2 (l % 4) and the next); transposed: (rows 2 (l % 4) and the
 * next, column l / 4).
 */
__device__ inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

__device__ inline void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/*
 * Start copying 16 bytes from global to shared memory, both 16-byte aligned, asynchronously
 * (9.7.9.25.3, "cp.async"); zeros if `there` is false, though `from` must be legal all the same.
 * Nobody may touch them until the thread has waited for them; then this thread may read them, and
 * after a barrier all threads.
 */
__device__ inline void copy_async(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)),
                   "r"(there ? 16 : 0)
                 : "memory");
}

/* Wait for all copies of this thread ("cp.async.wait_all"). */
__device__ inline void wait_for_copies(void)
{
    asm volatile("cp.async.wait_all;" : : : "memory");
}

/* Return the nanoseconds of a clock that all multiprocessors share; it steps by 32 ns to 1 us
 * ("%globaltimer"). */
__device__ inline uint64_t global_timer_ns(void)
{
    uint64_t ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

#else
#include "ptx_shim.h"
#endif

#endif
