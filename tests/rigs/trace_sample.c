/* A small trace with every kind of span. */
#include "tests/rigs/trace_sample.h"

#include "base/array.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2, SPANS_MAX = 64 };

static char *text(const char *s)
{
    char *copy = NULL;

    ck_assert_int_eq(lk_strdup(&copy, s), LK_OK);
    return copy;
}

static void fill_info(struct lk_run_info *i, int rank, int world)
{
    static const char *const names[] = {"wte", "h0.\"w\"", "caf\xc3\xa9"};

    *i = (struct lk_run_info){.rank = rank,
                              .world_size = world,
                              .local_rank = rank,
                              .nodes = 1,
                              .local_batch = 4,
                              .accumulation = 2,
                              .no_sync = true,
                              .ddp_rule = LK_DDP_TORCH_2,
                              .first_bytes = LK_BUCKET_FIRST_BYTES,
                              .cap_bytes = UINT64_MAX,
                              .warmup_steps = 1,
                              .steps = STEPS,
                              .flops_per_sample = 1.25e9 / 3};
    i->run_id = text("run-7");
    i->host = text("node\\a\n");
    i->device = text("cpu");
    i->comm = text("tcp");
    i->model = text("gpt-nano");
    i->sample_unit = text("sequence of 64 tokens");
    ck_assert_int_eq(lk_alloc(&i->tensors, LK_COUNT(names), sizeof *i->tensors), LK_OK);
    i->n_tensors = LK_COUNT(names);
    for (size_t t = 0; t < i->n_tensors; t++)
        i->tensors[t] =
            (struct lk_run_tensor){.name = text(names[t]), .elems = 1000 + t, .dtype = LK_F32};
    ck_assert_int_eq(lk_run_info_config(i, "seed", "1"), LK_OK);
    ck_assert_int_eq(lk_run_info_config(i, "out", "a \"b\""), LK_OK);
    ck_assert_int_eq(lk_run_info_config(i, "seed", "42"), LK_OK);
}

static void add(struct lk_trace *t, uint32_t track, struct lk_span s)
{
    ck_assert_uint_lt(t->n_spans, SPANS_MAX);
    t->spans[t->n_spans++] = (struct lk_trace_span){.span = s, .track = track};
}

static void add_step(struct lk_trace *t, uint32_t step, uint64_t at)
{
    const double values[] = {1.0 / 3.0 + step, NAN, -INFINITY};

    add(t, 0, (struct lk_span){at, at + 999999, .step = step, .index = -1, .kind = LK_SPAN_STEP});
    add(t, 0, (struct lk_span){at, at + 1001, .step = step, .kind = LK_SPAN_INPUT});
    add(t, 1,
        (struct lk_span){at + 1, at + 777, .bytes = 4096, .step = step, .index = -1,
                         .kind = LK_SPAN_COPY});
    add(t, 1, (struct lk_span){at + 1500, at + 300000, .step = step, .kind = LK_SPAN_FORWARD});
    add(t, 1,
        (struct lk_span){at + 1501, at + 299999, .step = step, .index = -1, .kind = LK_SPAN_KERNEL,
                         .name = 2});
    add(t, 1,
        (struct lk_span){at + 300000, at + 700000, .step = step, .index = 1,
                         .kind = LK_SPAN_BACKWARD});
    add(t, 1,
        (struct lk_span){at + 300001, at + 699999, .step = step, .index = -1,
                         .kind = LK_SPAN_KERNEL, .name = 2});
    for (int g = 2; g >= 0; g--)
        add(t, 1,
            (struct lk_span){at + 500000, at + 500000, .step = step, .index = g,
                             .kind = LK_SPAN_GRADIENT});
    add(t, 2,
        (struct lk_span){at + 500500, at + 800000, .ready_ns = at + 500123, .bytes = 12012,
                         .step = step, .index = 0, .seq = 1 + step, .kind = LK_SPAN_COLLECTIVE,
                         .name = 1});
    add(t, 0,
        (struct lk_span){at + 700001, at + 800001, .step = step, .index = -1,
                         .kind = LK_SPAN_SYNC});
    add(t, 1,
        (struct lk_span){at + 800001, at + 900000, .step = step, .index = -1,
                         .kind = LK_SPAN_OPTIMIZER});
    for (size_t v = 0; v < LK_COUNT(values); v++)
        add(t, 0,
            (struct lk_span){at + 950000 + v, at + 950000 + v, .value = values[v], .step = step,
                             .index = -1, .kind = LK_SPAN_COUNTER, .name = 3});
}

