/*
 * NVTX's injection (preload/nvtx.c): the library that users get, loaded by tests/fakes/fake_nvtx.h
 * and, where they are installed, by NVTX's own headers. Each test is a process of its own.
 */
#include "base/array.h"
#include "preload/nvtx_abi.h"
#include "tests/fakes/fake_nvtx.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct fake_nvtx nvtx;

/* Open the library; ranges: LOCKSTEP_PROFILE_NVTX, steps: LOCKSTEP_PROFILE_STEP_RANGE, or NULL. */
static void begin(const char *ranges, const char *steps)
{
    foreign_log_to(scratch_dir, 1);
    if (ranges)
        setenv("LOCKSTEP_PROFILE_NVTX", ranges, 1);
    if (steps)
        setenv("LOCKSTEP_PROFILE_STEP_RANGE", steps, 1);
    ck_assert(fake_nvtx_open(&nvtx, LK_PRELOAD_TESTED));
}

static const struct lk_foreign_record *range(const struct foreign_log *l, size_t i)
{
    return foreign_log_at(l, LK_FOREIGN_RANGE, i);
}

static const char *name(const struct foreign_log *l, size_t i)
{
    return l->names + range(l, i)->name;
}

/* ---- Which ranges ---- */

START_TEST(names_that_importers_know_are_recorded)
{
    struct foreign_log l;

    begin(NULL, "train step");
    fake_nvtx_push(&nvtx, "ProfilerStep#12");
    fake_nvtx_push(&nvtx, "aten::mm");
    fake_nvtx_push(&nvtx, "Optimizer.step#SGD.step");
    fake_nvtx_pop(&nvtx);
    fake_nvtx_pop(&nvtx);
    fake_nvtx_pop(&nvtx);
    fake_nvtx_push(&nvtx, "train step 3");
    fake_nvtx_pop(&nvtx);
    fake_nvtx_push(&nvtx, "a train step");
    fake_nvtx_pop(&nvtx);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 3);
    ck_assert_str_eq(name(&l, 0), "Optimizer.step#SGD.step");
    ck_assert_str_eq(name(&l, 1), "ProfilerStep#");
    ck_assert_uint_eq(range(&l, 1)->count, 12);
    ck_assert_str_eq(name(&l, 2), "train step 3");
    ck_assert_int_le(range(&l, 1)->start_ns, range(&l, 0)->start_ns);
    ck_assert_int_le(range(&l, 0)->end_ns, range(&l, 1)->end_ns);
    ck_assert_int_lt(range(&l, 1)->start_ns, range(&l, 1)->end_ns);
    ck_assert_uint_eq(range(&l, 0)->lane, (uint32_t)gettid());
    foreign_log_fini(&l);
}
END_TEST

START_TEST(all_names_on_request)
{
    struct foreign_log l;

    begin("all", NULL);
    fake_nvtx_push(&nvtx, "anything");
    fake_nvtx_pop(&nvtx);
    fake_nvtx_push(&nvtx, "");
    fake_nvtx_pop(&nvtx);
    fake_nvtx_push(&nvtx, NULL);
    fake_nvtx_pop(&nvtx);
    fake_nvtx_push_wide(&nvtx, L"\x53\xfc\x20ac\x1f600");
    fake_nvtx_pop(&nvtx);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 2);
    ck_assert_str_eq(name(&l, 0), "anything");
    ck_assert_str_eq(name(&l, 1), "S\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
    foreign_log_fini(&l);
}
END_TEST

static const struct {
    const char *text, *name;
    uint64_t number;
} numbered[] = {
    {"ProfilerStep#0", "ProfilerStep#", 0},
    {"ProfilerStep#999999999", "ProfilerStep#", 999999999},
    {"ProfilerStep#9999999999", "ProfilerStep#9999999999", 0},
    {"ProfilerStep#12x", "ProfilerStep#12x", 0},
    {"torch::autograd::AccumulateGrad, seq = 3, op_id = 2", "torch::autograd::AccumulateGrad", 0},
};

/* Names in the file are few: a million steps have one. */
START_TEST(steps_share_a_name)
{
    struct foreign_log l;
    char text[64];

    begin(NULL, NULL);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "ProfilerStep#%d", i);
        fake_nvtx_push(&nvtx, text);
        fake_nvtx_pop(&nvtx);
    }
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->names_lost, 0);
    ck_assert_uint_lt(l.header->names_used, 256);
    ck_assert_uint_eq(l.records[l.n - 1].count, 99999);
    foreign_log_fini(&l);
}
END_TEST

