/* Clocks and deadlines: order and arithmetic, not durations. */
#include "base/array.h"
#include "base/clock.h"
#include "tests/rigs/suite.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

START_TEST(clocks_go_forward)
{
    uint64_t raw = lk_now_ns();
    uint64_t monotonic = lk_monotonic_ns();

    for (int i = 0; i < 10000; i++) {
        uint64_t next_raw = lk_now_ns();
        uint64_t next_monotonic = lk_monotonic_ns();

        ck_assert_uint_ge(next_raw, raw);
        ck_assert_uint_ge(next_monotonic, monotonic);
        raw = next_raw;
        monotonic = next_monotonic;
    }
    ck_assert_uint_gt(lk_epoch_ns(), 1700000000ULL * LK_NS_PER_S); /* after 2023 */
}
END_TEST

START_TEST(deadlines_pass)
{
    struct lk_deadline past = {.at_ns = lk_monotonic_ns() - 1};
    struct lk_deadline now = lk_deadline_in(0);
    struct lk_deadline hour = lk_deadline_in(3600 * LK_NS_PER_S);

    ck_assert_uint_eq(lk_deadline_left_ns(past), 0);
    ck_assert_int_eq(lk_deadline_poll_ms(past), 0);
    ck_assert_uint_eq(lk_deadline_left_ns(now), 0);
    ck_assert_uint_gt(lk_deadline_left_ns(hour), 0);
    ck_assert_uint_le(lk_deadline_left_ns(hour), 3600 * LK_NS_PER_S);
    ck_assert_int_le(lk_deadline_poll_ms(hour), 3600 * 1000);
    ck_assert_int_gt(lk_deadline_poll_ms(hour), 0);
}
END_TEST

START_TEST(never)
{
    static const uint64_t timeouts[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 1000};

    for (size_t i = 0; i < LK_COUNT(timeouts); i++) {
        struct lk_deadline d = lk_deadline_in(timeouts[i]);

        ck_assert_uint_eq(d.at_ns, UINT64_MAX);
        ck_assert_uint_eq(lk_deadline_left_ns(d), UINT64_MAX);
        ck_assert_int_eq(lk_deadline_poll_ms(d), -1);
        ck_assert_int_gt(lk_deadline_timespec(d).tv_sec, 1000000000);
    }
}
END_TEST

START_TEST(milliseconds_round_up)
{
    struct lk_deadline d = lk_deadline_in(3600 * LK_NS_PER_S);

    /* Never less than the time left: a poll that returns early would spin. */
    for (int i = 0; i < 1000; i++) {
        uint64_t left_ns = lk_deadline_left_ns(d);
        uint64_t wait_ns = (uint64_t)lk_deadline_poll_ms(d);

        wait_ns *= LK_NS_PER_MS;
        ck_assert_uint_le(wait_ns, left_ns + LK_NS_PER_MS);
        ck_assert_uint_ge(wait_ns, lk_deadline_left_ns(d));
    }
    /* Far away, but not never: as long as poll can wait. */
    ck_assert_int_eq(lk_deadline_poll_ms(lk_deadline_in(100ULL * 86400 * LK_NS_PER_S)), INT_MAX);
}
END_TEST

START_TEST(timespec_is_the_deadline)
{
    struct timespec t = lk_deadline_timespec((struct lk_deadline){.at_ns = 12345678901ULL});

    ck_assert_int_eq(t.tv_sec, 12);
    ck_assert_int_eq(t.tv_nsec, 345678901);
}
END_TEST

static void ignore(int signal_number)
{
    (void)signal_number;
}

static void *interrupt(void *argument)
{
    const pthread_t *target = argument;

    for (int i = 0; i < 20; i++) {
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
        pthread_kill(*target, SIGUSR1);
    }
    return NULL;
}

START_TEST(sleep_lasts_until_the_deadline)
{
    struct sigaction action = {.sa_handler = ignore}; /* no SA_RESTART */
    uint64_t at = lk_monotonic_ns() + 50 * LK_NS_PER_MS;
    pthread_t self = pthread_self();
    pthread_t other;

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, interrupt, &self), 0);
    lk_sleep_until_ns(at);
    ck_assert_uint_ge(lk_monotonic_ns(), at);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    lk_sleep_until_ns(0); /* the past: at once */
}
END_TEST

START_TEST(naps_are_not_late_by_the_usual_slack)
{
    uint64_t at = lk_monotonic_ns();

    ck_assert_int_eq(prctl(PR_SET_TIMERSLACK, 50000UL), 0);
    lk_nap_ns(LK_NS_PER_MS);
    ck_assert_uint_ge(lk_monotonic_ns(), at + LK_NS_PER_MS);
    ck_assert_int_le(prctl(PR_GET_TIMERSLACK), 1000);
}
END_TEST

SUITE(clock, c)
{
    tcase_add_test(c, clocks_go_forward);
    tcase_add_test(c, deadlines_pass);
    tcase_add_test(c, never);
    tcase_add_test(c, milliseconds_round_up);
    tcase_add_test(c, timespec_is_the_deadline);
    tcase_add_test(c, sleep_lasts_until_the_deadline);
    tcase_add_test(c, naps_are_not_late_by_the_usual_slack);
}
