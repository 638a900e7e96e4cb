/* Lists of ranks, as PyTorch writes them and as messages show them. */
#ifndef LK_PROFILER_ANALYSIS_RANK_LIST_H
#define LK_PROFILER_ANALYSIS_RANK_LIST_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_rank_list {
    int *at; /* ascending, none twice */
    size_t n, capacity;
};

bool lk_rank_list_has(const struct lk_rank_list *list, int rank);
/* Insert a rank, unless it is there. */
enum lk_status lk_rank_list_add(struct lk_rank_list *list, int rank);
/* Add the numbers in a text such as "[0, 1, 2]". Those that are no ranks are left out. */
enum lk_status lk_rank_list_parse(struct lk_rank_list *list, const char *text, size_t n);
void lk_rank_list_fini(struct lk_rank_list *list); /* zeroes it; safe on a zeroed one */
/* Write "0-2, 4" to a buffer and return it; a list that is too long ends in "...". */
const char *lk_rank_list_text(const int *ranks, size_t n, char *buf, size_t size);

#endif
