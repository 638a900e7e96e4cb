#include "facts/chakra.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

const struct lk_words lk_chakra_type_words = LK_WORDS("a type of node", LK_CHAKRA_TYPE_LIST);
const struct lk_words lk_chakra_phase_words = LK_WORDS("a phase", LK_CHAKRA_PHASE_LIST);

void lk_chakra_graph_fini(struct lk_chakra_graph *g)
{
    free(g->nodes);
    free(g->deps);
    *g = (struct lk_chakra_graph){0};
}

enum lk_status lk_chakra_add(struct lk_chakra_graph *g, const struct lk_chakra_node *node)
{
    LK_PASS(lk_array_grow(&g->nodes, &g->capacity, g->n + 1, sizeof *g->nodes));
    g->nodes[g->n] = *node;
    g->nodes[g->n].first_dep = g->n_deps;
    g->nodes[g->n].n_deps = 0;
    g->n++;
    return LK_OK;
}

enum lk_status lk_chakra_depend(struct lk_chakra_graph *g, size_t on)
{
    struct lk_chakra_node *last = &g->nodes[g->n - 1];

    for (size_t i = last->first_dep; i < g->n_deps; i++)
        if (g->deps[i] == on)
            return LK_OK;
    LK_PASS(lk_array_grow(&g->deps, &g->deps_capacity, g->n_deps + 1, sizeof *g->deps));
    g->deps[g->n_deps++] = on;
    last->n_deps++;
    return LK_OK;
}

uint64_t lk_chakra_earliest_us(const struct lk_chakra_graph *g)
{
    const struct lk_chakra_node *last = &g->nodes[g->n - 1];
    uint64_t at = 0;

    for (size_t i = 0; i < last->n_deps; i++) {
        uint64_t end = g->nodes[g->deps[last->first_dep + i]].end_us;

        at = end > at ? end : at;
    }
    return at;
}
