/*
 * Fit the offset between two hosts' clocks from round trips at the start and at the end of a run,
 * with linear drift between. Each round trip bounds the offset (Cristian 1989); the bounds of one
 * moment are intersected (Marzullo 1984), which beats the shortest round trip alone when delays are
 * asymmetric at random. A delay that is always longer one way cannot be detected; it stays within
 * the uncertainty.
 */
#ifndef LK_BASE_CLOCKFIT_H
#define LK_BASE_CLOCKFIT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* One exchange: this rank sent at local_send_ns, the reference answered with its clock, this rank
 * received at local_recv_ns. */
struct lk_clock_sample {
    uint64_t local_send_ns, remote_ns, local_recv_ns; /* base/clock.h, each host's own */
};

/* reference time = local + offset_ns + drift_ppb * 1e-9 * (local - at_ns). */
struct lk_clock_fit {
    uint64_t at_ns; /* local time that offset_ns belongs to */
    int64_t offset_ns;
    double drift_ppb;        /* ns that the offset grows in a local second */
    uint64_t uncertainty_ns; /* bound of the offset's error at the start and at the end of the run:
                                about half the shortest round trip at most. Where the bounds of
                                two samples do not overlap, the gap between them is added */
};

/* The uncertainty of a rank that died before its clock was compared. */
#define LK_CLOCK_UNKNOWN_NS ((uint64_t)INT64_MAX)

/* Return the fit of a rank that is its own reference: zero offset, zero uncertainty. */
static inline struct lk_clock_fit lk_clock_identity(void)
{
    return (struct lk_clock_fit){0};
}
/* Fit the clock to the samples of the start and of the end of a run. Samples received before they
 * were sent are left out. n_end may be 0 (killed run): no drift is fitted. LK_EEVIDENCE when no
 * sample of the start is left. */
enum lk_status lk_clock_fit(const struct lk_clock_sample *start, size_t n_start,
                            const struct lk_clock_sample *end, size_t n_end,
                            struct lk_clock_fit *out);
/* Convert local to reference time; times before the reference's zero give 0. */
uint64_t lk_clock_apply(const struct lk_clock_fit *f, uint64_t local_ns);

#endif
