/*
 * The memory of gradients: slabs of one layout, which steps use in turn. With one slab each step
 * has the same memory; with more the gradients of the steps before are still there, for updates
 * that take them late (runtime/train/reducer.h).
 */
#ifndef LK_RUNTIME_SLABS_H
#define LK_RUNTIME_SLABS_H

#include "runtime/comm/comm.h"
#include "runtime/model/model.h"

#include <stddef.h>
#include <stdint.h>

struct lk_slabs {
    struct lk_comm *comm; /* borrowed, as the next two */
    struct lk_stream *compute;
    const struct lk_param *params;
    size_t n_params;
    int n; /* slabs */
    uint64_t timeout_ns;
    size_t elems;              /* of one; 0: none are laid out */
    size_t *offset;            /* of a parameter's gradient in each, elements */
    char *memory;              /* of all */
    struct lk_event **reduced; /* n: the gradients of its last step are reduced; for its user */
    size_t real_bytes;
};

/* Prepare n slabs, which have no memory yet. The caller calls lk_slabs_fini, on failure too. */
enum lk_status lk_slabs_init(struct lk_slabs *s, int n, struct lk_comm *comm,
                             struct lk_stream *compute, const struct lk_param *params,
                             size_t n_params, uint64_t timeout_ns);
void lk_slabs_fini(struct lk_slabs *s); /* pre: nothing is in flight; a zeroed one is legal */
/*
 * Lay the slabs out anew, zeroed, with `elems` elements each. Of several slabs the gradients are
 * taken along. *before is the old memory, which the caller frees with lk_comm_free; NULL: none.
 * pre: nothing is in flight.
 */
enum lk_status lk_slabs_lay_out(struct lk_slabs *s, const size_t *offset, size_t elems,
                                void **before);

/* Return the slab of a step; steps n apart have the same. */
static inline char *lk_slab_of(const struct lk_slabs *s, uint32_t step)
{
    return s->memory + step % (uint32_t)s->n * s->elems * s->real_bytes;
}

/*
 * An event for each slab, to be destroyed before the slabs. The span of a collective has the time
 * of the event that made it ready, which is read when it ends: where gradients are late, the
 * compute stream has passed the next step's by then.
 */
enum lk_status lk_slab_events_create(const struct lk_slabs *s, struct lk_event ***out);
void lk_slab_events_destroy(const struct lk_slabs *s, struct lk_event **events); /* NULL: none */

static inline struct lk_event *lk_slab_event(const struct lk_slabs *s, struct lk_event **events,
                                             uint32_t step)
{
    return events[step % (uint32_t)s->n];
}

static inline struct lk_event *lk_slab_reduced(const struct lk_slabs *s, uint32_t step)
{
    return lk_slab_event(s, s->reduced, step);
}

/* Return a parameter's gradient in the slab of a step. */
static inline lk_real *lk_slab_gradient(const struct lk_slabs *s, uint32_t step, size_t param)
{
    return lk_slab_of(s, step) + s->offset[param] * s->real_bytes;
}

#endif
