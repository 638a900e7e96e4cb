/* Instants that have the time of a kernel's record: which kernel's, and when there is none. */
#include "profiler/record/cupti_marks.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <pthread.h>

enum { KIND = 9 };

static struct lk_cupti_marks m;
static uint64_t at[LK_CUPTI_MARKS * 3]; /* by a mark's index: its time; 0: it is lost */
static size_t n_ended;
static uint32_t last_step;

static void ended(void *ctx, const struct lk_cupti_mark *mark)
{
    ck_assert_ptr_eq(ctx, &m);
    ck_assert_uint_eq(mark->kind, KIND);
    at[mark->index] = mark->end_ns;
    last_step = mark->step;
    n_ended++;
}

static void setup(void)
{
    ck_assert_int_eq(lk_cupti_marks_init(&m), LK_OK);
}

static void teardown(void)
{
    lk_cupti_marks_fini(&m);
}

/* Issue an op and put a mark behind it. */
static void op(uint32_t step, uint32_t number)
{
    lk_cupti_marks_issue(&m, step, number);
}

static void mark(int32_t index)
{
    ck_assert(lk_cupti_marks_put(&m, KIND, index));
}

static void take(void)
{
    lk_cupti_marks_take(&m, ended, &m);
}

/* Kernels in any order, several to an op, before or after their marks are taken. */
START_TEST(a_mark_has_the_end_of_what_is_before_it)
{
    op(1, 0);
    op(1, 1);
    mark(0);
    mark(1); /* weight and bias */
    op(1, 2);
    op(1, 3);
    if (_i)
        take();
    lk_cupti_marks_kernel(&m, 1, 1, 25);
    lk_cupti_marks_kernel(&m, 1, 0, 10);
    take();
    mark(2);
    lk_cupti_marks_kernel(&m, 1, 1, 20);
    take();
    lk_cupti_marks_kernel(&m, 1, 3, 45);
    lk_cupti_marks_kernel(&m, 1, 3, 40);
    lk_cupti_marks_kernel(&m, 1, 2, 30);
    lk_cupti_marks_kernel(&m, 2, 0, 50);
    lk_cupti_marks_settle(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 0);
    ck_assert(lk_cupti_marks_are_proven(&m));
    lk_cupti_marks_kernel(&m, 3, 0, 60);
    lk_cupti_marks_settle(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 3);
    ck_assert_uint_eq(at[0], 25);
    ck_assert_uint_eq(at[1], 25);
    ck_assert_uint_eq(at[2], 45);
}
END_TEST

/* An op that launched nothing ended with the one before it, which is not sure before the end; one
 * that is the step's first has no time. */
START_TEST(an_op_without_a_kernel)
{
    op(1, 0);
    mark(0);
    op(1, 1);
    op(1, 2);
    mark(1);
    op(1, 3);
    mark(2);
    take();
    lk_cupti_marks_kernel(&m, 1, 1, 20);
    lk_cupti_marks_kernel(&m, 1, 3, 30);
    lk_cupti_marks_kernel(&m, 3, 0, 99);
    lk_cupti_marks_settle(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 1);
    ck_assert_uint_eq(at[2], 30);
    lk_cupti_marks_drain(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 3);
    ck_assert_uint_eq(at[0], 0);
    ck_assert_uint_eq(at[1], 20);
}
END_TEST

/* What was issued before a loss was noticed is lost, the mark that is put behind it later, too; no
 * more are wanted, and one that comes nevertheless is right. */
START_TEST(a_loss_takes_all_marks_so_far)
{
    op(1, 0);
    mark(0);
    take();
    lk_cupti_marks_kernel(&m, 1, 0, 10);
    op(1, 1);
    lk_cupti_marks_kernel(&m, 1, 1, 15);
    lk_cupti_marks_lose(&m, ended, &m);
    ck_assert(!lk_cupti_marks_are_proven(&m));
    ck_assert_uint_eq(n_ended, 1);
    mark(1);
    op(1, 2);
    mark(2);
    take();
    ck_assert_uint_eq(n_ended, 2);
    lk_cupti_marks_kernel(&m, 1, 2, 20);
    ck_assert(!lk_cupti_marks_are_proven(&m));
    lk_cupti_marks_drain(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 3);
    ck_assert_uint_eq(at[0], 0);
    ck_assert_uint_eq(at[1], 0);
    ck_assert_uint_eq(at[2], 20);
}
END_TEST

/* Where no kernels come, marks end as lost; where nobody takes marks, no more are put. */
START_TEST(without_room)
{
    int32_t n = 0;

    for (int i = 0; i < 2; i++) {
        for (op(1, (uint32_t)n); lk_cupti_marks_put(&m, KIND, n); op(1, (uint32_t)n))
            n++;
        ck_assert_int_eq(n, (i + 1) * LK_CUPTI_MARKS);
        take();
    }
    ck_assert_uint_eq(n_ended, 2 * LK_CUPTI_MARKS);
    mark(n);
}
END_TEST

/* One thread issues while another reads, in steps of different lengths. */
enum { THREAD_STEPS = 3000 };

static void *issue_steps(void *arg)
{
    int32_t index = 0;

    (void)arg;
    for (uint32_t step = 0; step < THREAD_STEPS; step++)
        for (uint32_t i = 0; i < 5; i++) {
            op(step, i);
            while (i % 2 == 0 && !lk_cupti_marks_put(&m, KIND, index % LK_CUPTI_MARKS))
                sched_yield();
            index += i % 2 == 0;
        }
    return NULL;
}

START_TEST(two_threads)
{
    pthread_t thread;
    uint64_t issued;

    ck_assert_int_eq(pthread_create(&thread, NULL, issue_steps, NULL), 0);
    for (uint32_t step = 0; step < THREAD_STEPS; step++)
        for (uint32_t i = 0; i < 5; i++) {
            do
                issued = atomic_load(&m.issued);
            while (issued < ((uint64_t)step << 32 | i));
            take();
            lk_cupti_marks_kernel(&m, step, i, 10 * step + i + 1);
            lk_cupti_marks_settle(&m, ended, &m);
            if (last_step > 0)
                ck_assert_uint_le(last_step + 2, step);
        }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    lk_cupti_marks_drain(&m, ended, &m);
    ck_assert_uint_eq(n_ended, 3 * THREAD_STEPS);
    for (size_t i = 0; i < n_ended && i < LK_CUPTI_MARKS; i++)
        ck_assert_uint_eq(at[i], 10 * (i / 3) + 2 * (i % 3) + 1);
}
END_TEST

SUITE(cupti_marks, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_mark_has_the_end_of_what_is_before_it, 0, 2);
    tcase_add_test(tc, an_op_without_a_kernel);
    tcase_add_test(tc, a_loss_takes_all_marks_so_far);
    tcase_add_test(tc, without_room);
    tcase_add_test(tc, two_threads);
}
