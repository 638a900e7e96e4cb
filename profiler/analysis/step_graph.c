/* Make a step's graph. Divisions: stretches of time, nodes of the rank's own, collectives. */
#include "profiler/analysis/step_graph.h"

#include "base/array.h"
#include "facts/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An instant at which something begins or ends. */
struct edge {
    uint64_t at_ns;
    bool cut; /* a collective is ready */
};

/* A time that the rank spends on one thing. */
struct stretch {
    uint64_t start_us, end_us; /* from the step's begin */
    const struct lk_range *range;
};

struct builder {
    const struct lk_trace *t;
    const struct lk_rank_steps *s;
    const struct lk_step *p;
    struct edge *edges;
    size_t n_edges, edges_capacity;
    struct stretch *stretches;
    size_t n_stretches, stretches_capacity;
    size_t *own; /* indices of the rank's own nodes */
    size_t n_own, own_capacity;
    uint64_t worked_us;   /* the end of its last work: no input, no idle time */
    size_t *collectives;  /* indices of the collectives' nodes, in their order */
    size_t n_collectives; /* those that have one */
    int parts[LK_CHAKRA_PHASE_COUNT], micro_batch; /* of the pass: nodes so far */
    struct lk_chakra_graph g;
};

/* Return a time in us from the step's begin. */
static uint64_t us_of(const struct builder *b, uint64_t at_ns)
{
    return at_ns > b->p->begin_ns ? (at_ns - b->p->begin_ns + 500) / 1000 : 0;
}

/* ---- Stretches of time ---- */

static enum lk_status add_edge(struct builder *b, uint64_t at_ns, bool cut)
{
    if (at_ns < b->p->begin_ns || at_ns > b->p->end_ns)
        return LK_OK;
    LK_PASS(lk_array_grow(&b->edges, &b->edges_capacity, b->n_edges + 1, sizeof *b->edges));
    b->edges[b->n_edges++] = (struct edge){at_ns, cut};
    return LK_OK;
}

static uint64_t ready_ns(const struct lk_collective *x)
{
    return x->ready_ns && x->ready_ns < x->due_ns ? x->ready_ns : x->due_ns;
}

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* List the instants, sorted, each once. */
static enum lk_status find_edges(struct builder *b)
{
    const struct lk_step *p = b->p;
    size_t n = 0;

    LK_PASS(add_edge(b, p->begin_ns, false));
    LK_PASS(add_edge(b, p->end_ns, false));
    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++) {
        LK_PASS(add_edge(b, b->s->ranges[i].start_ns, false));
        LK_PASS(add_edge(b, b->s->ranges[i].end_ns, false));
    }
    for (size_t i = 0; i < b->s->stalls.n; i++) {
        LK_PASS(add_edge(b, b->s->stalls.at[i].start_ns, false));
        LK_PASS(add_edge(b, b->s->stalls.at[i].end_ns, false));
    }
    for (size_t i = p->first_collective; i < p->first_collective + p->n_collectives; i++)
        LK_PASS(add_edge(b, ready_ns(&b->s->collectives[i]), true));
    qsort(b->edges, b->n_edges, sizeof *b->edges, by_time);
    for (size_t i = 1; i < b->n_edges; i++) {
        if (b->edges[i].at_ns != b->edges[n].at_ns)
            b->edges[++n] = b->edges[i];
        b->edges[n].cut = b->edges[n].cut || b->edges[i].cut;
    }
    b->n_edges = n + 1;
    return LK_OK;
}

/* Return the range that the rank spends the time from an instant on, or NULL: it waits, or idles.
 * Work comes before waiting for input, which another thread may do meanwhile. */
static const struct lk_range *range_at(const struct builder *b, uint64_t at_ns, size_t *stall)
{
    const struct lk_step *p = b->p;
    const struct lk_range *found = NULL;
    bool stalled;

    while (*stall < b->s->stalls.n && b->s->stalls.at[*stall].end_ns <= at_ns)
        ++*stall;
    stalled = *stall < b->s->stalls.n && b->s->stalls.at[*stall].start_ns <= at_ns;
    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++) {
        const struct lk_range *r = &b->s->ranges[i];

        if (r->start_ns > at_ns)
            break;
        if (r->end_ns <= at_ns || (stalled && r->kind != LK_SPAN_INPUT))
            continue;
        if (!found || found->kind == LK_SPAN_INPUT)
            found = r;
    }
    return found;
}

static enum lk_status find_stretches(struct builder *b)
{
    size_t stall = 0;

