/* Make a rank's trace of its events. Divisions: spans, the description. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "facts/hops.h"
#include "facts/run_facts.h"
#include "facts/trace_format.h"
#include "profiler/import/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Spans ---- */

static enum lk_status add_track(struct trace_builder *tb, const char *name, enum lk_track_kind kind,
                                int stream, uint32_t *out)
{
    LK_PASS(lk_array_grow(&tb->t.tracks, &tb->tracks_capacity, tb->t.n_tracks + 1,
                          sizeof *tb->t.tracks));
    tb->t.tracks[tb->t.n_tracks] = (struct lk_trace_track){.kind = kind, .stream = stream};
    LK_PASS(lk_strdup(&tb->t.tracks[tb->t.n_tracks].name, name));
    *out = (uint32_t)tb->t.n_tracks++;
    return LK_OK;
}

enum lk_status lk_import_add_span_(struct trace_builder *tb, uint32_t track, struct lk_span span,
                                   int64_t start, int64_t end)
{
    span.start_ns = start > 0 ? (uint64_t)start : 0;
    span.end_ns = end > start ? (uint64_t)(end > 0 ? end : 0) : span.start_ns;
    LK_PASS(
        lk_array_grow(&tb->t.spans, &tb->spans_capacity, tb->t.n_spans + 1, sizeof *tb->t.spans));
    tb->t.spans[tb->t.n_spans++] = (struct lk_trace_span){.span = span, .track = track};
    return LK_OK;
}

/* A lane has run so many collectives and kernels. */
struct lane_count {
    size_t comm, kernels;
};

static enum lk_status count_lanes(const struct trace_builder *tb, struct lane_count **out)
{
    LK_PASS(lk_alloc(out, tb->e->n_lanes + 1, sizeof **out));
    for (size_t i = 0; i < tb->n_work; i++) {
        struct lane_count *c = &(*out)[tb->work[i].event->lane];

        c->comm += tb->work[i].phase == LK_SPAN_COLLECTIVE;
        c->kernels += tb->work[i].event->kind == LK_EVENT_KERNEL;
    }
    return LK_OK;
}

static enum lk_status add_tracks(struct trace_builder *tb)
{
    const struct lk_events *e = tb->e;
    struct lane_count *counts = NULL;
    enum lk_status st = LK_OK;
    uint32_t track;
    char name[64];

    LK_PASS(add_track(tb, "host", LK_TRACK_HOST, 0, &track));
    LK_PASS(add_track(tb, "compute", LK_TRACK_COMPUTE, 1, &track));
    LK_PASS(add_track(tb, "comm", LK_TRACK_COMM, 2, &track));
    LK_PASS(lk_alloc(&tb->tracks, e->n_lanes + 1, sizeof *tb->tracks));
    LK_PASS(count_lanes(tb, &counts));
    for (size_t lane = 0; lane < e->n_lanes && st == LK_OK; lane++) {
        size_t comm = counts[lane].comm, kernels = counts[lane].kernels;
        enum lk_track_kind kind;

        if (!e->lanes[lane].gpu || e->lanes[lane].process != tb->device)
            continue;
        kind = 2 * comm > kernels ? LK_TRACK_COMM : kernels ? LK_TRACK_COMPUTE : LK_TRACK_COPY;
        snprintf(name, sizeof name, "stream %lld, GPU records", (long long)e->lanes[lane].thread);
        st = add_track(tb, name, kind,
                       kind == LK_TRACK_COMPUTE ? LK_IMPORT_COMPUTE
                       : kind == LK_TRACK_COMM  ? LK_IMPORT_COMM
                                                : (int)lane + LK_IMPORT_FIXED,
                       &track);
        tb->tracks[lane] = track + 1;
    }
    free(counts);
    return st;
}

enum lk_status lk_import_name_id_(struct trace_builder *tb, uint32_t name, uint16_t *out)
{
    *out = 0;
    if (!name)
        return LK_OK;
    LK_PASS(lk_array_grow(&tb->ids, &tb->ids_capacity, tb->e->n_names, sizeof *tb->ids));
    while (tb->n_ids < tb->e->n_names)
        tb->ids[tb->n_ids++] = 0;
    if (!tb->ids[name] && tb->t.n_names < LK_TRACE_IDS_MAX) {
        LK_PASS(lk_array_grow(&tb->t.names, &tb->names_capacity, tb->t.n_names + 1,
                              sizeof *tb->t.names));
        LK_PASS(lk_strdup(&tb->t.names[tb->t.n_names], lk_events_text(tb->e, name)));
        tb->ids[name] = (uint16_t)++tb->t.n_names;
    }
    *out = tb->ids[name];
    return LK_OK;
}

static enum lk_status add_host_spans(struct trace_builder *tb)
{
    static const enum lk_span_kind kinds[] = {[LK_EVENT_STEP] = LK_SPAN_STEP,
                                              [LK_EVENT_INPUT] = LK_SPAN_INPUT,
                                              [LK_EVENT_SYNC] = LK_SPAN_SYNC};

