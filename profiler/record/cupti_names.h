/*
 * Span names of kernels, "OP: KERNEL", within the number of names that a recorder can hold. A run
 * has some dozens of kernels; beyond LK_CUPTI_KERNELS of them, or LK_CUPTI_PAIRS with their ops, a
 * span has its op's name alone.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_NAMES_H
#define LK_PROFILER_RECORD_CUPTI_NAMES_H

#include "base/status.h"
#include "facts/span.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LK_CUPTI_KERNELS = 512,
    LK_CUPTI_PAIRS = 512,
    LK_CUPTI_NAME_BYTES = 96,
    LK_CUPTI_OPS = 1024, /* names of the recorder whose text is known */
};

struct lk_cupti_names {
    struct lk_recorder *recorder;
    struct {
        char *symbol; /* NULL: a free slot */
        char text[LK_CUPTI_NAME_BYTES];
    } * kernels;
    size_t n_kernels;
    struct {
        int kernel; /* 0: a free slot */
        uint16_t op, name;
    } * pairs;
    size_t n_pairs;
    pthread_mutex_t lock; /* guards ops, which other threads fill */
    char *ops[LK_CUPTI_OPS];
};

enum lk_status lk_cupti_names_init(struct lk_cupti_names *n, struct lk_recorder *recorder);
void lk_cupti_names_fini(struct lk_cupti_names *n); /* safe on a zeroed one */
/* Learn the text of one of the recorder's names. Any thread. */
enum lk_status lk_cupti_names_add(struct lk_cupti_names *n, uint16_t id, const char *text);
/* Return a number, from 1, for a kernel by its linker name; 0: there are too many. */
int lk_cupti_names_kernel(struct lk_cupti_names *n, const char *symbol);
/* Return true if the kernel is one of NCCL's. */
bool lk_cupti_names_is_nccl(const struct lk_cupti_names *n, int kernel);
/* Return the recorder's name for a kernel of an op (0: of none). */
uint16_t lk_cupti_names_span(struct lk_cupti_names *n, int kernel, uint16_t op);

/*
 * Write a kernel's short name, cut to size. CUPTI gives its linker name; a reader of a timeline
 * wants the function's: "_Z16gelu_forward_gpuIfEvPT_PKS0_m" is gelu_forward_gpu. Of an
 * Itanium-mangled name: its identifiers up to the first template arguments, joined by "::", without
 * unnamed and internal scopes; of a demangled name: the part before its arguments, without the
 * return type; anything else is copied.
 */
void lk_kernel_name(const char *symbol, char *out, size_t size);

#endif