    for (size_t i = 0; i + 1 < b->n_edges; i++) {
        const struct edge *e = &b->edges[i];
        struct stretch x = {us_of(b, e->at_ns), us_of(b, e[1].at_ns),
                            range_at(b, e->at_ns, &stall)};
        struct stretch *last = b->n_stretches ? &b->stretches[b->n_stretches - 1] : NULL;

        if (!x.range || x.end_us == x.start_us)
            continue;
        if (last && last->range == x.range && last->end_us == x.start_us && !e->cut) {
            last->end_us = x.end_us;
            continue;
        }
        LK_PASS(lk_array_grow(&b->stretches, &b->stretches_capacity, b->n_stretches + 1, sizeof x));
        b->stretches[b->n_stretches++] = x;
    }
    return LK_OK;
}

/* ---- Collectives ---- */

/* Tell which of Chakra's collectives it is, and its size: an all-gather's is what one rank puts in.
 */
static enum lk_status describe_collective(const struct builder *b, const struct lk_collective *x,
                                          struct lk_chakra_node *out)
{
    const struct lk_run_info *info = &b->t->info;
    const struct lk_span span = {.kind = LK_SPAN_COLLECTIVE, .name = x->name};
    const char *name = x->name          ? lk_trace_span_name(b->t, &span)
                       : x->bucket >= 0 ? lk_coll_name(LK_ALL_REDUCE)
                                        : "a collective that the trace does not name";

    if (!lk_coll_find(name, strlen(name), &out->coll) || lk_coll_chakra(out->coll) < 0)
        return lk_fail(LK_EEVIDENCE, "rank %d, step %u: %s: Chakra has no such collective",
                       info->rank, x->step, name);
    out->bytes = x->bytes;
    if (!x->bytes && out->coll != LK_BARRIER)
        return lk_fail(LK_EEVIDENCE, "rank %d, step %u: the size of %s %u is not known", info->rank,
                       x->step, name, x->seq & 0xFFFF);
    if (out->coll == LK_ALL_GATHER)
        out->bytes = x->bytes / (uint64_t)info->world_size;
    out->dtype = x->bucket >= 0 && info->n_tensors ? lk_dtype_name(info->tensors[0].dtype) : NULL;
    for (size_t i = 1; i < info->n_tensors; i++)
        if (info->tensors[i].dtype != info->tensors[0].dtype)
            out->dtype = NULL;
    return LK_OK;
}

static enum lk_status add_collective(struct builder *b, const struct lk_collective *x)
{
    struct lk_chakra_node node = {.type = LK_CHAKRA_COMM_COLL};
    uint64_t ready_us = us_of(b, ready_ns(x)), end_us = us_of(b, x->end_ns);
    struct lk_chakra_node *added;
    size_t i = b->n_own;

    LK_PASS(describe_collective(b, x, &node));
    snprintf(node.name, sizeof node.name, "%s_%zu", lk_coll_name(node.coll), b->n_collectives);
    LK_PASS(lk_chakra_add(&b->g, &node));
    while (i > 0 && b->g.nodes[b->own[i - 1]].end_us > ready_us)
        i--;
    if (i > 0)
        LK_PASS(lk_chakra_depend(&b->g, b->own[i - 1]));
    if (b->n_collectives)
        LK_PASS(lk_chakra_depend(&b->g, b->collectives[b->n_collectives - 1]));
    added = &b->g.nodes[b->g.n - 1];
    added->start_us = lk_chakra_earliest_us(&b->g);
    added->end_us = end_us > added->start_us ? end_us : added->start_us;
    b->collectives[b->n_collectives++] = b->g.n - 1;
    return LK_OK;
}

/* Add the collectives that were ready at a time, in their order. */
static enum lk_status add_collectives(struct builder *b, uint64_t until_us)
{
    while (b->n_collectives < b->p->n_collectives) {
        const struct lk_collective *x =
            &b->s->collectives[b->p->first_collective + b->n_collectives];

        if (us_of(b, ready_ns(x)) > until_us)
            break;
        LK_PASS(add_collective(b, x));
    }
    return LK_OK;
}

/* ---- The rank's own nodes ---- */

static enum lk_status add_own(struct builder *b, const struct lk_chakra_node *node)
{
    LK_PASS(lk_array_grow(&b->own, &b->own_capacity, b->n_own + 1, sizeof *b->own));
    LK_PASS(lk_chakra_add(&b->g, node));
    if (b->n_own)
        LK_PASS(lk_chakra_depend(&b->g, b->own[b->n_own - 1]));
    b->own[b->n_own++] = b->g.n - 1;
    return LK_OK;
}

/* Let the last node, which starts at a time, depend on the collectives that ended by then while the
 * rank did not work, or on all that ended by then. */
