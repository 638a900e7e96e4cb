/*
 * For tests of importers: Kineto's traces as text, of two steps, and the spans that come of them.
 */
#ifndef LK_TESTS_KINETO_TEXT_H
#define LK_TESTS_KINETO_TEXT_H

#include "facts/trace.h"

#define HEAD                                                                                       \
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 1, \"name\": \"GPU \\\"X\\\"\"}],"     \
    "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, \"world_size\": 4, "                \
    "\"pg_config\": null}, \"INFO\": [\"a\", {\"b\": []}], \"traceEvents\": ["
#define TAIL "], \"traceName\": \"x\", \"baseTimeNanoseconds\": 1000000000000}"
#define KERNEL(name, stream, ts, dur, link)                                                        \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":1,\"tid\":" #stream            \
    ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"device\":1,\"stream\":" #stream                  \
    ",\"correlation\":" #link "}},"
#define CALL(tid, ts, dur, link)                                                                   \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":9,\"tid\":" #tid \
    ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"correlation\":" #link "}},"
#define RANGE(name, tid, ts, dur)                                                                  \
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"" name "\",\"pid\":9,\"tid\":" #tid      \
    ",\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"External id\":1}},"
#define OP(name, tid, ts, dur)                                                                     \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":9,\"tid\":" #tid               \
    ",\"ts\":" #ts ",\"dur\":" #dur "},"
#define REDUCE(ts, dur, link, elements)                                                            \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_Generic(x)\",\"pid\":1,"            \
    "\"tid\":20,\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"stream\":20,\"device\":1,"             \
    "\"correlation\":" #link ",\"Collective name\":\"allreduce\",\"In msg nelems\":" #elements     \
    ",\"Out msg nelems\":" #elements ",\"Group size\":4,\"dtype\":\"BFloat16\"}},"

/*
 * Two steps, us. Step 7: host 0 to 100. Forward launched 10, 20 (runs 30-40, 40-60); backward on
 * the autograd thread, launched 40, 50 (60-80, 80-100); buckets launched 45 (ready at 80, runs
 * 85-95) and 55 (ready at 100, due at 100, runs 104-110); optimizer launched 70 (110-115). Step 8
 * the same, 200 us later. A kernel of before has no launch.
 */
#define STEP(number, t0, t10, t20, t30, t40, t45, t50, t55, t60, t70, t80, t85, t104, t110, l)     \
    RANGE("ProfilerStep#" #number, 5, t0, 100)                                                     \
    RANGE("DistributedDataParallel.forward", 5, t0, 30)                                            \
    CALL(5, t10, 2, 1##l)                                                                          \
    CALL(5, t20, 2, 2##l)                                                                          \
    OP("autograd::engine::evaluate_function: A", 6, t40, 6)                                        \
    CALL(6, t40, 2, 3##l)                                                                          \
    CALL(6, t45, 1, 4##l)                                                                          \
    OP("autograd::engine::evaluate_function: B", 6, t50, 8)                                        \
    CALL(6, t50, 2, 5##l)                                                                          \
    CALL(6, t55, 1, 6##l)                                                                          \
    RANGE("Optimizer.step#SGD.step", 5, t70, 20)                                                   \
    CALL(5, t70, 2, 7##l)                                                                          \
    REDUCE(t85, 10, 4##l, 1000)                                                                    \
    REDUCE(t104, 6, 6##l, 500)                                                                     \
    KERNEL("gemm", 7, t30, 10, 1##l)                                                               \
    KERNEL("gemm", 7, t40, 20, 2##l)                                                               \
    KERNEL("bwd", 7, t60, 20, 3##l)                                                                \
    KERNEL("bwd", 7, t80, 20, 5##l)                                                                \
    KERNEL("sgd", 7, t110, 5, 7##l)

/* The head, both steps, and the tail: C has a limit for one text. */
enum { KINETO_PARTS = 4 };
extern const char *const kineto_parts[KINETO_PARTS];

/* Return the first such span of a trace; the test fails without one. */
const struct lk_span *kineto_span(const struct lk_trace *t, enum lk_span_kind kind, uint32_t step,
                                  int32_t index);
/* Fail the test if a span of these traces does not start and end then. */
void kineto_assert_span(const struct lk_span *s, uint64_t start_us, uint64_t end_us);

#endif