START_TEST(numbers_are_taken_out_of_names)
{
    struct foreign_log l;

    begin(NULL, NULL);
    fake_nvtx_push(&nvtx, numbered[_i].text);
    fake_nvtx_pop(&nvtx);
    foreign_log_read(&l, scratch_dir);
    ck_assert_str_eq(name(&l, 0), numbered[_i].name);
    ck_assert_uint_eq(range(&l, 0)->count, numbered[_i].number);
    foreign_log_fini(&l);
}
END_TEST

/* ---- Domains, nesting ---- */

/* Domains nest each for itself: the first one may pop while the second is open. */
START_TEST(each_domain_pops_its_own)
{
    void *a, *b, *text;
    struct foreign_log l;

    begin("all", NULL);
    a = fake_nvtx_domain(&nvtx, "A");
    b = fake_nvtx_domain(&nvtx, "B");
    ck_assert_ptr_eq(fake_nvtx_domain(&nvtx, "A"), a);
    text = fake_nvtx_register(&nvtx, a, "outer");
    ck_assert_int_eq(fake_nvtx_domain_push(&nvtx, a, NVTX_REGISTERED, text), 0);
    ck_assert_int_eq(fake_nvtx_domain_push(&nvtx, b, NVTX_ASCII, "other"), 0);
    ck_assert_int_eq(fake_nvtx_domain_push(&nvtx, a, NVTX_UNICODE, L"inner"), 1);
    ck_assert_int_eq(fake_nvtx_push(&nvtx, "plain"), 0);
    ck_assert_int_eq(fake_nvtx_domain_pop(&nvtx, a), 1);
    ck_assert_int_eq(fake_nvtx_domain_pop(&nvtx, a), 0);
    ck_assert_int_lt(fake_nvtx_domain_pop(&nvtx, a), 0); /* one too many */
    ck_assert_int_eq(fake_nvtx_pop(&nvtx), 0);
    ck_assert_int_eq(fake_nvtx_domain_pop(&nvtx, b), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 4);
    ck_assert_str_eq(name(&l, 0), "A/inner");
    ck_assert_str_eq(name(&l, 1), "A/outer");
    ck_assert_str_eq(name(&l, 2), "plain");
    ck_assert_str_eq(name(&l, 3), "B/other");
    foreign_log_fini(&l);
}
END_TEST

START_TEST(what_does_not_fit_is_counted)
{
    enum { DEPTH = 64, MORE = 10 };
    struct foreign_log l;
    char text[32];

    begin("all", NULL);
    for (int i = 0; i < 200; i++) { /* the last ones share a domain */
        snprintf(text, sizeof text, "domain %d", i);
        ck_assert_ptr_nonnull(fake_nvtx_domain(&nvtx, text));
    }
    for (int i = 0; i < DEPTH + MORE; i++)
        fake_nvtx_push(&nvtx, "nested");
    for (int i = 0; i < DEPTH + MORE; i++)
        fake_nvtx_pop(&nvtx);
    fake_nvtx_domain_push(&nvtx, fake_nvtx_domain(&nvtx, "domain 199"), NVTX_ASCII, "last");
    fake_nvtx_domain_pop(&nvtx, fake_nvtx_domain(&nvtx, "domain 199"));
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, DEPTH + 1);
    ck_assert_uint_eq(l.header->lost, MORE);
    ck_assert_str_eq(name(&l, DEPTH), "other/last");
    foreign_log_fini(&l);
}
END_TEST

