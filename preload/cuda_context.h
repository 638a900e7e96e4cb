/* Whether the process has a context on a GPU, as the driver says: who has none launches nothing. */
#ifndef LK_PRELOAD_CUDA_CONTEXT_H
#define LK_PRELOAD_CUDA_CONTEXT_H

#include <stdbool.h>

/* Return whether the primary context of some GPU is active; true, too, where the driver cannot be
 * asked. Contexts that a program makes itself (cuCtxCreate) are not seen. Any thread. */
bool lk_cuda_has_context(void);

#endif
