/*
 * The functions of kernels/ptx.cuh without PTX, following the same text of the PTX ISA. A lane
 * passes its piece to the warp and computes its own part of the result. Products are added in
 * double and rounded once: tensor cores round more often, in an undocumented order.
 */
#ifndef LK_SHIM_PTX_H
#define LK_SHIM_PTX_H

#include <cuda_runtime.h>

template <int N, class T> inline void store(T *p, const pack<T, N> &x)
{
    *reinterpret_cast<pack<T, N> *>(p) = x;
}

struct shim_pieces {
    uint32_t a[4], b[2];
};

inline const shim_pieces *shim_piece(const unsigned char *all, int lane)
{
    return reinterpret_cast<const shim_pieces *>(all + lane * SHIM_DEPOSIT);
}

inline double shim_float_of(uint32_t bits)
{
    float x;

    std::memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* Return the upper or the lower of two elements of 16 bits. */
template <class T> double shim_one_of(uint32_t two, int which)
{
    return (double)to_float(T{(uint16_t)(which ? two >> 16 : two)});
}

/* Elements of the factors of m16n8k16, read from the lane that holds them. */
template <class T> struct shim_narrow_factors {
    static constexpr int K = 16;

    static double a(const unsigned char *all, int row, int k)
    {
        return shim_one_of<T>(shim_piece(all, row % 8 * 4 + k % 8 / 2)->a[row / 8 + k / 8 * 2],
                              k % 2);
    }

    static double b(const unsigned char *all, int k, int column)
    {
        return shim_one_of<T>(shim_piece(all, column * 4 + k % 8 / 2)->b[k / 8], k % 2);
    }
};

/* Elements of m16n8k8. The tensor core ignores mantissa bits beyond ten. */
struct shim_tf32_factors {
    static constexpr int K = 8;

    static double a(const unsigned char *all, int row, int k)
    {
        return shim_float_of(shim_piece(all, row % 8 * 4 + k % 4)->a[row / 8 + k / 4 * 2] &
                             0xffffe000U);
    }

    static double b(const unsigned char *all, int k, int column)
    {
        return shim_float_of(shim_piece(all, column * 4 + k % 4)->b[k / 4] & 0xffffe000U);
    }
};

template <class F>
void shim_mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], const char *file,
              int line)
{
    shim_pieces mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const unsigned char *all = shim_exchange(0xffffffffU, &mine, sizeof mine, file, line);
    int g = (int)shim_lane() / 4, t = (int)shim_lane() % 4;
    double sum[4] = {(double)d[0], (double)d[1], (double)d[2], (double)d[3]};

    for (int k = 0; k < F::K; k++) {
        double low = F::a(all, g, k), high = F::a(all, g + 8, k);
        double left = F::b(all, k, 2 * t), right = F::b(all, k, 2 * t + 1);

        sum[0] += low * left;
        sum[1] += low * right;
        sum[2] += high * left;
        sum[3] += high * right;
    }
    for (int i = 0; i < 4; i++)
        d[i] = (float)sum[i];
}

template <class T> void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    shim_mma<shim_narrow_factors<T>>(d, a, b, SHIM_SITE);
}

inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    shim_mma<shim_tf32_factors>(d, a, b, SHIM_SITE);
}

/* Round to the last kept place, ties away from zero; NaN and infinity stay. */
inline uint32_t to_tf32(float x)
{
    uint32_t bits;

    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000U) != 0x7f800000U)
        bits += 0x1000U;
    return bits & 0xffffe000U;
}

template <class T> uint32_t two(float low, float high)
{
    return (uint32_t)from_float<T>(low).bits | (uint32_t)from_float<T>(high).bits << 16;
}

/* Return an approximation with the largest documented error, upwards for some inputs
 * and downwards for others. */
inline float shim_approximate(double exact, float x, double error)
{
    uint32_t bits;

    std::memcpy(&bits, &x, sizeof bits);
    exact *= bits & 1 ? 1 + error : 1 - error;
    return std::fabs(exact) < 0x1p-126 ? (float)std::copysign(0.0, exact) : (float)exact;
}

inline float shim_flush(float x)
{
    return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x;
}

inline float exp2_fast(float x)
{
    return shim_approximate(std::exp2((double)shim_flush(x)), x, 0x1p-22);
}

inline float reciprocal_fast(float x)
{
    return shim_approximate(1 / (double)shim_flush(x), x, 0x1p-23);
}

/* The row of 16 bytes that a lane names. */
struct shim_row {
    alignas(16) uint16_t x[8];
};

inline const unsigned char *shim_rows(const void *row, const char *file, int line)
{
    shim_row mine = *static_cast<const shim_row *>(row);

    return shim_exchange(0xffffffffU, &mine, sizeof mine, file, line);
}

/* Return element (row, column) of matrix i. */
inline uint32_t shim_matrix(const unsigned char *all, int i, int row, int column)
{
    uint16_t x;

    std::memcpy(&x, all + (8 * i + row) * SHIM_DEPOSIT + column * (int)sizeof x, sizeof x);
    return x;
}

inline void load_matrices(uint32_t (&r)[4], const void *row)
{
    const unsigned char *all = shim_rows(row, SHIM_SITE);
    int g = (int)shim_lane() / 4, t = (int)shim_lane() % 4;

    for (int i = 0; i < 4; i++)
        r[i] = shim_matrix(all, i, g, 2 * t) | shim_matrix(all, i, g, 2 * t + 1) << 16;
}

inline void load_matrices_transposed(uint32_t (&r)[4], const void *row)
{
    const unsigned char *all = shim_rows(row, SHIM_SITE);
    int g = (int)shim_lane() / 4, t = (int)shim_lane() % 4;

    for (int i = 0; i < 4; i++)
        r[i] = shim_matrix(all, i, 2 * t, g) | shim_matrix(all, i, 2 * t + 1, g) << 16;
}

inline void copy_async(void *to, const void *from, bool there)
{
    shim_copy_async(to, from, there ? 16 : 0, SHIM_SITE);
}

inline void wait_for_copies(void)
{
    shim_wait_for_copies();
}

inline uint64_t global_timer_ns(void)
{
    return shim_timer_ns();
}

#endif
