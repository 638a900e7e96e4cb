/*
 * A handle has, from its highest bit on: a key of the process (16 bits, not 0: no address of a
 * program has them), the tag (8), the generation of the place (24), the place (16). A state has the
 * generation in its upper half and the pins in its lower one.
 */
#include "preload/handles.h"

#include <assert.h>
#include <stddef.h>
#include <unistd.h>

static_assert(sizeof(void *) == 8, "a handle needs 64 bits");

enum { KEY_AT = 48, TAG_AT = 40, GENERATION_AT = 16 };
#define GENERATIONS UINT64_C(0xffffff)
#define PINS        UINT64_C(0xffffffff)

/* Set once: a forked child goes on with its parent's handles. */
static _Atomic uint64_t key_of_process; /* NOLINT: it is one for the process */

static uint64_t key(void)
{
    uint64_t k = atomic_load_explicit(&key_of_process, memory_order_relaxed), none = 0;

    if (k)
        return k;
    /* Multiplicative hashing (Knuth, TAOCP 6.4) spreads neighbouring process ids. */
    k = ((uint64_t)(uint32_t)getpid() * 2654435761U >> 16 & 0xffff) | 1;
    return atomic_compare_exchange_strong(&key_of_process, &none, k) ? k : none;
}

static bool ours(const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> KEY_AT == key();
}

static uint64_t generation_of(uint64_t state)
{
    return state >> 32;
}

static uint64_t next_generation(uint64_t state)
{
    return ((generation_of(state) + 1) & GENERATIONS) << 32;
}

void *lk_handle_take(struct lk_handles *h, uint8_t tag, uint32_t *out_place)
{
    for (uint32_t i = 0; i < h->n; i++) {
        uint32_t place = atomic_fetch_add_explicit(&h->next, 1, memory_order_relaxed) % h->n;
        uint64_t state = atomic_load_explicit(&h->states[place], memory_order_relaxed);
        uint64_t taken = next_generation(state) | 1;

        if (state & PINS || !atomic_compare_exchange_strong(&h->states[place], &state, taken))
            continue;
        *out_place = place;
        return (void *)(uintptr_t)(key() << KEY_AT | (uint64_t)tag << TAG_AT |
                                   generation_of(taken) << GENERATION_AT | place);
    }
    return NULL;
}

/* Find the place of a handle and its state, if the handle still means what is there. */
static bool find(const struct lk_handles *h, const void *handle, uint32_t *out_place,
                 uint64_t *out_state)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    uint32_t place = (uint32_t)(bits & (LK_HANDLES_MAX - 1));

    if (!ours(handle) || place >= h->n)
        return false;
    *out_place = place;
    *out_state = atomic_load_explicit(&h->states[place], memory_order_relaxed);
    return generation_of(*out_state) == (bits >> GENERATION_AT & GENERATIONS);
}

bool lk_handle_pin(struct lk_handles *h, const void *handle, uint32_t *out_place)
{
    uint64_t state;
    uint32_t place;

    while (find(h, handle, &place, &state))
        if (atomic_compare_exchange_weak(&h->states[place], &state, state + 1)) {
            *out_place = place;
            return true;
        }
    return false;
}

void lk_handle_unpin(struct lk_handles *h, uint32_t place)
{
    atomic_fetch_sub(&h->states[place], 1);
}

bool lk_handle_end(struct lk_handles *h, const void *handle)
{
    uint64_t state;
    uint32_t place;

    while (find(h, handle, &place, &state)) {
        uint64_t ended = next_generation(state) | ((state & PINS) - 1);

        if (!(state & PINS))
            return false; /* a thing that was not kept pinned ends with its place */
        if (atomic_compare_exchange_weak(&h->states[place], &state, ended))
            return true;
    }
    return false;
}

uint8_t lk_handle_tag(const void *handle)
{
    return ours(handle) ? (uint8_t)((uint64_t)(uintptr_t)handle >> TAG_AT) : 0;
}

void *lk_handle_retag(const void *handle, uint8_t tag)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle & ~(UINT64_C(0xff) << TAG_AT);

    return (void *)(uintptr_t)(bits | (uint64_t)tag << TAG_AT);
}
