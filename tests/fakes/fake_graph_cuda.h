/* Private to the fake machine (tests/fakes/fake_cuda.h): graphs. pre of all: its lock is held. */
#ifndef LK_TESTS_FAKE_GRAPH_CUDA_H
#define LK_TESTS_FAKE_GRAPH_CUDA_H

#include "tests/fakes/fake_cuda.h"

#define FAKE_NO_NODE SIZE_MAX

struct fake_node {
    struct fake_work work;
    size_t before, other; /* nodes that must run first: in its stream, by a wait; or none */
};

struct fake_graph {
    struct fake_stream *origin;
    struct fake_node *nodes;
    size_t n, capacity;
    int refs;
    bool spoilt;
};

struct fake_graph *fake_graph_create(struct fake_stream *origin);
/* Invalidate the current capture because of e. pre: there is one. */
cudaError_t fake_spoil(cudaError_t e);
/* Add a node behind the stream's last one. */
size_t fake_graph_add(struct fake_graph *g, struct fake_stream *s, const struct fake_work *w,
                      size_t other);
/* Return true if all nodes precede the end of the first stream. */
bool fake_graph_joined(const struct fake_graph *g);
void fake_graph_release(struct fake_graph *g);
/* Return a runnable node, marked as run: the last one or a random one. NULL: all have run. */
const struct fake_node *fake_graph_next(const struct fake_graph *g, struct fake_stream *s);

#endif
