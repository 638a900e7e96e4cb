/* Make a rank's trace of its events. Divisions: spans, the description. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "facts/run_facts.h"
#include "facts/trace_format.h"
#include "profiler/import/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Spans ---- */

static enum lk_status add_track(struct maker *m, const char *name, enum lk_track_kind kind,
                                int stream, uint32_t *out)
{
    LK_PASS(
        lk_array_grow(&m->t.tracks, &m->tracks_capacity, m->t.n_tracks + 1, sizeof *m->t.tracks));
    m->t.tracks[m->t.n_tracks] = (struct lk_trace_track){.kind = kind, .stream = stream};
    LK_PASS(lk_strdup(&m->t.tracks[m->t.n_tracks].name, name));
    *out = (uint32_t)m->t.n_tracks++;
    return LK_OK;
}

enum lk_status lk_rank_add_span_(struct maker *m, uint32_t track, struct lk_span span,
                                 int64_t start, int64_t end)
{
    span.start_ns = start > 0 ? (uint64_t)start : 0;
    span.end_ns = end > start ? (uint64_t)(end > 0 ? end : 0) : span.start_ns;
    LK_PASS(lk_array_grow(&m->t.spans, &m->spans_capacity, m->t.n_spans + 1, sizeof *m->t.spans));
    m->t.spans[m->t.n_spans++] = (struct lk_trace_span){.span = span, .track = track};
    return LK_OK;
}

/* A lane has run so many collectives and kernels. */
struct lane_count {
    size_t comm, kernels;
};

static enum lk_status count_lanes(const struct maker *m, struct lane_count **out)
{
    LK_PASS(lk_alloc(out, m->e->n_lanes + 1, sizeof **out));
    for (size_t i = 0; i < m->n_work; i++) {
        struct lane_count *c = &(*out)[m->work[i].event->lane];

        c->comm += m->work[i].phase == LK_SPAN_COLLECTIVE;
        c->kernels += m->work[i].event->kind == LK_EVENT_KERNEL;
    }
    return LK_OK;
}

static enum lk_status add_tracks(struct maker *m)
{
    const struct lk_events *e = m->e;
    struct lane_count *counts = NULL;
    enum lk_status st = LK_OK;
    uint32_t track;
    char name[64];

    LK_PASS(add_track(m, "host", LK_TRACK_HOST, 0, &track));
    LK_PASS(add_track(m, "compute", LK_TRACK_COMPUTE, 1, &track));
    LK_PASS(add_track(m, "comm", LK_TRACK_COMM, 2, &track));
    LK_PASS(lk_alloc(&m->tracks, e->n_lanes + 1, sizeof *m->tracks));
    LK_PASS(count_lanes(m, &counts));
    for (size_t lane = 0; lane < e->n_lanes && st == LK_OK; lane++) {
        size_t comm = counts[lane].comm, kernels = counts[lane].kernels;
        enum lk_track_kind kind;

        if (!e->lanes[lane].gpu || e->lanes[lane].process != m->device)
            continue;
        kind = 2 * comm > kernels ? LK_TRACK_COMM : kernels ? LK_TRACK_COMPUTE : LK_TRACK_COPY;
        snprintf(name, sizeof name, "stream %lld, GPU records", (long long)e->lanes[lane].thread);
        st = add_track(m, name, kind,
                       kind == LK_TRACK_COMPUTE ? LK_RANK_COMPUTE
                       : kind == LK_TRACK_COMM  ? LK_RANK_COMM
                                                : (int)lane + LK_RANK_FIXED,
                       &track);
        m->tracks[lane] = track + 1;
    }
    free(counts);
    return st;
}

enum lk_status lk_rank_name_id_(struct maker *m, uint32_t name, uint16_t *out)
{
    *out = 0;
    if (!name)
        return LK_OK;
    LK_PASS(lk_array_grow(&m->ids, &m->ids_capacity, m->e->n_names, sizeof *m->ids));
    while (m->n_ids < m->e->n_names)
        m->ids[m->n_ids++] = 0;
    if (!m->ids[name] && m->t.n_names < LK_TRACE_IDS_MAX) {
        LK_PASS(
            lk_array_grow(&m->t.names, &m->names_capacity, m->t.n_names + 1, sizeof *m->t.names));
        LK_PASS(lk_strdup(&m->t.names[m->t.n_names], lk_events_text(m->e, name)));
        m->ids[name] = (uint16_t)++m->t.n_names;
    }
    *out = m->ids[name];
    return LK_OK;
}

