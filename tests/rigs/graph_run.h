/*
 * Runs a graph of kernels/attention_graph.h on the host, node by node, in double. Nothing is fused:
 * every node's whole result is stored, then the next is computed from it.
 */
#ifndef LK_TESTS_GRAPH_RUN_H
#define LK_TESTS_GRAPH_RUN_H

#include "kernels/attention_graph.h"

/* Elements of memory: as the graph says (bfloat16, float), with virtual tensors rounded likewise;
 * or doubles, and nothing is rounded. */
enum graph_numbers { GRAPH_AS_TYPED, GRAPH_EXACT };

/* Run it. at: the memory of each tensor, by its number; virtual ones and scalars have none. Fails
 * the test if a node's inputs do not fit it. */
void graph_run(const struct lk_attention_graph *g, enum graph_numbers numbers,
               void *const at[LK_ATTENTION_TENSORS_MAX]);

/* Fill `at` of graph_run from the memory of each place. */
void graph_places(const struct lk_attention_graph *g, void *const of[LK_AT_PLACES],
                  void *at[LK_ATTENTION_TENSORS_MAX]);

#endif
