/* Put nodes on lanes and replay their graph. Divisions: nodes, dependencies, lanes, the replay. */
#include "profiler/import/chakra_impl.h"

#include "base/array.h"

#include <stdlib.h>

/* Times without an origin start at one second, since 0 stands for unknown times elsewhere. */
#define ORIGIN_US 1000000
/* Start times beyond are none: the year 2096. */
#define START_MAX_US 4000000000000000
/* A graph that takes longer makes no sense: 31 years. */
#define END_MAX_US 1000000000000000
/* Streams of GPU nodes that do not say theirs, as in traces of our own simulations. */
enum { COMPUTE_STREAM = 7, COMM_STREAM = 20 };

/* ---- Nodes ---- */

void lk_et_graph_fini(struct lk_et_graph *g)
{
    free(g->nodes);
    free(g->deps);
    *g = (struct lk_et_graph){0};
}

enum lk_status lk_et_add(struct lk_et_graph *g, struct lk_et_node **out)
{
    if (g->n == LK_ET_NODES_MAX)
        return lk_fail(LK_EPARSE, "%s: has more than %d nodes", g->path, LK_ET_NODES_MAX);
    LK_PASS(lk_array_grow(&g->nodes, &g->capacity, g->n + 1, sizeof *g->nodes));
    *out = &g->nodes[g->n++];
    **out = (struct lk_et_node){.thread = -1, .stream = -1, .first_dep = g->n_deps};
    return LK_OK;
}

enum lk_status lk_et_depend(struct lk_et_graph *g, uint64_t id, bool ctrl)
{
    struct lk_et_node *last = &g->nodes[g->n - 1];

    if (g->n_deps == LK_ET_DEPS_MAX)
        return lk_fail(LK_EPARSE, "%s: has more than %d dependencies", g->path, LK_ET_DEPS_MAX);
    LK_PASS(lk_array_grow(&g->deps, &g->deps_capacity, g->n_deps + 1, sizeof *g->deps));
    g->deps[g->n_deps++] = id;
    last->n_ctrl += ctrl;
    last->n_data += !ctrl;
    return LK_OK;
}

int64_t lk_et_duration_us(const struct lk_et_node *node)
{
    return node->duration_us > 0 && node->duration_us <= LK_ET_DURATION_MAX_US ? node->duration_us
                                                                               : 0;
}

bool lk_et_is_comm(const struct lk_et_node *node)
{
    return node->type >= LK_CHAKRA_COMM_SEND && node->type <= LK_CHAKRA_COMM_COLL;
}

/* ---- Dependencies ---- */

struct place {
    uint64_t id;
    uint32_t index;
};

static int by_id(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return LK_ORDER(x->id, y->id);
}

/* Replace ids by indices. */
static enum lk_status resolve(struct lk_et_graph *g)
{
    enum lk_status st = LK_OK;
    struct place *places = NULL;

    LK_TRY(lk_alloc(&places, g->n, sizeof *places));
    for (size_t i = 0; i < g->n; i++)
        places[i] = (struct place){g->nodes[i].id, (uint32_t)i};
    qsort(places, g->n, sizeof *places, by_id);
    for (size_t i = 1; i < g->n; i++)
        if (places[i].id == places[i - 1].id)
            LK_TRY(lk_fail(LK_EPARSE, "%s: two nodes have the id %llu", g->path,
                           (unsigned long long)places[i].id));
    for (size_t i = 0; i < g->n_deps; i++) {
        const struct place key = {.id = g->deps[i]};
        const struct place *found = bsearch(&key, places, g->n, sizeof key, by_id);

        g->deps[i] = found ? found->index : LK_ET_NO_NODE;
        g->n_missing += !found;
    }
out:
    free(places);
    return st;
}

size_t lk_et_n_deps(const struct lk_et_graph *g, const struct lk_et_node *node)
{
    return (size_t)node->n_data + (g->ctrl_ignored ? 0 : node->n_ctrl);
}

uint32_t lk_et_dep(const struct lk_et_graph *g, const struct lk_et_node *node, size_t i)
{
    return (uint32_t)g->deps[node->first_dep + i];
}

/* ---- Lanes ---- */

