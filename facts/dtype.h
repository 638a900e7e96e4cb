/* Element types of tensors and collectives, and conversions. */
#ifndef LK_FACTS_DTYPE_H
#define LK_FACTS_DTYPE_H

#include "base/words.h"

#include <stddef.h>
#include <stdint.h>

/* X(type, name, bytes an element) */
#define LK_DTYPE_LIST(X)                                                                           \
    X(LK_F32, "float32", 4)                                                                        \
    X(LK_F16, "float16", 2)                                                                        \
    X(LK_BF16, "bfloat16", 2)                                                                      \
    X(LK_F64, "float64", 8)                                                                        \
    X(LK_I32, "int32", 4)                                                                          \
    X(LK_I64, "int64", 8)                                                                          \
    X(LK_U8, "uint8", 1)

enum lk_dtype { LK_DTYPE_LIST(LK_WORD_VALUE) LK_DTYPE_COUNT };

size_t lk_dtype_bytes(enum lk_dtype t);
LK_WORDS_DECLARE(lk_dtype, enum lk_dtype);

/* Convert from and to IEEE half and bfloat16, round to nearest even; NaN stays NaN. */
float lk_f32_from_f16(uint16_t v);
uint16_t lk_f16_from_f32(float v);
float lk_f32_from_bf16(uint16_t v);
uint16_t lk_bf16_from_f32(float v);

#endif
