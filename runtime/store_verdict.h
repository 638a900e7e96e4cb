/* Who is to blame, from what the store's server knows of each rank. Private to the store. */
#ifndef LK_RUNTIME_STORE_VERDICT_H
#define LK_RUNTIME_STORE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_rank_state {
    LK_RANK_ABSENT, /* never connected */
    LK_RANK_HERE,
    LK_RANK_LEFT, /* said goodbye */
    LK_RANK_LOST  /* its connection ended without a goodbye */
};

struct lk_rank_view {
    enum lk_rank_state state;
    bool answered; /* to the question what it is doing: the rest counts only then */
    bool inside;   /* in collective `next` - 1; else between two */
    uint64_t next; /* collectives that it has entered so far */
};

/* "rank 3", "ranks 0, 2 and 3", "ranks 0 to 7" of those of n ranks that `is` is true of. */
void lk_verdict_names(bool (*is)(const void *ctx, int rank), const void *ctx, int n, char *buf,
                      size_t size);

/*
 * The culprit of a stall, in words: ranks that left; else those that do not answer; else those
 * furthest behind; else nobody in particular.
 */
void lk_verdict_stall(const struct lk_rank_view *ranks, int n, char *buf, size_t size);

#endif