void lk_trace_sample(struct lk_trace *t, int rank, int world)
{
    static const char *const names[] = {"all_reduce", "matmul", "loss"};
    static const struct {
        const char *name;
        enum lk_track_kind kind;
        int stream;
    } tracks[] = {{"host", LK_TRACK_HOST, 0},
                  {"compute stream", LK_TRACK_COMPUTE, 0},
                  {"comm stream", LK_TRACK_COMM, 1},
                  {"loader", LK_TRACK_LOADER, 0}};

    *t = (struct lk_trace){.base_epoch_ns = 1790000000123456789ULL + (uint64_t)rank * 1000,
                           .base_local_ns = 5000000000ULL + (uint64_t)rank * 77777777,
                           .clock = {.at_ns = 5000000000ULL + (uint64_t)rank * 77777777,
                                     .offset_ns = -(int64_t)rank * 77777777,
                                     .drift_ppb = rank * 1234.5678,
                                     .uncertainty_ns = (uint64_t)rank * 4321},
                           .truncated = rank == 1,
                           .dropped = (uint64_t)rank * 5};
    fill_info(&t->info, rank, world);
    if (rank == 1)
        t->failure = text("rank 0 failed: \"killed\"");
    ck_assert_int_eq(lk_alloc(&t->tracks, LK_COUNT(tracks), sizeof *t->tracks), LK_OK);
    t->n_tracks = LK_COUNT(tracks);
    for (size_t i = 0; i < t->n_tracks; i++)
        t->tracks[i] = (struct lk_trace_track){
            .name = text(tracks[i].name), .kind = tracks[i].kind, .stream = tracks[i].stream};
    ck_assert_int_eq(lk_alloc(&t->names, LK_COUNT(names), sizeof *t->names), LK_OK);
    t->n_names = LK_COUNT(names);
    for (size_t i = 0; i < t->n_names; i++)
        t->names[i] = text(names[i]);
    ck_assert_int_eq(lk_alloc(&t->spans, SPANS_MAX, sizeof *t->spans), LK_OK);
    /* It starts before the base, so file times are negative. */
    for (uint32_t s = 0; s < STEPS; s++)
        add_step(t, s, t->base_local_ns - 1000123 + s * 1000001);
}

