/*
 * A fake of cuDNN's graph API on the host, for tests: it takes descriptors as documented (cuDNN
 * backend API reference), and cudnnBackendExecute runs the graph that it was given, node by node
 * (tests/rigs/graph_run.h), on the addresses of the pack. Strict where the documentation is:
 * attributes belong to their kind of descriptor, are set once before the descriptor is finished,
 * and are read after; every tensor that is not virtual has an address; memory is aligned as
 * promised; the workspace has the size of the plan, all of which is overwritten. The heuristic
 * gives two engines. Misuse is refused, and fake_cudnn.why names it.
 *
 * Not modelled: which patterns the library fuses. Its own word on that is asked for in
 * tests/kernels/test_dnn_plans_cuda.c.
 */
#ifndef LK_TESTS_FAKE_CUDNN_CUDA_H
#define LK_TESTS_FAKE_CUDNN_CUDA_H

#include "kernels/calls_dnn_cuda.h"

#include <stdbool.h>
#include <stddef.h>

struct fake_cudnn {
    int alive;       /* handles, descriptors and memory */
    int plans, runs; /* made; executed */
    size_t version;
    size_t workspace_bytes;        /* that plans ask for */
    int64_t engine;                /* of the last plan */
    cudaStream_t stream;           /* of the handle */
    bool no_engine;                /* the heuristic finds none */
    int engines_that_fail;         /* the first ones make no plan, ... */
    int plans_before;              /* ... but so many plans before they fail */
    cudnnStatus_t plans_fail_with; /* 0: NOT_SUPPORTED */
    int fail_at;                   /* number, from 1, of the call that fails; 0: none */
    int calls;
    cudnnStatus_t fail_with;
    bool no_memory;
    bool idle; /* a plan that is executed is checked, and not run */
    char why[160];
};
extern struct fake_cudnn fake_cudnn;
extern const struct lk_dnn_calls fake_cudnn_calls;

void fake_cudnn_reset(void);

#endif