static enum lk_status add_host_spans(struct maker *m)
{
    static const enum lk_span_kind kinds[] = {[LK_EVENT_STEP] = LK_SPAN_STEP,
                                              [LK_EVENT_INPUT] = LK_SPAN_INPUT,
                                              [LK_EVENT_SYNC] = LK_SPAN_SYNC};

    for (size_t i = 0; i < m->steps.n; i++)
        LK_PASS(lk_rank_add_span_(
            m, LK_RANK_HOST,
            (struct lk_span){.kind = LK_SPAN_STEP, .step = m->steps.at[i].number, .index = -1},
            i ? m->steps.at[i].start_ns : m->begin_ns, m->steps.at[i].end_ns));
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];
        size_t step = lk_rank_step_at_(m, x->start_ns);
        uint16_t name = 0;

        if ((x->kind != LK_EVENT_INPUT && x->kind != LK_EVENT_SYNC) || step == SIZE_MAX ||
            !lk_rank_of_host_(m, x))
            continue;
        if (x->kind == LK_EVENT_SYNC)
            LK_PASS(lk_rank_name_id_(m, x->name, &name));
        LK_PASS(lk_rank_add_span_(m, LK_RANK_HOST,
                                  (struct lk_span){.kind = (uint16_t)kinds[x->kind],
                                                   .step = m->steps.at[step].number,
                                                   .index = x->kind == LK_EVENT_INPUT ? 0 : -1,
                                                   .name = name},
                                  x->start_ns, x->end_ns));
    }
    return LK_OK;
}

/* Set when a kernel was launched, which is before it starts, by whatever clock. */
void lk_rank_set_launch_(struct lk_span *span, const struct work *w)
{
    if (!w->launch || w->launch->start_ns <= 0)
        return;
    span->ready_ns = (uint64_t)(w->launch->start_ns < w->event->start_ns ? w->launch->start_ns
                                                                         : w->event->start_ns);
    span->seq = w->launch->length_ns;
}

static enum lk_status add_gpu_work(struct maker *m)
{
    static const enum lk_span_kind kinds[] = {LK_SPAN_KERNEL, LK_SPAN_COPY, LK_SPAN_MEMSET};

    for (size_t i = 0; i < m->n_work; i++) {
        const struct work *w = &m->work[i];
        struct lk_span span = {.kind =
                                   (uint16_t)kinds[lk_rank_on_gpu_(w->event) ? w->event->kind : 0],
                               .step = m->steps.at[w->step].number,
                               .index = -1,
                               .bytes = w->event->bytes};

        if (w->phase == LK_SPAN_COLLECTIVE || !m->tracks[w->event->lane])
            continue;
        LK_PASS(lk_rank_name_id_(m, w->event->name, &span.name));
        lk_rank_set_launch_(&span, w);
        LK_PASS(lk_rank_add_span_(m, m->tracks[w->event->lane] - 1, span, w->event->start_ns,
                                  w->event->end_ns));
    }
    return LK_OK;
}

/* ---- The description ---- */

static int rank_of(const struct maker *m)
{
    return m->e->source.rank >= 0 ? m->e->source.rank : m->o->rank;
}

static int world_size_of(const struct maker *m)
{
    int world = m->e->source.world_size ? m->e->source.world_size : m->o->world_size;

    return world > rank_of(m) ? world : rank_of(m) + 1;
}

/* Return how many ranks reduce a gradient. */
static int gradient_ranks(const struct maker *m)
{
    return m->n_buckets && m->buckets[0].ranks ? (int)m->buckets[0].ranks : m->world_size;
}

static enum lk_status describe(struct maker *m)
{
    const struct lk_events *e = m->e;
    struct lk_run_info *i = &m->t.info;
    char text[64];

