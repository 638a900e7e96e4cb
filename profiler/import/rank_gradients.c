/*
 * This file finds what a rank reduces, and when it was ready. Where the trace has the shapes of
 * gradients (torch.profiler's record_shapes=True), or the rank's execution trace, these are the
 * tensors, in a job of one rank, too; they must make the recorded buckets, if there are any. Else
 * each bucket stands for its tensors.
 *
 * DDP numbers tensors as they were registered. A trace tells only when they are ready: the first
 * ready one is taken for the last registered, as in most models.
 */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "facts/bucket.h"
#include "facts/run_facts.h"

#include <stdio.h>
#include <stdlib.h>

struct gradients {
    struct ready *at; /* by step and pass */
    struct lk_event_detail *sizes;
    size_t n, capacity, sizes_capacity;
    size_t of_pass;                        /* of each pass; 0: they differ, or are not known */
    const struct lk_event_detail **others; /* sizes in the rank's other file, of a pass */
    size_t n_others;
};

/* ---- Gradients of the trace ---- */

/* A gradient can be used when what the host did for it is done: autograd's function around x, if
 * there is one, copies it into its bucket. On a GPU, when the work launched until then has ended.
 */
static int64_t ready_at(const struct trace_builder *tb, const struct lk_import_event *around,
                        const struct lk_import_event *x)
{
    int64_t host = around && around->end_ns > x->end_ns ? around->end_ns : x->end_ns;

    return tb->device >= 0 ? lk_import_done_before_(tb, host) : host;
}

static enum lk_status add_gradient(const struct trace_builder *tb,
                                   const struct lk_import_event *around,
                                   const struct lk_import_event *x, struct gradients *g)
{
    struct ready r = {.step = lk_import_step_at_(tb, x->start_ns),
                      .at_ns = ready_at(tb, around, x)};
    const struct ready *last = g->n ? &g->at[g->n - 1] : NULL;

    if (r.step == SIZE_MAX ||
        lk_import_phase_at_(tb, r.step, x->start_ns, &r.pass) != LK_SPAN_BACKWARD)
        return LK_OK;
    r.index = last && last->step == r.step && last->pass == r.pass ? last->index + 1 : 0;
    LK_PASS(lk_array_grow(&g->at, &g->capacity, g->n + 1, sizeof *g->at));
    LK_PASS(lk_array_grow(&g->sizes, &g->sizes_capacity, g->n + 1, sizeof *g->sizes));
    if (x->detail)
        g->sizes[g->n] = tb->e->details[x->detail - 1];
    else if (r.index < g->n_others)
        g->sizes[g->n] = *g->others[r.index];
    else /* not known: then no pass counts */
        g->sizes[g->n] = (struct lk_event_detail){0};
    g->at[g->n++] = r;
    return LK_OK;
}

/* Find the gradients' number in a pass: the passes must have the same ones, but for the last, which
 * may be cut off. */
static void compare_passes(struct gradients *g)
{
    size_t n = 1, last = g->n;

    while (n < g->n && g->at[n].index > 0)
        n++;
    while (last > n && g->at[last - 1].index > 0)
        last--;
    if (last > n && g->n - last + 1 != n)
        g->n = last - 1;
    for (size_t i = 0; i < g->n; i++) {
        const struct lk_event_detail *a = &g->sizes[i], *b = &g->sizes[g->at[i].index];

        if (!a->elements || !a->dtype_known || g->at[i].index >= n || i % n != g->at[i].index ||
            a->elements != b->elements || a->dtype != b->dtype)
            return;
    }
    g->of_pass = g->n % n == 0 && g->n > 0 ? n : 0;
}

/* Return the number of gradients in each pass, whatever their sizes; 0: it differs. The last pass
 * may be cut off. */
static size_t count_of_pass(const struct gradients *g)
{
    size_t n = 0, first = 0;

    for (size_t i = 0; i < g->n; i++) {
        n = g->at[i].index == 0 ? 1 : n + 1;
        if (i + 1 == g->n || g->at[i + 1].index > 0)
            continue; /* the pass goes on */
        if (first && n != first)
            return 0;
        first = n;
    }
    return !first ? n : n <= first ? first : 0;
}

static enum lk_status find_gradients(const struct trace_builder *tb, struct gradients *g)
{
    enum lk_status st = LK_OK;
    const struct lk_import_event **around = NULL;

