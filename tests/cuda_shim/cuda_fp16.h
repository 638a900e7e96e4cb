/* CUDA's half for a host compiler; conversions are those of facts/dtype.h. */
#ifndef LK_SHIM_CUDA_FP16_H
#define LK_SHIM_CUDA_FP16_H

extern "C" {
#include "facts/dtype.h"
}

struct __half {
    uint16_t bits;
};

inline float __half2float(__half x)
{
    return lk_f32_from_f16(x.bits);
}

inline __half __float2half_rn(float x)
{
    return {lk_f16_from_f32(x)};
}

#endif