void lk_trace_assert_same_info(const struct lk_run_info *a, const struct lk_run_info *b)
{
    ck_assert_str_eq(a->run_id, b->run_id);
    ck_assert_str_eq(a->host, b->host);
    ck_assert_str_eq(a->device, b->device);
    ck_assert_str_eq(a->comm, b->comm);
    ck_assert_str_eq(a->model, b->model);
    ck_assert_str_eq(a->sample_unit, b->sample_unit);
    ck_assert_int_eq(a->rank, b->rank);
    ck_assert_int_eq(a->world_size, b->world_size);
    ck_assert_int_eq(a->local_rank, b->local_rank);
    ck_assert_int_eq(a->nodes, b->nodes);
    ck_assert_int_eq(a->local_batch, b->local_batch);
    ck_assert_int_eq(a->accumulation, b->accumulation);
    ck_assert_int_eq(a->no_sync, b->no_sync);
    ck_assert_int_eq(a->simulated, b->simulated);
    ck_assert_int_eq(a->ddp_rule, b->ddp_rule);
    ck_assert_uint_eq(a->first_bytes, b->first_bytes);
    ck_assert_uint_eq(a->cap_bytes, b->cap_bytes);
    ck_assert_uint_eq(a->warmup_steps, b->warmup_steps);
    ck_assert_uint_eq(a->steps, b->steps);
    ck_assert(a->flops_per_sample == b->flops_per_sample ||
              (isnan(a->flops_per_sample) && isnan(b->flops_per_sample)));
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    for (size_t i = 0; i < a->n_tensors; i++) {
        ck_assert_str_eq(a->tensors[i].name, b->tensors[i].name);
        ck_assert_uint_eq(a->tensors[i].elems, b->tensors[i].elems);
        ck_assert_int_eq(a->tensors[i].dtype, b->tensors[i].dtype);
    }
    ck_assert_uint_eq(a->n_config, b->n_config);
    for (size_t i = 0; i < a->n_config; i++) {
        ck_assert_str_eq(a->config[i].key, b->config[i].key);
        ck_assert_str_eq(a->config[i].value, b->config[i].value);
    }
}

static void same_span(const struct lk_trace_span *a, const struct lk_trace_span *b)
{
    ck_assert_uint_eq(a->track, b->track);
    ck_assert_int_eq(a->span.kind, b->span.kind);
    ck_assert_uint_eq(a->span.start_ns, b->span.start_ns);
    ck_assert_uint_eq(a->span.end_ns, b->span.end_ns);
    ck_assert_uint_eq(a->span.ready_ns, b->span.ready_ns);
    if (a->span.kind == LK_SPAN_COUNTER && isnan(a->span.value))
        ck_assert(isnan(b->span.value));
    else
        ck_assert_uint_eq(a->span.bytes, b->span.bytes);
    ck_assert_uint_eq(a->span.step, b->span.step);
    ck_assert_int_eq(a->span.index, b->span.index);
    ck_assert_uint_eq(a->span.seq, b->span.seq);
    ck_assert_uint_eq(a->span.name, b->span.name);
}

void lk_trace_assert_same(const struct lk_trace *a, const struct lk_trace *b)
{
    lk_trace_assert_same_info(&a->info, &b->info);
    ck_assert_uint_eq(a->base_epoch_ns, b->base_epoch_ns);
    ck_assert_uint_eq(a->base_local_ns, b->base_local_ns);
    ck_assert_uint_eq(a->clock.at_ns, b->clock.at_ns);
    ck_assert_int_eq(a->clock.offset_ns, b->clock.offset_ns);
    ck_assert_double_eq(a->clock.drift_ppb, b->clock.drift_ppb);
    ck_assert_uint_eq(a->clock.uncertainty_ns, b->clock.uncertainty_ns);
    ck_assert_int_eq(a->truncated, b->truncated);
    ck_assert_uint_eq(a->dropped, b->dropped);
    ck_assert_int_eq(!a->failure, !b->failure);
    if (a->failure)
        ck_assert_str_eq(a->failure, b->failure);
    ck_assert_uint_eq(a->n_tracks, b->n_tracks);
    for (size_t i = 0; i < a->n_tracks; i++) {
        ck_assert_str_eq(a->tracks[i].name, b->tracks[i].name);
        ck_assert_int_eq(a->tracks[i].kind, b->tracks[i].kind);
        ck_assert_int_eq(a->tracks[i].stream, b->tracks[i].stream);
    }
    ck_assert_uint_eq(a->n_names, b->n_names);
    for (size_t i = 0; i < a->n_names; i++)
        ck_assert_str_eq(a->names[i], b->names[i]);
    ck_assert_uint_eq(a->n_spans, b->n_spans);
    for (size_t i = 0; i < a->n_spans; i++)
        same_span(&a->spans[i], &b->spans[i]);
}
