/* Import a run. Divisions: ranks, clocks, the run, the table. */
#include "profiler/import/import.h"

#include "base/array.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/stats.h"
#include "facts/run_facts.h"
#include "profiler/import/clocks.h"
#include "profiler/import/file_rank.h"
#include "profiler/import/format.h"
#include "profiler/import/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Ranks ---- */

/* Add a file, whose ranks follow. */
static enum lk_status add_file(const char *path, struct lk_import *out)
{
    LK_PASS(lk_array_grow(&out->files, &out->files_capacity, out->n_files + 1, sizeof *out->files));
    out->files[out->n_files] = (struct lk_import_file){0};
    LK_PASS(lk_strdup(&out->files[out->n_files].path, path));
    out->n_files++;
    return LK_OK;
}

/* Add a rank of the last file: what its GPU did, and its trace unless its file has no steps. */
static enum lk_status add_rank(struct lk_events *e, const struct lk_import_rank_options *options,
                               struct lk_import *out)
{
    struct lk_convention all = {.patterns = options->patterns}, linked = all;
    size_t traces = out->capacity;
    struct lk_import_row *row;
    enum lk_status st;

    linked.linked = true;
    LK_PASS(lk_array_grow(&out->traces, &traces, out->n + 1, sizeof *out->traces));
    LK_PASS(lk_array_grow(&out->rows, &out->capacity, out->n + 1, sizeof *out->rows));
    row = &out->rows[out->n];
    *row = (struct lk_import_row){.rank = e->source.rank >= 0 ? e->source.rank : options->rank,
                                  .device =
                                      options->device < 0 ? -1 : options->device % LK_SHARED_DEVICE,
                                  .file = out->n_files - 1};
    out->traces[out->n++] = (struct lk_trace){0};
    LK_PASS(
        lk_fail_context(lk_sequences_add(&out->sequences, row->rank, e), "%s", options->source));
    lk_events_keep_window(e);
    LK_PASS(lk_breakdown(e, options->device, &all, &row->all));
    LK_PASS(lk_breakdown(e, options->device, &linked, &row->linked));
    LK_PASS(lk_breakdown_kernels(e, options->device, options->patterns, &out->kernels));
    st = lk_import_trace(e, options, &out->traces[out->n - 1]);
    if (st == LK_EEVIDENCE && !out->no_steps)
        return lk_strdup(&out->no_steps, lk_error_text());
    return st == LK_EEVIDENCE ? LK_OK : st;
}

/* List the GPUs, by number, of a source whose processes each have one; none: the source is of one
 * rank. */
static enum lk_status list_devices(const struct lk_events *e, int64_t **out, size_t *n)
{
    size_t capacity = 0;

    for (size_t i = 0; i < e->n_lanes; i++) {
        size_t k = 0;

        if (!e->lanes[i].gpu || e->lanes[i].owner < 0)
            continue;
        while (k < *n && (*out)[k] != e->lanes[i].process)
            k++;
        if (k < *n)
            continue;
        LK_PASS(lk_array_grow(out, &capacity, *n + 1, sizeof **out));
        for (k = (*n)++; k > 0 && (*out)[k - 1] > e->lanes[i].process; k--)
            (*out)[k] = (*out)[k - 1];
        (*out)[k] = e->lanes[i].process;
    }
    return LK_OK;
}

/* Read the sizes in the file of a trace's rank, or in the only such file; none: *out is empty. */
static enum lk_status read_sizes(char *const *files, size_t n, const char *of,
                                 struct lk_events *out)
{
    const struct lk_format *reader = NULL;
    const char *found = NULL, *only = NULL;
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        const struct lk_format *format = NULL;

        LK_PASS(lk_format_of(files[i], &format));
        if (format->role != LK_FORMAT_SIZES)
            continue;
        reader = format;
        only = files[i];
        n_found++;
        found = lk_file_rank(files[i]) >= 0 && lk_file_rank(files[i]) == lk_file_rank(of) ? files[i]
                                                                                          : found;
    }
    found = found ? found : n_found == 1 ? only : NULL;
    return found ? reader->read(found, NULL, out) : LK_OK;
}

