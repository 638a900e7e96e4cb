/*
 * A rank's clock is CLOCK_MONOTONIC_RAW, in ns. Waits use CLOCK_MONOTONIC deadlines (the kernel
 * offers no raw one to wait on), so deadlines and timestamps never mix.
 */
#ifndef LK_BASE_CLOCK_H
#define LK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define LK_NS_PER_S  1000000000ULL
#define LK_NS_PER_MS 1000000ULL
#define LK_NS_PER_US 1000ULL

static inline uint64_t lk_clock_ns_(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * LK_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Return a timestamp for spans. */
static inline uint64_t lk_now_ns(void)
{
    return lk_clock_ns_(CLOCK_MONOTONIC_RAW);
}

/* Return the wall clock (CLOCK_REALTIME), ns since the epoch; it only dates a trace's base. */
static inline uint64_t lk_epoch_ns(void)
{
    return lk_clock_ns_(CLOCK_REALTIME);
}

/* Return CLOCK_MONOTONIC in ns, the clock of lk_deadline and lk_sleep_until_ns. */
static inline uint64_t lk_monotonic_ns(void)
{
    return lk_clock_ns_(CLOCK_MONOTONIC);
}

/* A point on CLOCK_MONOTONIC at which a wait gives up. */
struct lk_deadline {
    uint64_t at_ns; /* UINT64_MAX: never */
};

/* Return the deadline `timeout_ns` from now; UINT64_MAX means never. */
struct lk_deadline lk_deadline_in(uint64_t timeout_ns);

/* Return the time left in ns; 0 when it has passed. */
uint64_t lk_deadline_left_ns(struct lk_deadline d);

/* Return the time left in ms for poll(2): rounded up, -1 for never, 0 when it has passed. */
int lk_deadline_poll_ms(struct lk_deadline d);

/* Return the deadline as an absolute timespec on CLOCK_MONOTONIC, for pthread_cond_clockwait. */
struct timespec lk_deadline_timespec(struct lk_deadline d);

/* Sleep until CLOCK_MONOTONIC reaches monotonic_at_ns; signals do not end it early. */
void lk_sleep_until_ns(uint64_t monotonic_at_ns);

/* Sleep for ns, or until a signal: the pause of a loop that polls. It lowers the thread's timer
 * slack from 50 us to 1 us for good (prctl(2), PR_SET_TIMERSLACK). */
void lk_nap_ns(uint64_t ns);

#endif
