/*
 * Offset between two hosts' clocks from round trips, at the start and at the end of a run, with
 * linear drift between. Each round trip bounds the offset (Cristian 1989); the bounds of one moment
 * are intersected (Marzullo 1984), which beats the shortest round trip alone when delays are
 * asymmetric at random. A delay that is always longer one way cannot be seen by anybody: it stays
 * within the uncertainty.
 */
#ifndef LK_BASE_CLOCKFIT_H
#define LK_BASE_CLOCKFIT_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* One exchange: this rank sent at local_send_ns, the reference answered with its clock, this rank
 * received at local_recv_ns. */
struct lk_clock_sample {
    uint64_t local_send_ns, remote_ns, local_recv_ns;
};

/* reference time = local + offset_ns + drift_ppb * 1e-9 * (local - at_ns). */
struct lk_clock_fit {
    uint64_t at_ns; /* local time that offset_ns belongs to */
    int64_t offset_ns;
    double drift_ppb;
    uint64_t uncertainty_ns; /* bound of the error at both moments: at most half the shortest
                                round trip, plus what samples contradict each other */
};

/* The uncertainty of a rank that died before its clock was compared. */
#define LK_CLOCK_UNKNOWN_NS ((uint64_t)INT64_MAX)

/* The fit of a rank that is its own reference: zero offset, zero uncertainty. */
struct lk_clock_fit lk_clock_identity(void);
/* Samples received before they were sent are left out.
 * n_end may be 0 (killed run): no drift is fitted. LK_EEVIDENCE when n_start is 0. */
enum lk_status lk_clock_fit(const struct lk_clock_sample *start, size_t n_start,
                            const struct lk_clock_sample *end, size_t n_end,
                            struct lk_clock_fit *out);
/* Local to reference time; 0 for what would be before the reference's zero. */
uint64_t lk_clock_apply(const struct lk_clock_fit *f, uint64_t local_ns);

#endif
