/*
 * NCCL's profiler plugin: the library that users get, driven by tests/fakes/fake_nccl_profiler.h.
 * Each test is a process of its own, so that its library is a fresh one. Many threads are in
 * tests/preload/test_nccl_threads.c.
 */
#include "base/array.h"
#include "facts/dtype.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define GPU_NS UINT64_C(1763900000000000000) /* %globaltimer starts at the host's epoch */
/* preload/nccl_events.h; the library's own header is not for programs. */
enum { WORKS = 1 << 14, COMMS = 1024 };

static const int versions[] = {FAKE_NCCL_2_27, FAKE_NCCL_2_28, FAKE_NCCL_2_30, FAKE_NCCL_2_31,
                               FAKE_NCCL_2_32};
static const struct fake_call all_reduce = {"AllReduce", "ncclBfloat16", 1000, 0, false, false};

static struct fake_plugin plugin;

static void begin(int version)
{
    foreign_log_to(scratch_dir, 4);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, version);
}

static int64_t length_ns(const struct lk_foreign_record *r)
{
    return r->end_ns - r->start_ns;
}

/* ---- What is recorded ---- */

/* Run a call with one channel of 5 us; return its call's record, and the GPU's. */
static const struct lk_foreign_record *record_of(int version, const struct fake_call *call,
                                                 struct foreign_log *l,
                                                 const struct lk_foreign_record **gpu)
{
    const struct lk_foreign_record *r;
    struct fake_comm c;
    struct fake_call_work w;

    begin(version);
    fake_comm_init(&c, &plugin, 77, "dp", 8, 3);
    fake_call_enqueue(&c, call, &w);
    fake_channel_start(&w, 0, GPU_NS);
    fake_channel_stop(&w, 0, GPU_NS + 5000);
    fake_comm_finalize(&c);
    foreign_log_read(l, scratch_dir);
    r = foreign_log_at(l, LK_FOREIGN_COLLECTIVE_CALL, 0);
    *gpu = foreign_log_of(l, LK_FOREIGN_COLLECTIVE_GPU, r->link);
    ck_assert_uint_eq(foreign_log_count(l, LK_FOREIGN_COLLECTIVE_CALL), 1);
    ck_assert_uint_eq(l->header->lost, 0);
    return r;
}

START_TEST(a_collective_has_a_call_and_a_time_on_the_gpu)
{
    const struct lk_foreign_record *gpu, *r;
    const struct lk_foreign_group *g;
    struct foreign_log l;

    r = record_of(versions[_i], &all_reduce, &l, &gpu);
    ck_assert_int_eq(plugin.mask & (NCCL_COLL | NCCL_KERNEL_CH), NCCL_COLL | NCCL_KERNEL_CH);
    ck_assert_int_eq(r->function, LK_FOREIGN_FUNCTION(LK_ALL_REDUCE));
    ck_assert_int_eq(r->dtype, LK_BF16 + 1);
    ck_assert_uint_eq(r->count, 1000);
    ck_assert_int_eq(r->peer, -1);
    ck_assert_uint_ne(r->link, 0);
    ck_assert_int_gt(r->start_ns, 0);
    ck_assert_int_le(r->start_ns, r->end_ns);
    g = &l.groups[r->group - 1];
    ck_assert_uint_eq(g->identity, 77);
    ck_assert_int_eq(g->n_ranks, 8);
    ck_assert_int_eq(g->rank, 3);
    ck_assert_str_eq(l.names + g->name, "dp");
    ck_assert_str_eq(l.names + g->library, "nccl");

    ck_assert_ptr_nonnull(gpu);
    ck_assert_int_eq(length_ns(gpu), 5000);
    ck_assert_uint_eq(gpu->count, GPU_NS);
    ck_assert(gpu->flags & LK_FOREIGN_SEEN);
    ck_assert_int_ge(gpu->end_ns, r->start_ns);
    ck_assert_int_eq(gpu->function, LK_FOREIGN_FUNCTION(LK_ALL_REDUCE));
    ck_assert_int_eq(gpu->group, r->group);
    foreign_log_fini(&l);
}
END_TEST

