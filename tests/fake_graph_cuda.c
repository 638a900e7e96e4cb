/* Graphs of the machine without GPUs; see the header. */
#include "tests/fake_graph_cuda.h"

#include "base/array.h"

#include <check.h>
#include <stdlib.h>

struct fake_graph *fake_graph_create(struct fake_stream *origin)
{
    struct fake_graph *g = calloc(1, sizeof *g);

    ck_assert_ptr_nonnull(g);
    g->origin = origin;
    g->refs = 1;
    fake_cuda.graphs_alive++;
    return g;
}

size_t fake_graph_add(struct fake_graph *g, struct fake_stream *s, const struct fake_work *w,
                      size_t other)
{
    ck_assert_int_eq(lk_array_grow(&g->nodes, &g->capacity, g->n + 1, sizeof *g->nodes), LK_OK);
    g->nodes[g->n] = (struct fake_node){.work = *w, .before = s->tail, .other = other};
    s->tail = g->n;
    return g->n++;
}

bool fake_graph_joined(const struct fake_graph *g)
{
    bool *needed = calloc(g->n + 1, sizeof *needed), all = true;

    ck_assert_ptr_nonnull(needed);
    if (g->n > 0 && g->origin->tail != FAKE_NO_NODE)
        needed[g->origin->tail] = true;
    for (size_t i = g->n; i > 0; i--) {
        const struct fake_node *node = &g->nodes[i - 1];

        all &= needed[i - 1];
        if (node->before != FAKE_NO_NODE)
            needed[node->before] |= needed[i - 1];
        if (node->other != FAKE_NO_NODE)
            needed[node->other] |= needed[i - 1];
    }
    free(needed);
    return all;
}

void fake_graph_release(struct fake_graph *g)
{
    if (!g || --g->refs > 0)
        return;
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i].work.kind == WORK_OP)
            free(g->nodes[i].work.arg);
    free(g->nodes);
    free(g);
    fake_cuda.graphs_alive--;
}

static bool can_run(const struct fake_graph *g, const bool *ran, size_t i)
{
    const struct fake_node *node = &g->nodes[i];

    return !ran[i] && (node->before == FAKE_NO_NODE || ran[node->before]) &&
           (node->other == FAKE_NO_NODE || ran[node->other]);
}

const struct fake_node *fake_graph_next(const struct fake_graph *g, struct fake_stream *s,
                                        uint64_t (*draw)(uint64_t below))
{
    size_t chosen = FAKE_NO_NODE, able = 0;

    if (!s->ran) {
        s->ran = calloc(g->n + 1, sizeof *s->ran);
        ck_assert_ptr_nonnull(s->ran);
    }
    /* The k-th of those that can run replaces the choice one time in k: each is as likely. */
    for (size_t i = 0; i < g->n; i++)
        if (can_run(g, s->ran, i) && (!fake_cuda.seed || draw(++able) == 0))
            chosen = i;
    if (chosen == FAKE_NO_NODE) {
        free(s->ran);
        s->ran = NULL;
        return NULL;
    }
    s->ran[chosen] = true;
    return &g->nodes[chosen];
}
