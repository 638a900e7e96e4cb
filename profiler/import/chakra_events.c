/* Give the events of a Chakra graph. Divisions: nodes of the GPU, of the host, steps, notes. */
#include "profiler/import/chakra_impl.h"

#include "base/array.h"
#include "profiler/import/event_kind.h"
#include "profiler/import/file_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct giver {
    struct lk_et_graph *g;
    struct lk_events *e;
    bool host;          /* there are nodes of the host */
    uint32_t host_lane; /* stands for the host where there are none */
    int64_t *inner_ns;  /* the last end of a host's node and all that it called; NULL: as it is */
    int64_t start_ns, end_ns;
    size_t n_of[LK_CHAKRA_TYPE_COUNT], n_on_gpu[LK_CHAKRA_TYPE_COUNT];
    int64_t us_of[LK_CHAKRA_TYPE_COUNT];
    size_t n_backward, n_forward; /* events */
    size_t n_steps;
    size_t n_untyped, n_unsized; /* collectives that do not say type of elements, bytes */
};

static bool takes_part(const struct lk_et_node *node)
{
    return node->type != LK_CHAKRA_METADATA && node->type != LK_CHAKRA_INVALID;
}

/* ---- Nodes of the GPU ---- */

/* Return what a node of the GPU waits for that ends last, on the host or not, or NULL. */
static const struct lk_et_node *last_dep(const struct giver *v, const struct lk_et_node *node,
                                         bool on_host)
{
    const struct lk_et_node *last = NULL;

    for (size_t i = 0; i < lk_et_n_deps(v->g, node); i++) {
        uint32_t on = lk_et_dep(v->g, node, i);
        const struct lk_et_node *x = on == LK_ET_NO_NODE ? NULL : &v->g->nodes[on];

        if (x && x->on_host == on_host && takes_part(x) && (on_host || !lk_et_is_comm(x)) &&
            (!last || x->end_ns > last->end_ns))
            last = x;
    }
    return last;
}

/* Add the call that launched a node of the GPU, if there is one. */
static enum lk_status add_launch(struct giver *v, const struct lk_et_node *node, uint64_t link)
{
    const struct lk_et_node *from = last_dep(v, node, v->host);
    struct lk_import_event x = {.kind = LK_EVENT_LAUNCH, .link = link, .lane = v->host_lane};

    if (v->host) {
        if (!from)
            return LK_OK;
        x.lane = from->lane;
        x.start_ns = from->start_ns;
        x.end_ns = from->end_ns;
    } else {
        /* A host that is not there is never late: it asks for a collective just behind the work
         * that the collective waits for, which has ended then. */
        x.start_ns = lk_et_is_comm(node) && from ? from->start_ns + 1 : node->start_ns;
        x.end_ns = x.start_ns;
    }
    return lk_events_add(v->e, &x);
}

/* Return which collective a node is, by its attribute, else by its name; "": not known. */
static const char *function_of(const struct giver *v, const struct lk_et_node *node)
{
    if (node->type != LK_CHAKRA_COMM_COLL)
        return "send_recv";
    if (node->coll_known)
        return lk_coll_name(node->coll);
    return lk_event_function_of_nccl(lk_events_text(v->e, node->name));
}

/* Add what is known of a collective. */
static enum lk_status add_detail(struct giver *v, const struct lk_et_node *node, uint32_t *out)
{
    struct lk_event_detail c = {.group = node->group, .dtype = LK_U8, .dtype_known = true};
    uint64_t bytes = node->bytes;
    const char *function = function_of(v, node);

    LK_PASS(lk_events_name(v->e, function, strlen(function), &c.function));
    /* The size of an all-gather is what a rank puts in; the product is that of all (facts/coll.h)
     * if there are no smaller groups. */
    if (node->coll_known && node->coll == LK_ALL_GATHER)
        bytes = v->e->source.world_size > 0 && bytes < UINT64_MAX >> 20
                    ? bytes * (uint64_t)v->e->source.world_size
                    : 0;
    if (node->dtype_known && bytes % lk_dtype_bytes((enum lk_dtype)node->dtype) == 0)
        c.dtype = (enum lk_dtype)node->dtype;
    else
        v->n_untyped += bytes > 0;
    v->n_unsized += !bytes && !node->on_host;
    c.elements = bytes / lk_dtype_bytes(c.dtype);
    return lk_events_detail(v->e, &c, out);
}

