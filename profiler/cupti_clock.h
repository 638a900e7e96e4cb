/*
 * Map CUPTI's clock to ours. CUPTI's is the system's (CLOCK_REALTIME), which NTP steers, unlike
 * ours (lk_now_ns): both are read together now and then, and times between two such points are
 * interpolated.
 *
 * CUPTI could be told to call for our clock (cuptiActivityRegisterTimestampCallback). It is not:
 * from 12.6 Update 2 until 13.1 kernels may then have no times at all (NVIDIA, CUPTI release notes,
 * 13.1), and where a context is older than the callback, or it is registered a second time, kernels
 * keep the system's times while calls have ours (pytorch/pytorch issue 192021 and pull request
 * 190354).
 */
#ifndef LK_PROFILER_CUPTI_CLOCK_H
#define LK_PROFILER_CUPTI_CLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { LK_CUPTI_POINTS = 128 };

struct lk_cupti_clock {
    struct {
        uint64_t theirs_ns, ours_ns;
    } points[LK_CUPTI_POINTS]; /* the last is the newest */
    size_t n;
    uint64_t apart_ns; /* least distance of the points that are kept */
    uint64_t jump_ns;  /* largest step of CUPTI's clock between two points; 0: none */
};

/* Add a reading of both clocks at one moment, later than the ones before. Any number of times: when
 * there is no room, points are thinned out evenly. pre: *c is zero before the first. */
void lk_cupti_clock_add(struct lk_cupti_clock *c, uint64_t theirs_ns, uint64_t ours_ns);

/* Convert CUPTI's time to our clock. Outside the points the nearest point's difference is used.
 * pre: there is a point. */
uint64_t lk_cupti_clock_ours_ns(const struct lk_cupti_clock *c, uint64_t theirs_ns);

#endif