static int row_order(const void *a, const void *b)
{
    const struct lk_import_row *x = a, *y = b;

    return LK_ORDER(x->rank, y->rank);
}

static enum lk_status check_ranks(const struct lk_import *i)
{
    int world_size = i->no_steps ? 1 : i->traces[0].info.world_size;

    for (size_t k = 1; k < i->n; k++) {
        if (i->rows[k].rank == i->rows[k - 1].rank)
            return lk_fail(LK_EPARSE, "%s and %s are both of rank %d",
                           i->files[i->rows[k - 1].file].path, i->files[i->rows[k].file].path,
                           i->rows[k].rank);
        if (!i->no_steps && i->traces[k].info.world_size > world_size)
            world_size = i->traces[k].info.world_size;
    }
    for (size_t k = 0; k < i->n && !i->no_steps; k++)
        i->traces[k].info.world_size = world_size;
    return LK_OK;
}

/* ---- The run ---- */

/* Files by what they are for. */
struct sorted {
    const char **traces;            /* a rank's each */
    const char **orders;            /* with the order of collectives, beside traces */
    int *trace_ranks, *order_ranks; /* that their names tell; -1: they do not */
    size_t n_traces, n_orders;
};

static enum lk_status sort_files(char *const *files, size_t n, struct sorted *out)
{
    LK_PASS(lk_alloc(&out->traces, n, sizeof(char *)));
    LK_PASS(lk_alloc(&out->orders, n, sizeof(char *)));
    for (size_t k = 0; k < n; k++) {
        const struct lk_format *format = NULL;

        LK_PASS(lk_format_of(files[k], &format));
        if (!format || !format->read)
            return lk_format_refuse(files[k], format);
        if (format->role == LK_FORMAT_ORDER)
            out->orders[out->n_orders++] = files[k];
        else if (format->role == LK_FORMAT_TRACE)
            out->traces[out->n_traces++] = files[k];
    }
    if (!out->n_traces) { /* then that is what there is of the ranks */
        const char **none = out->traces;

        out->traces = out->orders;
        out->orders = none;
        out->n_traces = out->n_orders;
        out->n_orders = 0;
    }
    if (!out->n_traces)
        return lk_fail(LK_EPARSE, "%s: has no times; give torch.profiler's trace of the rank, too",
                       n ? files[0] : "nothing");
    LK_PASS(lk_alloc(&out->trace_ranks, n, sizeof *out->trace_ranks));
    LK_PASS(lk_alloc(&out->order_ranks, n, sizeof *out->order_ranks));
    lk_file_ranks(out->traces, out->n_traces, out->trace_ranks);
    lk_file_ranks(out->orders, out->n_orders, out->order_ranks);
    return LK_OK;
}

/* Return how many of the files come before number k by the numbers in their names. */
static size_t place_of(const struct sorted *f, size_t k)
{
    size_t place = 0;

    for (size_t i = 0; i < f->n_traces; i++)
        place += f->trace_ranks[i] < f->trace_ranks[k];
    return place;
}

static void sorted_fini(struct sorted *f)
{
    free(f->traces);
    free(f->orders);
    free(f->trace_ranks);
    free(f->order_ranks);
}

/* Fail: nothing says which rank's file this is, and a number by chance would accuse another. */
static enum lk_status refuse_rank(const char *path)
{
    return lk_fail(LK_EPARSE,
                   "%s: which rank's is it? The file does not say so, and the names of the files "
                   "do not differ in one number alone: call them PREFIX_rank0, PREFIX_rank1, ...",
                   path);
}

