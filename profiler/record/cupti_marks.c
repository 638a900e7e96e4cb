#include "profiler/record/cupti_marks.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum lk_status lk_cupti_marks_init(struct lk_cupti_marks *m)
{
    memset(m, 0, sizeof *m);
    LK_PASS(lk_alloc(&m->inbox, LK_CUPTI_MARKS, sizeof *m->inbox));
    return lk_alloc(&m->waiting, LK_CUPTI_MARKS, sizeof *m->waiting);
}

void lk_cupti_marks_fini(struct lk_cupti_marks *m)
{
    free(m->inbox);
    free(m->waiting);
    m->inbox = m->waiting = NULL;
}

bool lk_cupti_marks_are_proven(const struct lk_cupti_marks *m)
{
    return atomic_load_explicit(&m->proven, memory_order_relaxed);
}

void lk_cupti_marks_issue(struct lk_cupti_marks *m, uint32_t step, uint32_t op)
{
    atomic_store_explicit(&m->issued, (uint64_t)step << 32 | op, memory_order_relaxed);
}

bool lk_cupti_marks_put(struct lk_cupti_marks *m, uint16_t kind, int32_t index)
{
    const uint64_t n = atomic_load_explicit(&m->n_put, memory_order_relaxed),
                   op = atomic_load_explicit(&m->issued, memory_order_relaxed);

    if (n - atomic_load_explicit(&m->n_taken, memory_order_acquire) == LK_CUPTI_MARKS)
        return false;
    m->inbox[n % LK_CUPTI_MARKS] = (struct lk_cupti_mark){
        .step = (uint32_t)(op >> 32), .op = (uint32_t)op, .index = index, .kind = kind};
    atomic_store_explicit(&m->n_put, n + 1, memory_order_release);
    return true;
}

/* Return true if a comes before b in the order of issue. */
static bool precedes(const struct lk_cupti_mark *a, const struct lk_cupti_mark *b)
{
    return a->step != b->step ? a->step < b->step : a->op < b->op;
}

/* Let a mark have what is known of kernels before it. */
static void inherit(struct lk_cupti_mark *mark, const struct lk_cupti_mark *before)
{
    if (before->step != mark->step)
        return;
    if (before->end_ns > mark->end_ns)
        mark->end_ns = before->end_ns;
    mark->known |= before->known && before->op == mark->op;
}

/* End the first n of the marks that wait: those that are known, or with `all` every one. */
static void end(struct lk_cupti_marks *m, size_t n, bool all, lk_cupti_mark_fn *fn, void *ctx)
{
    struct lk_cupti_mark before = {0};
    size_t kept = 0;

    for (size_t i = 0; i < m->n_waiting; i++) {
        struct lk_cupti_mark mark = m->waiting[i];

        if (i > 0)
            inherit(&mark, &before);
        before = mark;
        if (i < n && (mark.known || all))
            fn(ctx, &mark);
        else
            m->waiting[kept++] = mark;
    }
    m->n_waiting = kept;
}

static void lose(struct lk_cupti_mark *mark, lk_cupti_mark_fn *fn, void *ctx)
{
    mark->end_ns = 0;
    fn(ctx, mark);
}

void lk_cupti_marks_take(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx)
{
    const uint64_t n = atomic_load_explicit(&m->n_put, memory_order_acquire);
    uint64_t taken = atomic_load_explicit(&m->n_taken, memory_order_relaxed);

    for (; taken < n; taken++) {
        struct lk_cupti_mark mark = m->inbox[taken % LK_CUPTI_MARKS];

        if (m->n_waiting == LK_CUPTI_MARKS) /* their kernels do not come */
            lk_cupti_marks_lose(m, fn, ctx);
        if (m->losing && ((uint64_t)mark.step << 32 | mark.op) <= m->lost_to) {
            lose(&mark, fn, ctx);
            continue;
        }
        inherit(&mark, &m->behind);
        memset(&m->behind, 0, sizeof m->behind);
        m->waiting[m->n_waiting++] = mark;
    }
    atomic_store_explicit(&m->n_taken, taken, memory_order_release);
}

/* Return the first mark that waits behind the op, or NULL. */
static struct lk_cupti_mark *first_behind(struct lk_cupti_marks *m, const struct lk_cupti_mark *op)
{
    size_t lo;

    LK_BISECT(lo, m->n_waiting, precedes(&m->waiting[lo], op));
    return lo < m->n_waiting ? &m->waiting[lo] : NULL;
}

void lk_cupti_marks_kernel(struct lk_cupti_marks *m, uint32_t step, uint32_t op, uint64_t end_ns)
{
    struct lk_cupti_mark of = {.step = step, .op = op, .end_ns = end_ns, .known = true};
    struct lk_cupti_mark *mark = first_behind(m, &of);

    if (!m->losing)
        atomic_store_explicit(&m->proven, true, memory_order_relaxed);
    if (step > m->newest_step)
        m->newest_step = step;
    if (mark) {
        inherit(mark, &of);
    } else if (precedes(&m->behind, &of)) {
        inherit(&of, &m->behind);
        m->behind = of;
    } else {
        inherit(&m->behind, &of);
    }
}

void lk_cupti_marks_settle(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx)
{
    size_t n = 0;

    while (n < m->n_waiting && m->waiting[n].step + 2 <= m->newest_step)
        n++;
    if (n > 0)
        end(m, n, false, fn, ctx);
}

void lk_cupti_marks_lose(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx)
{
    atomic_store_explicit(&m->proven, false, memory_order_relaxed);
    m->losing = true;
    m->lost_to = atomic_load_explicit(&m->issued, memory_order_relaxed);
    for (size_t i = 0; i < m->n_waiting; i++)
        lose(&m->waiting[i], fn, ctx);
    m->n_waiting = 0;
}

void lk_cupti_marks_drain(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx)
{
    lk_cupti_marks_take(m, fn, ctx);
    end(m, m->n_waiting, true, fn, ctx);
}
