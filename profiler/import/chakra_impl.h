/*
 * The graph of a Chakra execution trace, private to profiler/import/chakra*.c: chakra.c and
 * chakra_json.c read its two forms, chakra_attr.c knows the attributes of nodes, chakra_graph.c
 * finds when they ran, chakra_events.c makes events of them.
 *
 * Most traces have durations alone; then the graph is replayed: a node starts when what it depends
 * on has ended and its lane is free, in the order in which nodes became ready, ties in the order of
 * the file. Lanes are the host's threads and the GPU's streams.
 *
 * Control dependencies are order, as ASTRA-sim takes them, unless the graph has a circle with them:
 * then they are callers, as in the traces of older converters, and data dependencies alone count.
 */
#ifndef LK_PROFILER_IMPORT_CHAKRA_IMPL_H
#define LK_PROFILER_IMPORT_CHAKRA_IMPL_H

#include "facts/chakra.h"
#include "facts/coll.h"
#include "profiler/import/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer durations, and more nodes or dependencies, make no sense: a step has thousands of nodes,
 * of milliseconds at most. */
#define LK_ET_DURATION_MAX_US 1000000000000 /* 11 days */
enum { LK_ET_NODES_MAX = 1 << 22, LK_ET_DEPS_MAX = 1 << 25 };
#define LK_ET_NO_NODE UINT32_MAX

struct lk_et_node {
    uint64_t id;
    int64_t given_start_us; /* 0: not given */
    int64_t duration_us;    /* negative, or too long: it makes no sense, and takes no time */
    int64_t start_ns, end_ns;
    int64_t thread, stream; /* -1: not said */
    enum lk_coll coll;      /* if coll_known */
    bool coll_known;
    uint64_t bytes;   /* of a collective, what a rank puts in; of a copy; 0: not known */
    size_t first_dep; /* in the graph's deps: data dependencies, then control ones */
    uint32_t n_data, n_ctrl;
    uint32_t name, group; /* of the events; group 0: not said */
    uint32_t detail;      /* a gradient's, as struct lk_import_event has it */
    uint32_t lane;        /* of the events */
    uint8_t type, phase;  /* enum lk_chakra_type, lk_chakra_phase */
    uint8_t dtype;        /* enum lk_dtype, if dtype_known */
    bool dtype_known, on_host;
};

struct lk_et_graph {
    const char *path;    /* borrowed, for messages */
    struct lk_events *e; /* borrowed: names and lanes are there */
    struct lk_et_node *nodes;
    size_t n, capacity;
    uint64_t *deps; /* ids; indices of nodes once they are resolved */
    size_t n_deps, deps_capacity;
    size_t n_missing;  /* dependencies on nodes that are not in the file */
    bool times_given;  /* start times are those of the file */
    bool ctrl_ignored; /* control dependencies would make a circle */
};

/* ---- chakra_graph.c ---- */

void lk_et_graph_fini(struct lk_et_graph *g); /* zeroes it; safe on a zeroed one */
/* Append a node with the defaults of what a file may leave out. LK_EPARSE: there are too many. */
enum lk_status lk_et_add(struct lk_et_graph *g, struct lk_et_node **out);
/* Append a dependency of the last node, all data ones before the control ones. LK_EPARSE: there are
 * too many. */
enum lk_status lk_et_depend(struct lk_et_graph *g, uint64_t id, bool ctrl);
/* Find lanes, dependencies and times of the nodes. LK_EPARSE: two nodes have one id, or nodes
 * depend on each other in a circle. */
enum lk_status lk_et_run(struct lk_et_graph *g);
/* Return the i-th dependency that counts of a node, or LK_ET_NO_NODE: it is not in the file. pre:
 * lk_et_run; i < lk_et_n_deps. */
uint32_t lk_et_dep(const struct lk_et_graph *g, const struct lk_et_node *node, size_t i);
size_t lk_et_n_deps(const struct lk_et_graph *g, const struct lk_et_node *node);
/* Return the node's duration, us, 0 where it makes no sense. */
int64_t lk_et_duration_us(const struct lk_et_node *node);
bool lk_et_is_comm(const struct lk_et_node *node);

/* ---- chakra_attr.c ---- */

/* Set an attribute of a node, a number (a boolean is 0 or 1) or a text. Others than those that are
 * read are passed over. */
void lk_et_set_number(struct lk_et_node *node, const char *name, size_t n_name, int64_t v);
enum lk_status lk_et_set_text(struct lk_et_graph *g, struct lk_et_node *node, const char *name,
                              size_t n_name, const char *text, size_t n_text);
/* Find out what the node's name says, which is in the events: a pass, or a collective's type of
 * elements. */
void lk_et_use_name(const struct lk_et_graph *g, struct lk_et_node *node);

/* ---- chakra_events.c ---- */

/* Run the graph and give its events, and notes, to g->e. LK_EPARSE: it has no nodes, or as
 * lk_et_run. */
enum lk_status lk_et_events(struct lk_et_graph *g);

#endif