/* Wrong domains, strings and attributes of a program do no harm. */
START_TEST(nothing_is_read_through_handles)
{
    struct foreign_log l;

    begin("all", NULL);
    fake_nvtx_domain_push(&nvtx, (void *)(uintptr_t)0x7f0012345678, NVTX_ASCII, "text");
    fake_nvtx_domain_pop(&nvtx, (void *)(uintptr_t)0x7f0012345678);
    fake_nvtx_domain_push(&nvtx, NULL, NVTX_REGISTERED, (void *)(uintptr_t)0x7f0012345678);
    fake_nvtx_domain_pop(&nvtx, NULL);
    fake_nvtx_domain_push(&nvtx, NULL, NVTX_REGISTERED, NULL);
    fake_nvtx_domain_pop(&nvtx, NULL);
    fake_nvtx_domain_push(&nvtx, NULL, 77, "text");
    fake_nvtx_domain_pop(&nvtx, NULL);
    fake_nvtx_end(&nvtx, 0);
    fake_nvtx_end(&nvtx, 12345);
    fake_nvtx_end(&nvtx, UINT64_MAX);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 1);
    ck_assert_str_eq(name(&l, 0), "other/text");
    foreign_log_fini(&l);
}
END_TEST

/* ---- Started ranges, threads ---- */

static void *end_all(void *arg)
{
    uint64_t *ids = arg;

    fake_nvtx_end(&nvtx, ids[0]);
    fake_nvtx_end(&nvtx, ids[1]);
    fake_nvtx_end(&nvtx, ids[0]); /* twice */
    return NULL;
}

START_TEST(a_range_may_end_on_another_thread)
{
    struct foreign_log l;
    pthread_t thread;
    uint64_t ids[2];

    begin("all", NULL);
    ids[0] = fake_nvtx_start(&nvtx, "first");
    ids[1] = fake_nvtx_start(&nvtx, "second");
    ck_assert_uint_ne(ids[0], ids[1]);
    ck_assert_int_eq(pthread_create(&thread, NULL, end_all, ids), 0);
    pthread_join(thread, NULL);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 2);
    ck_assert_str_eq(name(&l, 0), "first");
    ck_assert_uint_eq(range(&l, 0)->lane, (uint32_t)gettid());
    foreign_log_fini(&l);
}
END_TEST

/* A range that encloses many others is not lost; one for which there is no room is counted. */
START_TEST(long_ranges_stay)
{
    enum { PLACES = 1 << 10 };
    static uint64_t ids[PLACES];
    struct foreign_log l;
    uint64_t longest;

    begin("all", NULL);
    longest = fake_nvtx_start(&nvtx, "longest");
    for (int i = 0; i < 3 * PLACES; i++)
        fake_nvtx_end(&nvtx, fake_nvtx_start(&nvtx, "short"));
    for (int i = 0; i < PLACES; i++)
        ids[i] = fake_nvtx_start(&nvtx, "open");
    for (int i = 0; i < PLACES; i++)
        fake_nvtx_end(&nvtx, ids[i]);
    fake_nvtx_end(&nvtx, longest);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 4 * PLACES);
    ck_assert_str_eq(name(&l, l.n - 1), "longest");
    ck_assert_uint_eq(l.header->lost, 1);
    foreign_log_fini(&l);
}
END_TEST

enum { THREADS = 4, RANGES = 5000 };

static void *nest(void *arg)
{
    void *domain = fake_nvtx_domain(&nvtx, arg);

    for (int i = 0; i < RANGES; i++) {
        uint64_t id;

        fake_nvtx_domain_push(&nvtx, domain, NVTX_ASCII, "outer");
        id = fake_nvtx_start(&nvtx, "started");
        fake_nvtx_push(&nvtx, "inner");
        fake_nvtx_domain_pop(&nvtx, domain);
        fake_nvtx_end(&nvtx, id);
        fake_nvtx_pop(&nvtx);
    }
    return NULL;
}

START_TEST(threads_nest_each_for_itself)
{
    static char names[THREADS][16];
    pthread_t threads[THREADS];
    struct foreign_log l;

    foreign_log_to(scratch_dir, 8);
    setenv("LOCKSTEP_PROFILE_NVTX", "all", 1);
    ck_assert(fake_nvtx_open(&nvtx, LK_PRELOAD_TESTED));
    for (int i = 0; i < THREADS; i++) {
        snprintf(names[i], sizeof names[i], "d%d", i);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, nest, names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, (size_t)3 * THREADS * RANGES);
    ck_assert_uint_eq(l.header->lost, 0);
    foreign_log_fini(&l);
}
END_TEST

START_TEST(without_a_folder_no_calls_are_taken)
{
    unsetenv("LOCKSTEP_PROFILE_DIR");
    ck_assert(!fake_nvtx_open(&nvtx, LK_PRELOAD_TESTED));
    for (int i = 0; i < FAKE_NVTX_FUNCTIONS; i++)
        ck_assert(!nvtx.core[i] && !nvtx.core2[i]);
}
END_TEST

