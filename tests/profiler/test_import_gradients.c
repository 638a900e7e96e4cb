/* These tests import a rank and check its gradients: by the shapes in its trace. */
#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/import/import.h"
#include "profiler/import/torch_values.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define GRADIENT(tid, ts, dims)                                                                    \
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"torch::autograd::AccumulateGrad\",\"pid\":9,"     \
    "\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":1,\"args\":{\"Input type\":[\"c10::BFloat16\"],"      \
    "\"Input Dims\":[[" dims "]]}},"
#define GRADIENTS(t40, t44, t52, first)                                                            \
    GRADIENT(6, t40, first) GRADIENT(6, t44, "") GRADIENT(6, t52, "500")

/* Rows: gradients of both steps; the tensors that they give. The recorded buckets are of 1,000 and
 * 500 elements. */
static const struct {
    const char *gradients;
    size_t n_tensors;
} shapes[] = {
    {GRADIENTS(40, 44, 52, "333, 3") GRADIENTS(240, 244, 252, "333, 3"), 3},
    /* The last step is cut off; it is one without gradients. */
    {GRADIENTS(40, 44, 52, "333, 3") GRADIENT(6, 240, "999"), 3},
    /* One more is of an input that requires one; DDP does not reduce it. */
    {GRADIENTS(40, 44, 52, "333, 3") GRADIENT(6, 57, "77") GRADIENTS(240, 244, 252, "333, 3")
         GRADIENT(6, 257, "77"),
     3},
    /* They do not make the buckets; differ by step; one has no size. */
    {GRADIENTS(40, 44, 52, "333, 4") GRADIENTS(240, 244, 252, "333, 4"), 2},
    {GRADIENTS(40, 44, 52, "333, 3") GRADIENTS(240, 244, 252, "998"), 2},
    {GRADIENTS(40, 44, 52, "333, 0") GRADIENTS(240, 244, 252, "333, 0"), 2},
};

START_TEST(shapes_of_gradients)
{
    char text[10240] = "", *path;
    struct lk_import run = {0};
    const struct lk_run_info *info;
    const struct lk_trace *t;

    for (size_t i = 0; i + 1 < KINETO_PARTS; i++)
        strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    strncat(text, shapes[_i].gradients, sizeof text - strlen(text) - 1);
    strncat(text, TAIL, sizeof text - strlen(text) - 1);
    path = scratch_put("rank1.json", text, strlen(text));
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    t = &run.traces[0];
    info = &t->info;
    ck_assert_uint_eq(info->n_tensors, shapes[_i].n_tensors);
    ck_assert_int_eq(lk_run_info_value(info, LK_BUCKETS_CONFIG_KEY) != NULL, info->n_tensors == 2);
    ck_assert_uint_eq(info->first_bytes, 2000);
    if (info->n_tensors == 3) {
        ck_assert_uint_eq(info->tensors[2].elems, 999);
        ck_assert_uint_eq(info->tensors[1].elems, 1);
        ck_assert_uint_eq(info->tensors[0].elems, 500);
        ck_assert_int_eq(info->tensors[0].dtype, LK_BF16);
        /* What the host launched until autograd's function ended is done. */
        kineto_assert_span(kineto_span(t, LK_SPAN_GRADIENT, 7, 2), 80, 80);
        kineto_assert_span(kineto_span(t, LK_SPAN_GRADIENT, 7, 1), 80, 80);
        kineto_assert_span(kineto_span(t, LK_SPAN_GRADIENT, 7, 0), 100, 100);
    }
    lk_import_fini(&run);
    free(path);
}
END_TEST