static enum lk_status depend_on_ended(struct builder *b, uint64_t at_us, bool all)
{
    for (size_t i = 0; i < b->n_collectives; i++) {
        uint64_t end_us = b->g.nodes[b->collectives[i]].end_us;

        if (end_us <= at_us && (all || end_us > b->worked_us))
            LK_PASS(lk_chakra_depend(&b->g, b->collectives[i]));
    }
    return LK_OK;
}

/* Add idle time up to `until_us` if the last node, which is to be there, could start before. Its
 * dependencies become the idle time's. */
static enum lk_status fill_gap(struct builder *b, uint64_t until_us)
{
    struct lk_chakra_node *last = &b->g.nodes[b->g.n - 1], then = *last;
    uint64_t from_us = lk_chakra_earliest_us(&b->g);

    if (from_us >= until_us)
        return LK_OK;
    *last = (struct lk_chakra_node){.name = "idle",
                                    .type = LK_CHAKRA_COMP,
                                    .phase = LK_CHAKRA_IDLE,
                                    .start_us = from_us,
                                    .end_us = until_us,
                                    .first_dep = last->first_dep,
                                    .n_deps = last->n_deps};
    return add_own(b, &then);
}

static void name_own(struct builder *b, const struct lk_range *r, struct lk_chakra_node *node)
{
    const char *phase = lk_chakra_phase_name(node->phase);

    if (node->phase == LK_CHAKRA_FORWARD || node->phase == LK_CHAKRA_BACKWARD) {
        if (r->micro_batch != b->micro_batch)
            b->parts[LK_CHAKRA_FORWARD] = b->parts[LK_CHAKRA_BACKWARD] = 0;
        b->micro_batch = r->micro_batch;
        snprintf(node->name, sizeof node->name, "%s_%d_%d", phase, r->micro_batch,
                 b->parts[node->phase]++);
    } else {
        snprintf(node->name, sizeof node->name, "%s_%d", phase, b->parts[node->phase]++);
    }
}

static enum lk_status add_stretch(struct builder *b, const struct stretch *x)
{
    static const enum lk_chakra_phase phases[LK_SPAN_KIND_COUNT] = {
        [LK_SPAN_FORWARD] = LK_CHAKRA_FORWARD,
        [LK_SPAN_BACKWARD] = LK_CHAKRA_BACKWARD,
        [LK_SPAN_OPTIMIZER] = LK_CHAKRA_OPTIMIZER,
        [LK_SPAN_INPUT] = LK_CHAKRA_INPUT};
    struct lk_chakra_node node = {.type = LK_CHAKRA_COMP,
                                  .phase = phases[x->range->kind],
                                  .start_us = x->start_us,
                                  .end_us = x->end_us};

    name_own(b, x->range, &node);
    LK_PASS(add_own(b, &node));
    if (node.phase != LK_CHAKRA_INPUT) {
        LK_PASS(depend_on_ended(b, x->start_us, node.phase == LK_CHAKRA_OPTIMIZER));
        b->worked_us = x->end_us;
    }
    return fill_gap(b, x->start_us);
}

/* Add the idle time at the end of the step. */
static enum lk_status add_rest(struct builder *b)
{
    const struct lk_chakra_node node = {.name = "idle",
                                        .type = LK_CHAKRA_COMP,
                                        .phase = LK_CHAKRA_IDLE,
                                        .end_us = us_of(b, b->p->end_ns)};
    struct lk_chakra_node *added;
    uint64_t ended_us = 0;

    for (size_t i = 0; i < b->g.n; i++)
        ended_us = b->g.nodes[i].end_us > ended_us ? b->g.nodes[i].end_us : ended_us;
    if (ended_us >= node.end_us)
        return LK_OK;
    LK_PASS(add_own(b, &node));
    LK_PASS(depend_on_ended(b, node.end_us, false));
    added = &b->g.nodes[b->g.n - 1];
    added->start_us = lk_chakra_earliest_us(&b->g);
    return LK_OK;
}

enum lk_status lk_step_graph(const struct lk_trace *t, const struct lk_rank_steps *s,
                             const struct lk_step *p, struct lk_chakra_graph *out)
{
    struct builder b = {.t = t, .s = s, .p = p};
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&b.collectives, p->n_collectives, sizeof *b.collectives));
    LK_TRY(find_edges(&b));
    LK_TRY(find_stretches(&b));
    for (size_t i = 0; i < b.n_stretches; i++) {
        LK_TRY(add_collectives(&b, b.stretches[i].start_us));
        LK_TRY(add_stretch(&b, &b.stretches[i]));
    }
    LK_TRY(add_collectives(&b, UINT64_MAX));
    LK_TRY(add_rest(&b));
    *out = b.g;
    b.g = (struct lk_chakra_graph){0};
out:
    free(b.edges);
    free(b.stretches);
    free(b.own);
    free(b.collectives);
    lk_chakra_graph_fini(&b.g);
    return st;
}