/* A memcpy's name begins so in PyTorch's traces. */
static enum lk_event_kind kind_on_gpu(const struct giver *v, const struct lk_et_node *node)
{
    const char *name = lk_events_text(v->e, node->name);

    if (node->type == LK_CHAKRA_MEM_LOAD || node->type == LK_CHAKRA_MEM_STORE ||
        !strncmp(name, "Memcpy", 6))
        return LK_EVENT_COPY;
    return !strncmp(name, "Memset", 6) ? LK_EVENT_MEMSET : LK_EVENT_KERNEL;
}

/* Add the range of a pass in which work was launched, for a trace without a host. It ends before
 * the next work is launched, which may be of another pass. */
static enum lk_status add_pass(struct giver *v, const struct lk_et_node *node)
{
    static const enum lk_event_kind kinds[LK_CHAKRA_PHASE_COUNT] = {
        [LK_CHAKRA_FORWARD] = LK_EVENT_FORWARD,
        [LK_CHAKRA_BACKWARD] = LK_EVENT_BACKWARD,
        [LK_CHAKRA_OPTIMIZER] = LK_EVENT_OPTIMIZER,
        [LK_CHAKRA_INPUT] = LK_EVENT_INPUT};
    const struct lk_import_event x = {.kind = (uint8_t)kinds[node->phase],
                                      .lane = v->host_lane,
                                      .name = node->name,
                                      .start_ns = node->start_ns,
                                      .end_ns = node->phase == LK_CHAKRA_INPUT ? node->end_ns
                                                                               : node->end_ns - 1};

    if (!kinds[node->phase] || node->end_ns == node->start_ns)
        return LK_OK;
    v->n_backward += x.kind == LK_EVENT_BACKWARD;
    v->n_forward += x.kind == LK_EVENT_FORWARD;
    return lk_events_add(v->e, &x);
}

static enum lk_status add_on_gpu(struct giver *v, const struct lk_et_node *node, uint64_t link)
{
    struct lk_import_event x = {.kind = (uint8_t)kind_on_gpu(v, node),
                                .lane = node->lane,
                                .name = node->name,
                                .start_ns = node->start_ns,
                                .end_ns = node->end_ns,
                                .link = link};

    if (!v->host && !lk_et_is_comm(node))
        LK_PASS(add_pass(v, node));
    /* Our own export says when a GPU waits: that is no work. */
    if (node->phase == LK_CHAKRA_INPUT || node->phase == LK_CHAKRA_IDLE)
        return LK_OK;
    if (lk_et_is_comm(node)) {
        LK_PASS(add_detail(v, node, &x.detail));
        x.name = x.name ? x.name : v->e->details[x.detail - 1].function;
    } else if (x.kind == LK_EVENT_COPY) {
        x.bytes = node->bytes;
    }
    LK_PASS(lk_events_add(v->e, &x));
    return add_launch(v, node, link);
}

/* ---- Nodes of the host ---- */

/* Durations of the host's nodes are without what they called, which are nodes of their own: find
 * the ends with it, by the control dependencies. */
static enum lk_status find_inner(struct giver *v)
{
    enum { LEVELS = 64 }; /* of calls that are looked at */
    const struct lk_et_graph *g = v->g;

    if (g->ctrl_ignored)
        return LK_OK;
    LK_PASS(lk_alloc(&v->inner_ns, g->n, sizeof *v->inner_ns));
    for (size_t i = 0; i < g->n; i++) {
        size_t at = i;

        for (int level = 0; level < LEVELS && g->nodes[i].on_host; level++) {
            const struct lk_et_node *x = &g->nodes[at];
            uint32_t caller = x->n_ctrl ? lk_et_dep(g, x, x->n_data) : LK_ET_NO_NODE;

            if (g->nodes[i].end_ns > v->inner_ns[at])
                v->inner_ns[at] = g->nodes[i].end_ns;
            if (caller == LK_ET_NO_NODE || !g->nodes[caller].on_host || caller == at)
                break;
            at = caller;
        }
    }
    return LK_OK;
}

