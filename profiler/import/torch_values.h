/* How PyTorch writes shapes and types of tensors into its traces. */
#ifndef LK_PROFILER_IMPORT_TORCH_VALUES_H
#define LK_PROFILER_IMPORT_TORCH_VALUES_H

#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return the elements of all tensors in "[[2873320], [3, 4]]", however nested; 0: none, or more
 * than LK_TENSOR_ELEMS_MAX. */
uint64_t lk_torch_elements(const char *text, size_t n);
/* Return the elements of a single tensor: one without sides, "[[]]", has one. */
uint64_t lk_torch_tensor_elements(const char *text, size_t n);
/* Find the type in "BFloat16", or the first in '["c10::BFloat16"]' or "GenericList[Tensor(float)]".
 */
bool lk_torch_dtype(const char *text, size_t n, enum lk_dtype *out);

#endif