    for (size_t i = 0; i < tb->steps.n; i++)
        LK_PASS(lk_import_add_span_(
            tb, LK_IMPORT_HOST,
            (struct lk_span){.kind = LK_SPAN_STEP, .step = tb->steps.at[i].number, .index = -1},
            i ? tb->steps.at[i].start_ns : tb->begin_ns, tb->steps.at[i].end_ns));
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];
        size_t step = lk_import_step_at_(tb, x->start_ns);
        uint16_t name = 0;

        if ((x->kind != LK_EVENT_INPUT && x->kind != LK_EVENT_SYNC) || step == SIZE_MAX ||
            !lk_import_of_host_(tb, x))
            continue;
        if (x->kind == LK_EVENT_SYNC)
            LK_PASS(lk_import_name_id_(tb, x->name, &name));
        LK_PASS(lk_import_add_span_(tb, LK_IMPORT_HOST,
                                    (struct lk_span){.kind = (uint16_t)kinds[x->kind],
                                                     .step = tb->steps.at[step].number,
                                                     .index = x->kind == LK_EVENT_INPUT ? 0 : -1,
                                                     .name = name},
                                    x->start_ns, x->end_ns));
    }
    return LK_OK;
}

/* Set when a kernel was launched, which is before it starts, by whatever clock. */
void lk_import_set_launch_(struct lk_span *span, const struct work *w)
{
    if (!w->launch || w->launch->start_ns <= 0)
        return;
    span->ready_ns = (uint64_t)(w->launch->start_ns < w->event->start_ns ? w->launch->start_ns
                                                                         : w->event->start_ns);
    span->seq = w->launch->length_ns;
}

static enum lk_status add_gpu_work(struct trace_builder *tb)
{
    static const enum lk_span_kind kinds[] = {LK_SPAN_KERNEL, LK_SPAN_COPY, LK_SPAN_MEMSET};

    for (size_t i = 0; i < tb->n_work; i++) {
        const struct work *w = &tb->work[i];
        struct lk_span span = {
            .kind = (uint16_t)kinds[lk_import_on_gpu_(w->event) ? w->event->kind : 0],
            .step = tb->steps.at[w->step].number,
            .index = -1,
            .bytes = w->event->bytes};

        if (w->phase == LK_SPAN_COLLECTIVE || !tb->tracks[w->event->lane])
            continue;
        LK_PASS(lk_import_name_id_(tb, w->event->name, &span.name));
        lk_import_set_launch_(&span, w);
        LK_PASS(lk_import_add_span_(tb, tb->tracks[w->event->lane] - 1, span, w->event->start_ns,
                                    w->event->end_ns));
    }
    return LK_OK;
}

/* Add what was sent over networks as the counters of hops, in the step in which the host was when
 * it began: a GPU may be a step behind. */
static enum lk_status add_hops(struct trace_builder *tb)
{
    uint16_t ids[LK_HOP_VALUES];

    for (int v = 0; v < LK_HOP_VALUES && tb->e->n_sent; v++) {
        const char *name = lk_hop_value_name((enum lk_hop_value)v);
        uint32_t text;

        LK_PASS(lk_events_name(tb->e, name, strlen(name), &text));
        LK_PASS(lk_import_name_id_(tb, text, &ids[v]));
    }
    for (size_t i = 0; i < tb->e->n_sent; i++) {
        const struct lk_event_sent *x = &tb->e->sent[i];
        const double values[LK_HOP_VALUES] = {
            [LK_HOP_BYTES] = (double)x->bytes, [LK_HOP_BUSY] = lk_s_from_ns(x->busy_ns)};
        size_t step = lk_import_step_at_(tb, x->start_ns);

        for (int v = 0; v < LK_HOP_VALUES && step != SIZE_MAX; v++)
            if (ids[v] && values[v] > 0)
                LK_PASS(lk_import_add_span_(tb, LK_IMPORT_COMM,
                                            (struct lk_span){.kind = LK_SPAN_COUNTER,
                                                             .step = tb->steps.at[step].number,
                                                             .index = x->to,
                                                             .name = ids[v],
                                                             .value = values[v]},
                                            x->end_ns, x->end_ns));
    }
    return LK_OK;
}

/* ---- The description ---- */

static int rank_of(const struct trace_builder *tb)
{
    return tb->e->source.rank >= 0 ? tb->e->source.rank : tb->o->rank;
}

static int world_size_of(const struct trace_builder *tb)
{
    int world = tb->e->source.world_size ? tb->e->source.world_size : tb->o->world_size;

    return world > rank_of(tb) ? world : rank_of(tb) + 1;
}

static int ranks_of(const struct trace_builder *tb, size_t bucket)
{
    return tb->buckets[bucket].ranks ? (int)tb->buckets[bucket].ranks : tb->world_size;
}

/* Write how many ranks reduce a gradient: "4", or "4 to 8" where gradients differ. */
static void write_gradient_ranks(const struct trace_builder *tb, char *out, size_t size)
{
    int least = tb->world_size, most = 0;

    for (size_t i = 0; i < tb->n_buckets; i++) {
        least = ranks_of(tb, i) < least ? ranks_of(tb, i) : least;
        most = ranks_of(tb, i) > most ? ranks_of(tb, i) : most;
    }
    if (most > least)
        snprintf(out, size, "%d to %d", least, most);
    else
        snprintf(out, size, "%d", least);
}