/* ---- NVTX's own headers ---- */

#ifdef LK_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

#define SAME(ours, theirs)                                                                         \
    ck_assert_uint_eq(offsetof(struct nvtx_attributes, ours),                                      \
                      offsetof(nvtxEventAttributes_t, theirs))

START_TEST(the_layout_is_that_of_the_headers)
{
    ck_assert_uint_eq(sizeof(struct nvtx_attributes), sizeof(nvtxEventAttributes_t));
    SAME(size, size);
    SAME(payload, payload);
    SAME(message_type, messageType);
    SAME(message, message);
    ck_assert_int_eq(NVTX_START_EX, NVTX_CBID_CORE_RangeStartEx);
    ck_assert_int_eq(NVTX_POP, NVTX_CBID_CORE_RangePop);
    ck_assert_int_eq(NVTX_DOMAIN_START_EX, NVTX_CBID_CORE2_DomainRangeStartEx);
    ck_assert_int_eq(NVTX_DOMAIN_POP, NVTX_CBID_CORE2_DomainRangePop);
    ck_assert_int_eq(NVTX_DOMAIN_REGISTER_A, NVTX_CBID_CORE2_DomainRegisterStringA);
    ck_assert_int_eq(NVTX_DOMAIN_CREATE_W, NVTX_CBID_CORE2_DomainCreateW);
    ck_assert_int_eq(NVTX_CORE2, NVTX_CB_MODULE_CORE2);
    ck_assert_int_eq(NVTX_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
    ck_assert_int_eq(NVTX_TABLE_OF_CALLBACKS, NVTX_ETID_CALLBACKS);
    ck_assert_uint_eq(sizeof(struct nvtx_callbacks), sizeof(NvtxExportTableCallbacks));
}
END_TEST

/* Act as a program: its first call loads the library. */
START_TEST(a_program_with_nvtx_is_recorded)
{
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    nvtxDomainHandle_t domain;
    struct foreign_log l;

    foreign_log_to(scratch_dir, 1);
    setenv("NVTX_INJECTION64_PATH", LK_PRELOAD_TESTED, 1);
    setenv("LOCKSTEP_PROFILE_NVTX", "all", 1);
    domain = nvtxDomainCreateA("mine");
    ck_assert_ptr_nonnull(domain);
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = nvtxDomainRegisterStringA(domain, "epoch#7");
    ck_assert_int_eq(nvtxDomainRangePushEx(domain, &a), 0);
    ck_assert_int_eq(nvtxRangePushA("plain"), 0);
    ck_assert_int_eq(nvtxRangePop(), 0);
    ck_assert_int_eq(nvtxDomainRangePop(domain), 0);
    nvtxRangeEnd(nvtxRangeStartA("started"));
    nvtxMarkA("not recorded");
    nvtxDomainDestroy(domain);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.n, 3);
    ck_assert_str_eq(name(&l, 0), "plain");
    ck_assert_str_eq(name(&l, 1), "mine/epoch#");
    ck_assert_uint_eq(range(&l, 1)->count, 7);
    ck_assert_str_eq(name(&l, 2), "started");
    foreign_log_fini(&l);
}
END_TEST
#endif

SUITE(nvtx_injection, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, names_that_importers_know_are_recorded);
    tcase_add_test(tests, all_names_on_request);
    tcase_add_test(tests, steps_share_a_name);
    tcase_add_loop_test(tests, numbers_are_taken_out_of_names, 0, (int)LK_COUNT(numbered));
    tcase_add_test(tests, each_domain_pops_its_own);
    tcase_add_test(tests, what_does_not_fit_is_counted);
    tcase_add_test(tests, nothing_is_read_through_handles);
    tcase_add_test(tests, a_range_may_end_on_another_thread);
    tcase_add_test(tests, long_ranges_stay);
    tcase_add_test(tests, threads_nest_each_for_itself);
    tcase_add_test(tests, without_a_folder_no_calls_are_taken);
#ifdef LK_HAVE_NVTX
    tcase_add_test(tests, the_layout_is_that_of_the_headers);
    tcase_add_test(tests, a_program_with_nvtx_is_recorded);
#endif
}
