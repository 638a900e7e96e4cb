/*
 * Local batches of ranks that differ, as for kinds of GPU that are mixed. The text is what options,
 * files and folders have: "2x8+4" are two ranks with 8 samples a micro-batch, and behind them one
 * with 4. Neighbours with the same batch are one group, so a batches' text is unique.
 */
#ifndef LK_FACTS_RANK_BATCHES_H
#define LK_FACTS_RANK_BATCHES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_RANK_BATCHES_MAX = 64, LK_RANK_BATCHES_TEXT = 256 };

struct lk_rank_batches {
    int n;
    struct {
        int ranks, batch;
    } of[LK_RANK_BATCHES_MAX];
    int ranks, most; /* of all groups; the largest batch */
    int64_t sum;     /* samples of a micro-batch of all ranks */
};

/* LK_EUSAGE: the text is none. */
enum lk_status lk_rank_batches_parse(const char *text, struct lk_rank_batches *out);
/* Write the text of n ranks' batches; "" if they are alike. LK_EUSAGE: it is too long. */
enum lk_status lk_rank_batches_write(const int64_t *v, int n, char text[LK_RANK_BATCHES_TEXT]);
/* Write the text of the groups, neighbours with the same batch as one. */
enum lk_status lk_rank_batches_text(const struct lk_rank_batches *b,
                                    char text[LK_RANK_BATCHES_TEXT]);
/* Check a text that a file has: "", or of so many ranks, the most of which is `most`. LK_EUSAGE. */
enum lk_status lk_rank_batches_check(const char *text, int ranks, int most);
/* Write the batches of all ranks, "8,8,4", as `run --local-batch` takes them; "" where that is none
 * of its lists, or too long. */
void lk_rank_batches_list(const char *text, char *out, size_t size);
/* Return a rank's batch. pre: 0 <= rank < ranks. */
int lk_rank_batches_at(const struct lk_rank_batches *b, int rank);

#endif
