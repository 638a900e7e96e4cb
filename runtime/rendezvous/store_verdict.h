/* Choose the rank to blame, from the server's view of each rank. Private to the store. */
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
    bool answered; /* it answered the progress question; the rest is valid only then */
    bool inside;   /* inside collective `next` - 1; else between two */
    uint64_t next; /* number of collectives entered so far */
};

/* Write the ranks below n for which `is` returns true: "rank 3", "ranks 0, 2 and 3", "ranks 0 to
 * 7". */
void lk_verdict_names(bool (*is)(const void *ctx, int rank), const void *ctx, int n, char *buf,
                      size_t size);

/* Write the culprit of a stall: the ranks that left; else those that did not answer; else those
 * furthest behind; else no rank in particular. */
void lk_verdict_stall(const struct lk_rank_view *ranks, int n, char *buf, size_t size);

#endif