static enum lk_status add_on_host(struct giver *v, const struct lk_et_node *node, size_t index)
{
    const char *name = lk_events_text(v->e, node->name);
    int64_t inner = v->inner_ns ? v->inner_ns[index] : 0;
    struct lk_import_event x = {.lane = node->lane,
                                .name = node->name,
                                .detail = node->detail,
                                .start_ns = node->start_ns,
                                .end_ns = inner > node->end_ns ? inner : node->end_ns};
    enum lk_event_kind kind;

    if (lk_event_kind_of_call(name, strlen(name), &kind) && kind == LK_EVENT_SYNC) {
        x.kind = LK_EVENT_SYNC;
    } else if (lk_event_kind_of_range(v->e, name, strlen(name), &kind)) {
        x.kind = (uint8_t)kind;
    } else if (lk_et_is_comm(node)) {
        x.kind = LK_EVENT_COLLECTIVE;
        LK_PASS(add_detail(v, node, &x.detail));
    } else {
        return LK_OK;
    }
    v->n_backward += x.kind == LK_EVENT_BACKWARD;
    v->n_forward += x.kind == LK_EVENT_FORWARD;
    return x.kind == LK_EVENT_STEP ? LK_OK : lk_events_add(v->e, &x);
}

/* ---- Steps ---- */

static int by_start(const void *a, const void *b)
{
    const struct lk_import_event *x = a, *y = b;

    return LK_ORDER(x->start_ns, y->start_ns);
}

/* Add the steps: from one mark to the next; without marks, all of it. */
static enum lk_status add_steps(struct giver *v)
{
    enum lk_status st = LK_OK;
    struct lk_import_event *steps = NULL;
    size_t capacity = 0;

    for (size_t i = 0; i < v->g->n; i++) {
        const struct lk_et_node *node = &v->g->nodes[i];
        const char *name = lk_events_text(v->e, node->name);
        enum lk_event_kind kind;

        if (!node->on_host || !lk_event_kind_of_range(v->e, name, strlen(name), &kind) ||
            kind != LK_EVENT_STEP)
            continue;
        LK_TRY(lk_array_grow(&steps, &capacity, v->n_steps + 1, sizeof *steps));
        steps[v->n_steps++] =
            (struct lk_import_event){.kind = LK_EVENT_STEP,
                                     .lane = node->lane,
                                     .name = node->name,
                                     .start_ns = node->start_ns,
                                     .end_ns = v->end_ns,
                                     .detail = lk_event_step_number(name, strlen(name))};
    }
    if (v->n_steps)
        qsort(steps, v->n_steps, sizeof *steps, by_start);
    else
        LK_TRY(lk_events_add(v->e, &(struct lk_import_event){.kind = LK_EVENT_STEP,
                                                             .lane = v->host_lane,
                                                             .start_ns = v->start_ns,
                                                             .end_ns = v->end_ns}));
    for (size_t i = 0; i < v->n_steps; i++) {
        if (i + 1 < v->n_steps)
            steps[i].end_ns = steps[i + 1].start_ns;
        LK_TRY(lk_events_add(v->e, &steps[i]));
    }
out:
    free(steps);
    return st;
}

/* ---- Notes ---- */

static enum lk_status note_counts(struct giver *v)
{
    char text[512];
    size_t at = 0;

    for (size_t i = 0; i < LK_CHAKRA_TYPE_COUNT; i++)
        if (v->n_of[i] && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "%s %zu %s of %lld us, %zu on the GPU", at ? ";" : "",
                                   v->n_of[i], lk_chakra_type_name((enum lk_chakra_type)i),
                                   (long long)v->us_of[i], v->n_on_gpu[i]);
    return lk_events_note(v->e, "%zu nodes:%s", v->g->n, text);
}

static enum lk_status note_times(struct giver *v)
{
    const struct lk_et_graph *g = v->g;

    if (g->times_given)
        return lk_events_note(v->e, "the times are those of the nodes");
    LK_PASS(lk_events_note(v->e, "no start times: the graph was replayed; a node starts when what "
                                 "it depends on has ended and its lane is free"));
    if (g->ctrl_ignored)
        LK_PASS(lk_events_note(v->e, "with control dependencies the graph has a circle: they are "
                                     "callers here, and do not count"));
    return LK_OK;
}

