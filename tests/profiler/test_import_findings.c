/* Findings about imported traces: what the job itself does. */
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define WAIT(ts, dur)                                                                              \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaStreamSynchronize\",\"pid\":9,\"tid\":" \
    "5,"                                                                                           \
    "\"ts\":" #ts ",\"dur\":" #dur "},"
#define WAITING(n, t, t10, t12, t34, t40, t45, t60, t70, t85, t92, l)                              \
    RANGE("ProfilerStep#" #n, 5, t, 100)                                                           \
    CALL(5, t10, 2, 1##l)                                                                          \
    WAIT(t12, 18)                                                                                  \
    CALL(5, t34, 2, 2##l)                                                                          \
    OP("autograd::engine::evaluate_function: A", 6, t45, 20)                                       \
    CALL(6, t45, 2, 3##l)                                                                          \
    RANGE("Optimizer.step#SGD.step", 5, t70, 20)                                                   \
    CALL(5, t70, 2, 4##l)                                                                          \
    WAIT(t92, 5)                                                                                   \
    KERNEL("a", 7, t12, 18, 1##l)                                                                  \
    KERNEL("b", 7, t40, 20, 2##l)                                                                  \
    KERNEL("c", 7, t60, 20, 3##l)                                                                  \
    KERNEL("d", 7, t85, 5, 4##l)

#define READ(ts, bytes, link)                                                                      \
    CALL(5, ts, 1, link)                                                                           \
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH (Device -> "                      \
    "Pageable)\",\"pid\":1,"                                                                       \
    "\"tid\":7,\"ts\":" #ts                                                                        \
    ",\"dur\":1,\"args\":{\"stream\":7,\"device\":1,\"correlation\":" #link ",\"bytes\":" #bytes   \
    "}},"

/* The host waits for kernel a and launches b after that: the GPU is idle for 10 us. The wait at the
 * step's end keeps nothing of the step back. If it reads a small result then, in every step, that
 * is the cause. */
START_TEST(hidden_synchronisation_is_a_finding)
{
    static const char *const parts[] = {
        HEAD WAITING(1, 0, 10, 12, 34, 40, 45, 60, 70, 85, 92, 1)
            WAITING(2, 100, 110, 112, 134, 140, 145, 160, 170, 185, 192, 2),
        TAIL};
    static const char *const reads[] = {"", READ(28, 4, 91) READ(128, 8, 92),
                                        READ(28, 8000, 91) READ(128, 8000, 92), READ(28, 4, 91)};
    char text[8192], *path;
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    bool found = false, logs = false;

    snprintf(text, sizeof text, "%s%s%s", parts[0], reads[_i], parts[1]);
    path = scratch_put("rank1.json", text, strlen(text));
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    for (size_t i = 0; i < a.n_findings; i++) {
        if (a.findings[i].id == LK_FINDING_LOGGING) {
            logs = true;
            ck_assert_ptr_nonnull(strstr(a.findings[i].text, "(at most 8 B)"));
            ck_assert_double_eq_tol(a.findings[i].cost_s, 10e-6, 1e-12);
        }
        if (!strncmp(a.findings[i].text, "hidden synchronisation: 1.0 times a step", 40)) {
            found = true;
            ck_assert_double_eq_tol(a.findings[i].cost_s, 10e-6, 1e-12);
            ck_assert_ptr_nonnull(strstr(a.findings[i].text, "cudaStreamSynchronize"));
            ck_assert((a.findings[i].cause >= 0) == (_i == 1));
        }
    }
    ck_assert(found);
    ck_assert(logs == (_i == 1));
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

#define MAP(ts, dur, link, elements)                                                               \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce(x)\",\"pid\":1,"          \
    "\"tid\":20,\"ts\":" #ts ",\"dur\":" #dur ",\"args\":{\"stream\":20,\"device\":1,"             \
    "\"correlation\":" #link ",\"Collective name\":\"allreduce\",\"In msg nelems\":" #elements     \
    ",\"Out msg nelems\":" #elements ",\"Group size\":4,\"dtype\":\"Int\"}},"
#define SEARCHING(n, t, t10, t30, t40, t41, t42, t43, t45, t55, t60, t70, t85, t96, t110, l,       \
                  parameters)                                                                      \
    RANGE("ProfilerStep#" #n, 5, t, 100)                                                           \
    CALL(5, t10, 2, 1##l)                                                                          \
    OP("autograd::engine::evaluate_function: A", 6, t40, 20)                                       \
    CALL(6, t40, 1, 2##l)                                                                          \
    OP("torch::autograd::AccumulateGrad", 6, t41, 1)                                               \
    OP("torch::autograd::AccumulateGrad", 6, t42, 1)                                               \
    OP("torch::autograd::AccumulateGrad", 6, t43, 1)                                               \
    CALL(6, t45, 1, 3##l)                                                                          \
    CALL(6, t55, 1, 4##l)                                                                          \
    RANGE("Optimizer.step#SGD.step", 5, t70, 20)                                                   \
    CALL(5, t70, 2, 5##l)                                                                          \
    KERNEL("fwd", 7, t30, 20, 1##l)                                                                \
    KERNEL("bwd", 7, t60, 20, 2##l)                                                                \
    REDUCE(t85, 10, 3##l, 1000)                                                                    \
    MAP(t96, 4, 4##l, parameters)                                                                  \
    KERNEL("sgd", 7, t110, 5, 5##l)

/* DDP's map of used parameters is no bucket. Three parameters, three gradients: nothing is unused;
 * of four parameters one is. */
START_TEST(unused_parameters_are_told)
{
    static const char used[] =
        HEAD SEARCHING(1, 0, 10, 30, 40, 41, 42, 43, 45, 55, 60, 70, 85, 96, 110, 1, 3) TAIL;
    static const char unused[] =
        HEAD SEARCHING(1, 0, 10, 30, 40, 41, 42, 43, 45, 55, 60, 70, 85, 96, 110, 1, 4) TAIL;
    char *path = scratch_put("rank1.json", _i ? unused : used, sizeof used - 1);
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    bool found = false;

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.traces[0].info.n_tensors, 1); /* the bucket */
    ck_assert_uint_eq(kineto_span(&run.traces[0], LK_SPAN_COLLECTIVE, 1, -1)->bytes, _i ? 16 : 12);
    must(lk_run_take("imported", run.traces, 1, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    for (size_t i = 0; i < a.n_findings; i++)
        if (a.findings[i].id == LK_FINDING_UNUSED_PARAMETERS) {
            found = true;
            ck_assert_ptr_nonnull(strstr(a.findings[i].text, "has 3 gradients"));
            ck_assert_double_eq_tol(a.findings[i].cost_s, 4e-6, 1e-12);
        }
    ck_assert(found == (_i == 0));
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

SUITE(import_findings, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, hidden_synchronisation_is_a_finding, 0, 4);
    tcase_add_loop_test(t, unused_parameters_are_told, 0, 2);
}