/* Counts are what a rank puts in, as PyTorch says them. */
static const struct {
    struct fake_call call;
    int function, dtype, peer;
    uint64_t count;
} words[] = {
    {{"AllGather", "ncclFloat16", 100, 0, 0, 0},
     LK_FOREIGN_FUNCTION(LK_ALL_GATHER),
     LK_F16,
     -1,
     100},
    {{"ReduceScatter", "ncclFloat32", 100, 0, 0, 0},
     LK_FOREIGN_FUNCTION(LK_REDUCE_SCATTER),
     LK_F32,
     -1,
     800},
    {{"Broadcast", "ncclInt64", 100, 5, 0, 0}, LK_FOREIGN_FUNCTION(LK_BROADCAST), LK_I64, 5, 100},
    {{"Reduce", "ncclFloat64", 100, 2, 0, 0}, LK_FOREIGN_FUNCTION(LK_REDUCE), LK_F64, 2, 100},
    {{"AlltoAll", "ncclUint8", 100, 0, 0, 0}, LK_FOREIGN_FUNCTION(LK_ALL_TO_ALL), LK_U8, -1, 800},
    {{"Send", "ncclFloat8e4m3", 100, 6, 0, 0}, LK_FOREIGN_FUNCTION(LK_SEND), LK_U8, 6, 100},
    {{"Recv", "ncclInt32", 100, 7, 0, 0}, LK_FOREIGN_FUNCTION(LK_RECV), LK_I32, 7, 100},
};

START_TEST(functions_and_types_are_those_of_the_call)
{
    const struct lk_foreign_record *gpu, *r;
    struct foreign_log l;

    r = record_of(_i % 2 ? FAKE_NCCL_2_28 : FAKE_NCCL_2_31, &words[_i / 2].call, &l, &gpu);
    ck_assert_int_eq(r->function, words[_i / 2].function);
    ck_assert_int_eq(r->dtype, words[_i / 2].dtype + 1);
    ck_assert_int_eq(r->peer, words[_i / 2].peer);
    ck_assert_uint_eq(r->count, words[_i / 2].count);
    ck_assert_ptr_nonnull(gpu);
    foreign_log_fini(&l);
}
END_TEST

/* A function of a later NCCL keeps its name; one without a name or a type is not known. */
START_TEST(what_is_not_known_stays_unknown)
{
    const struct fake_call call = {"Transpose", "ncclFloat4", 10, 0, false, false};
    const struct lk_foreign_record *gpu, *r;
    struct foreign_log l;

    r = record_of(FAKE_NCCL_2_30, &call, &l, &gpu);
    ck_assert_int_eq(r->function, 0);
    ck_assert_str_eq(l.names + r->name, "Transpose");
    ck_assert_int_eq(r->dtype, 0);
    foreign_log_fini(&l);
}
END_TEST

/* Ranks match collectives by group and number; sends are in no order that ranks share. */
START_TEST(collectives_of_a_communicator_are_numbered)
{
    const struct fake_call calls[] = {{"AllReduce", "ncclFloat32", 1, 0, 0, 0},
                                      {"Send", "ncclFloat32", 1, 1, 0, 0},
                                      {"AllGather", "ncclFloat32", 1, 0, 0, 0},
                                      {"AllReduce", "ncclFloat32", 1, 0, 0, 0}};
    const uint32_t want[] = {0, LK_FOREIGN_NO_SEQUENCE, 1, 2};
    struct fake_comm c[2];
    struct foreign_log l;
    struct fake_call_work w;

    begin(versions[_i]);
    for (int k = 0; k < 2; k++)
        fake_comm_init(&c[k], &plugin, 5 + (uint64_t)k, NULL, 2, 0);
    for (size_t i = 0; i < LK_COUNT(calls); i++)
        for (int k = 0; k < 2; k++)
            fake_call_enqueue(&c[k], &calls[i], &w);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), 8);
    for (size_t i = 0; i < 8; i++)
        ck_assert_uint_eq(foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_CALL, i)->sequence, want[i / 2]);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_GPU), 0);
    foreign_log_fini(&l);
}
END_TEST

