/* Names ranks in messages: of a verdict, or of what ranks do not agree on. */
#ifndef LK_RUNTIME_RANK_NAMES_H
#define LK_RUNTIME_RANK_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Write the ranks below n for which `is` returns true: "rank 3", "ranks 0, 2 and 3", "ranks 0 to
 * 7". */
void lk_rank_names(bool (*is)(const void *ctx, int rank), const void *ctx, int n, char *buf,
                   size_t size);

#endif
