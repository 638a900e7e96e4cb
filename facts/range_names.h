/* Names of ranges that PyTorch and its libraries emit, and that importers know: of profilers' files
 * (profiler/import/event_kind.h), and of NVTX in foreign processes (preload/nvtx.c). */
#ifndef LK_FACTS_RANGE_NAMES_H
#define LK_FACTS_RANGE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* X(start of the name, kind of event): the first that fits counts. */
#define LK_RANGE_LIST(X)                                                                           \
    X("ProfilerStep#", STEP)                                                                       \
    X("enumerate(DataLoader)#", INPUT)                                                             \
    X("DistributedDataParallel.forward", FORWARD)                                                  \
    X("autograd::engine::evaluate_function", BACKWARD)                                             \
    X("torch::autograd::AccumulateGrad", GRADIENT)                                                 \
    X("Optimizer.step#", OPTIMIZER)                                                                \
    X("c10d::allreduce_", ENQUEUE)                                                                 \
    X("nccl:", COLLECTIVE)                                                                         \
    X("gloo:", COLLECTIVE)                                                                         \
    X("mpi:", COLLECTIVE)

/* Return whether importers know the name. */
static inline bool lk_range_is_known(const char *name)
{
#define LK_RANGE_START_(start, kind) start,
    static const char *const starts[] = {LK_RANGE_LIST(LK_RANGE_START_)};
#undef LK_RANGE_START_

    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(name, starts[i], strlen(starts[i])))
            return true;
    return false;
}

#endif
