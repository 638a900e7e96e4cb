/* The sum of two vectors, where the host adds what ranks send each other. */
#ifndef LK_RUNTIME_REDUCE_H
#define LK_RUNTIME_REDUCE_H

#include "facts/dtype.h"

#include <stddef.h>

/*
 * acc[i] += in[i] for n elements; the vectors do not overlap and are aligned to their elements.
 * float16 and bfloat16 are added in float32 and rounded to nearest even; integers wrap.
 */
void lk_reduce_add(enum lk_dtype t, void *acc, const void *in, size_t n);

#endif
