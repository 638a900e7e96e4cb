/*
 * Handles of the things that a library tells us about by callbacks. Callbacks come late, twice,
 * from other threads, after the thing has ended, and with handles of other processes. So a handle
 * is a number and never an address: nothing is read through it before its place, its generation
 * and this process have been compared.
 *
 * The places are a ring of fixed size: the oldest thing goes when a new one needs its place, unless
 * a thread works on it (a pin). Nothing here locks, allocates or waits.
 *
 *     static _Atomic uint64_t states[N];          and beside it an array of N things
 *     static struct lk_handles table = {.states = states, .n = N};
 *
 *     handle = lk_handle_take(&table, tag, &i);   fill things[i]
 *     lk_handle_unpin(&table, i);
 *     ...
 *     if (lk_handle_pin(&table, handle, &i)) {    things[i] is the same one, and stays
 *         lk_handle_unpin(&table, i);
 *     }
 */
#ifndef LK_PRELOAD_HANDLES_H
#define LK_PRELOAD_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LK_HANDLES_MAX = 1 << 16 }; /* places of a table */

struct lk_handles {
    _Atomic uint64_t *states; /* one a place: generation and number of pins; all 0 at first */
    uint32_t n;               /* places, a power of two, at most LK_HANDLES_MAX */
    _Atomic uint32_t next;
};

/* Take a place, pinned once, and return a handle of it that carries the tag. NULL: all are pinned.
 */
void *lk_handle_take(struct lk_handles *h, uint8_t tag, uint32_t *out_place);
/* Pin what the handle means, whatever its tag. False: it is gone, or was never one of this table.
 */
bool lk_handle_pin(struct lk_handles *h, const void *handle, uint32_t *out_place);
void lk_handle_unpin(struct lk_handles *h, uint32_t place);
/* End what the handle means, once, and drop the pin that lk_handle_take left: from now on no handle
 * means it. False: it had ended before. */
bool lk_handle_end(struct lk_handles *h, const void *handle);

/* Return the tag of a handle; of what is no handle of this process, 0. */
uint8_t lk_handle_tag(const void *handle);
/* Return a handle of the same thing with another tag. */
void *lk_handle_retag(const void *handle, uint8_t tag);

#endif
