/* CUDA's bfloat16 for a host compiler; conversions are those of facts/dtype.h. */
#ifndef LK_SHIM_CUDA_BF16_H
#define LK_SHIM_CUDA_BF16_H

extern "C" {
#include "facts/dtype.h"
}

struct __nv_bfloat16 {
    uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x)
{
    return lk_f32_from_bf16(x.bits);
}

inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return {lk_bf16_from_f32(x)};
}

#endif