/* Add the ranks of trace k, one for each of its GPUs. */
static enum lk_status add_ranks(struct lk_events *e, const struct sorted *files, size_t k,
                                struct lk_import_rank_options *options, struct lk_import *out)
{
    enum lk_status st = LK_OK;
    int64_t *devices = NULL;
    size_t n_devices = 0;

    LK_TRY(list_devices(e, &devices, &n_devices));
    if (files->n_traces == 1 && (options->rank < 0 || n_devices > 1))
        options->rank = 0; /* the only one */
    if (options->rank < 0 && (e->source.rank < 0 || n_devices > 1))
        LK_TRY(refuse_rank(files->traces[k]));
    if (n_devices > 1) /* a file a node */
        options->rank = (int)(place_of(files, k) * n_devices);
    if (!options->world_size)
        options->world_size = (int)(files->n_traces * (n_devices ? n_devices : 1));
    if (n_devices < 2)
        LK_TRY(add_rank(e, options, out));
    for (size_t i = 0; i < n_devices && n_devices > 1; i++, options->rank++) {
        options->device = devices[i];
        LK_TRY(add_rank(e, options, out));
    }
out:
    free(devices);
    return st;
}

/* Read trace k, with the sizes that may be in another of all files. */
static enum lk_status read_file(char *const *files, size_t n_all, const struct sorted *sorted,
                                size_t k, const struct lk_import_options *o,
                                struct lk_step_phase *phase, struct lk_import *out)
{
    const char *path = sorted->traces[k];
    const struct lk_format *format = NULL;
    struct lk_import_rank_options options = {.patterns = o->patterns,
                                             .source = path,
                                             .rank = sorted->trace_ranks[k],
                                             .world_size = o->world_size,
                                             .local_batch = o->local_batch,
                                             .nodes = o->nodes,
                                             .steps_by_gpu = o->steps_by_gpu,
                                             .drop_last = o->drop_last,
                                             .phase = phase,
                                             .device = -1};
    struct lk_events e = {0}, sizes = {0};
    enum lk_status st = LK_OK;

    LK_TRY(lk_format_of(path, &format));
    LK_TRY(read_sizes(files, n_all, path, &sizes));
    options.sizes = &sizes;
    LK_TRY(format->read(path, o->step_range, &e));
    lk_events_sort(&e);
    LK_TRY(add_file(path, out));
    LK_TRY(add_ranks(&e, sorted, k, &options, out));
    out->files[out->n_files - 1].source = e.source;
    e.source = (struct lk_source){0};
out:
    lk_events_fini(&sizes);
    lk_events_fini(&e);
    return st;
}

/* Read a file that stands beside traces for the order of its collectives alone. */
static enum lk_status read_order(const char *path, int rank, struct lk_import *out)
{
    const struct lk_format *format = NULL;
    struct lk_events e = {0};
    enum lk_status st = LK_OK;

    LK_TRY(lk_format_of(path, &format));
    LK_TRY(format->read(path, NULL, &e));
    rank = e.source.rank >= 0 ? e.source.rank : rank;
    if (rank < 0)
        st = refuse_rank(path);
    else
        st = lk_fail_context(lk_sequences_add(&out->sequences, rank, &e), "%s", path);
out:
    lk_events_fini(&e);
    return st;
}

/* numbered: collectives have numbers, which steps take. */
static enum lk_status place_ranks(struct lk_import *i, bool numbered)
{
    const struct lk_source **sources = NULL;
    enum lk_status st;

    LK_PASS(lk_alloc(&sources, i->n, sizeof *sources));
    for (size_t k = 0; k < i->n; k++)
        sources[k] = &i->files[i->rows[k].file].source;
    st = lk_import_place(i->traces, sources, i->n, numbered);
    free(sources);
    return st;
}

enum lk_status lk_import_run(char *const *files, size_t n, const struct lk_import_options *o,
                             struct lk_import *out)
{
    enum lk_status st = LK_OK;
    struct lk_import i = {0};
    struct lk_step_phase phase = {0};
    struct sorted sorted = {0};