/* A graph is captured once and replayed: each replay is a collective, and belongs to no call. */
START_TEST(replays_of_a_graph_are_collectives)
{
    struct fake_call call = all_reduce;
    const struct lk_foreign_record *r;
    struct fake_call_work captured, w;
    struct foreign_log l;
    struct fake_comm c;

    call.captured = true;
    begin(FAKE_NCCL_2_28);
    fake_comm_init(&c, &plugin, 5, NULL, 2, 0);
    fake_call_api(&c, &call, &captured);
    for (int i = 0; i < 3; i++) {
        w = captured;
        fake_launch(&c, &w);
        fake_channel_start(&w, 1, GPU_NS + 100 * (uint64_t)i);
        fake_channel_stop(&w, 1, GPU_NS + 100 * (uint64_t)i + 50);
    }
    foreign_log_read(&l, scratch_dir);
    for (size_t i = 0; i < 3; i++) {
        r = foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_CALL, i);
        ck_assert(r->flags & LK_FOREIGN_GRAPH);
        ck_assert_uint_eq(r->sequence, i);
        if (i > 0)
            ck_assert_int_ge(r->start_ns,
                             foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_CALL, i - 1)->end_ns);
        ck_assert_int_eq(length_ns(foreign_log_of(&l, LK_FOREIGN_COLLECTIVE_GPU, r->link)), 50);
    }
    foreign_log_fini(&l);
}
END_TEST

/* No kernel runs: the call is recorded where NCCL tells of it, and its time on the GPU is not
 * known. */
START_TEST(copy_engines_have_no_time_on_the_gpu)
{
    struct fake_call call = all_reduce;
    struct foreign_log l;
    struct fake_comm c;
    struct fake_call_work w;

    call.copy_engine = true;
    begin(versions[_i]);
    fake_comm_init(&c, &plugin, 5, NULL, 2, 0);
    fake_call_enqueue(&c, &call, &w);
    fake_comm_finalize(&c);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL),
                      versions[_i] >= FAKE_NCCL_2_30);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_GPU), 0);
    foreign_log_fini(&l);
}
END_TEST

/* From 2.31 on an operator can ask for all types of events, in each process, whatever the plugin
 * asks for: those that it does not know are no loss, and change nothing. */
START_TEST(events_that_were_not_asked_for_do_no_harm)
{
    const struct lk_foreign_record *gpu;
    struct fake_call_work w;
    struct fake_comm c;
    struct foreign_log l;

    begin(versions[_i]);
    fake_comm_init(&c, &plugin, 5, NULL, 2, 0);
    fake_set_mask(&plugin, 0xffff);
    fake_call_enqueue(&c, &all_reduce, &w);
    fake_channel_start(&w, 3, GPU_NS);
    fake_channel_stop(&w, 3, GPU_NS + 50);
    fake_comm_finalize(&c);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 2);
    gpu = foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_GPU, 0);
    ck_assert_int_eq(length_ns(gpu), 50);
    ck_assert_uint_eq(l.header->lost, 0);
    foreign_log_fini(&l);
}
END_TEST

START_TEST(events_without_a_folder_do_no_harm)
{
    struct fake_call_work w;
    struct fake_comm c;

    unsetenv("LOCKSTEP_PROFILE_DIR");
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, versions[_i]);
    fake_comm_init(&c, &plugin, 5, NULL, 2, 0);
    fake_set_mask(&plugin, 0xffff);
    fake_call_enqueue(&c, &all_reduce, &w);
    ck_assert_ptr_null(w.handle);
    fake_channel_start(&w, 3, GPU_NS);
    ck_assert_ptr_null(w.channels[3]);
    fake_comm_finalize(&c);
}
END_TEST

