/* Chakra execution traces: the replay of their graphs, what becomes of nodes, and damaged files. */
#include "base/array.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/chakra.h"
#include "profiler/import/format.h"
#include "profiler/import/import.h"
#include "tests/rigs/chakra_file.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define COMP LK_CHAKRA_COMP
#define COLL LK_CHAKRA_COMM_COLL

static char *put_file(const char *name, struct lk_pb_out *file)
{
    char *path;

    must(file->status);
    path = scratch_put(name, file->bytes, file->n);
    lk_pb_out_fini(file);
    return path;
}

static char *put_nodes(const char *name, const struct chakra_node *nodes, size_t n)
{
    struct lk_pb_out file = {0};

    chakra_put_head(&file);
    for (size_t i = 0; i < n; i++)
        chakra_put(&file, &nodes[i]);
    return put_file(name, &file);
}

/* Return the first event of a name; the test fails without one. */
static const struct lk_import_event *event_of(const struct lk_events *e, const char *name)
{
    for (size_t i = 0; i < e->n_events; i++)
        if (!strcmp(lk_events_text(e, e->events[i].name), name))
            return &e->events[i];
    ck_abort_msg("there is no %s", name);
    return NULL;
}

static bool has_note(const struct lk_events *e, const char *text)
{
    for (size_t i = 0; i < e->source.n_notes; i++)
        if (strstr(e->source.notes[i], text))
            return true;
    return false;
}

/* A trace without start times begins at one second. */
static void assert_times(const struct lk_events *e, const char *name, int64_t start_us,
                         int64_t end_us)
{
    const struct lk_import_event *x = event_of(e, name);

    ck_assert_msg(x->start_ns == 1000 * (1000000 + start_us) &&
                      x->end_ns == 1000 * (1000000 + end_us),
                  "%s: %lld to %lld", name, (long long)x->start_ns / 1000 - 1000000,
                  (long long)x->end_ns / 1000 - 1000000);
}

/* Fail the test if a span does not start and end then, us. */
static void assert_span(const struct lk_span *s, uint64_t start_us, uint64_t end_us)
{
    ck_assert_uint_eq(s->start_ns, 1000 * start_us);
    ck_assert_uint_eq(s->end_ns, 1000 * end_us);
}

/* ---- The replay ---- */

/* Two streams: c waits for its stream though its dependency has ended, d for both streams. */
static const struct chakra_node lanes[] = {
    {.id = 1, .name = "a", .type = COMP, .duration_us = 10, .stream = 7},
    {.id = 2, .name = "b", .type = COMP, .data = {1}, .duration_us = 20, .stream = 7},
    {.id = 3, .name = "c", .type = COMP, .data = {1}, .duration_us = 5, .stream = 7},
    {.id = 4, .name = "d", .type = COMP, .data = {1}, .duration_us = 7, .stream = 8},
    {.id = 5, .name = "e", .type = COMP, .data = {2, 3, 4}, .duration_us = 1, .stream = 8},
    {.id = 6, .name = "f", .type = COMP, .ctrl = {5}, .data = {1}, .duration_us = 2, .stream = 9},
};