static enum lk_status find_lanes(struct lk_et_graph *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct lk_et_node *node = &g->nodes[i];
        int64_t thread = node->thread;

        if (!node->on_host)
            thread = node->stream >= 0     ? node->stream
                     : thread >= 0         ? thread /* a GPU's thread is the stream in Kineto */
                     : lk_et_is_comm(node) ? COMM_STREAM
                                           : COMPUTE_STREAM;
        LK_PASS(lk_events_lane(g->e, 0, thread, !node->on_host, &node->lane));
    }
    return LK_OK;
}

/* ---- The replay ---- */

/* A replay in progress: who waits for whom, and the nodes that wait for their lane alone. */
struct replay {
    struct lk_et_graph *g;
    size_t *first_child; /* in children, of each node and behind the last */
    uint32_t *children;
    uint32_t *n_open;  /* dependencies that have not ended */
    int64_t *ready_us; /* the last end among those that have */
    int64_t *lane_us;  /* when the lane is free */
    uint32_t *heap;    /* nodes without open dependencies, the first to be ready on top */
    size_t n_heap, n_ended;
    int64_t end_us;
};

static void replay_fini(struct replay *r)
{
    free(r->first_child);
    free(r->children);
    free(r->n_open);
    free(r->ready_us);
    free(r->lane_us);
    free(r->heap);
}

static enum lk_status replay_init(struct replay *r, struct lk_et_graph *g)
{
    r->g = g;
    LK_PASS(lk_alloc(&r->first_child, g->n + 1, sizeof *r->first_child));
    LK_PASS(lk_alloc(&r->children, g->n_deps, sizeof *r->children));
    LK_PASS(lk_alloc(&r->n_open, g->n, sizeof *r->n_open));
    LK_PASS(lk_alloc(&r->ready_us, g->n, sizeof *r->ready_us));
    LK_PASS(lk_alloc(&r->lane_us, g->e->n_lanes, sizeof *r->lane_us));
    return lk_alloc(&r->heap, g->n, sizeof *r->heap);
}

/* List each node's children. */
static void find_children(struct replay *r)
{
    const struct lk_et_graph *g = r->g;
    size_t sum = 0;

    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < lk_et_n_deps(g, &g->nodes[i]); k++) {
            uint32_t on = lk_et_dep(g, &g->nodes[i], k);

            if (on != LK_ET_NO_NODE) {
                r->first_child[on]++;
                r->n_open[i]++;
            }
        }
    for (size_t i = 0; i <= g->n; i++) {
        size_t n = i < g->n ? r->first_child[i] : 0;

        r->first_child[i] = sum;
        sum += n;
    }
    /* Each list is filled from its end: first_child is moved to its start by that. */
    for (size_t i = 0; i < g->n; i++)
        r->first_child[i] = r->first_child[i + 1];
    for (size_t i = g->n; i-- > 0;)
        for (size_t k = lk_et_n_deps(g, &g->nodes[i]); k-- > 0;) {
            uint32_t on = lk_et_dep(g, &g->nodes[i], k);

            if (on != LK_ET_NO_NODE)
                r->children[--r->first_child[on]] = (uint32_t)i;
        }
}

static bool before(const struct replay *r, uint32_t a, uint32_t b)
{
    return r->ready_us[a] != r->ready_us[b] ? r->ready_us[a] < r->ready_us[b] : a < b;
}

static void push(struct replay *r, uint32_t node)
{
    size_t i = r->n_heap++;

    while (i > 0 && before(r, node, r->heap[(i - 1) / 2])) {
        r->heap[i] = r->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    r->heap[i] = node;
}

static uint32_t pop(struct replay *r)
{
    uint32_t top = r->heap[0], last = r->heap[--r->n_heap];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < r->n_heap; i = child) {
        if (child + 1 < r->n_heap && before(r, r->heap[child + 1], r->heap[child]))
            child++;
        if (!before(r, r->heap[child], last))
            break;
        r->heap[i] = r->heap[child];
    }
    r->heap[i] = last;
    return top;
}

