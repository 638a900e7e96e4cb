/* Sums of vectors, in plain loops that compilers vectorise; see the header. */
#include "runtime/comm/reduce.h"

#include "kernels/vecmath.h"

#include <stdint.h>

/* X(name, type, sum of elements x and y) */
#define ADD_LIST(X)                                                                                \
    X(add_f32, float, x + y)                                                                       \
    X(add_f64, double, x + y)                                                                      \
    X(add_i32, uint32_t, x + y)                                                                    \
    X(add_i64, uint64_t, x + y)                                                                    \
    X(add_u8, uint8_t, (uint8_t)(x + y))                                                           \
    X(add_f16, uint16_t,                                                                           \
      lk_vecmath_f16_from_f32(lk_vecmath_f32_from_f16(x) + lk_vecmath_f32_from_f16(y)))            \
    X(add_bf16, uint16_t,                                                                          \
      lk_vecmath_bf16_from_f32(lk_vecmath_f32_from_bf16(x) + lk_vecmath_f32_from_bf16(y)))

#define ADD(name, type, sum)                                                                       \
    static void name(void *acc, const void *in, size_t n)                                          \
    {                                                                                              \
        type *restrict a = acc;                                                                    \
        const type *restrict b = in;                                                               \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const type x = a[i], y = b[i];                                                         \
                                                                                                   \
            a[i] = (sum);                                                                          \
        }                                                                                          \
    }
ADD_LIST(ADD)

void lk_reduce_add(enum lk_dtype t, void *acc, const void *in, size_t n)
{
    static void (*const add[LK_DTYPE_COUNT])(void *, const void *, size_t) = {
        [LK_F32] = add_f32, [LK_F16] = add_f16, [LK_BF16] = add_bf16, [LK_F64] = add_f64,
        [LK_I32] = add_i32, [LK_I64] = add_i64, [LK_U8] = add_u8,
    };

    add[t](acc, in, n);
}