START_TEST(nodes_wait_for_dependencies_and_lanes)
{
    /* Plain and gzipped, in the order of the file or the other way round. */
    struct chakra_node nodes[LK_COUNT(lanes)];
    struct lk_events e;
    char *path;

    for (size_t i = 0; i < LK_COUNT(lanes); i++)
        nodes[i] = lanes[_i & 1 ? LK_COUNT(lanes) - 1 - i : i];
    /* b and c become ready together: the first in the file runs first. */
    path = put_nodes(_i & 2 ? "x.3.et.gz" : "x.3.et", nodes, LK_COUNT(nodes));
    must(lk_chakra_read(path, NULL, &e));
    ck_assert_int_eq(e.source.rank, 3);
    assert_times(&e, "a", 0, 10);
    assert_times(&e, "b", _i & 1 ? 15 : 10, _i & 1 ? 35 : 30);
    assert_times(&e, "c", _i & 1 ? 10 : 30, _i & 1 ? 15 : 35);
    assert_times(&e, "d", 10, 17);
    assert_times(&e, "e", 35, 36);
    assert_times(&e, "f", 36, 38);
    ck_assert(has_note(&e, "6 nodes: 6 COMP of 45 us, 6 on the GPU"));
    ck_assert(has_note(&e, "no start times"));
    ck_assert(has_note(&e, "no forward or backward"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

START_TEST(start_times_are_taken)
{
    static const struct chakra_node nodes[] = {
        {.id = 1, .name = "a", .type = COMP, .duration_us = 10, .start_us = 1700000000000100},
        {.id = 2,
         .name = "b",
         .type = COMP,
         .data = {1},
         .duration_us = 5,
         .start_us = 1700000000000105},
    };
    char *path = put_nodes("x.et", nodes, LK_COUNT(nodes));
    struct lk_events e;

    must(lk_chakra_read(path, NULL, &e));
    ck_assert_int_eq(e.source.rank, -1);
    ck_assert_int_eq(event_of(&e, "b")->start_ns, 1700000000000105000);
    ck_assert_int_eq(event_of(&e, "b")->end_ns, 1700000000000110000);
    ck_assert(has_note(&e, "the times are those of the nodes"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* Control dependencies that make a circle are callers; a missing node is counted. */
START_TEST(callers_are_no_order)
{
    static const struct chakra_node nodes[] = {
        {.id = 1, .name = "a", .type = COMP, .ctrl = {2}, .duration_us = 10},
        {.id = 2, .name = "b", .type = COMP, .ctrl = {2}, .data = {1, 77}, .duration_us = 5},
    };
    char *path = put_nodes("x.et", nodes, LK_COUNT(nodes));
    struct lk_events e;

    must(lk_chakra_read(path, NULL, &e));
    assert_times(&e, "a", 0, 10);
    assert_times(&e, "b", 10, 15);
    ck_assert(has_note(&e, "they are callers here"));
    ck_assert(has_note(&e, "1 dependencies name nodes"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* ---- A run ---- */

/*
 * A host that launches. Thread 1: forward 0-10; thread 2: backward 10-20, which calls 20-25;
 * thread 1: optimizer 25-35. Stream 7: gemm 10-50, bwd 50-80; all-reduce 80-100 on stream 20; sgd
 * 100-108.
 */
#define BACKWARD       "autograd::engine::evaluate_function: A"
#define ACCUMULATE     "torch::autograd::AccumulateGrad"
#define KERNEL_OF_NCCL "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"
static const struct chakra_node host[] = {
    {.id = 4,
     .name = "DistributedDataParallel.forward",
     .type = COMP,
     .duration_us = 10,
     .on_host = true},
    {.id = 5, .name = "gemm", .type = COMP, .data = {4}, .duration_us = 40, .stream = 7},
    {.id = 6, .name = BACKWARD, .type = COMP, .data = {4}, .duration_us = 10, .on_host = true},
    {.id = 7, .name = "bwd", .type = COMP, .data = {6}, .duration_us = 30, .stream = 7},
    {.id = 8,
     .name = ACCUMULATE,
     .type = COMP,
     .ctrl = {6},
     .data = {6},
     .duration_us = 5,
     .on_host = true,
     .shapes = "[[1000, 2]]",
     .types = "['Tensor(c10::BFloat16)']"},
    {.id = 9,
     .name = KERNEL_OF_NCCL,
     .type = COLL,
     .data = {7, 8},
     .duration_us = 20,
     .stream = 20,
     .comm_size_field = "int64",
     .comm_size = 4000},
    {.id = 10,
     .name = "Optimizer.step#SGD.step",
     .type = COMP,
     .data = {8},
     .duration_us = 10,
     .on_host = true},
    {.id = 11, .name = "sgd", .type = COMP, .data = {9, 10}, .duration_us = 8, .stream = 7},
    {.id = 12, .name = "c10d::allreduce_", .type = COLL, .on_host = true},
};

START_TEST(a_run_with_a_host)
{
    char *path = put_nodes("x.0.et", host, LK_COUNT(host));
    const struct lk_span *s;
    struct lk_import run = {0};
    const struct lk_run_info *info;

    must(lk_import_run(&path, 1, &(struct lk_import_options){.world_size = 2}, &run));
    ck_assert_ptr_null(run.no_steps);
    info = &run.traces[0].info;
    ck_assert_int_eq(info->world_size, 2);
    ck_assert_uint_eq(info->n_tensors, 1);
    ck_assert_uint_eq(info->tensors[0].elems, 2000);
    ck_assert_int_eq(info->tensors[0].dtype, LK_BF16);
    ck_assert_ptr_null(strstr(info->tensors[0].name, "bucket"));
    assert_span(kineto_span(&run.traces[0], LK_SPAN_FORWARD, 0, 0), 1000010, 1000050);
    assert_span(kineto_span(&run.traces[0], LK_SPAN_BACKWARD, 0, 0), 1000050, 1000080);
    assert_span(kineto_span(&run.traces[0], LK_SPAN_OPTIMIZER, 0, -1), 1000100, 1000108);
    s = kineto_span(&run.traces[0], LK_SPAN_COLLECTIVE, 0, 0);
    assert_span(s, 1000080, 1000100);
    ck_assert_uint_eq(s->bytes, 4000);
    ck_assert_uint_eq(s->ready_ns, 1000080000);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* A simulator's trace: no host, two micro-batches, sizes of every type of integer. */
static const struct chakra_node alone[] = {
    {.id = 1, .name = "i", .type = COMP, .duration_us = 5, .phase = "input"},
    {.id = 2, .name = "f", .type = COMP, .data = {1}, .duration_us = 10, .phase = "forward"},
    {.id = 3, .name = "b", .type = COMP, .data = {2}, .duration_us = 20, .phase = "backward"},
    {.id = 4, .name = "f1", .type = COMP, .data = {3}, .duration_us = 10, .phase = "forward"},
    {.id = 5, .name = "b1", .type = COMP, .data = {4}, .duration_us = 15, .phase = "backward"},
    {.id = 6,
     .name = "r",
     .type = COLL,
     .data = {5},
     .duration_us = 9,
     .comm_size_field = "uint64",
     .comm_size = 4000},
    {.id = 7, .name = "b2", .type = COMP, .data = {5}, .duration_us = 15, .phase = "backward"},
    {.id = 8,
     .name = "r",
     .type = COLL,
     .data = {7, 6},
     .duration_us = 9,
     .comm_size_field = "sint64",
     .comm_size = 1000},
    {.id = 9, .name = "o", .type = COMP, .data = {7, 6, 8}, .duration_us = 4, .phase = "optimizer"},
    {.id = 10, .name = "z", .type = COMP, .data = {9}, .duration_us = 3, .phase = "idle"},
};

START_TEST(a_run_without_a_host)
{
    char *path = put_nodes("x.0.et", alone, LK_COUNT(alone));
    struct lk_import run = {0};
    const struct lk_trace *t;
    const struct lk_span *s;

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    t = &run.traces[0];
    ck_assert_int_eq(t->info.accumulation, 2);
    assert_span(kineto_span(t, LK_SPAN_STEP, 0, -1), 1000000, 1000091);
    assert_span(kineto_span(t, LK_SPAN_INPUT, 0, 0), 1000000, 1000005);
    assert_span(kineto_span(t, LK_SPAN_FORWARD, 0, 0), 1000005, 1000015);
    assert_span(kineto_span(t, LK_SPAN_BACKWARD, 0, 0), 1000015, 1000035);
    assert_span(kineto_span(t, LK_SPAN_FORWARD, 0, 1), 1000035, 1000045);
    assert_span(kineto_span(t, LK_SPAN_BACKWARD, 0, 1), 1000045, 1000075);
    assert_span(kineto_span(t, LK_SPAN_OPTIMIZER, 0, -1), 1000084, 1000088);
    s = kineto_span(t, LK_SPAN_COLLECTIVE, 0, 0);
    assert_span(s, 1000060, 1000069);
    ck_assert_uint_eq(s->bytes, 4000);
    ck_assert_uint_eq(s->ready_ns, 1000060000);
    s = kineto_span(t, LK_SPAN_COLLECTIVE, 0, 1);
    assert_span(s, 1000075, 1000084);
    ck_assert_uint_eq(s->bytes, 1000);
    ck_assert_uint_eq(t->info.n_tensors, 2);
    ck_assert_int_eq(t->info.tensors[0].dtype, LK_U8); /* a type is not said */
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* ProfilerStep nodes make steps, each up to the next. */
START_TEST(marks_make_steps)
{
    static const struct chakra_node nodes[] = {
        {.id = 1, .name = "ProfilerStep#7", .type = COMP, .duration_us = 2, .on_host = true},
        {.id = 2, .name = "a", .type = COMP, .data = {1}, .duration_us = 10},
        {.id = 3,
         .name = "ProfilerStep#8",
         .type = COMP,
         .data = {1, 2},
         .duration_us = 2,
         .on_host = true},
        {.id = 4, .name = "b", .type = COMP, .data = {3}, .duration_us = 9},
    };
    char *path = put_nodes("x.0.et", nodes, LK_COUNT(nodes));
    struct lk_import run = {0};

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    assert_span(kineto_span(&run.traces[0], LK_SPAN_STEP, 7, -1), 1000000, 1000012);
    assert_span(kineto_span(&run.traces[0], LK_SPAN_STEP, 8, -1), 1000012, 1000023);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* ---- JSON ---- */

static const char json[] =
    "{\"workload_name\": \"x\", \"workload_graph\": ["
    "{\"Id\": 1, \"Name\": \"a \\\"b\\\"\", \"NodeType\": 4, \"runtime\": 10, \"data_deps\": [],"
    " \"is_cpu_op\": false, \"inputs\": {\"values\": [1]}},"
    "{\"Id\": 2, \"NodeType\": 7, \"Name\": \"ncclKernel_AllReduce_RING_LL_Sum_float(x)\","
    " \"data_deps\": [1, 3], \"ctrlDeps\": [1], \"is_cpu_op\": 0, \"comm_size\": 400,"
    " \"runtime\": 7}, 5, [],"
    "{\"Id\": 4, \"Name\": \"c\", \"NodeType\": 4, \"runtime\": -3, \"data_deps\": [2]}"
    "], \"ngpus\": 8}";

START_TEST(json_is_read)
{
    char *path = scratch_put("x.1.json", json, sizeof json - 1);
    const struct lk_format *format = NULL;
    const struct lk_import_event *x;
    struct lk_events e;

    must(lk_format_of(path, &format));
    ck_assert_str_eq(format->name, "Chakra (JSON)");
    must(format->read(path, NULL, &e));
    ck_assert_int_eq(e.source.rank, 1);
    ck_assert_uint_eq(e.source.n_skipped, 1); /* a negative duration */
    assert_times(&e, "a \"b\"", 0, 10);
    assert_times(&e, "ncclKernel_AllReduce_RING_LL_Sum_float(x)", 10, 17);
    assert_times(&e, "c", 17, 17);
    x = event_of(&e, "ncclKernel_AllReduce_RING_LL_Sum_float(x)");
    ck_assert_uint_eq(e.details[x->detail - 1].elements, 100);
    ck_assert_int_eq(e.details[x->detail - 1].dtype, LK_F32);
    ck_assert_str_eq(lk_events_text(&e, e.details[x->detail - 1].function), "all_reduce");
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* ---- Damage ---- */

/* A file that is cut anywhere is read up to there, or says that it has no node. */
START_TEST(cut_files)
{
    static const char *const names[] = {"x.et", "x.json"};
    struct lk_pb_out file = {0};
    size_t n = sizeof json - 1, read = 0;

    chakra_put_head(&file);
    for (size_t i = 0; i < LK_COUNT(host) && _i == 0; i++)
        chakra_put(&file, &host[i]);
    n = _i ? n : file.n;
    for (size_t cut = 0; cut < n; cut++) {
        char *path = scratch_put(names[_i], _i ? (const void *)json : file.bytes, cut);
        struct lk_events e;
        enum lk_status st = (_i ? lk_chakra_json_read : lk_chakra_read)(path, NULL, &e);

        read += st == LK_OK;
        ck_assert(st == LK_OK || st == LK_EPARSE);
        ck_assert(st == LK_EPARSE || e.n_events > 0);
        lk_events_fini(&e);
        free(path);
    }
    ck_assert_uint_gt(read, n / 4);
    ck_assert_uint_lt(read, n);
    lk_pb_out_fini(&file);
}
END_TEST

static const struct {
    const char *bytes;
    size_t n;
    const char *says; /* NULL: read, with what is skipped */
    bool cut;
} broken[] = {
    {"", 0, "there is no node", false},
    {"\x00", 1, "there is no node", false},
    {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10, "byte 0: there is no length", false},
    /* A length of 2^63, and one beyond the limit. */
    {"\x02\x18\x04\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01zz", 15, NULL, true},
    {"\x02\x18\x04\x80\x80\x80\x80\x01zz", 10, NULL, true},
    /* A message that is none, between two nodes. */
    {"\x02\x18\x04\x03zzz\x04\x08\x01\x18\x04", 12, NULL, false},
    /* Two nodes have one id; no id is 0. */
    {"\x02\x18\x04\x02\x18\x04", 6, "two nodes have the id 0", false},
    /* A type that does not exist. */
    {"\x02\x18\x63", 3, "there is no node", false},
};

START_TEST(broken_files)
{
    char *path = scratch_put("x.et", broken[_i].bytes, broken[_i].n);
    struct lk_events e;
    enum lk_status st = lk_chakra_read(path, NULL, &e);

    if (broken[_i].says) {
        ck_assert_int_eq(st, LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), broken[_i].says) != NULL, "%s", lk_error_text());
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "x.et"));
    } else {
        must(st);
        ck_assert_int_eq(e.source.cut, broken[_i].cut);
        ck_assert_uint_eq(e.source.n_skipped, broken[_i].cut ? 0 : 1);
    }
    lk_events_fini(&e);
    free(path);
}
END_TEST

START_TEST(a_circle_is_named)
{
    static const struct chakra_node nodes[] = {
        {.id = 1, .name = "a", .type = COMP, .data = {2}},
        {.id = 2, .name = "b", .type = COMP, .data = {3}},
        {.id = 3, .name = "c\xff", .type = COMP, .data = {9, 2}},
        {.id = 9, .name = "d", .type = COMP},
    };
    char *path = put_nodes("x.et", nodes, LK_COUNT(nodes));
    struct lk_events e;

    ck_assert_int_eq(lk_chakra_read(path, NULL, &e), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "in a circle: one is 2, 'b'"));
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* Durations and sizes that make no sense, and a name that is no UTF-8, up to the run's files. */
START_TEST(nonsense_is_counted)
{
    static const struct chakra_node nodes[] = {
        {.id = UINT64_MAX, .name = "\xff\xfe\x80", .type = COMP, .duration_us = UINT64_MAX - 5},
        {.id = 2, .name = "b", .type = COMP, .data = {UINT64_MAX}, .duration_us = 5},
        {.id = 3,
         .name = "r",
         .type = COLL,
         .comm_size_field = "int64",
         .comm_type = -7,
         .comm_size = INT64_MIN},
        {.id = 4,
         .name = "s",
         .type = COLL,
         .comm_size_field = "int64",
         .comm_type = 2, /* an all-gather */
         .comm_size = INT64_MAX},
        {.id = 5, .name = "l", .type = COMP, .duration_us = 1000000000001},
    };
    char *path = put_nodes("x.0.et", nodes, LK_COUNT(nodes)), *copy;
    struct lk_import run = {0};
    struct lk_trace t;

    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.files[0].source.n_skipped, 2);
    assert_span(kineto_span(&run.traces[0], LK_SPAN_STEP, 0, -1), 1000000, 1000005);
    copy = scratch_path(scratch_dir, "rank0.trace.json.gz");
    must(lk_trace_write(copy, &run.traces[0]));
    must(lk_trace_read(copy, &t));
    lk_trace_fini(&t);
    lk_import_fini(&run);
    free(copy);
    free(path);
}
END_TEST

/* A chain of a million nodes is read and replayed. */
START_TEST(a_million_nodes)
{
    enum { NODES = 1000000 };
    struct lk_pb_out file = {0}, node = {0}, deps = {0};
    struct lk_events e;
    char *path;

    chakra_put_head(&file);
    for (uint64_t i = 1; i <= NODES; i++) {
        node.n = deps.n = 0;
        lk_pb_put_uint(&node, LK_CHAKRA_NODE_ID, i);
        lk_pb_put_text(&node, LK_CHAKRA_NODE_NAME, "k");
        lk_pb_put_uint(&node, LK_CHAKRA_NODE_TYPE, LK_CHAKRA_COMP);
        lk_pb_put_uint(&node, LK_CHAKRA_NODE_DURATION_US, 2);
        lk_pb_put_varint(&deps, i - 1);
        lk_pb_put_bytes(&node, LK_CHAKRA_NODE_DATA_DEPS, deps.bytes, deps.n);
        lk_pb_put_message(&file, &node);
    }
    lk_pb_out_fini(&node);
    lk_pb_out_fini(&deps);
    path = put_file("x.et", &file);
    must(lk_chakra_read(path, NULL, &e));
    lk_events_sort(&e);
    ck_assert_uint_eq(e.n_events, NODES + 1);
    ck_assert_int_eq(e.events[NODES].end_ns - e.events[0].start_ns, 2000LL * NODES);
    lk_events_fini(&e);
    free(path);
}
END_TEST

/* ---- Recognition ---- */

static const struct {
    const char *name, *bytes;
    size_t n;
    const char *is; /* NULL: no format */
} files[] = {
    {"x.et", "anything", 8, "Chakra"}, /* its reader says what is wrong */
    {"x.bin",
     "\x07\x0a\x05"
     "0.0.4\x04\x08\x01\x18\x04",
     13, "Chakra"},
    {"x.bin", "\x00\x02\x18\x04", 4, "Chakra"},
    {"x.bin", "\x02\x18\x04", 3, "Chakra"},
    {"x.bin",
     "\x07\x0a\x05"
     "0.0.4\x04zzzz",
     13, NULL},
    {"x.txt", "ncclX\n", 6, NULL},
    {"x.txt", "# nccl-tests version 2.17.6 and more of the same\n", 49, NULL},
    {"x.bin", "\x00\x00\x00\x00", 4, NULL},
    /* A brace is a length, and the end of line the number of a field. */
    {"run.json", "{\n  \"schema\": \"lockstep-run\",\n  \"version\": 1,\n  \"runs\": []\n}\n", 61,
     "a file of lockstep's own run"},
};

START_TEST(told_by_content)
{
    char *path = scratch_put(files[_i].name, files[_i].bytes, files[_i].n);
    const struct lk_format *format = NULL;

    must(lk_format_of(path, &format));
    ck_assert_str_eq(format ? format->name : "none", files[_i].is ? files[_i].is : "none");
    free(path);
}
END_TEST

SUITE(import_chakra, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, nodes_wait_for_dependencies_and_lanes, 0, 4);
    tcase_add_test(t, start_times_are_taken);
    tcase_add_test(t, callers_are_no_order);
    tcase_add_test(t, a_run_with_a_host);
    tcase_add_test(t, a_run_without_a_host);
    tcase_add_test(t, marks_make_steps);
    tcase_add_test(t, json_is_read);
    tcase_add_loop_test(t, cut_files, 0, 2);
    tcase_add_loop_test(t, broken_files, 0, LK_COUNT(broken));
    tcase_add_test(t, a_circle_is_named);
    tcase_add_test(t, nonsense_is_counted);
    tcase_add_test(t, a_million_nodes);
    tcase_add_loop_test(t, told_by_content, 0, LK_COUNT(files));
}
