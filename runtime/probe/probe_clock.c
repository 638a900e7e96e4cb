/* Time n calls; see the header. */
#include "base/clock.h"
#include "base/units.h"
#include "kernels/ops.h"
#include "runtime/probe/probe_impl.h"

enum lk_status lk_probe_clock_init(struct lk_probe_clock *c, struct lk_stream *stream,
                                   uint64_t timeout_ns)
{
    enum lk_status st = LK_OK;

    *c = (struct lk_probe_clock){.stream = stream, .timeout_ns = timeout_ns};
    if (!stream)
        return LK_OK;
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->begin));
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->end));
out:
    if (st != LK_OK)
        lk_probe_clock_fini(c);
    return st;
}

void lk_probe_clock_fini(struct lk_probe_clock *c)
{
    lk_event_destroy(c->begin);
    lk_event_destroy(c->end);
    *c = (struct lk_probe_clock){0};
}

double lk_probe_between_s(struct lk_event *from, struct lk_event *to)
{
    uint64_t a = lk_event_time_ns(from), b = lk_event_time_ns(to);

    return a < b ? lk_s_from_ns(b - a) : 0;
}

double lk_probe_hold_s(const struct lk_probe_clock *c, size_t n)
{
    const double margin = 1.5, least_s = 50e-6, most_s = 0.2;
    double s = margin * c->put_s * (double)n + least_s;

    return s < most_s ? s : most_s;
}

static enum lk_status time_on_stream(struct lk_probe_clock *c, lk_probe_put call, void *ctx,
                                     size_t n, struct lk_probe_time *out)
{
    enum lk_status st = LK_OK;
    uint64_t start_ns = lk_now_ns(), put_ns, begin_ns, end_ns;

    LK_TRY(LK_LAUNCH(c->stream, wait, .seconds = lk_probe_hold_s(c, n)));
    LK_TRY(lk_event_record(c->begin, c->stream));
    for (size_t i = 0; i < n; i++)
        LK_TRY(call(ctx, c->stream));
    put_ns = lk_now_ns();
    LK_TRY(lk_event_record(c->end, c->stream));
    LK_TRY(lk_stream_sync(c->stream, lk_deadline_in(c->timeout_ns)));
    end_ns = lk_now_ns();
    begin_ns = lk_event_time_ns(c->begin);
    c->put_s = lk_s_from_ns(put_ns - start_ns) / (double)n;
    out->s = lk_probe_between_s(c->begin, c->end);
    out->host_s = end_ns > begin_ns ? lk_s_from_ns(end_ns - begin_ns) : 0;
    out->host_late = put_ns > begin_ns;
out:
    return st;
}

enum lk_status lk_probe_clock_time(struct lk_probe_clock *c, lk_probe_put call, void *ctx, size_t n,
                                   struct lk_probe_time *out)
{
    uint64_t start_ns = lk_now_ns();

    if (c->stream)
        return time_on_stream(c, call, ctx, n, out);
    for (size_t i = 0; i < n; i++) {
        enum lk_status st = call(ctx, NULL);

        if (st != LK_OK)
            return st;
    }
    out->s = out->host_s = lk_s_from_ns(lk_now_ns() - start_ns);
    out->host_late = false;
    return LK_OK;
}