static enum lk_status describe(struct trace_builder *tb)
{
    const struct lk_events *e = tb->e;
    struct lk_run_info *i = &tb->t.info;
    char text[64];

    *i = (struct lk_run_info){.rank = rank_of(tb),
                              .world_size = tb->world_size,
                              .nodes = tb->o->nodes > 0 ? tb->o->nodes : 1,
                              .local_batch = tb->o->local_batch ? tb->o->local_batch : 1,
                              .accumulation = tb->accumulation > 0 ? tb->accumulation : 1,
                              .steps = tb->steps.n,
                              .flops_per_sample = NAN};
    LK_PASS(lk_strdup(&i->run_id, "imported"));
    LK_PASS(lk_strdup(&i->host, e->source.host ? e->source.host : LK_HOST_UNKNOWN));
    LK_PASS(lk_strdup(&i->device, e->source.device  ? e->source.device
                                  : tb->device >= 0 ? "GPU"
                                                    : "cpu"));
    LK_PASS(lk_strdup(&i->comm, e->source.backend ? e->source.backend : "unknown"));
    LK_PASS(lk_strdup(&i->model, "imported"));
    LK_PASS(lk_strdup(&i->sample_unit, tb->o->local_batch ? "sample" : "micro-batch"));
    LK_PASS(lk_run_info_config(i, LK_IMPORT_CONFIG_KEY, tb->o->source));
    LK_PASS(lk_run_info_config(i, "imported_format", e->source.format));
    if (tb->o->patterns)
        LK_PASS(lk_run_info_config(i, LK_COMM_KERNELS_CONFIG_KEY, tb->o->patterns));
    if (tb->period) {
        snprintf(text, sizeof text, "periods of %zu %s", tb->period,
                 tb->of_kernels ? "kernels" : "collectives");
        LK_PASS(lk_run_info_config(i, LK_PERIOD_CONFIG_KEY, text));
    }
    if (e->source.blocking)
        LK_PASS(lk_run_info_config(i, LK_BLOCKING_CONFIG_KEY, "calls"));
    if (tb->grouped) {
        write_gradient_ranks(tb, text, sizeof text);
        LK_PASS(lk_run_info_config(i, LK_GROUPS_CONFIG_KEY, text));
    }
    if (tb->owner >= 0) {
        snprintf(text, sizeof text, "%lld", (long long)(tb->device % LK_SHARED_DEVICE));
        LK_PASS(lk_run_info_config(i, LK_IMPORT_GPU_CONFIG_KEY, text));
    }
    tb->t.clock = lk_clock_identity();
    tb->t.truncated = e->source.cut;
    return LK_OK;
}

/* Times of a trace are from its first event; the wall clock is that of the source. */
static void set_base(struct trace_builder *tb)
{
    tb->t.base_local_ns =
        tb->e->n_events ? (uint64_t)(tb->e->events[0].start_ns > 0 ? tb->e->events[0].start_ns : 0)
                        : 0;
    tb->t.base_epoch_ns = tb->t.base_local_ns + (uint64_t)tb->e->source.clock.epoch_ns;
}

static void builder_fini(struct trace_builder *tb)
{
    free(tb->communication);
    free(tb->steps.at);
    free(tb->backwards.at);
    free(tb->forwards.at);
    free(tb->optimizers.at);
    free(tb->work);
    free(tb->done);
    free(tb->ready);
    free(tb->tracks);
    free(tb->ids);
    free(tb->passes.at);
    free(tb->buckets);
    lk_trace_fini(&tb->t);
}

enum lk_status lk_import_trace(struct lk_events *e, const struct lk_import_rank_options *o,
                               struct lk_trace *out)
{
    struct trace_builder tb = {.e = e, .o = o};
    enum lk_status st = LK_OK;

    LK_TRY(lk_communication_names(e, o->patterns, &tb.communication));
    tb.device = o->device >= 0 ? o->device : lk_import_busiest_(e);
    tb.owner = lk_import_owner_(e, tb.device);
    tb.by_host = lk_import_by_host_(&tb);
    tb.world_size = world_size_of(&tb);
    LK_TRY(lk_import_find_ranges_(&tb));
    LK_TRY(lk_import_find_work_(&tb));
    LK_TRY(add_tracks(&tb));
    LK_TRY(add_host_spans(&tb));
    LK_TRY(lk_import_add_passes_(&tb));
    LK_TRY(lk_import_add_collectives_(&tb));
    LK_TRY(add_gpu_work(&tb));
    LK_TRY(add_hops(&tb));
    LK_TRY(describe(&tb));
    LK_TRY(lk_import_add_gradients_(&tb));
    set_base(&tb);
    free(tb.work); /* sorting takes as much as these */
    free(tb.done);
    tb.work = NULL;
    tb.done = NULL;
    LK_TRY(lk_trace_sort_spans(&tb.t.spans, tb.t.n_spans));
    *out = tb.t;
    tb.t = (struct lk_trace){0};
out:
    builder_fini(&tb);
    return st;
}
