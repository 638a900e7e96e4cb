/*
 * The one clock of a rank: CLOCK_MONOTONIC_RAW, in ns. Waiting uses CLOCK_MONOTONIC deadlines
 * (the kernel offers no raw one to wait on), so deadlines and timestamps never mix.
 */
#ifndef LK_BASE_CLOCK_H
#define LK_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define LK_NS_PER_S  1000000000ULL
#define LK_NS_PER_MS 1000000ULL
#define LK_NS_PER_US 1000ULL

/* Timestamp for spans. */
static inline uint64_t lk_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * LK_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Wall clock (CLOCK_REALTIME), ns since the epoch: only to name a trace's base. */
uint64_t lk_epoch_ns(void);

/* A point on CLOCK_MONOTONIC by which something must have happened. */
struct lk_deadline {
    uint64_t at_ns; /* UINT64_MAX: never */
};

/* The deadline `timeout_ns` from now; UINT64_MAX means never. */
struct lk_deadline lk_deadline_in(uint64_t timeout_ns);

/* Time left in ns; 0 when it has passed. */
uint64_t lk_deadline_left_ns(struct lk_deadline d);

/* Time left in ms for poll(2): rounded up, -1 for never, 0 when it has passed. */
int lk_deadline_poll_ms(struct lk_deadline d);

/* The deadline as an absolute timespec on CLOCK_MONOTONIC, for pthread_cond_clockwait. */
struct timespec lk_deadline_timespec(struct lk_deadline d);

/* Sleeps until CLOCK_MONOTONIC reaches at_ns, signals notwithstanding. */
void lk_sleep_until_ns(uint64_t monotonic_at_ns);

/* Sleeps for ns, or until a signal, in a wait that looks again. The thread's timers may be late by
 * 1 us from then on, not by 50 (prctl(2), PR_SET_TIMERSLACK). */
void lk_nap_ns(uint64_t ns);

/* CLOCK_MONOTONIC in ns, the clock of lk_deadline and lk_sleep_until_ns. */
uint64_t lk_monotonic_ns(void);

#endif
