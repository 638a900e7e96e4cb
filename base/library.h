/*
 * Load shared libraries when they are needed, not when the program starts.
 *
 * CUDA's libraries (cuBLASLt, NCCL, CUPTI, NVML) are used through a table of functions that
 * lk_library_open fills, and are never linked: the same program then starts on a laptop without a
 * driver, on a machine with the toolkit, and on one that has only PyTorch's copies of them. Search
 * order:
 *
 *   1. the folders in LOCKSTEP_LIBRARY_PATH, separated by ':'
 *   2. the loader's own way: LD_LIBRARY_PATH and the system's folders
 *   3. CUDA_HOME, CUDA_PATH, the toolkit of the build, /usr/local/cuda
 *   4. Python's packages, as pip and conda install them (folders nvidia/NAME/lib and torch/lib):
 *      those in VIRTUAL_ENV and CONDA_PREFIX, then the user's, the system's, and those of the
 *      python3 in PATH
 *
 * A file that opens but lacks a function is skipped, and the error says so.
 */
#ifndef LK_BASE_LIBRARY_H
#define LK_BASE_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A function of the library, and the offset of its pointer in the caller's table. */
struct lk_library_symbol {
    const char *name;
    size_t offset;
};

struct lk_library_spec {
    const char *name;         /* for messages: "cuBLASLt" */
    const char *const *files; /* sonames, the preferred one first; ends with NULL */
    const struct lk_library_symbol *symbols;
    size_t n_symbols;
    bool stays; /* it is never unloaded, because threads of its own run its code */
};

struct lk_library;

/* Open the library and fill the table. LK_EUNSUPPORTED when no file found has all functions; table
 * is untouched then. */
enum lk_status lk_library_open(const struct lk_library_spec *spec, void *table,
                               struct lk_library **out);
/* Look up a function that only newer versions have: store its address in the function pointer at
 * out, or NULL. */
void lk_library_function(const struct lk_library *l, const char *name, void *out);
/* Close the library; its functions must not be called any more. NULL is legal. */
void lk_library_close(struct lk_library *l);
/* Return the file that was opened; its full path where the loader found it. */
const char *lk_library_path(const struct lk_library *l);

#endif
