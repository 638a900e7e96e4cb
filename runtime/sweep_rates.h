/*
 * Rates of one device, timed by its streams' events: copies by size and matrix products by shape.
 *
 * Not collective: the ranks that do not measure wait at a barrier of their own. Copies of all sizes
 * are interleaved, products come one shape after the other. Every sample is kept, the first
 * `warmup` of a row are warm-up.
 */
#ifndef LK_RUNTIME_SWEEP_RATES_H
#define LK_RUNTIME_SWEEP_RATES_H

#include "base/dtype.h"
#include "base/status.h"
#include "runtime/device.h"

#include <stddef.h>
#include <stdint.h>

/* X(copy, name): from where to where. Host memory is page-locked. */
#define LK_RATE_LIST(X)                                                                            \
    X(LK_RATE_DEVICE_TO_DEVICE, "device to device")                                                \
    X(LK_RATE_HOST_TO_DEVICE, "host to device")                                                    \
    X(LK_RATE_DEVICE_TO_HOST, "device to host")                                                    \
    X(LK_RATE_PRODUCT, "matrix product")

enum lk_rate_kind {
#define LK_RATE_ENUM_(kind, name) kind,
    LK_RATE_LIST(LK_RATE_ENUM_)
#undef LK_RATE_ENUM_
        LK_RATE_COUNT
};
extern const char *const lk_rate_names[LK_RATE_COUNT];

/* out = in * transposed(weight), as a linear layer: (rows, inner) by (inner, columns). */
struct lk_product_shape {
    const char *name; /* static storage */
    size_t rows, inner, columns;
};

struct lk_rate_row {
    enum lk_rate_kind kind;
    uint64_t bytes;                /* copied by a call; a copy within the device moves twice that */
    struct lk_product_shape shape; /* of a product */
    enum lk_dtype dtype;           /* of a product: the device's, float32 by tf32 */
    size_t burst, warmup, n;
    double *time_s; /* a call; n of them. n 0: not measured, its buffers do not fit */
};
struct lk_rate_rows {
    struct lk_rate_row *row;
    size_t n;
};
void lk_rate_rows_fini(struct lk_rate_rows *r);
/* Work of a call: bytes copied, or operations (a multiply and an add count as two). */
double lk_rate_work(const struct lk_rate_row *r);

struct lk_rates_config {
    struct lk_stream *stream;
    size_t repetitions, warmup; /* at least three are taken */
    double burst_s;             /* length aimed at of a timed burst */
    double budget_s;            /* stop after a whole repetition when this has passed; 0: never */
    uint64_t timeout_ns;
};

/* Copies of n sizes in all three directions. */
enum lk_status lk_sweep_copies(const struct lk_rates_config *config, const uint64_t *bytes,
                               size_t n, struct lk_rate_rows *out);
/* Products of n shapes in the device's own element type. */
enum lk_status lk_sweep_products(const struct lk_rates_config *config,
                                 const struct lk_product_shape *shapes, size_t n,
                                 struct lk_rate_rows *out);

#endif