#define ALONE(number, t0, t30, t40, t44, t52, t70)                                                 \
    RANGE("ProfilerStep#" #number, 5, t0, 100)                                                     \
    OP("autograd::engine::evaluate_function: A", 6, t40, 6)                                        \
    OP("autograd::engine::evaluate_function: B", 6, t52, 8)                                        \
    GRADIENTS(t40, t44, t52, "7, 9")                                                               \
    RANGE("Optimizer.step#SGD.step", 5, t70, 20)
#define ALONE_STEPS ALONE(1, 0, 30, 40, 44, 52, 70) ALONE(2, 200, 230, 240, 244, 252, 270)

/* A job that reduces nothing: one rank's gradients are what DDP would reduce; several ranks' are of
 * another kind of job. */
START_TEST(one_rank_without_ddp)
{
    static const char *const texts[] = {"[" ALONE_STEPS "{}]", HEAD ALONE_STEPS TAIL};

    for (size_t i = 0; i < LK_COUNT(texts); i++) {
        char *path = scratch_put("trace.json", texts[i], strlen(texts[i]));
        struct lk_import run = {0};
        const struct lk_trace *t;

        must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
        t = &run.traces[0];
        ck_assert_uint_eq(t->info.n_tensors, i == 0 ? 3 : 0);
        if (i == 0)
            ck_assert_uint_eq(kineto_span(t, LK_SPAN_GRADIENT, 2, 2)->start_ns, 246000);
        lk_import_fini(&run);
        free(path);
    }
}
END_TEST

#define SIZED                                                                                      \
    "{\"name\": \"torch::autograd::AccumulateGrad\", \"id\": 1, \"ctrl_deps\": 2, "                \
    "\"input_shapes\": [[5]], "                                                                    \
    "\"input_types\": [\"Tensor(float)\"]}"
#define NODES(nodes) "{\"schema\": \"1.0.1\", \"pid\": 7, \"nodes\": [" nodes "]}"

/* An execution trace that has fewer gradients than the trace tells nothing of the others. */
START_TEST(sizes_of_the_other_file)
{
    static const char trace[] = "[" RANGE("ProfilerStep#1", 5, 0, 100)
        OP("autograd::engine::evaluate_function: A", 6, 40, 20)
            OP("torch::autograd::AccumulateGrad", 6, 41, 1)
                OP("torch::autograd::AccumulateGrad", 6, 45, 1) "{}]";
    static const char *const nodes[] = {NODES(SIZED), NODES(SIZED ", " SIZED)};
    char *paths[] = {scratch_put("trace.json", trace, sizeof trace - 1), NULL};

    for (size_t i = 0; i < LK_COUNT(nodes); i++) {
        struct lk_import run = {0};

        paths[1] = scratch_put("trace.et.json", nodes[i], strlen(nodes[i]));
        must(lk_import_run(paths, 2, &(struct lk_import_options){0}, &run));
        ck_assert_uint_eq(run.traces[0].info.n_tensors, i == 0 ? 0 : 2);
        lk_import_fini(&run);
        free(paths[1]);
    }
    free(paths[0]);
}
END_TEST

/* Shapes as text, and their elements; too many are none. */
static const struct {
    const char *text;
    uint64_t elements;
} texts[] = {
    {"[[2873320], [3, 4]]", 2873332},
    {"[[[2, 3], [4]], []]", 10},
    {"[[]]", 0},
    {"[[281474976710656]]", 281474976710656},
    {"[[281474976710656, 2]]", 0},
    {"[[4294967296, 4294967296, 4294967296]]", 0},
    {"[[99999999999999999999999999]]", 0},
    {"[[281474976710656], [281474976710656]]", 0},
    {"[[0, 18446744073709551615]]", 0},
};

START_TEST(elements_are_bounded)
{
    const char *text = texts[_i].text;

    ck_assert_uint_eq(lk_torch_elements(text, strlen(text)), texts[_i].elements);
}
END_TEST

SUITE(import_gradients, t)
{
    tcase_add_loop_test(t, elements_are_bounded, 0, (int)LK_COUNT(texts));
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, shapes_of_gradients, 0, (int)LK_COUNT(shapes));
    tcase_add_test(t, one_rank_without_ddp);
    tcase_add_test(t, sizes_of_the_other_file);
}