/* NCCL looks for the newest table that it knows, and down from there. */
START_TEST(each_version_finds_its_table)
{
    static const int tables[] = {4, 5, 6, 7, 7};

    begin(versions[_i]);
    ck_assert_int_eq(plugin.interface, tables[_i]);
}
END_TEST

START_TEST(without_a_folder_nothing_is_asked_for)
{
    struct fake_comm c;
    struct fake_call_work w;

    unsetenv("LOCKSTEP_PROFILE_DIR");
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, versions[_i]);
    fake_comm_init(&c, &plugin, 5, NULL, 2, 0);
    ck_assert_ptr_null(c.context);
    ck_assert_int_eq(plugin.mask, 0);
    fake_call_enqueue(&c, &all_reduce, &w);
    fake_comm_finalize(&c);
}
END_TEST

/* ---- Late, twice, out of order ---- */

enum step { START_0, START_1, STOP_0, STOP_1, RECORD_0, CLOSE_0, WORK_STOP, FINALIZE, STEPS };

/* Channel 0 runs from 100 to 400, channel 1 from 200 to 900: 800 ns in all. */
static void take(enum step s, struct fake_comm *c, struct fake_call_work *w)
{
    switch (s) {
    case START_0:
        fake_channel_start(w, 0, GPU_NS + 100);
        break;
    case START_1:
        fake_channel_start(w, 63, GPU_NS + 200);
        break;
    case STOP_0:
        fake_channel_stop(w, 0, GPU_NS + 400);
        break;
    case STOP_1:
        fake_channel_stop(w, 63, GPU_NS + 900);
        break;
    case RECORD_0:
        fake_channel_record(w, 0, GPU_NS + 400);
        break;
    case CLOSE_0:
        fake_channel_close(w, 0);
        break;
    case WORK_STOP:
        fake_work_stop(w);
        break;
    case FINALIZE:
        fake_comm_finalize(c);
        break;
    case STEPS:
        break;
    }
}

static const enum step orders[][STEPS + 1] = {
    {WORK_STOP, START_0, START_1, STOP_0, STOP_1, FINALIZE, STEPS},
    {WORK_STOP, START_1, START_0, STOP_1, STOP_0, FINALIZE, STEPS},
    {WORK_STOP, START_0, STOP_0, START_1, STOP_1, FINALIZE, STEPS},
    {WORK_STOP, START_1, STOP_1, START_0, STOP_0, FINALIZE, STEPS},
    {START_0, START_1, STOP_1, STOP_0, WORK_STOP, FINALIZE, STEPS},
    {WORK_STOP, FINALIZE, START_0, START_1, STOP_0, STOP_1, STEPS},
    {WORK_STOP, START_0, START_1, FINALIZE, STOP_1, STOP_0, FINALIZE, STEPS},
    {START_0, FINALIZE, START_1, STOP_0, WORK_STOP, STOP_1, WORK_STOP, STEPS},
    {WORK_STOP, START_0, CLOSE_0, RECORD_0, START_1, STOP_1, FINALIZE, STEPS},
    {WORK_STOP, START_0, RECORD_0, RECORD_0, CLOSE_0, CLOSE_0, START_1, STOP_1, STEPS},
    {WORK_STOP, START_0, START_0, START_1, STOP_1, STOP_0, STOP_0, WORK_STOP, STEPS},
};

START_TEST(the_time_on_the_gpu_does_not_depend_on_the_order)
{
    const size_t order = (size_t)_i / LK_COUNT(versions);
    const struct lk_foreign_record *r, *gpu;
    struct fake_comm c;
    struct fake_call_work w;
    struct foreign_log l;

    begin(versions[(size_t)_i % LK_COUNT(versions)]);
    fake_comm_init(&c, &plugin, 9, NULL, 2, 1);
    fake_call_api(&c, &all_reduce, &w);
    fake_work_start(&c, &w);
    for (size_t i = 0; orders[order][i] != STEPS; i++)
        take(orders[order][i], &c, &w);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), 1);
    r = foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_CALL, 0);
    gpu = foreign_log_of(&l, LK_FOREIGN_COLLECTIVE_GPU, r->link);
    ck_assert_ptr_nonnull(gpu);
    ck_assert_int_eq(length_ns(gpu), 800);
    ck_assert_uint_eq(gpu->count, GPU_NS + 100);
    ck_assert_uint_eq(l.header->lost, 0);
    foreign_log_fini(&l);
}
END_TEST

