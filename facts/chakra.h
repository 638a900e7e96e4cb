/*
 * Chakra execution traces (MLCommons, schema 0.0.4, schema/protobuf/et_def.proto): the numbers of
 * their fields, words of their enums, and a step of one rank as a graph in their terms. profiler/
 * makes such a graph of a run's step, reports/chakra.h writes it; profiler/import/chakra.h reads
 * files of anybody's.
 *
 * A file is a sequence of messages, each behind its length as a varint: a GlobalMetadata, then a
 * Node each.
 */
#ifndef LK_FACTS_CHAKRA_H
#define LK_FACTS_CHAKRA_H

#include "base/words.h"
#include "facts/coll.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(type, name): types of nodes, by number. */
#define LK_CHAKRA_TYPE_LIST(X)                                                                     \
    X(LK_CHAKRA_INVALID, "INVALID")                                                                \
    X(LK_CHAKRA_METADATA, "METADATA")                                                              \
    X(LK_CHAKRA_MEM_LOAD, "MEM_LOAD")                                                              \
    X(LK_CHAKRA_MEM_STORE, "MEM_STORE")                                                            \
    X(LK_CHAKRA_COMP, "COMP")                                                                      \
    X(LK_CHAKRA_COMM_SEND, "COMM_SEND")                                                            \
    X(LK_CHAKRA_COMM_RECV, "COMM_RECV")                                                            \
    X(LK_CHAKRA_COMM_COLL, "COMM_COLL")                                                            \
    X(LK_CHAKRA_STORAGE, "STORAGE")                                                                \
    X(LK_CHAKRA_BATCH, "BATCH")                                                                    \
    X(LK_CHAKRA_CHECKPOINT, "CHECKPOINT")

/* X(phase, name): what a node of a step is of. The schema has no such field: it is the text of our
 * own attribute LK_CHAKRA_OWN_PHASE, which simulators pass over. */
#define LK_CHAKRA_PHASE_LIST(X)                                                                    \
    X(LK_CHAKRA_UNKNOWN, "unknown")                                                                \
    X(LK_CHAKRA_FORWARD, "forward")                                                                \
    X(LK_CHAKRA_BACKWARD, "backward")                                                              \
    X(LK_CHAKRA_OPTIMIZER, "optimizer")                                                            \
    X(LK_CHAKRA_INPUT, "input")                                                                    \
    X(LK_CHAKRA_IDLE, "idle")

enum lk_chakra_type { LK_CHAKRA_TYPE_LIST(LK_WORD_VALUE) LK_CHAKRA_TYPE_COUNT };
enum lk_chakra_phase { LK_CHAKRA_PHASE_LIST(LK_WORD_VALUE) LK_CHAKRA_PHASE_COUNT };
LK_WORDS_DECLARE(lk_chakra_type, enum lk_chakra_type);
LK_WORDS_DECLARE(lk_chakra_phase, enum lk_chakra_phase);

/* Numbers of fields: of GlobalMetadata, Node, IOInfo, AttributeProto and lists of values. */
enum {
    LK_CHAKRA_META_VERSION = 1,
    LK_CHAKRA_META_ATTR = 2,

    LK_CHAKRA_NODE_ID = 1,
    LK_CHAKRA_NODE_NAME = 2,
    LK_CHAKRA_NODE_TYPE = 3,
    LK_CHAKRA_NODE_CTRL_DEPS = 4,
    LK_CHAKRA_NODE_DATA_DEPS = 5,
    LK_CHAKRA_NODE_START_US = 6,
    LK_CHAKRA_NODE_DURATION_US = 7,
    LK_CHAKRA_NODE_INPUTS = 8,
    LK_CHAKRA_NODE_OUTPUTS = 9,
    LK_CHAKRA_NODE_ATTR = 10,
    LK_CHAKRA_NODE_STORAGE = 11,

    LK_CHAKRA_IO_SHAPES = 2,
    LK_CHAKRA_IO_TYPES = 3,

    LK_CHAKRA_ATTR_NAME = 1,
    LK_CHAKRA_ATTR_INT32 = 7,
    LK_CHAKRA_ATTR_INT64 = 9,
    LK_CHAKRA_ATTR_UINT32 = 11,
    LK_CHAKRA_ATTR_UINT64 = 13,
    LK_CHAKRA_ATTR_SINT32 = 15,
    LK_CHAKRA_ATTR_SINT64 = 17,
    LK_CHAKRA_ATTR_FIXED32 = 19,
    LK_CHAKRA_ATTR_FIXED64 = 21,
    LK_CHAKRA_ATTR_SFIXED32 = 23,
    LK_CHAKRA_ATTR_SFIXED64 = 25,
    LK_CHAKRA_ATTR_BOOL = 27,
    LK_CHAKRA_ATTR_STRING = 29,
};

/* Attributes of our own. */
#define LK_CHAKRA_OWN_PHASE "lockstep_phase"
#define LK_CHAKRA_OWN_DTYPE "lockstep_dtype" /* of a collective's elements, e.g. float32 */

/* A node of a step. Times are whole microseconds, as in the file. */
struct lk_chakra_node {
    char name[48];
    enum lk_chakra_type type; /* COMP or COMM_COLL */
    enum lk_chakra_phase phase;
    uint64_t start_us, end_us; /* where the node runs if every node starts as early as it can */
    enum lk_coll coll; /* of COMM_COLL, with bytes: what a rank puts in; one that Chakra has */
    uint64_t bytes;
    const char *dtype;        /* name of the elements' type; static storage; NULL: not known */
    size_t first_dep, n_deps; /* in the graph's deps */
};

/* Nodes of one rank and step; a node depends on nodes before it alone. */
struct lk_chakra_graph {
    struct lk_chakra_node *nodes;
    size_t n, capacity;
    size_t *deps; /* indices of nodes */
    size_t n_deps, deps_capacity;
};

void lk_chakra_graph_fini(struct lk_chakra_graph *g); /* zeroes it; safe on a zeroed one */
/* Append a node, which has no dependencies yet. */
enum lk_status lk_chakra_add(struct lk_chakra_graph *g, const struct lk_chakra_node *node);
/* Let the last node depend on another, once. */
enum lk_status lk_chakra_depend(struct lk_chakra_graph *g, size_t on);
/* Return the time at which the last node can start, us: its dependencies' last end; 0: none. */
uint64_t lk_chakra_earliest_us(const struct lk_chakra_graph *g);

#endif
