/*
 * Measure overlap on the streams of a device; see the header.
 *
 * Work cannot be stopped once it is on a stream, so each side gets enough work to outlast the
 * other, by the times measured before and a margin. The events show if it did.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "kernels/ops.h"
#include "runtime/probe/probe_impl.h"

#include <math.h>
#include <stdlib.h>

enum {
    PILOT_UNITS = 4,
    SPARE_UNITS = 4, /* units before the collectives begin, and after them */
    POINTS_MAX = 4096
};
static const double SETTLE_S = 100e-6;
static const double FIRST_STRETCH = 1.5;

struct streams {
    struct lk_comm *comm;
    const struct lk_probe_stream_config *config;
    const struct lk_probe_beside *beside;
    struct lk_coll_call call; /* an all-reduce; a surrogate uses only buf and from */
    struct lk_probe_clock compute, net;
    struct lk_event **points; /* between units of compute, n_points of them made */
    uint64_t *points_ns;
    size_t n_points;
    size_t units; /* units of a stretch of compute */
    double quiet_s, traffic_s;
    double stretch; /* ratio of a side's length to the expected length of the other */
};

static bool is_surrogate(const struct streams *s)
{
    return s->beside->ctas > 0;
}

static enum lk_status put_unit(void *ctx, struct lk_stream *stream)
{
    const struct streams *s = ctx;

    return s->config->unit(s->config->ctx, stream);
}

static enum lk_status put_call(void *ctx, struct lk_stream *stream)
{
    struct streams *s = ctx;

    if (!is_surrogate(s))
        return lk_comm_put(s->comm, stream, &s->call);
    return LK_LAUNCH(stream, move, .to = s->call.buf, .from = s->call.from,
                     .bytes = s->beside->bytes, .ctas = s->beside->ctas, .Bps = s->beside->Bps);
}

static enum lk_status sync(const struct lk_probe_clock *c)
{
    return lk_stream_sync(c->stream, lk_deadline_in(c->timeout_ns));
}

/* Let the streams of all ranks be delayed for the same time, that of the slowest host. */
static enum lk_status agree(struct streams *s, struct lk_probe_clock *c)
{
    return lk_probe_extreme(s->comm, true, c->put_s, &c->put_s);
}

static enum lk_status make_points(struct streams *s, size_t n)
{
    for (; s->n_points < n; s->n_points++)
        LK_PASS(lk_event_create(lk_stream_device(s->compute.stream), &s->points[s->n_points]));
    return LK_OK;
}

/* Enqueue units `from` to `to` of a stretch, with a point before the first and after each of them.
 */
static enum lk_status put_units(struct streams *s, size_t from, size_t to)
{
    LK_PASS(make_points(s, to + 1));
    if (from == 0)
        LK_PASS(lk_event_record(s->points[0], s->compute.stream));
    for (size_t i = from; i < to; i++) {
        LK_PASS(put_unit(s, s->compute.stream));
        LK_PASS(lk_event_record(s->points[i + 1], s->compute.stream));
    }
    return LK_OK;
}

/* Time compute alone; keep the time, because the margins of the others follow from it. */
static enum lk_status time_quiet(void *ctx, double *out_s)
{
    struct streams *s = ctx;
    uint64_t start_ns;

    LK_PASS(lk_comm_barrier(s->comm));
    start_ns = lk_now_ns();
    LK_PASS(LK_LAUNCH(s->compute.stream, wait, .seconds = lk_probe_hold_s(&s->compute, s->units)));
    LK_PASS(put_units(s, 0, s->units));
    s->compute.put_s = lk_s_from_ns(lk_now_ns() - start_ns) / (double)s->units;
    LK_PASS(sync(&s->compute));
    LK_PASS(agree(s, &s->compute));
    s->quiet_s = lk_probe_between_s(s->points[0], s->points[s->units]);
    *out_s = s->quiet_s;
    return LK_OK;
}

/* Return the time from the start of a waiting collective to that of compute beside it: by then its
 * blocks are resident, and the host has enqueued compute. */