/* Three communicators end in each order, each before the kernels of all have run. */
START_TEST(communicators_end_in_any_order)
{
    static const int ends[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    struct fake_comm c[3];
    struct fake_call_work w[3];
    struct foreign_log l;

    begin(FAKE_NCCL_2_28);
    for (int k = 0; k < 3; k++) {
        fake_comm_init(&c[k], &plugin, (uint64_t)k, NULL, 2, 0);
        fake_call_enqueue(&c[k], &all_reduce, &w[k]);
        fake_channel_start(&w[k], 2, GPU_NS);
    }
    for (int k = 0; k < 3; k++) {
        fake_comm_finalize(&c[ends[_i][k]]);
        fake_channel_stop(&w[k], 2, GPU_NS + 10);
    }
    foreign_log_read(&l, scratch_dir);
    for (size_t k = 0; k < 3; k++)
        ck_assert_ptr_nonnull(
            foreign_log_of(&l, LK_FOREIGN_COLLECTIVE_GPU,
                           foreign_log_at(&l, LK_FOREIGN_COLLECTIVE_CALL, k)->link));
    foreign_log_fini(&l);
}
END_TEST

/* ---- Handles of others ---- */

/* PXN: another process's parents arrive. Nothing is read through them. */
START_TEST(foreign_handles_are_counted_and_not_read)
{
    void *foreign[] = {(void *)8, (void *)(uintptr_t)0x7f0011223344, (void *)(uintptr_t)UINT64_MAX,
                       &plugin, NULL};
    struct fake_call_work w;
    struct fake_comm c;
    struct foreign_log l;

    begin(versions[_i]);
    fake_comm_init(&c, &plugin, 9, NULL, 2, 1);
    fake_call_enqueue(&c, &all_reduce, &w);
    for (size_t i = 0; i < LK_COUNT(foreign); i++) {
        ck_assert_ptr_null(fake_channel_of(&plugin, c.context, foreign[i], 1, GPU_NS));
        ck_assert_int_eq(plugin.table->stop_event(foreign[i]), NCCL_SUCCESS);
        ck_assert_int_eq(plugin.table->finalize(foreign[i]), NCCL_SUCCESS);
    }
    /* A channel that this NCCL cannot have. */
    ck_assert_ptr_null(fake_channel_of(&plugin, c.context, w.handle, 64, GPU_NS));
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->lost, 5); /* a parent of NULL was counted when it was lost */
    foreign_log_fini(&l);
}
END_TEST

/* One bit of a valid handle at a time, and random ones. */
START_TEST(wrong_handles_do_no_harm)
{
    const union nccl_state args = {.kernel_ch_stop_ns = GPU_NS};
    uint64_t x = 88172645463325252U; /* xorshift64 (Marsaglia 2003) */
    struct fake_call_work w;
    struct fake_comm c;
    struct foreign_log l;

    begin(FAKE_NCCL_2_30);
    fake_comm_init(&c, &plugin, 9, NULL, 2, 1);
    fake_call_enqueue(&c, &all_reduce, &w);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = (uint64_t)(uintptr_t)w.handle ^ (i < 64 ? UINT64_C(1) << i : 0);
        void *handle;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        handle = (void *)(uintptr_t)(i < 64 ? bits : i % 2 ? x : (bits ^ (x & 0xffffffffff)));
        if (handle == w.handle)
            continue;
        plugin.table->record_event_state(handle, NCCL_KERNEL_CH_STOP, &args);
        plugin.table->stop_event(handle);
        plugin.table->finalize(handle);
    }
    fake_channel_start(&w, 5, GPU_NS);
    fake_channel_stop(&w, 5, GPU_NS + 7);
    fake_call_enqueue(&c, &all_reduce, &w);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), 2);
    foreign_log_fini(&l);
}
END_TEST