    LK_TRY(lk_alloc(&around, tb->e->n_lanes + 1, sizeof(struct lk_import_event *)));
    for (size_t i = 0; i < tb->e->n_events; i++) { /* by start */
        const struct lk_import_event *x = &tb->e->events[i];

        if (!lk_import_of_host_(tb, x))
            continue;
        if (x->kind == LK_EVENT_BACKWARD)
            around[x->lane] = x;
        if (x->kind == LK_EVENT_GRADIENT)
            LK_TRY(add_gradient(tb, around[x->lane], x, g));
    }
    compare_passes(g);
out:
    free(around);
    return st;
}

/* ---- Buckets ---- */

/* Return true if the size of every bucket is known, and there is one. */
static bool sizes_known(const struct trace_builder *tb)
{
    for (size_t i = 0; i < tb->n_buckets; i++)
        if (!tb->buckets[i].elements || !tb->buckets[i].dtype_known)
            return false;
    return tb->n_buckets > 0;
}

static uint64_t bytes_of(const struct lk_event_detail *c)
{
    return c->elements * lk_dtype_bytes(c->dtype);
}

/*
 * Set limits with which DDP makes the recorded buckets: PyTorch's, or the size of the smallest
 * bucket that was closed: one is closed when it has reached its limit, the last is what is left.
 */
static void set_limits(const struct trace_builder *tb, bool known, struct lk_run_info *i)
{
    i->first_bytes = LK_BUCKET_FIRST_BYTES;
    i->cap_bytes = LK_BUCKET_CAP_BYTES;
    for (size_t b = 0; b + 1 < tb->n_buckets && known; b++) {
        uint64_t *limit = b ? &i->cap_bytes : &i->first_bytes;

        if (bytes_of(&tb->buckets[b]) < *limit)
            *limit = bytes_of(&tb->buckets[b]);
    }
}

/* Return true for one rank that reduces nothing: what DDP would reduce are its gradients. A rank of
 * several without all-reduces of gradients is of another kind of job, e.g. a sharded one. */
static bool alone(const struct trace_builder *tb)
{
    for (size_t i = 0; i < tb->n_work; i++)
        if (tb->work[i].phase == LK_SPAN_COLLECTIVE)
            return false;
    return tb->t.info.world_size == 1;
}

/* Tell whether DDP makes the recorded buckets of the gradients, but for one (SIZE_MAX: none). */
static enum lk_status make_buckets(const struct trace_builder *tb, const struct gradients *g,
                                   size_t but, bool *out)
{
    enum lk_status st = LK_OK;
    struct lk_bucket_plan plan = {0};
    struct lk_bucket_tensor *tensors = NULL;
    size_t *order = NULL, n = 0;

    LK_TRY(lk_alloc(&tensors, g->of_pass, sizeof *tensors));
    LK_TRY(lk_alloc(&order, g->of_pass, sizeof *order));
    for (size_t i = 0; i < g->of_pass; i++) {
        if (i == but)
            continue;
        tensors[n] = (struct lk_bucket_tensor){bytes_of(&g->sizes[i]), g->sizes[i].dtype};
        order[n] = n;
        n++;
    }
    LK_TRY(
        lk_bucket_rebuilt(tensors, n, order, tb->t.info.first_bytes, tb->t.info.cap_bytes, &plan));
    *out = plan.n_buckets == tb->n_buckets;
    for (size_t b = 0; b < tb->n_buckets && *out; b++)
        *out = !tb->buckets[b].elements || plan.bytes[b] == bytes_of(&tb->buckets[b]);
out:
    lk_bucket_plan_fini(&plan);
    free(tensors);
    free(order);
    return st;
}

static void leave_out(struct gradients *g, size_t but)
{
    size_t n = 0;

    for (size_t i = 0; i < g->n; i++) {
        if (g->at[i].index == but)
            continue;
        g->at[n] = g->at[i];
        g->at[n].index -= g->at[i].index > but;
        g->sizes[n++] = g->sizes[i];
    }
    g->n = n;
    g->of_pass--;
}

/*
 * Tell whether DDP makes the recorded buckets of the gradients. One may be left out: autograd also
 * gives a gradient to an input that requires one, which DDP does not reduce.
 */