static double settle_s(const struct streams *s)
{
    return SETTLE_S + lk_probe_hold_s(&s->compute, s->units);
}

/* Enqueue the work that waits: a surrogate, or the collective, which the late rank enters later. */
static enum lk_status put_waiting(struct streams *s, int late)
{
    struct lk_stream *net = s->net.stream;
    double seconds = s->quiet_s * s->stretch + settle_s(s) + SETTLE_S;

    if (!is_surrogate(s) && lk_comm_rank(s->comm) == late)
        LK_PASS(LK_LAUNCH(net, wait, .seconds = seconds));
    LK_PASS(lk_event_record(s->net.begin, net));
    if (is_surrogate(s))
        LK_PASS(LK_LAUNCH(net, hold, .seconds = seconds, .ctas = s->beside->ctas));
    else
        LK_PASS(put_call(s, net));
    return lk_event_record(s->net.end, net);
}

static enum lk_status time_wait(void *ctx, int late, double *out_s)
{
    struct streams *s = ctx;
    bool waits = is_surrogate(s) || lk_comm_rank(s->comm) != late;

    LK_PASS(lk_comm_barrier(s->comm));
    LK_PASS(put_waiting(s, late));
    if (waits)
        LK_PASS(lk_stream_wait(s->compute.stream, s->net.begin));
    LK_PASS(LK_LAUNCH(s->compute.stream, wait, .seconds = settle_s(s)));
    LK_PASS(put_units(s, 0, s->units));
    LK_PASS(sync(&s->compute));
    LK_PASS(sync(&s->net));
    *out_s = lk_probe_between_s(s->points[0], s->points[s->units]);
    if (waits && lk_event_time_ns(s->net.end) < lk_event_time_ns(s->points[s->units]))
        *out_s = NAN;
    return LK_OK;
}

static enum lk_status time_traffic(void *ctx, size_t calls, double *out_s)
{
    struct streams *s = ctx;
    struct lk_probe_time t;

    LK_PASS(lk_comm_barrier(s->comm));
    LK_PASS(lk_probe_clock_time(&s->net, put_call, s, calls, &t));
    LK_PASS(agree(s, &s->net));
    s->traffic_s = t.s;
    *out_s = t.s;
    return LK_OK;
}

/* Return how many units outlast the calls: those before, those while they run, and spare ones. */
static size_t units_beside(const struct streams *s)
{
    double unit_s = s->quiet_s / (double)s->units;
    double n = 2 * SPARE_UNITS + (unit_s > 0 ? s->traffic_s * s->stretch / unit_s : 0);

    return n < POINTS_MAX - 1 ? (size_t)n : POINTS_MAX - 1;
}

/* Enqueue both; the calls begin after the first unit, when compute has the device. */
static enum lk_status put_both(struct streams *s, size_t calls, size_t units)
{
    double hold_s = lk_probe_hold_s(&s->compute, units) + lk_probe_hold_s(&s->net, calls);

    LK_PASS(LK_LAUNCH(s->compute.stream, wait, .seconds = hold_s));
    LK_PASS(put_units(s, 0, 1));
    LK_PASS(lk_stream_wait(s->net.stream, s->points[1]));
    LK_PASS(lk_event_record(s->net.begin, s->net.stream));
    for (size_t k = 0; k < calls; k++)
        LK_PASS(put_call(s, s->net.stream));
    LK_PASS(lk_event_record(s->net.end, s->net.stream));
    return put_units(s, 1, units);
}

static enum lk_status time_both(void *ctx, size_t calls, double *out_traffic_s,
                                double *out_compute_s)
{
    struct streams *s = ctx;
    size_t units = units_beside(s);

    LK_PASS(lk_comm_barrier(s->comm));
    LK_PASS(put_both(s, calls, units));
    LK_PASS(sync(&s->compute));
    LK_PASS(sync(&s->net));
    for (size_t i = 0; i <= units; i++)
        s->points_ns[i] = lk_event_time_ns(s->points[i]);
    *out_traffic_s = lk_probe_between_s(s->net.begin, s->net.end);
    *out_compute_s = lk_overlap_unit_s(s->points_ns, units + 1, lk_event_time_ns(s->net.begin),
                                       lk_event_time_ns(s->net.end)) *
                     (double)s->units;
    return LK_OK;
}

