/* Functions that base/member*.c share: the place of a row's field, and its value when the file
 * lacks it. */
#ifndef LK_BASE_MEMBER_IMPL_H
#define LK_BASE_MEMBER_IMPL_H

#include "base/member.h"

#include <stddef.h>

/* Return the address of a field. */
void *lk_member_at(const struct lk_member *m, void *base);
/* Return the count of a list, of texts, numbers or pairs, for setting it; not of PER_GPU. */
size_t *lk_member_count(const struct lk_member *m, void *base);
/* Return the count as a number, of PER_GPU too. */
size_t lk_member_size(const struct lk_member *m, const void *base);
/* Return the bytes of an item of a list, of numbers, texts or pairs. */
size_t lk_member_item_bytes(const struct lk_member *m);
/* Set a field to the value of an absent member. pre: it owns nothing. */
enum lk_status lk_member_clear(const struct lk_member *m, void *base);

#endif
