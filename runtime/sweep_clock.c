/* n calls and their time; see the header. */
#include "base/clock.h"
#include "base/units.h"
#include "runtime/sweep_impl.h"

enum lk_status lk_sweep_clock_init(struct lk_sweep_clock *c, struct lk_stream *stream,
                                   uint64_t timeout_ns)
{
    enum lk_status st = LK_OK;

    *c = (struct lk_sweep_clock){.stream = stream, .timeout_ns = timeout_ns};
    if (!stream)
        return LK_OK;
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->begin));
    LK_TRY(lk_event_create(lk_stream_device(stream), &c->end));
out:
    if (st != LK_OK)
        lk_sweep_clock_fini(c);
    return st;
}

void lk_sweep_clock_fini(struct lk_sweep_clock *c)
{
    lk_event_destroy(c->begin);
    lk_event_destroy(c->end);
    *c = (struct lk_sweep_clock){0};
}

double lk_sweep_between_s(struct lk_event *from, struct lk_event *to)
{
    uint64_t a = lk_event_time_ns(from), b = lk_event_time_ns(to);

    return a < b ? lk_s_from_ns(b - a) : 0;
}

enum lk_status lk_sweep_clock_time(struct lk_sweep_clock *c, lk_sweep_put call, void *ctx, size_t n,
                                   struct lk_sweep_time *out)
{
    enum lk_status st = LK_OK;
    uint64_t start_ns = lk_now_ns();

    if (c->stream)
        LK_TRY(lk_event_record(c->begin, c->stream));
    for (size_t i = 0; i < n; i++)
        LK_TRY(call(ctx, c->stream));
    if (c->stream) {
        LK_TRY(lk_event_record(c->end, c->stream));
        LK_TRY(lk_stream_sync(c->stream, lk_deadline_in(c->timeout_ns)));
    }
    out->host_s = lk_s_from_ns(lk_now_ns() - start_ns);
    out->s = c->stream ? lk_sweep_between_s(c->begin, c->end) : out->host_s;
out:
    return st;
}
