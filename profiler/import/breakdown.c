#include "profiler/import/breakdown.h"

#include "base/array.h"
#include "facts/trace.h"

#include <stdlib.h>

enum lk_status lk_communication_names(const struct lk_events *e, const char *patterns, bool **out)
{
    LK_PASS(lk_alloc(out, e->n_names, sizeof **out));
    for (size_t i = 0; i < e->n_names; i++)
        (*out)[i] = lk_is_communication(lk_events_text(e, (uint32_t)i), patterns);
    return LK_OK;
}

bool lk_event_is_communication(const struct lk_import_event *x, const bool *names)
{
    return x->kind == LK_EVENT_KERNEL && (x->detail || names[x->name]);
}

static enum lk_status collect(const struct lk_events *e, int64_t device,
                              const struct lk_convention *c, const bool *communication,
                              struct lk_uses *uses, struct lk_breakdown *out)
{
    for (size_t i = 0; i < e->n_events; i++) {
        const struct lk_import_event *x = &e->events[i];
        bool linked;
        enum lk_use use = LK_USE_MEMORY;

        if (x->kind > LK_EVENT_MEMSET || (device >= 0 && e->lanes[x->lane].process != device))
            continue;
        linked = lk_events_launch(e, x) != NULL;
        out->n_unlinked += !linked;
        if (c->linked && !linked)
            continue;
        if (x->kind == LK_EVENT_KERNEL)
            use =
                lk_event_is_communication(x, communication) ? LK_USE_COMMUNICATION : LK_USE_COMPUTE;
        else if (x->kind == LK_EVENT_MEMSET && c->memset_is_compute)
            use = LK_USE_COMPUTE;
        LK_PASS(lk_uses_add(uses, use, x->start_ns, x->end_ns));
    }
    return LK_OK;
}

enum lk_status lk_breakdown(const struct lk_events *e, int64_t device,
                            const struct lk_convention *convention, struct lk_breakdown *out)
{
    struct lk_breakdown counted = {0};
    enum lk_status st = LK_OK;
    struct lk_uses uses = {0};
    bool *communication = NULL;

    LK_TRY(lk_communication_names(e, convention->patterns, &communication));
    LK_TRY(collect(e, device, convention, communication, &uses, &counted));
    *out = lk_uses_sum(&uses);
    out->n_unlinked = counted.n_unlinked;
out:
    lk_uses_fini(&uses);
    free(communication);
    return st;
}

enum lk_status lk_breakdown_kernels(const struct lk_events *e, int64_t device, const char *patterns,
                                    struct lk_kernel_sums *out)
{
    enum lk_status st = LK_OK;
    bool *communication = NULL;
    size_t *rows = NULL; /* by name and use */

    LK_TRY(lk_communication_names(e, patterns, &communication));
    LK_TRY(lk_alloc(&rows, e->n_names * LK_USES, sizeof *rows));
    for (size_t i = 0; i < e->n_events; i++) {
        const struct lk_import_event *x = &e->events[i];
        enum lk_use use = x->kind != LK_EVENT_KERNEL                    ? LK_USE_MEMORY
                          : lk_event_is_communication(x, communication) ? LK_USE_COMMUNICATION
                                                                        : LK_USE_COMPUTE;

        if (x->kind <= LK_EVENT_MEMSET && (device < 0 || e->lanes[x->lane].process == device))
            LK_TRY(lk_kernel_sums_add(out, lk_events_text(e, x->name), use,
                                      (uint64_t)(x->end_ns - x->start_ns),
                                      &rows[(size_t)x->name * LK_USES + (size_t)use]));
    }
out:
    free(rows);
    free(communication);
    return st;
}
