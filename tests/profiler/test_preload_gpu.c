/* Collectives on GPUs, placed on the host's clock: profiler/import/preload_gpu.h. */
#include "profiler/import/preload_gpu.h"

#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>

/* The GPU's clock minus the host's. */
#define APART    INT64_C(1763900000000000000)
#define MS       INT64_C(1000000)
#define BEGIN_NS (INT64_C(100000) * MS)

enum { N = 1000 };

static void add(struct lk_preload_times *t, struct lk_foreign_record r)
{
    static uint64_t stamp;

    r.stamp = ++stamp;
    must(lk_preload_times_add(t, &r));
}

static struct lk_foreign_record call(uint64_t link, int64_t at, uint8_t flags)
{
    return (struct lk_foreign_record){.kind = LK_FOREIGN_COLLECTIVE_CALL,
                                      .start_ns = at,
                                      .end_ns = at + 1000,
                                      .link = link,
                                      .group = 1,
                                      .flags = flags};
}

static struct lk_foreign_record work(uint64_t link, int64_t start, int64_t end, int64_t seen)
{
    return (struct lk_foreign_record){.kind = LK_FOREIGN_COLLECTIVE_GPU,
                                      .link = link,
                                      .group = 1,
                                      .flags = LK_FOREIGN_SEEN,
                                      .end_ns = seen,
                                      .start_ns = seen - (end - start),
                                      .count = (uint64_t)(start + APART)};
}

/* Calls come 5 to 500 us before their kernels, and the host sees ends 3 to 800 us late; the clocks
 * drift by 10 ppm. Each collective lies within the error that is said, its length is exact. */
START_TEST(the_error_holds)
{
    static int64_t truth[N];
    struct lk_preload_times t = {0};
    int64_t at = BEGIN_NS;

    srand(7);
    for (int i = 0; i < N; i++) {
        int64_t launch = 5000 + rand() % 495000, late = 3000 + rand() % 797000;
        int64_t drift = (at - BEGIN_NS) / 100000;

        add(&t, call((uint64_t)i + 1, at, 0));
        truth[i] = at + launch;
        add(&t, work((uint64_t)i + 1, truth[i] + drift, truth[i] + drift + 200000,
                     truth[i] + 200000 + late));
        at += 3 * MS;
    }
    lk_preload_times_place(&t);
    ck_assert_uint_eq(t.n, N);
    ck_assert_int_gt(t.error_ns, 0);
    ck_assert_int_lt(t.error_ns, 50000);
    for (int i = 0; i < N; i++) {
        const struct lk_preload_time *x = lk_preload_times_of(&t, (uint64_t)i + 1);

        ck_assert_int_eq(x->end_ns - x->start_ns, 200000);
        /* In a second the clocks drift by 10 us. */
        ck_assert_int_le(llabs(x->start_ns - truth[i]), t.error_ns + 10000);
    }
    ck_assert_ptr_null(lk_preload_times_of(&t, N + 1));
    ck_assert_ptr_null(lk_preload_times_of(&t, 0));
    lk_preload_times_fini(&t);
}
END_TEST

/* More of the channels end later: the longest record is the whole one, in any order of links. */
START_TEST(records_of_a_collective_are_joined)
{
    struct lk_preload_times t = {0};
    const struct lk_preload_time *x;

    add(&t, work(2, BEGIN_NS, BEGIN_NS + 100, BEGIN_NS + 5000));
    add(&t, call(1, BEGIN_NS - 50, 0));
    add(&t, work(2, BEGIN_NS, BEGIN_NS + 900, BEGIN_NS + 6000));
    add(&t, call(2, BEGIN_NS - 2000, 0));
    lk_preload_times_place(&t);
    ck_assert_uint_eq(t.n, 2);
    x = lk_preload_times_of(&t, 2);
    ck_assert_int_eq(x->end_ns - x->start_ns, 900);
    ck_assert_int_eq(x->called_ns, BEGIN_NS - 2000);
    ck_assert_uint_eq(x->stamp, t.at[1].stamp);
    ck_assert_int_eq(lk_preload_times_of(&t, 1)->seen_ns, 0);
    /* Between 2000 ns before and 5100 behind. */
    ck_assert_int_eq(t.error_ns, 3550);
    ck_assert_int_eq(x->start_ns, BEGIN_NS + 1550);
    lk_preload_times_fini(&t);
}
END_TEST

/* A graph's calls say nothing of when its kernels ran: then the ends alone do. */
START_TEST(without_calls_the_error_is_not_known)
{
    struct lk_preload_times t = {0};

    add(&t, call(1, BEGIN_NS, LK_FOREIGN_GRAPH));
    add(&t, work(1, BEGIN_NS, BEGIN_NS + 100, BEGIN_NS + 600));
    lk_preload_times_place(&t);
    ck_assert_int_eq(t.error_ns, -1);
    ck_assert_int_eq(lk_preload_times_of(&t, 1)->start_ns, BEGIN_NS + 500);
    lk_preload_times_fini(&t);
}
END_TEST

/* Times that cannot be are left out: sums of others do not overflow. */
START_TEST(times_that_cannot_be_are_left_out)
{
    struct lk_preload_times t = {0};
    struct lk_foreign_record r = work(1, BEGIN_NS, BEGIN_NS + 100, BEGIN_NS + 600);

    r.count = UINT64_MAX;
    add(&t, r);
    r = work(1, BEGIN_NS, BEGIN_NS + 100, INT64_MAX);
    add(&t, r);
    r = work(1, BEGIN_NS, BEGIN_NS + 100, BEGIN_NS + 600);
    r.start_ns = -1;
    add(&t, r);
    r = work(0, BEGIN_NS, BEGIN_NS + 100, BEGIN_NS + 600);
    add(&t, r);
    lk_preload_times_place(&t);
    ck_assert_uint_eq(t.n, 0);
    lk_preload_times_fini(&t);
}
END_TEST

SUITE(preload_gpu, tests)
{
    tcase_add_test(tests, the_error_holds);
    tcase_add_test(tests, records_of_a_collective_are_joined);
    tcase_add_test(tests, without_calls_the_error_is_not_known);
    tcase_add_test(tests, times_that_cannot_be_are_left_out);
}
