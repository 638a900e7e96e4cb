/* A rank's clock; see the header. */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/prctl.h>

struct lk_deadline lk_deadline_in(uint64_t timeout_ns)
{
    uint64_t now = lk_monotonic_ns();

    return (struct lk_deadline){timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns};
}

uint64_t lk_deadline_left_ns(struct lk_deadline d)
{
    uint64_t now = lk_monotonic_ns();

    if (d.at_ns == UINT64_MAX)
        return UINT64_MAX;
    return now >= d.at_ns ? 0 : d.at_ns - now;
}

int lk_deadline_poll_ms(struct lk_deadline d)
{
    uint64_t left = lk_deadline_left_ns(d);

    if (left == UINT64_MAX)
        return -1;
    left = left / LK_NS_PER_MS + (left % LK_NS_PER_MS != 0);
    return left > INT_MAX ? INT_MAX : (int)left;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / LK_NS_PER_S),
                             .tv_nsec = (long)(ns % LK_NS_PER_S)};
}

struct timespec lk_deadline_timespec(struct lk_deadline d)
{
    /* UINT64_MAX means never: use a time that cannot overflow in the kernel, about 146 years. */
    return to_timespec(d.at_ns > UINT64_MAX / 4 ? UINT64_MAX / 4 : d.at_ns);
}

void lk_sleep_until_ns(uint64_t monotonic_at_ns)
{
    struct timespec t = to_timespec(monotonic_at_ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

void lk_nap_ns(uint64_t ns)
{
    static _Thread_local bool prompt;
    const struct timespec t = to_timespec(ns);

    if (!prompt)
        prompt = !prctl(PR_SET_TIMERSLACK, (unsigned long)LK_NS_PER_US);
    (void)nanosleep(&t, NULL);
}