/* ---- Bounds ---- */

/* The GPU is far behind: the oldest collectives' places are gone when their kernels run. */
START_TEST(what_has_no_place_is_counted)
{
    enum { MORE = 100, ALL = WORKS + MORE };
    static struct fake_call_work w[ALL];
    struct fake_comm c;
    struct foreign_log l;

    begin(FAKE_NCCL_2_27);
    fake_comm_init(&c, &plugin, 9, NULL, 2, 1);
    for (int i = 0; i < ALL; i++)
        fake_call_enqueue(&c, &all_reduce, &w[i]);
    for (int i = 0; i < ALL; i++) {
        fake_channel_start(&w[i], 0, GPU_NS + (uint64_t)i);
        fake_channel_stop(&w[i], 0, GPU_NS + (uint64_t)i + 1);
    }
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_CALL), ALL);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_COLLECTIVE_GPU), WORKS);
    ck_assert_uint_eq(l.header->lost, MORE);
    foreign_log_fini(&l);
}
END_TEST

START_TEST(communicators_beyond_the_table_are_counted)
{
    static struct fake_comm c[COMMS + 2];
    struct fake_call_work w;
    struct foreign_log l;

    begin(FAKE_NCCL_2_28);
    for (int i = 0; i < COMMS + 2; i++)
        fake_comm_init(&c[i], &plugin, (uint64_t)i, NULL, 2, 1);
    ck_assert_ptr_nonnull(c[COMMS - 1].context);
    ck_assert_ptr_null(c[COMMS].context);
    fake_call_enqueue(&c[COMMS], &all_reduce, &w);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->lost, 3);
    foreign_log_fini(&l);
    /* One that ends leaves its place. */
    fake_comm_finalize(&c[5]);
    fake_comm_init(&c[5], &plugin, 5, NULL, 2, 1);
    ck_assert_ptr_nonnull(c[5].context);
}
END_TEST

SUITE(nccl_plugin, tests)
{
    const int n_versions = (int)LK_COUNT(versions);

    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, a_collective_has_a_call_and_a_time_on_the_gpu, 0, n_versions);
    tcase_add_loop_test(tests, functions_and_types_are_those_of_the_call, 0,
                        2 * (int)LK_COUNT(words));
    tcase_add_test(tests, what_is_not_known_stays_unknown);
    tcase_add_loop_test(tests, collectives_of_a_communicator_are_numbered, 0, n_versions);
    tcase_add_test(tests, replays_of_a_graph_are_collectives);
    tcase_add_loop_test(tests, copy_engines_have_no_time_on_the_gpu, 0, n_versions);
    tcase_add_loop_test(tests, events_that_were_not_asked_for_do_no_harm, 0, n_versions);
    tcase_add_loop_test(tests, events_without_a_folder_do_no_harm, 0, n_versions);
    tcase_add_loop_test(tests, each_version_finds_its_table, 0, n_versions);
    tcase_add_loop_test(tests, without_a_folder_nothing_is_asked_for, 0, n_versions);
    tcase_add_loop_test(tests, the_time_on_the_gpu_does_not_depend_on_the_order, 0,
                        n_versions * (int)LK_COUNT(orders));
    tcase_add_loop_test(tests, communicators_end_in_any_order, 0, 6);
    tcase_add_loop_test(tests, foreign_handles_are_counted_and_not_read, 0, n_versions);
    tcase_add_test(tests, wrong_handles_do_no_harm);
    tcase_add_test(tests, what_has_no_place_is_counted);
    tcase_add_test(tests, communicators_beyond_the_table_are_counted);
}
