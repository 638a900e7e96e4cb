#include "profiler/analysis/rank_list.h"

#include "base/array.h"
#include "facts/bounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return where a rank is in the list, or has to be inserted. */
static size_t place_of(const struct lk_rank_list *list, int rank)
{
    size_t lo = 0, hi = list->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (list->at[mid] < rank)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool lk_rank_list_has(const struct lk_rank_list *list, int rank)
{
    size_t at = place_of(list, rank);

    return at < list->n && list->at[at] == rank;
}

enum lk_status lk_rank_list_add(struct lk_rank_list *list, int rank)
{
    size_t at = place_of(list, rank);

    if (at < list->n && list->at[at] == rank)
        return LK_OK;
    LK_PASS(lk_array_grow(&list->at, &list->capacity, list->n + 1, sizeof *list->at));
    memmove(list->at + at + 1, list->at + at, (list->n - at) * sizeof *list->at);
    list->at[at] = rank;
    list->n++;
    return LK_OK;
}

static int rank_order(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Sort the list and leave out what is in it twice. */
static void tidy(struct lk_rank_list *list)
{
    size_t n = 0;

    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, rank_order);
    for (size_t i = 0; i < list->n; i++)
        if (!n || list->at[n - 1] != list->at[i])
            list->at[n++] = list->at[i];
    list->n = n;
}

enum lk_status lk_rank_list_parse(struct lk_rank_list *list, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t digits = 0;
        int rank = 0;

        while (i + digits < n && text[i + digits] >= '0' && text[i + digits] <= '9') {
            rank = rank <= LK_RANKS_MAX ? 10 * rank + (text[i + digits] - '0') : rank;
            digits++;
        }
        if (digits && rank < LK_RANKS_MAX) {
            LK_PASS(lk_array_grow(&list->at, &list->capacity, list->n + 1, sizeof *list->at));
            list->at[list->n++] = rank;
        }
        i += digits + 1;
    }
    tidy(list);
    return LK_OK;
}

void lk_rank_list_fini(struct lk_rank_list *list)
{
    free(list->at);
    *list = (struct lk_rank_list){0};
}

const char *lk_rank_list_text(const int *ranks, size_t n, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0, next; i < n; i = next) {
        char part[32];

        for (next = i + 1; next < n && ranks[next] == ranks[next - 1] + 1;)
            next++;
        if (next - i > 1)
            snprintf(part, sizeof part, "%s%d-%d", i ? ", " : "", ranks[i], ranks[next - 1]);
        else
            snprintf(part, sizeof part, "%s%d", i ? ", " : "", ranks[i]);
        if (used + strlen(part) + sizeof "..." > size) {
            snprintf(buf + used, size - used, "...");
            break;
        }
        used += (size_t)snprintf(buf + used, size - used, "%s", part);
    }
    return buf;
}
