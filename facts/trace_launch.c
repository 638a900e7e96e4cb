/* Launches: the calls that put work on a device, for tools that find a kernel's step and delay by
 * its launch. */
#include "facts/trace_out.h"

#include "base/array.h"
#include "base/clock.h"
#include "facts/trace_format.h"

#include <stdlib.h>

static const struct step_range *find_step(const struct rank_out *r, uint32_t step)
{
    size_t at;

    LK_BISECT(at, r->n_steps, r->steps[at].step < step);
    return at < r->n_steps && r->steps[at].step == step ? &r->steps[at] : NULL;
}

/* Round down to whole microseconds, because HTA rounds starts up and ends down to them. */
static int64_t floor_us(int64_t ns)
{
    int64_t rest = ns % (int64_t)LK_NS_PER_US;

    return ns - (rest < 0 ? rest + (int64_t)LK_NS_PER_US : rest);
}

/* Write a launch that nothing recorded, for tools that find work's step by it: within the step, of
 * no duration. */
static void write_assumed_launch(const struct trace_out *f, const struct rank_out *r,
                                 const struct lk_span *s)
{
    const struct step_range *step = find_step(r, s->step);
    int64_t ts = floor_us(lk_trace_file_ns(f, r, s->start_ns));
    struct lk_json_out *o = f->o;

    if (step) {
        int64_t last = floor_us(step->end_ns) - (int64_t)LK_NS_PER_US;
        int64_t first = -floor_us(-step->start_ns);

        ts = ts > last ? last : ts;
        ts = ts < first ? first : ts;
    }
    lk_trace_begin_event(o, "X", "cuda_runtime", "launch", r, step ? step->track : r->launch_track,
                         ts);
    lk_trace_put_us(o, "dur", 0);
    lk_json_out_object(o, "args");
    lk_json_out_uint(o, "correlation", f->correlation);
    lk_json_out_bool(o, lk_trace_keys[LK_TRACE_SYNTHETIC], true);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

/* Return true if the call that launched it is known. */
static bool was_launched(const struct lk_span *s)
{
    return s->ready_ns &&
           (s->kind == LK_SPAN_KERNEL || s->kind == LK_SPAN_COPY || s->kind == LK_SPAN_MEMSET);
}

/* Write the call that launched work, under the name that tools look for, on a row of its own beside
 * the work's track: several threads launch. Kineto draws an arrow between the two ("ac2g"). */
static void write_call(const struct trace_out *f, const struct rank_out *r,
                       const struct lk_trace_span *s)
{
    static const char *const names[LK_SPAN_KIND_COUNT] = {[LK_SPAN_KERNEL] = "cudaLaunchKernel",
                                                          [LK_SPAN_COPY] = "cudaMemcpyAsync",
                                                          [LK_SPAN_MEMSET] = "cudaMemsetAsync"};
    uint32_t row = (uint32_t)r->t->n_tracks + s->track;
    struct lk_json_out *o = f->o;

    lk_trace_begin_event(o, "X", "cuda_runtime", names[s->span.kind], r, row,
                         lk_trace_file_ns(f, r, s->span.ready_ns));
    lk_trace_put_us(o, "dur", s->span.seq);
    lk_json_out_object(o, "args");
    lk_json_out_uint(o, "correlation", f->correlation);
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_trace_begin_event(o, "s", "ac2g", "ac2g", r, row, lk_trace_file_ns(f, r, s->span.ready_ns));
    lk_json_out_uint(o, "id", f->correlation);
    lk_json_out_close(o);
    lk_trace_begin_event(o, "f", "ac2g", "ac2g", r, s->track,
                         lk_trace_file_ns(f, r, s->span.start_ns));
    lk_json_out_uint(o, "id", f->correlation);
    lk_json_out_text(o, "bp", "e");
    lk_json_out_close(o);
}

void lk_trace_write_launch(const struct trace_out *f, const struct rank_out *r,
                           const struct lk_trace_span *s)
{
    if (was_launched(&s->span))
        write_call(f, r, s);
    else
        write_assumed_launch(f, r, &s->span);
}

enum lk_status lk_trace_write_launch_rows(struct lk_json_out *o, const struct lk_trace *t)
{
    enum lk_status st = LK_OK;
    bool *has_calls = NULL;
    char *name = NULL;

    LK_TRY(lk_alloc(&has_calls, t->n_tracks, sizeof *has_calls));
    for (size_t i = 0; i < t->n_spans; i++)
        has_calls[t->spans[i].track] |= was_launched(&t->spans[i].span);
    for (size_t i = 0; i < t->n_tracks; i++) {
        size_t row = t->n_tracks + i;

        if (!has_calls[i])
            continue;
        LK_TRY(lk_asprintf(&name, "launches: %s", t->tracks[i].name));
        lk_trace_write_metadata(o, "thread_name", t->info.rank, row + 1, "name", name, 0);
        lk_trace_write_metadata(o, "thread_sort_index", t->info.rank, row + 1, "sort_index", NULL,
                                2 * (int64_t)row);
        free(name);
        name = NULL;
    }
out:
    free(name);
    free(has_calls);
    return st;
}