static void lengthen(void *ctx)
{
    struct streams *s = ctx;

    s->stretch *= 2;
}

static const struct lk_overlap_ops by_streams = {.quiet = time_quiet,
                                                 .wait = time_wait,
                                                 .traffic = time_traffic,
                                                 .both = time_both,
                                                 .lengthen = lengthen};

/* Choose how many units a stretch has, the same on all ranks, from the fastest. */
static enum lk_status choose_units(struct streams *s, double *out_unit_s)
{
    struct lk_probe_time t;
    double n;

    LK_PASS(lk_probe_clock_time(&s->compute, put_unit, s, PILOT_UNITS, &t));
    LK_PASS(lk_probe_clock_time(&s->compute, put_unit, s, PILOT_UNITS, &t));
    LK_PASS(lk_probe_extreme(s->comm, false, t.s / PILOT_UNITS, out_unit_s));
    n = *out_unit_s > 0 ? s->config->unit_target_s / *out_unit_s : 1;
    s->units = n < 1 ? 1 : n > POINTS_MAX - 1 ? POINTS_MAX - 1 : (size_t)n;
    return LK_OK;
}

static enum lk_status open_streams(struct streams *s)
{
    struct lk_device *d = lk_stream_device(s->config->net);
    size_t bytes = (size_t)s->beside->bytes;
    void *from = NULL;

    s->call = (struct lk_coll_call){
        .coll = LK_ALL_REDUCE, .dtype = LK_F32, .count = bytes / sizeof(float), .index = -1};
    LK_PASS(lk_comm_alloc(s->comm, d, bytes, &s->call.buf));
    if (is_surrogate(s)) {
        LK_PASS(lk_device_alloc(d, bytes, &from));
        s->call.from = from;
    }
    LK_PASS(lk_probe_clock_init(&s->compute, s->config->compute, s->config->timeout_ns));
    LK_PASS(lk_probe_clock_init(&s->net, s->config->net, s->config->timeout_ns));
    LK_PASS(lk_alloc(&s->points, POINTS_MAX, sizeof(*s->points)));
    return lk_alloc(&s->points_ns, POINTS_MAX, sizeof *s->points_ns);
}

static void close_streams(struct streams *s)
{
    struct lk_device *d = lk_stream_device(s->config->net);

    for (size_t i = 0; i < s->n_points; i++)
        lk_event_destroy(s->points[i]);
    free(s->points);
    free(s->points_ns);
    lk_probe_clock_fini(&s->compute);
    lk_probe_clock_fini(&s->net);
    lk_device_free(d, (void *)(uintptr_t)s->call.from);
    lk_comm_free(s->comm, d, s->call.buf);
}

enum lk_status lk_probe_overlap_streams(struct lk_comm *comm,
                                        const struct lk_probe_stream_config *config,
                                        const struct lk_probe_beside *beside,
                                        struct lk_probe_overlap *out)
{
    enum lk_status st = LK_OK;
    struct streams s = {.comm = comm, .config = config, .beside = beside, .stretch = FIRST_STRETCH};
    struct lk_overlap_plan plan = {.effort = config->effort, .bytes = beside->bytes};
    double unit_s = 0;

    if (lk_comm_world_size(comm) < 2 && !is_surrogate(&s))
        return lk_fail(LK_EUSAGE, "overlap is measured on two ranks or more, or with a surrogate");
    LK_TRY(open_streams(&s));
    LK_TRY(choose_units(&s, &unit_s));
    /* Leave room for whole units beside the calls. */
    plan.target_s = fmax(config->unit_target_s, SPARE_UNITS * unit_s);
    LK_TRY(lk_overlap_measure(comm, &by_streams, &s, &plan, out));
out:
    close_streams(&s);
    return st;
}