static enum lk_status fit_buckets(const struct trace_builder *tb, struct gradients *g, bool *out)
{
    uint64_t all = 0, reduced = 0;

    LK_PASS(make_buckets(tb, g, SIZE_MAX, out));
    for (size_t i = 0; i < g->of_pass; i++)
        all += g->sizes[i].elements;
    for (size_t b = 0; b < tb->n_buckets; b++)
        reduced += tb->buckets[b].elements;
    for (size_t i = g->of_pass; i-- > 0 && g->of_pass > 1 && !*out;) {
        if (reduced >= all || g->sizes[i].elements != all - reduced)
            continue;
        LK_PASS(make_buckets(tb, g, i, out));
        if (*out)
            leave_out(g, i);
    }
    return LK_OK;
}

/* ---- The description ---- */

/* Return the backward of a pass, or NULL. */
static const struct pass *backward_of(const struct trace_builder *tb, const struct ready *r)
{
    size_t i = 0, end = tb->passes.n;

    while (i < end) { /* passes are by start, so by step */
        size_t mid = (i + end) / 2;

        if (tb->passes.at[mid].step < r->step)
            i = mid + 1;
        else
            end = mid;
    }
    for (; i < tb->passes.n && tb->passes.at[i].step == r->step; i++)
        if (tb->passes.at[i].phase == LK_SPAN_BACKWARD && tb->passes.at[i].pass == r->pass)
            return &tb->passes.at[i];
    return NULL;
}

/* Describe n tensors by their sizes, in the order in which they are ready, and mark when each was
 * ready in the backwards. */
static enum lk_status add_tensors(struct trace_builder *tb, const struct lk_event_detail *sizes,
                                  size_t n, const char *name, const struct ready *ready,
                                  size_t n_ready)
{
    struct lk_run_info *info = &tb->t.info;

    LK_PASS(lk_alloc(&info->tensors, n, sizeof *info->tensors));
    for (; info->n_tensors < n; info->n_tensors++) {
        struct lk_run_tensor *t = &info->tensors[info->n_tensors];
        size_t k = n - 1 - info->n_tensors;

        *t = (struct lk_run_tensor){.elems = sizes[k].elements, .dtype = sizes[k].dtype};
        LK_PASS(lk_asprintf(&t->name, "%s %zu", name, k));
    }
    for (size_t i = 0; i < n_ready; i++) {
        const struct pass *p = backward_of(tb, &ready[i]);
        int64_t at = ready[i].at_ns;

        if (!p)
            continue;
        at = at < p->start_ns ? p->start_ns : at > p->end_ns ? p->end_ns : at;
        LK_PASS(lk_import_add_span_(tb, LK_IMPORT_COMPUTE,
                                    (struct lk_span){.kind = LK_SPAN_GRADIENT,
                                                     .step = tb->steps.at[ready[i].step].number,
                                                     .index = (int32_t)(n - 1 - ready[i].index)},
                                    at, at));
    }
    return LK_OK;
}

enum lk_status lk_import_add_gradients_(struct trace_builder *tb)
{
    enum lk_status st = LK_OK;
    struct gradients g = {0};
    bool known = sizes_known(tb), fit = alone(tb);
    size_t count;
    char text[32];

    LK_TRY(lk_import_sizes_of_(tb, LK_GRADIENT_SIZE, &g.others, &g.n_others));
    LK_TRY(find_gradients(tb, &g));
    count = count_of_pass(&g);
    if (count > 0) {
        snprintf(text, sizeof text, "%zu", count);
        LK_TRY(lk_run_info_config(&tb->t.info, LK_GRADIENTS_CONFIG_KEY, text));
    }
    set_limits(tb, known, &tb->t.info);
    if (g.of_pass && tb->n_buckets)
        LK_TRY(fit_buckets(tb, &g, &fit));
    if (g.of_pass && fit) {
        st = add_tensors(tb, g.sizes, g.of_pass, "gradient", g.at, g.n);
    } else if (known) {
        LK_TRY(lk_run_info_config(&tb->t.info, LK_BUCKETS_CONFIG_KEY, "buckets"));
        st = add_tensors(tb, tb->buckets, tb->n_buckets, "bucket", tb->ready, tb->n_ready);
    }
out:
    free(g.others);
    free(g.at);
    free(g.sizes);
    return st;
}
