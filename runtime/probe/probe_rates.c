/* The rates of copies and products; see the header. */
#include "runtime/probe/probe.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/words.h"
#include "kernels/ops.h"
#include "runtime/probe/probe_block.h"
#include "runtime/probe/probe_impl.h"

#include <stdlib.h>

/* Limit of a burst's calls. A product may be two kernels, and CUDA's queue of launches holds about
 * 1000 behind the kernel that delays the stream: with more the time would include the host's part
 * again. */
enum { BURST_MAX = 400 };

struct rates {
    const struct lk_rates_config *config;
    struct lk_device *device;
    struct lk_probe_clock clock;
    struct lk_probe_effort effort;
    struct lk_rate_rows rows;
    const struct lk_rate_row *now;    /* the row that is being timed */
    void *host, *device_a, *device_b; /* for copies: as large as the largest */
    void *out, *in, *weight;          /* for products */
};

static enum lk_status put(void *ctx, struct lk_stream *s)
{
    const struct rates *r = ctx;
    const struct lk_rate_row *row = r->now;
    size_t bytes = (size_t)row->bytes;

    switch (row->kind) {
    case LK_RATE_DEVICE_TO_DEVICE:
        return lk_stream_copy(s, r->device_a, r->device_b, bytes);
    case LK_RATE_HOST_TO_DEVICE:
        return lk_stream_copy(s, r->device_a, r->host, bytes);
    case LK_RATE_DEVICE_TO_HOST:
        return lk_stream_copy(s, r->host, r->device_a, bytes);
    default:
        return LK_LAUNCH(s, matmul_forward, .out = r->out, .in = r->in, .weight = r->weight,
                         .rows = row->shape.rows, .inputs = row->shape.inner,
                         .outputs = row->shape.columns);
    }
}

static enum lk_status time_row(struct rates *r, struct lk_rate_row *row, double *out_s)
{
    struct lk_probe_time t;
    enum lk_status st;

    r->now = row;
    st = lk_probe_clock_time(&r->clock, put, r, row->burst, &t);
    if (st == LK_OK)
        *out_s = t.s / (double)row->burst;
    return st;
}

static enum lk_status choose_burst(struct rates *r, struct lk_rate_row *row)
{
    double call_s, n;

    row->burst = 1;
    LK_PASS(time_row(r, row, &call_s)); /* the first call also loads code */
    LK_PASS(time_row(r, row, &call_s));
    n = call_s > 0 ? r->config->burst_s / call_s : BURST_MAX;
    row->burst = (size_t)(n < 1 ? 1 : n > BURST_MAX ? BURST_MAX : n);
    return LK_OK;
}

static enum lk_status init_rows(struct rates *r, size_t n)
{
    LK_PASS(lk_alloc(&r->rows.row, n, sizeof *r->rows.row));
    for (; r->rows.n < n; r->rows.n++) {
        struct lk_rate_row *row = &r->rows.row[r->rows.n];

        row->warmup = r->effort.warmup;
        row->dtype = lk_device_real_dtype(r->device);
        LK_PASS(
            lk_alloc(&row->time_s, r->effort.warmup + r->effort.repetitions, sizeof *row->time_s));
    }
    return LK_OK;
}

/* Time the rows from `first` on, interleaved, until there are enough samples or the time is up. */
static enum lk_status measure(struct rates *r, size_t first)
{
    uint64_t start_ns = lk_now_ns();
    size_t n = 0;

    for (size_t i = first; i < r->rows.n; i++)
        LK_PASS(choose_burst(r, &r->rows.row[i]));
    do {
        for (size_t i = first; i < r->rows.n; i++) {
            struct lk_rate_row *row = &r->rows.row[i];

            LK_PASS(time_row(r, row, &row->time_s[row->n]));
            row->n++;
        }
    } while (!lk_probe_over(&r->effort, ++n, LK_PROBE_SAMPLES_MIN,
                            lk_s_from_ns(lk_now_ns() - start_ns)));
    return LK_OK;
}