    LK_TRY(sort_files(files, n, &sorted));
    for (size_t k = 0; k < sorted.n_traces; k++) {
        lk_progress_begin((double)k / (double)sorted.n_traces,
                          (double)(k + 1) / (double)sorted.n_traces, "reading %s",
                          lk_file_name(sorted.traces[k]));
        LK_TRY(read_file(files, n, &sorted, k, o, &phase, &i));
    }
    for (size_t k = 0; k < sorted.n_orders; k++)
        LK_TRY(read_order(sorted.orders[k], sorted.order_ranks[k], &i));
    if (i.no_steps) {
        lk_traces_free(i.traces, i.n);
        i.traces = NULL;
    } else {
        lk_traces_sort(i.traces, i.n);
    }
    qsort(i.rows, i.n, sizeof *i.rows, row_order);
    LK_TRY(check_ranks(&i));
    if (i.traces)
        LK_TRY(place_ranks(&i, phase.group != NULL));
    *out = i;
    i = (struct lk_import){0};
out:
    sorted_fini(&sorted);
    free(phase.group);
    lk_import_fini(&i);
    return st;
}

/* Write what a rank has of its steps. */
struct parts_text {
    char buf[160];
};

static struct parts_text parts_of(const struct lk_trace *t)
{
    size_t n[LK_SPAN_KIND_COUNT] = {0};
    uint32_t first = UINT32_MAX, last = 0;
    struct parts_text text;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        n[s->kind]++;
        if (s->kind != LK_SPAN_STEP)
            continue;
        first = s->step < first ? s->step : first;
        last = s->step > last ? s->step : last;
    }
    snprintf(text.buf, sizeof text.buf,
             "steps %u to %u, with %zu forwards, %zu backwards and %zu collectives", first, last,
             n[LK_SPAN_FORWARD], n[LK_SPAN_BACKWARD], n[LK_SPAN_COLLECTIVE]);
    return text;
}

/* Fail: a rank is shown, and the first one that has other parts. */
static enum lk_status refuse_incomplete(const struct lk_import *i, const struct lk_trace *traces)
{
    const struct parts_text first = parts_of(&traces[0]);
    char other[192] = "";

    for (size_t k = 1; k < i->n && !*other; k++) {
        const struct parts_text text = parts_of(&traces[k]);

        if (strcmp(text.buf, first.buf) != 0)
            snprintf(other, sizeof other, "; rank %d has %s", i->rows[k].rank, text.buf);
    }
    return lk_fail(
        LK_EEVIDENCE,
        "%s: no step is complete on all ranks: with a forward and a backward of each micro-batch, "
        "and the same collectives. Rank %d has %s%s. Record whole steps, the host's activities and "
        "the GPU's, and the same steps on all ranks",
        i->files[i->rows[0].file].path, i->rows[0].rank, first.buf, other);
}

enum lk_status lk_import_take(struct lk_import *i, const char *name, struct lk_run *out)
{
    struct lk_run run = {0};
    enum lk_status st;

    if (i->no_steps)
        return lk_fail(LK_EEVIDENCE, "%s", i->no_steps);
    LK_PASS(lk_run_take(name, i->traces, i->n, &run));
    i->traces = NULL;
    if (run.n_steps) {
        *out = run;
        return LK_OK;
    }
    st = refuse_incomplete(i, run.traces);
    LK_KEEP(lk_strdup(&i->no_steps, lk_error_text()));
    lk_run_fini(&run);
    return st;
}

void lk_import_fini(struct lk_import *i)
{
    for (size_t k = 0; k < i->n_files; k++) {
        lk_source_fini(&i->files[k].source);
        free(i->files[k].path);
    }
    free(i->files);
    free(i->rows);
    free(i->no_steps);
    lk_sequences_fini(&i->sequences);
    lk_kernel_sums_fini(&i->kernels);
    lk_traces_free(i->traces, i->traces ? i->n : 0);
    *i = (struct lk_import){0};
}

