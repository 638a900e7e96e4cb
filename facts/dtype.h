/* Element types of tensors and collectives, and conversions. */
#ifndef LK_FACTS_DTYPE_H
#define LK_FACTS_DTYPE_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(type, name, bytes an element, PyTorch's name, bits of the significand): the one list of element
 * types. The bits count the hidden one; 0: integers.
 */
#define LK_DTYPE_LIST(X)                                                                           \
    X(LK_F32, "float32", 4, "Float", 24)                                                           \
    X(LK_F16, "float16", 2, "Half", 11)                                                            \
    X(LK_BF16, "bfloat16", 2, "BFloat16", 8)                                                       \
    X(LK_F64, "float64", 8, "Double", 53)                                                          \
    X(LK_I32, "int32", 4, "Int", 0)                                                                \
    X(LK_I64, "int64", 8, "Long", 0)                                                               \
    X(LK_U8, "uint8", 1, "Byte", 0)

enum lk_dtype { LK_DTYPE_LIST(LK_WORD_VALUE) LK_DTYPE_COUNT };

size_t lk_dtype_bytes(enum lk_dtype t);
LK_WORDS_DECLARE(lk_dtype, enum lk_dtype);
/* Return the type's name in PyTorch's traces; static storage. */
const char *lk_dtype_torch_name(enum lk_dtype t);
bool lk_dtype_is_float(enum lk_dtype t);
/* Return the largest relative error of rounding to a floating type. */
double lk_dtype_unit_roundoff(enum lk_dtype t);
/* Return true for a floating type narrower than float: weights of it are trained with exact ones in
 * float beside them. */
bool lk_dtype_has_masters(enum lk_dtype t);

/* Convert from and to IEEE half and bfloat16, round to nearest even; NaN stays NaN. */
float lk_f32_from_f16(uint16_t v);
uint16_t lk_f16_from_f32(float v);
float lk_f32_from_bf16(uint16_t v);
uint16_t lk_bf16_from_f32(float v);
/* Convert n numbers between floats and elements of a floating type. */
void lk_dtype_from_f32(enum lk_dtype to, void *out, const float *in, size_t n);
void lk_dtype_to_f32(enum lk_dtype from, float *out, const void *in, size_t n);
/* Return element i of an array of a floating type. */
double lk_dtype_at(enum lk_dtype t, const void *array, size_t i);

#endif
