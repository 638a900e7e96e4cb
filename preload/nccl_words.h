/* NCCL's names of functions and element types, as its profiler interface gives them. */
#ifndef LK_PRELOAD_NCCL_WORDS_H
#define LK_PRELOAD_NCCL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* A function of NCCL, and what is known of it. */
struct lk_nccl_function {
    const char *name;
    uint8_t function;    /* of a record */
    bool from_each_rank; /* NCCL's count is for one rank of those that a rank sends to */
    bool peer;           /* it has a root, or another rank */
};

/* Return the row of a name; of one that is not known, or NULL, a row without a function. */
const struct lk_nccl_function *lk_nccl_function_of(const char *name);
/* Return enum lk_dtype plus one, a type of the same size where there is none; 0: not known. */
uint8_t lk_nccl_dtype_of(const char *name);

#endif
