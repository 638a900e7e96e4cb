#include "profiler/import/event_kind.h"

#include "base/array.h"
#include "profiler/import/json_scan.h"

#include <string.h>

/* By the start of a name; the first that fits. */
struct row {
    const char *start;
    enum lk_event_kind kind;
};

static const struct row calls[] = {
    {"cudaLaunch", LK_EVENT_LAUNCH},
    {"cuLaunch", LK_EVENT_LAUNCH},
    {"hipLaunch", LK_EVENT_LAUNCH},
    {"hipExtModuleLaunch", LK_EVENT_LAUNCH},
    {"hipModuleLaunch", LK_EVENT_LAUNCH},
    {"hipExtLaunch", LK_EVENT_LAUNCH},
    {"cudaGraphLaunch", LK_EVENT_LAUNCH},
    {"cuGraphLaunch", LK_EVENT_LAUNCH},
    {"hipGraphLaunch", LK_EVENT_LAUNCH},
    {"cudaMemcpy", LK_EVENT_LAUNCH},
    {"cudaMemset", LK_EVENT_LAUNCH},
    {"cuMemcpy", LK_EVENT_LAUNCH},
    {"cuMemset", LK_EVENT_LAUNCH},
    {"hipMemcpy", LK_EVENT_LAUNCH},
    {"hipMemset", LK_EVENT_LAUNCH},
    {"cudaStreamSynchronize", LK_EVENT_SYNC},
    {"cudaDeviceSynchronize", LK_EVENT_SYNC},
    {"cudaEventSynchronize", LK_EVENT_SYNC},
    {"hipStreamSynchronize", LK_EVENT_SYNC},
    {"hipDeviceSynchronize", LK_EVENT_SYNC},
    {"hipEventSynchronize", LK_EVENT_SYNC},
};

static const struct row ranges[] = {
    {"ProfilerStep#", LK_EVENT_STEP},
    {"enumerate(DataLoader)#", LK_EVENT_INPUT},
    {"DistributedDataParallel.forward", LK_EVENT_FORWARD},
    {"autograd::engine::evaluate_function", LK_EVENT_BACKWARD},
    {"torch::autograd::AccumulateGrad", LK_EVENT_GRADIENT},
    {"Optimizer.step#", LK_EVENT_OPTIMIZER},
    {"c10d::allreduce_", LK_EVENT_ENQUEUE},
    {"nccl:", LK_EVENT_COLLECTIVE},
    {"gloo:", LK_EVENT_COLLECTIVE},
    {"mpi:", LK_EVENT_COLLECTIVE},
};

/* NCCL's kernels have the name of their collective in theirs. */
static const struct {
    const char *in, *function;
} of_kernels[] = {
    {"AllReduce", "all_reduce"}, {"AllGather", "all_gather"}, {"ReduceScatter", "reduce_scatter"},
    {"Broadcast", "broadcast"},  {"SendRecv", "send_recv"},   {"Reduce_", "reduce"},
};

static bool find(const struct row *rows, size_t n_rows, const char *name, size_t n,
                 enum lk_event_kind *out)
{
    for (size_t i = 0; i < n_rows; i++) {
        size_t m = strlen(rows[i].start);

        if (n >= m && !memcmp(name, rows[i].start, m)) {
            *out = rows[i].kind;
            return true;
        }
    }
    return false;
}

bool lk_event_kind_of_call(const char *name, size_t n, enum lk_event_kind *out)
{
    return find(calls, LK_COUNT(calls), name, n, out);
}

bool lk_event_kind_of_range(const struct lk_events *e, const char *name, size_t n,
                            enum lk_event_kind *out)
{
    size_t m = e->step_range ? strlen(e->step_range) : 0;

    if (m > 0 && n >= m && !memcmp(name, e->step_range, m)) {
        *out = LK_EVENT_STEP;
        return true;
    }
    return find(ranges, LK_COUNT(ranges), name, n, out);
}

uint32_t lk_event_step_number(const char *name, size_t n)
{
    const char *mark = memchr(name, '#', n);
    int64_t v = 0;

    if (mark)
        (void)lk_scan_fixed(mark + 1, n - (size_t)(mark - name) - 1, 0, &v);
    return v >= 0 && v < UINT32_MAX ? (uint32_t)v : 0;
}

const char *lk_event_function_of_kernel(const char *name)
{
    for (size_t i = 0; i < LK_COUNT(of_kernels); i++)
        if (strstr(name, of_kernels[i].in))
            return of_kernels[i].function;
    return "";
}