void lk_import_cost(const struct lk_import *i, char *out, size_t size)
{
    double most = -1;

    *out = '\0';
    for (size_t k = 0; k < i->n_files; k++) {
        const struct lk_source *s = &i->files[k].source;
        const double spent = (double)s->cost.spent_ns, whole = (double)s->cost.recorded_ns;

        if (whole <= 0 || spent / whole <= most)
            continue;
        most = spent / whole;
        snprintf(out, size,
                 "recording took %.3g ms of %.3g s (%.2g %%)%s, and making the file %.3g ms",
                 spent * 1e-6, whole * 1e-9, 100 * most,
                 i->n > 1 ? " on the rank where it took most" : "", (double)s->cost.made_ns * 1e-6);
    }
}

/* ---- The table ---- */

/* clang-format off */
#define ROWS(X)                                                                                    \
    X("rank",      "rank",       LK_DIM_NONE, -1, (double)r->rank)                                 \
    X("events",    "counted",    LK_DIM_NONE, -1, linked ? "linked" : "all")                       \
    X("n",         "GPU events", LK_DIM_NONE, -1, (double)b->n)                                    \
    LK_BREAKDOWN_COLUMNS(X)

static const struct lk_column columns[] = {ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status add_row(struct lk_table *t, const struct lk_import_row *r, bool linked)
{
    const struct lk_breakdown *b = linked ? &r->linked : &r->all;
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_row(t));
    ROWS(LK_TABLE_CELL)
out:
    return st;
}

static enum lk_status add_notes(struct lk_table *t, const struct lk_import *i)
{
    const struct lk_import_file *first = &i->files[i->rows[0].file];
    size_t unlinked = 0, counted = 0;
    uint64_t skipped = 0;
    char cost[128];

    for (size_t k = 0; k < i->n; k++) {
        counted += i->rows[k].all.n;
        unlinked += i->rows[k].all.n_unlinked;
    }
    for (size_t k = 0; k < i->n_files; k++) {
        skipped += i->files[k].source.n_skipped;
        if (i->files[k].source.cut)
            LK_PASS(lk_table_note(t, "%s: ends too early; read up to there", i->files[k].path));
    }
    /* Sources of one run say the same of themselves. */
    for (size_t k = 0; k < first->source.n_notes; k++)
        LK_PASS(lk_table_note(t, "%s: %s", lk_file_name(first->path), first->source.notes[k]));
    lk_import_cost(i, cost, sizeof cost);
    if (*cost)
        LK_PASS(lk_table_note(t, "%s", cost));
    if (counted)
        LK_PASS(lk_table_note(
            t, "all: every event of the GPU, as HTA counts; linked: those whose launch "
               "is in the trace, as TraceLens does; memsets are no compute"));
    if (i->no_steps)
        LK_PASS(lk_table_note(t, "%s", i->no_steps));
    if (unlinked)
        LK_PASS(lk_table_note(t, "%zu events were launched before the trace began", unlinked));
    if (skipped)
        LK_PASS(lk_table_note(t, "%llu events made no sense and were left out",
                              (unsigned long long)skipped));
    return LK_OK;
}

enum lk_status lk_import_table(const struct lk_import *i, struct lk_table **out)
{
    struct lk_table *t = NULL;
    enum lk_status st = LK_OK;
    bool gpus = false;

    for (size_t k = 0; k < i->n; k++)
        gpus = gpus || i->rows[k].all.n > 0;
    LK_TRY(lk_table_create(gpus ? "Imported: what the GPUs did of the time" : "Imported", columns,
                           LK_COUNT(columns), &t));
    for (size_t k = 0; k < i->n; k++) {
        if (i->rows[k].all.n)
            LK_TRY(add_row(t, &i->rows[k], false));
        if (i->rows[k].all.n_unlinked)
            LK_TRY(add_row(t, &i->rows[k], true));
    }
    LK_TRY(add_notes(t, i));
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}
