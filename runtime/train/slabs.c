/* The memory of gradients; see the header. */
#include "runtime/train/slabs.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum lk_status lk_slab_events_create(const struct lk_slabs *s, struct lk_event ***out)
{
    LK_PASS(lk_alloc(out, (size_t)s->n, sizeof(struct lk_event *)));
    for (int i = 0; i < s->n; i++)
        LK_PASS(lk_event_create(lk_stream_device(s->compute), &(*out)[i]));
    return LK_OK;
}

void lk_slab_events_destroy(const struct lk_slabs *s, struct lk_event **events)
{
    for (int i = 0; events && i < s->n; i++)
        lk_event_destroy(events[i]);
    free(events);
}

enum lk_status lk_slabs_init(struct lk_slabs *s, int n, struct lk_comm *comm,
                             struct lk_stream *compute, const struct lk_param *params,
                             size_t n_params, uint64_t timeout_ns)
{
    *s = (struct lk_slabs){.comm = comm,
                           .compute = compute,
                           .params = params,
                           .n_params = n_params,
                           .n = n,
                           .timeout_ns = timeout_ns,
                           .real_bytes = lk_device_real_bytes(lk_stream_device(compute))};
    LK_PASS(lk_alloc(&s->offset, n_params, sizeof *s->offset));
    return lk_slab_events_create(s, &s->reduced);
}

void lk_slabs_fini(struct lk_slabs *s)
{
    if (s->memory)
        lk_comm_free(s->comm, lk_stream_device(s->compute), s->memory);
    lk_slab_events_destroy(s, s->reduced);
    free(s->offset);
    *s = (struct lk_slabs){0};
}

/* Copy the gradients in every slab from where they were. */
static enum lk_status move_gradients(struct lk_slabs *to, const struct lk_slabs *from)
{
    for (int i = 0; i < to->n; i++)
        for (size_t p = 0; p < to->n_params; p++)
            LK_PASS(lk_stream_copy(to->compute, lk_slab_gradient(to, (uint32_t)i, p),
                                   lk_slab_gradient(from, (uint32_t)i, p),
                                   to->params[p].elems * to->real_bytes));
    return lk_stream_sync(to->compute, lk_deadline_in(to->timeout_ns));
}

enum lk_status lk_slabs_lay_out(struct lk_slabs *s, const size_t *offset, size_t elems,
                                void **before)
{
    struct lk_device *d = lk_stream_device(s->compute);
    struct lk_slabs laid = *s;
    void *memory = NULL;
    enum lk_status st = LK_OK;

    laid.offset = NULL;
    LK_TRY(lk_comm_alloc(s->comm, d, (size_t)s->n * elems * s->real_bytes, &memory));
    LK_TRY(lk_alloc(&laid.offset, s->n_params, sizeof *laid.offset));
    memcpy(laid.offset, offset, s->n_params * sizeof *offset);
    laid.memory = memory;
    laid.elems = elems;
    if (s->memory && s->n > 1)
        LK_TRY(move_gradients(&laid, s));
    *before = s->memory;
    free(s->offset);
    *s = laid;
    laid.offset = NULL;
    memory = NULL;
out:
    free(laid.offset);
    if (memory)
        lk_comm_free(s->comm, d, memory);
    return st;
}
