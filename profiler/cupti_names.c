/* Names of kernels: two tables by hash, half full at most. */
#include "profiler/cupti_names.h"

#include "base/array.h"
#include "profiler/kernel_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_PLACES = 2 * LK_CUPTI_KERNELS, PAIR_PLACES = 2 * LK_CUPTI_PAIRS };

_Static_assert((KERNEL_PLACES & (KERNEL_PLACES - 1)) == 0, "a power of two");
_Static_assert((PAIR_PLACES & (PAIR_PLACES - 1)) == 0, "a power of two");

enum lk_status lk_cupti_names_init(struct lk_cupti_names *n, struct lk_recorder *recorder)
{
    enum lk_status st = LK_OK;

    *n = (struct lk_cupti_names){.recorder = recorder};
    LK_TRY(lk_alloc(&n->kernels, KERNEL_PLACES, sizeof *n->kernels));
    LK_TRY(lk_alloc(&n->pairs, PAIR_PLACES, sizeof *n->pairs));
    if (pthread_mutex_init(&n->lock, NULL))
        st = lk_fail(LK_ENOMEM, "cannot make a mutex");
out:
    if (st != LK_OK) {
        free(n->kernels);
        free(n->pairs);
        *n = (struct lk_cupti_names){0};
    }
    return st;
}

void lk_cupti_names_fini(struct lk_cupti_names *n)
{
    if (!n->kernels)
        return;
    for (size_t i = 0; i < KERNEL_PLACES; i++)
        free(n->kernels[i].symbol);
    for (size_t i = 0; i < LK_CUPTI_OPS; i++)
        free(n->ops[i]);
    free(n->kernels);
    free(n->pairs);
    pthread_mutex_destroy(&n->lock);
    *n = (struct lk_cupti_names){0};
}

enum lk_status lk_cupti_names_add(struct lk_cupti_names *n, uint16_t id, const char *text)
{
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&n->lock);
    if (id < LK_CUPTI_OPS && !n->ops[id])
        st = lk_strdup(&n->ops[id], text);
    pthread_mutex_unlock(&n->lock);
    return st;
}

static size_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325U; /* FNV-1a */

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3U;
    return (size_t)(h ^ h >> 32);
}

int lk_cupti_names_kernel(struct lk_cupti_names *n, const char *symbol)
{
    size_t i = hash(symbol) & (KERNEL_PLACES - 1);

    while (n->kernels[i].symbol && strcmp(n->kernels[i].symbol, symbol) != 0)
        i = (i + 1) & (KERNEL_PLACES - 1);
    if (!n->kernels[i].symbol) {
        if (n->n_kernels == LK_CUPTI_KERNELS || lk_strdup(&n->kernels[i].symbol, symbol) != LK_OK)
            return 0;
        lk_kernel_name(symbol, n->kernels[i].text, sizeof n->kernels[i].text);
        n->n_kernels++;
    }
    return (int)i + 1;
}

bool lk_cupti_names_is_nccl(const struct lk_cupti_names *n, int kernel)
{
    return kernel > 0 && !strncmp(n->kernels[kernel - 1].text, "nccl", 4);
}

/* The op in front, unless the kernel's name says it. */
static void write_text(struct lk_cupti_names *n, int kernel, uint16_t op,
                       char text[static LK_CUPTI_NAME_BYTES])
{
    const char *own = n->kernels[kernel - 1].text;

    pthread_mutex_lock(&n->lock);
    if (op > 0 && op < LK_CUPTI_OPS && n->ops[op] && !strstr(own, n->ops[op]))
        snprintf(text, LK_CUPTI_NAME_BYTES, "%.40s: %.50s", n->ops[op], own);
    else
        snprintf(text, LK_CUPTI_NAME_BYTES, "%s", own);
    pthread_mutex_unlock(&n->lock);
}

uint16_t lk_cupti_names_span(struct lk_cupti_names *n, int kernel, uint16_t op)
{
    size_t i = ((size_t)kernel * 0x9e3779b1U ^ op) & (PAIR_PLACES - 1);
    char text[LK_CUPTI_NAME_BYTES];

    if (kernel == 0)
        return op;
    while (n->pairs[i].kernel && (n->pairs[i].kernel != kernel || n->pairs[i].op != op))
        i = (i + 1) & (PAIR_PLACES - 1);
    if (n->pairs[i].kernel)
        return n->pairs[i].name;
    if (n->n_pairs == LK_CUPTI_PAIRS)
        return op;
    write_text(n, kernel, op, text);
    n->pairs[i].kernel = kernel;
    n->pairs[i].op = op;
    n->pairs[i].name = op;
    n->n_pairs++;
    (void)lk_recorder_name(n->recorder, text, &n->pairs[i].name);
    return n->pairs[i].name;
}
