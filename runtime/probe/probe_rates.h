/*
 * Rates of one device, timed by its streams' events: copies by size and matrix products by shape.
 *
 * The functions are not collective: ranks that do not measure wait at a barrier of the caller's.
 * Copies of all sizes are interleaved; products are measured shape by shape. Every sample is kept,
 * the first `warmup` of a row are warm-up.
 */
#ifndef LK_RUNTIME_PROBE_RATES_H
#define LK_RUNTIME_PROBE_RATES_H

#include "base/samples.h"
#include "base/status.h"
#include "runtime/device/device.h"
#include "runtime/probe/probe.h"

#include <stddef.h>
#include <stdint.h>

struct lk_rates_config {
    struct lk_stream *stream;
    struct lk_probe_effort effort; /* at least three repetitions are taken */
    double burst_s;                /* desired length of a timed burst */
    uint64_t timeout_ns;
};

/* Measure copies of n sizes in all three directions. */
enum lk_status lk_probe_copies(const struct lk_rates_config *config, const uint64_t *bytes,
                               size_t n, struct lk_rate_rows *out);
/* Measure products of n shapes in the device's own element type. */
enum lk_status lk_probe_products(const struct lk_rates_config *config,
                                 const struct lk_product_shape *shapes, size_t n,
                                 struct lk_rate_rows *out);

#endif
