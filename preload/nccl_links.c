#include "preload/nccl_links.h"

#include "preload/handles.h"
#include "preload/record.h"

#include <stdlib.h>

struct link {
    uint32_t group;
    int32_t peer;
    _Atomic int32_t on_way;          /* messages */
    _Atomic int64_t since_ns;        /* there have been some */
    _Atomic int64_t first_ns;        /* the first since the last record began; 0: there was none */
    _Atomic uint64_t bytes, busy_ns; /* since the last record */
};

/* A table by hashing: key 0 is empty, and none is removed. */
enum { PROBES = 64 }; /* a longer search counts as no room */

struct slot {
    _Atomic uint64_t key;
    void *_Atomic handle; /* NULL: its link is being made, or had no room */
};

/* NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): as in preload/nccl_events.c */
static _Atomic uint64_t link_states[LK_NCCL_LINKS];
static struct link links[LK_NCCL_LINKS];
static struct lk_handles link_handles = {.states = link_states, .n = LK_NCCL_LINKS};
static struct slot slots[2 * LK_NCCL_LINKS];
/* NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables) */

bool lk_nccl_links_on(void)
{
    return secure_getenv("LOCKSTEP_PROFILE_LINKS") != NULL;
}

/* The part of a communicator's handle that is its own, 40 bits, beside the peer. */
static uint64_t key_of(const void *comm, int peer)
{
    return (uint64_t)(uintptr_t)comm << 24 | ((uint64_t)(unsigned)peer & 0xffffff);
}

static void *make(uint32_t group, int peer, uint8_t tag)
{
    uint32_t place;
    void *handle = lk_handle_take(&link_handles, tag, &place);

    if (handle) /* it stays pinned: links do not end */
        links[place] = (struct link){.group = group, .peer = peer};
    return handle;
}

void *lk_nccl_link(const void *comm, uint32_t group, int peer, uint8_t tag)
{
    const uint64_t key = key_of(comm, peer);
    uint64_t at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32; /* Knuth, TAOCP 6.4 */

    for (size_t i = 0; i < PROBES; i++) {
        struct slot *s = &slots[(at + i) % (sizeof slots / sizeof *slots)];
        uint64_t found = atomic_load(&s->key);
        void *handle;

        if (!found && atomic_compare_exchange_strong(&s->key, &found, key)) {
            handle = make(group, peer, tag);
            atomic_store(&s->handle, handle);
        } else if (found == key) {
            handle = atomic_load(&s->handle);
        } else {
            continue;
        }
        if (!handle)
            break;
        return lk_handle_retag(handle, tag);
    }
    lk_foreign_lose();
    return NULL;
}

static struct link *pin(const void *handle, uint32_t *place)
{
    return lk_handle_pin(&link_handles, handle, place) ? &links[*place] : NULL;
}

void lk_nccl_link_sends(const void *link, size_t bytes)
{
    uint32_t place;
    struct link *x = pin(link, &place);

    if (!x)
        return;
    atomic_fetch_add(&x->bytes, bytes);
    if (atomic_fetch_add(&x->on_way, 1) == 0) {
        atomic_store(&x->since_ns, lk_foreign_now());
        if (!atomic_load(&x->first_ns))
            atomic_store(&x->first_ns, atomic_load(&x->since_ns));
    }
    lk_handle_unpin(&link_handles, place);
}

void lk_nccl_link_sent(const void *link)
{
    uint32_t place;
    struct link *x = pin(link, &place);
    int32_t n;

    if (!x)
        return;
    n = atomic_load(&x->on_way);
    while (n > 0 && !atomic_compare_exchange_weak(&x->on_way, &n, n - 1))
        ;
    if (n == 1)
        atomic_fetch_add(&x->busy_ns, (uint64_t)(lk_foreign_now() - atomic_load(&x->since_ns)));
    lk_handle_unpin(&link_handles, place);
}

void lk_nccl_link_ends(const void *link)
{
    struct lk_foreign_record r = {.kind = LK_FOREIGN_SENT, .sequence = LK_FOREIGN_NO_SEQUENCE};
    uint32_t place;
    struct link *x = pin(link, &place);

    if (!x)
        return;
    if (!atomic_load(&x->on_way) && atomic_load(&x->bytes)) {
        r.start_ns = atomic_exchange(&x->first_ns, 0);
        r.end_ns = lk_foreign_now();
        r.count = atomic_exchange(&x->bytes, 0);
        r.link = atomic_exchange(&x->busy_ns, 0);
        r.group = x->group;
        r.peer = x->peer;
        r.lane = lk_foreign_thread();
        lk_foreign_emit(&r);
    }
    lk_handle_unpin(&link_handles, place);
}