    *i = (struct lk_run_info){.rank = rank_of(m),
                              .world_size = m->world_size,
                              .nodes = m->o->nodes > 0 ? m->o->nodes : 1,
                              .local_batch = m->o->local_batch ? m->o->local_batch : 1,
                              .accumulation = m->accumulation > 0 ? m->accumulation : 1,
                              .steps = m->steps.n,
                              .flops_per_sample = NAN};
    LK_PASS(lk_strdup(&i->run_id, "imported"));
    LK_PASS(lk_strdup(&i->host, e->source.host ? e->source.host : LK_HOST_UNKNOWN));
    LK_PASS(lk_strdup(&i->device, e->source.device ? e->source.device
                                  : m->device >= 0 ? "GPU"
                                                   : "cpu"));
    LK_PASS(lk_strdup(&i->comm, e->source.backend ? e->source.backend : "unknown"));
    LK_PASS(lk_strdup(&i->model, "imported"));
    LK_PASS(lk_strdup(&i->sample_unit, m->o->local_batch ? "sample" : "micro-batch"));
    LK_PASS(lk_run_info_config(i, LK_IMPORT_CONFIG_KEY, m->o->source));
    LK_PASS(lk_run_info_config(i, "imported_format", e->source.format));
    if (m->o->patterns)
        LK_PASS(lk_run_info_config(i, LK_COMM_KERNELS_CONFIG_KEY, m->o->patterns));
    if (m->period) {
        snprintf(text, sizeof text, "periods of %zu %s", m->period,
                 m->of_kernels ? "kernels" : "collectives");
        LK_PASS(lk_run_info_config(i, LK_PERIOD_CONFIG_KEY, text));
    }
    if (e->source.blocking)
        LK_PASS(lk_run_info_config(i, LK_BLOCKING_CONFIG_KEY, "calls"));
    if (m->grouped) {
        snprintf(text, sizeof text, "%d", gradient_ranks(m));
        LK_PASS(lk_run_info_config(i, LK_GROUPS_CONFIG_KEY, text));
    }
    if (m->owner >= 0) {
        snprintf(text, sizeof text, "%lld", (long long)(m->device % LK_SHARED_DEVICE));
        LK_PASS(lk_run_info_config(i, LK_IMPORT_GPU_CONFIG_KEY, text));
    }
    m->t.clock = lk_clock_identity();
    m->t.truncated = e->source.cut;
    return LK_OK;
}

/* Times of a trace are from its first event; the wall clock is that of the source. */
static void set_base(struct maker *m)
{
    m->t.base_local_ns =
        m->e->n_events ? (uint64_t)(m->e->events[0].start_ns > 0 ? m->e->events[0].start_ns : 0)
                       : 0;
    m->t.base_epoch_ns = m->t.base_local_ns + (uint64_t)m->e->source.clock.epoch_ns;
}

static void maker_fini(struct maker *m)
{
    free(m->communication);
    free(m->steps.at);
    free(m->backwards.at);
    free(m->forwards.at);
    free(m->optimizers.at);
    free(m->work);
    free(m->done);
    free(m->ready);
    free(m->tracks);
    free(m->ids);
    free(m->passes.at);
    free(m->buckets);
    lk_trace_fini(&m->t);
}

enum lk_status lk_rank_trace(struct lk_events *e, const struct lk_rank_options *o,
                             struct lk_trace *out)
{
    struct maker m = {.e = e, .o = o};
    enum lk_status st = LK_OK;

    LK_TRY(lk_communication_names(e, o->patterns, &m.communication));
    m.device = o->device >= 0 ? o->device : lk_rank_busiest_(e);
    m.owner = lk_rank_owner_(e, m.device);
    m.by_host = lk_rank_by_host_(&m);
    m.world_size = world_size_of(&m);
    LK_TRY(lk_rank_find_ranges_(&m));
    LK_TRY(lk_rank_find_work_(&m));
    LK_TRY(add_tracks(&m));
    LK_TRY(add_host_spans(&m));
    LK_TRY(lk_rank_add_passes_(&m));
    LK_TRY(lk_rank_add_collectives_(&m));
    LK_TRY(add_gpu_work(&m));
    LK_TRY(describe(&m));
    LK_TRY(lk_rank_add_gradients_(&m));
    set_base(&m);
    free(m.work); /* sorting takes as much as these */
    free(m.done);
    m.work = NULL;
    m.done = NULL;
    LK_TRY(lk_trace_sort_spans(&m.t.spans, m.t.n_spans));
    *out = m.t;
    m.t = (struct lk_trace){0};
out:
    maker_fini(&m);
    return st;
}