/* List the sizes of the first all-reduces of the GPU. */
static enum lk_status note_sizes(struct giver *v)
{
    enum { SHOWN = 12 };
    char text[512] = "";
    size_t n = 0, at = 0;
    bool sized = false;

    for (size_t i = 0; i < v->g->n; i++) {
        const struct lk_et_node *node = &v->g->nodes[i];

        if (node->on_host || !lk_et_is_comm(node) ||
            !lk_coll_is(function_of(v, node), LK_ALL_REDUCE))
            continue;
        sized = sized || node->bytes;
        if (n++ < SHOWN && at < sizeof text)
            at += (size_t)snprintf(text + at, sizeof text - at, " %llu",
                                   (unsigned long long)node->bytes);
    }
    if (!n)
        return lk_events_note(v->e, "there is no all-reduce on a GPU");
    if (!sized)
        return lk_events_note(v->e, "all-reduces on the GPU: %zu, of sizes that it does not say",
                              n);
    return lk_events_note(v->e, "all-reduces on the GPU: %zu, of bytes%s%s", n, text,
                          n > SHOWN ? " ..." : "");
}

static enum lk_status note_unknown(struct giver *v)
{
    if (!v->n_forward && !v->n_backward)
        LK_PASS(lk_events_note(v->e,
                               "no forward or backward: no node is called so; the converter kept "
                               "neither autograd's functions nor DistributedDataParallel.forward"));
    else if (!v->n_backward)
        LK_PASS(lk_events_note(v->e, "no backward: no node is called so"));
    if (v->n_untyped)
        LK_PASS(lk_events_note(v->e,
                               "%zu collectives do not say the type of their elements: their bytes "
                               "count as elements of one byte",
                               v->n_untyped));
    if (v->n_unsized)
        LK_PASS(lk_events_note(v->e, "%zu collectives do not say their bytes", v->n_unsized));
    if (v->g->n_missing)
        LK_PASS(lk_events_note(v->e,
                               "%zu dependencies name nodes that are not in the file: they "
                               "were left out",
                               v->g->n_missing));
    if (!v->e->source.world_size)
        LK_PASS(lk_events_note(v->e, "the file does not say how many ranks there are: as many as "
                                     "there are files, unless --world-size says"));
    return LK_OK;
}

/* ---- All ---- */

static void survey(struct giver *v)
{
    v->start_ns = INT64_MAX;
    for (size_t i = 0; i < v->g->n; i++) {
        const struct lk_et_node *node = &v->g->nodes[i];

        v->n_of[node->type]++;
        v->n_on_gpu[node->type] += !node->on_host;
        v->us_of[node->type] += lk_et_duration_us(node);
        v->e->source.n_skipped +=
            node->duration_us < 0 || node->duration_us > LK_ET_DURATION_MAX_US;
        v->host = v->host || (node->on_host && takes_part(node));
        v->start_ns = node->start_ns < v->start_ns ? node->start_ns : v->start_ns;
        v->end_ns = node->end_ns > v->end_ns ? node->end_ns : v->end_ns;
    }
}

static enum lk_status give(struct giver *v)
{
    LK_PASS(lk_events_lane(v->e, 0, -1, false, &v->host_lane));
    LK_PASS(find_inner(v));
    for (size_t i = 0; i < v->g->n; i++) {
        const struct lk_et_node *node = &v->g->nodes[i];

        if (!takes_part(node))
            continue;
        if (node->on_host)
            LK_PASS(add_on_host(v, node, i));
        else
            LK_PASS(add_on_gpu(v, node, i + 1));
    }
    LK_PASS(add_steps(v));
    LK_PASS(note_counts(v));
    LK_PASS(note_times(v));
    LK_PASS(note_sizes(v));
    return note_unknown(v);
}

enum lk_status lk_et_events(struct lk_et_graph *g)
{
    struct giver v = {.g = g, .e = g->e};
    enum lk_status st = LK_OK;

    if (!g->n)
        return lk_fail(LK_EPARSE, "%s: there is no node of a Chakra trace in it", g->path);
    LK_TRY(lk_et_run(g));
    survey(&v);
    if (g->e->source.rank < 0)
        g->e->source.rank = lk_file_number(g->path);
    st = give(&v);
out:
    free(v.inner_ns);
    return st;
}