static enum lk_status open_rates(struct rates *r, const struct lk_rates_config *config, size_t n)
{
    *r = (struct rates){.config = config, .device = lk_stream_device(config->stream)};
    r->effort = config->effort;
    if (r->effort.repetitions < LK_PROBE_SAMPLES_MIN)
        r->effort.repetitions = LK_PROBE_SAMPLES_MIN;
    LK_PASS(lk_probe_clock_init(&r->clock, config->stream, config->timeout_ns));
    return init_rows(r, n);
}

static void free_products(struct rates *r)
{
    lk_device_free(r->device, r->out);
    lk_device_free(r->device, r->in);
    lk_device_free(r->device, r->weight);
    r->out = r->in = r->weight = NULL;
}

static void close_rates(struct rates *r)
{
    lk_rate_rows_fini(&r->rows);
    lk_probe_clock_fini(&r->clock);
    lk_device_free_host(r->device, r->host);
    lk_device_free(r->device, r->device_a);
    lk_device_free(r->device, r->device_b);
    free_products(r);
}

enum lk_status lk_probe_copies(const struct lk_rates_config *config, const uint64_t *bytes,
                               size_t n, struct lk_rate_rows *out)
{
    enum lk_status st = LK_OK;
    struct rates r = {0};
    uint64_t largest = 0;

    LK_TRY(open_rates(&r, config, n * LK_RATE_PRODUCT));
    for (size_t i = 0; i < r.rows.n; i++) {
        r.rows.row[i].kind = (enum lk_rate_kind)(i / n);
        r.rows.row[i].bytes = bytes[i % n];
        largest = bytes[i % n] > largest ? bytes[i % n] : largest;
    }
    LK_TRY(lk_device_alloc_host(r.device, (size_t)largest, &r.host));
    LK_TRY(lk_device_alloc(r.device, (size_t)largest, &r.device_a));
    LK_TRY(lk_device_alloc(r.device, (size_t)largest, &r.device_b));
    LK_TRY(measure(&r, 0));
    *out = r.rows;
    r.rows = (struct lk_rate_rows){0};
out:
    close_rates(&r);
    return st;
}

static enum lk_status make_products(struct rates *r, const struct lk_product_shape *p)
{
    size_t real = lk_device_real_bytes(r->device);
    uint64_t timeout_ns = r->config->timeout_ns;

    LK_PASS(lk_device_alloc(r->device, p->rows * p->columns * real, &r->out));
    LK_PASS(lk_device_alloc(r->device, p->rows * p->inner * real, &r->in));
    LK_PASS(lk_device_alloc(r->device, p->inner * p->columns * real, &r->weight));
    LK_PASS(lk_block_fill(r->config->stream, r->in, p->rows * p->inner, timeout_ns));
    return lk_block_fill(r->config->stream, r->weight, p->inner * p->columns, timeout_ns);
}

/* Measure one product. Each makes its own buffers, because those of all may not fit together. */
static enum lk_status measure_product(struct rates *r, size_t i)
{
    size_t n = r->rows.n;
    enum lk_status st = make_products(r, &r->rows.row[i].shape);

    if (st == LK_OK) {
        r->rows.n = i + 1;
        st = measure(r, i);
        r->rows.n = n;
    } else if (st == LK_ENOMEM) {
        st = LK_OK; /* it does not fit: its row has no samples */
    }
    free_products(r);
    return st;
}

enum lk_status lk_probe_products(const struct lk_rates_config *config,
                                 const struct lk_product_shape *shapes, size_t n,
                                 struct lk_rate_rows *out)
{
    enum lk_status st = LK_OK;
    struct rates r = {0};

    LK_TRY(open_rates(&r, config, n));
    for (size_t i = 0; i < n; i++) {
        r.rows.row[i].kind = LK_RATE_PRODUCT;
        r.rows.row[i].shape = shapes[i];
    }
    r.effort.budget_s /= (double)n;
    for (size_t i = 0; i < n; i++)
        LK_TRY(measure_product(&r, i));
    *out = r.rows;
    r.rows = (struct lk_rate_rows){0};
out:
    close_rates(&r);
    return st;
}