/* Run a node, which is ready, as soon as its lane is free. Metadata needs no lane. */
static void run(struct replay *r, uint32_t index)
{
    struct lk_et_node *node = &r->g->nodes[index];
    int64_t *lane = node->type == LK_CHAKRA_METADATA ? NULL : &r->lane_us[node->lane];
    int64_t start = r->ready_us[index];
    int64_t end;

    start = lane && *lane > start ? *lane : start;
    end = start + (lane ? lk_et_duration_us(node) : 0);
    if (lane)
        *lane = end;
    node->start_ns = start;
    node->end_ns = end;
    r->end_us = end > r->end_us ? end : r->end_us;
    r->n_ended++;
    for (size_t i = r->first_child[index]; i < r->first_child[index + 1]; i++) {
        uint32_t child = r->children[i];

        r->ready_us[child] = end > r->ready_us[child] ? end : r->ready_us[child];
        if (!--r->n_open[child])
            push(r, child);
    }
}

/* Return a dependency that a node still waits for. pre: it waits for one. */
static uint32_t waits_for(const struct replay *r, uint32_t node)
{
    const struct lk_et_graph *g = r->g;
    size_t k = 0;
    uint32_t on;

    do
        on = lk_et_dep(g, &g->nodes[node], k++);
    while (on == LK_ET_NO_NODE || !r->n_open[on]);
    return on;
}

/* Fail with a node of the circle that kept nodes from running: who goes back from one that waits to
 * one that it waits for comes to the circle, and is in it at the first node seen twice. */
static enum lk_status fail_circle(const struct replay *r)
{
    const struct lk_et_graph *g = r->g;
    uint32_t at = 0;

    while (!r->n_open[at])
        at++;
    for (; r->ready_us[at] >= 0; at = waits_for(r, at))
        r->ready_us[at] = -1;
    return lk_fail(LK_EPARSE, "%s: nodes depend on each other in a circle: one is %llu, '%.80s'",
                   g->path, (unsigned long long)g->nodes[at].id,
                   lk_events_text(g->e, g->nodes[at].name));
}

/* Replay the graph; times are us from 0 in start_ns and end_ns. *circle: it has one. */
static enum lk_status replay(struct lk_et_graph *g, bool *circle)
{
    enum lk_status st = LK_OK;
    struct replay r = {0};

    LK_TRY(replay_init(&r, g));
    find_children(&r);
    for (size_t i = 0; i < g->n; i++)
        if (!r.n_open[i])
            push(&r, (uint32_t)i);
    while (r.n_heap > 0)
        run(&r, pop(&r));
    *circle = r.n_ended < g->n;
    if (*circle && g->ctrl_ignored)
        st = fail_circle(&r);
    else if (r.end_us > END_MAX_US)
        st = lk_fail(LK_EPARSE, "%s: its nodes take more than 31 years", g->path);
out:
    replay_fini(&r);
    return st;
}

/* ---- Times ---- */

/* Return true if every node that takes time says when it started. */
static bool have_starts(const struct lk_et_graph *g)
{
    bool any = false;

    for (size_t i = 0; i < g->n; i++) {
        int64_t at = g->nodes[i].given_start_us;

        if (at <= 0 || at > START_MAX_US) {
            if (lk_et_duration_us(&g->nodes[i]) > 0)
                return false;
            continue;
        }
        any = true;
    }
    return any;
}

/* Take the times of the file; a node that takes no time and says none is at the first one's. */
static void take_starts(struct lk_et_graph *g)
{
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < g->n; i++) {
        int64_t at = g->nodes[i].given_start_us;

        first = at > 0 && at < first ? at : first;
    }
    for (size_t i = 0; i < g->n; i++) {
        struct lk_et_node *node = &g->nodes[i];
        int64_t at = node->given_start_us;

        node->start_ns = 1000 * (at > 0 && at <= START_MAX_US ? at : first);
        node->end_ns = node->start_ns + 1000 * lk_et_duration_us(node);
    }
}

enum lk_status lk_et_run(struct lk_et_graph *g)
{
    bool circle = false;

    LK_PASS(find_lanes(g));
    LK_PASS(resolve(g));
    g->times_given = have_starts(g);
    if (g->times_given) {
        take_starts(g);
        return LK_OK;
    }
    LK_PASS(replay(g, &circle));
    if (circle) {
        g->ctrl_ignored = true;
        LK_PASS(replay(g, &circle));
    }
    for (size_t i = 0; i < g->n; i++) {
        g->nodes[i].start_ns = 1000 * (g->nodes[i].start_ns + ORIGIN_US);
        g->nodes[i].end_ns = 1000 * (g->nodes[i].end_ns + ORIGIN_US);
    }
    return LK_OK;
}
