/* Tables of a calibration: those of GPUs, and those of the cluster file. */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/json.h"
#include "commands/cluster_answer.h"
#include "commands/share_gpu.h"
#include "reports/print.h"

#include <math.h>
#include <string.h>

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define COLLECTIVES(X)                                                                             \
    X("collective",    "collective",   LK_DIM_NONE,  -1, lk_coll_name(r->coll))                    \
    X("dtype",         "type",         LK_DIM_NONE,  -1, lk_dtype_name(r->dtype))                  \
    X("timing",        "timing",       LK_DIM_NONE,  -1, lk_timing_words.names[r->timing])         \
    X("ranks",         "ranks",        LK_DIM_NONE,  -1, r->ranks)                                 \
    X("bytes",         "size",         LK_DIM_BYTES, -1, (double)r->bytes)                         \
    X("out_time_s",    "out of place", LK_DIM_TIME,  -1, out_s.value)                              \
    X("out_algbw_Bps", "algbw",        LK_DIM_RATE,  -1, (double)r->bytes / out_s.value)           \
    X("out_busbw_Bps", "busbw",        LK_DIM_RATE,  -1, (double)r->bytes / out_s.value * factor)  \
    X("in_time_s",     "in place",     LK_DIM_TIME,  -1, in_s.value)                               \
    X("in_algbw_Bps",  "algbw",        LK_DIM_RATE,  -1, (double)r->bytes / in_s.value)            \
    X("in_busbw_Bps",  "busbw",        LK_DIM_RATE,  -1, (double)r->bytes / in_s.value * factor)   \
    X("host_s",        "host's clock", LK_DIM_TIME,  -1, host_s.value)                             \
    X("estimate_s",    "NCCL expects", LK_DIM_TIME,  -1, r->estimate_s)                            \
    X("n",             "n",            LK_DIM_NONE,  -1, (double)(r->n - r->warmup))               \
    X("host_late",     "host late",    LK_DIM_NONE,  -1, (double)r->n_late)
#define COPIES(X)                                                                                  \
    X("copy",     "copy", LK_DIM_NONE,  -1, lk_rate_words.names[r->kind])                          \
    X("bytes",    "size", LK_DIM_BYTES, -1, (double)r->bytes)                                      \
    X("time_s",   "time", LK_DIM_TIME,  -1, e.value)                                               \
    X("lo_s",     "from", LK_DIM_TIME,  -1, e.lo)                                                  \
    X("hi_s",     "to",   LK_DIM_TIME,  -1, e.hi)                                                  \
    X("rate_Bps", "rate", LK_DIM_RATE,  -1, lk_rate_work(r) / e.value)                             \
    X("n",        "n",    LK_DIM_NONE,  -1, (double)e.n)
#define PRODUCTS(X)                                                                                \
    X("shape",      "shape",   LK_DIM_NONE,  -1, r->shape.name)                                    \
    X("dtype",      "type",    LK_DIM_NONE,  -1, r->dtype == LK_F32 ? "tf32" : "bfloat16")         \
    X("rows",       "rows",    LK_DIM_NONE,  -1, (double)r->shape.rows)                            \
    X("inner",      "inner",   LK_DIM_NONE,  -1, (double)r->shape.inner)                           \
    X("columns",    "columns", LK_DIM_NONE,  -1, (double)r->shape.columns)                         \
    X("time_s",     "time",    LK_DIM_TIME,  -1, e.value)                                          \
    X("lo_s",       "from",    LK_DIM_TIME,  -1, e.lo)                                             \
    X("hi_s",       "to",      LK_DIM_TIME,  -1, e.hi)                                             \
    X("rate_flops", "rate",    LK_DIM_FLOPS, -1, lk_rate_work(r) / e.value)                        \
    X("n",          "n",       LK_DIM_NONE,  -1, (double)e.n)
#define OVERLAP(X)                                                                                 \
    X("beside",        "beside compute", LK_DIM_NONE,  -1,                                         \
      beside->ctas ? "surrogate" : "all_reduce")                                                   \
    X("ranks",         "ranks",          LK_DIM_NONE,  -1, line->ranks)                            \
    X("ctas",          "CTAs",           LK_DIM_NONE,  -1, ctas ? (double)ctas : NAN)              \
    X("bytes",         "size",           LK_DIM_BYTES, -1, (double)s->bytes)                       \
    X("rate_Bps",      "asked to copy",  LK_DIM_RATE,  -1, beside->Bps > 0 ? beside->Bps : NAN)    \
    X("alone_Bps",     "moves alone",    LK_DIM_RATE,  -1, (double)s->bytes / alone.value)         \
    X("gamma_wait",    "gamma_wait",     LK_DIM_NONE,  3,  wait.value)                             \
    X("gamma_wait_lo", "from",           LK_DIM_NONE,  3,  wait.lo)                                \
    X("gamma_wait_hi", "to",             LK_DIM_NONE,  3,  wait.hi)                                \
    X("gamma_wire",    "gamma_wire",     LK_DIM_NONE,  3,  wire.value)                             \
    X("gamma_wire_lo", "from",           LK_DIM_NONE,  3,  wire.lo)                                \
    X("gamma_wire_hi", "to",             LK_DIM_NONE,  3,  wire.hi)                                \
    X("delta",         "delta",          LK_DIM_NONE,  3,  delta.value)                            \
    X("delta_lo",      "from",           LK_DIM_NONE,  3,  delta.lo)                               \
    X("delta_hi",      "to",             LK_DIM_NONE,  3,  delta.hi)                               \
    X("n",             "n",              LK_DIM_NONE,  -1, (double)n)                              \
    X("in_file",       "in the file",    LK_DIM_NONE,  -1, line->in_file ? "yes" : "")

static const struct lk_column collective_columns[] = {COLLECTIVES(LK_TABLE_COLUMN)};
static const struct lk_column copy_columns[] = {COPIES(LK_TABLE_COLUMN)};
static const struct lk_column product_columns[] = {PRODUCTS(LK_TABLE_COLUMN)};
static const struct lk_column overlap_columns[] = {OVERLAP(LK_TABLE_COLUMN)};

static const struct {
    const char *name, *title;
    const struct lk_column *columns;
    size_t n_columns;
} kinds[CALIBRATE_TABLES] = {
    [CALIBRATE_COLLECTIVES] = {"gpu-collectives", "Collectives on GPUs: median of n samples", collective_columns,
                               LK_COUNT(collective_columns)},
    [CALIBRATE_COPIES] = {"gpu-copies", "Copies of one GPU: median of n bursts, 90 % interval", copy_columns,
                          LK_COUNT(copy_columns)},
    [CALIBRATE_PRODUCTS] = {"gpu-products", "Matrix products of one GPU: median of n bursts, 90 % interval",
                            product_columns, LK_COUNT(product_columns)},
    [CALIBRATE_OVERLAP] = {"gpu-overlap", "Backward of a GPT block beside a collective: median of n repetitions, "
                           "90 % interval", overlap_columns, LK_COUNT(overlap_columns)},
};
/* clang-format on */

enum lk_status calibrate_tables_create(struct calibrate_tables *t)
{
    enum lk_status st = LK_OK;

    *t = (struct calibrate_tables){.table = {NULL}};
    for (int i = 0; i < CALIBRATE_TABLES; i++)
        LK_TRY(lk_table_create(kinds[i].title, kinds[i].columns, kinds[i].n_columns, &t->table[i]));
out:
    if (st != LK_OK)
        calibrate_tables_fini(t);
    return st;
}

void calibrate_tables_fini(struct calibrate_tables *t)
{
    for (int i = 0; i < CALIBRATE_TABLES; i++)
        lk_table_destroy(t->table[i]);
    *t = (struct calibrate_tables){.table = {NULL}};
}

/* ---- To a text and back ---- */

enum lk_status calibrate_tables_write(const struct calibrate_tables *t, char **text, size_t *size)
{
    return lk_report_tables_text((const struct lk_table *const *)t->table, CALIBRATE_TABLES,
                                 LK_FORMAT_JSON, text, size);
}

static enum lk_status read_cell(struct lk_json *row, struct lk_table *to, const char *column)
{
    struct lk_json *v = lk_json_optional(row, column);
    const char *text;
    double number;

    if (!v)
        return LK_OK;
    if (lk_json_type(v) == LK_JSON_STRING) {
        LK_PASS(lk_json_as_text(v, &text));
        LK_PASS(lk_table_text(to, column, "%s", text));
    } else {
        LK_PASS(lk_json_as_number(v, &number));
        LK_PASS(lk_table_number(to, column, number));
    }
    return LK_OK;
}

/* Read a note. One that several counts of ranks have is kept once. */
static enum lk_status read_note(struct lk_json *v, struct lk_table *to)
{
    const char *text;
    enum lk_status st = lk_json_as_text(v, &text);

    for (size_t i = 0; st == LK_OK && i < to->n_notes; i++)
        if (!strcmp(to->notes[i], text))
            return LK_OK;
    return st == LK_OK ? lk_table_note(to, "%s", text) : st;
}

static enum lk_status read_table(struct lk_json *v, struct lk_table *to)
{
    struct lk_json *rows, *notes;

    LK_PASS(lk_json_array(v, "rows", &rows));
    LK_PASS(lk_json_array(v, "notes", &notes));
    for (size_t r = 0; r < lk_json_count(rows); r++) {
        LK_PASS(lk_table_row(to));
        for (size_t c = 0; c < to->n_columns; c++)
            LK_PASS(read_cell(lk_json_item(rows, r), to, to->columns[c].name));
    }
    for (size_t i = 0; i < lk_json_count(notes); i++)
        LK_PASS(read_note(lk_json_item(notes, i), to));
    return LK_OK;
}

enum lk_status calibrate_tables_append(struct calibrate_tables *t, const char *text, size_t size)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc *doc = NULL;
    struct lk_json *tables;

    LK_TRY(lk_json_parse("rank 0's tables", text, size, &doc));
    LK_TRY(lk_json_array(lk_json_root(doc), "tables", &tables));
    if (lk_json_count(tables) != CALIBRATE_TABLES)
        LK_TRY(lk_json_error(tables, "expected %d tables", (int)CALIBRATE_TABLES));
    for (size_t i = 0; i < CALIBRATE_TABLES; i++)
        LK_TRY(read_table(lk_json_item(tables, i), t->table[i]));
out:
    lk_json_free(doc);
    return st;
}

/* ---- Rows ---- */

static bool has_samples(const struct lk_probe_row *r)
{
    return r->n > r->warmup;
}

/* Return the same collective out of place, or NULL. */
static const struct lk_probe_row *out_of_place(const struct lk_probe_rows *rows,
                                               const struct lk_probe_row *in)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct lk_probe_row *r = &rows->row[i];

        if (r->out_of_place && r->coll == in->coll && r->algo == in->algo &&
            r->dtype == in->dtype && r->timing == in->timing && r->bytes == in->bytes)
            return has_samples(r) ? r : NULL;
    }
    return NULL;
}

static enum lk_status show_line(struct lk_table *t, const struct lk_probe_rows *rows,
                                const struct lk_probe_row *r)
{
    const struct lk_probe_row *other = out_of_place(rows, r);
    double factor = lk_coll_busbw_factor(r->coll, r->ranks);
    struct lk_estimate in_s, out_s = {.value = NAN}, host_s;
    size_t n = r->n - r->warmup;
    enum lk_status st = LK_OK;

    LK_TRY(lk_calibration_median(r->host_s + r->warmup, n, r->bytes, &host_s));
    LK_TRY(lk_calibration_median(lk_calibration_samples(r), n, r->bytes, &in_s));
    if (other)
        LK_TRY(lk_calibration_median(lk_calibration_samples(other), other->n - other->warmup,
                                     other->bytes, &out_s));
    LK_TRY(lk_table_row(t));
    COLLECTIVES(LK_TABLE_CELL)
out:
    return st;
}

enum lk_status calibrate_show_collectives(struct calibrate_tables *t,
                                          const struct lk_probe_rows *rows)
{
    struct lk_table *to = t->table[CALIBRATE_COLLECTIVES];

    for (size_t i = 0; i < rows->n; i++)
        if (!rows->row[i].out_of_place && has_samples(&rows->row[i]))
            LK_PASS(show_line(to, rows, &rows->row[i]));
    if (!rows->n)
        return LK_OK;
    LK_PASS(lk_table_note(to, "size, algbw and busbw are those of nccl-tests. alone: from the last "
                              "rank's arrival to the end; back_to_back: one collective of a burst. "
                              "The GPU's events give the times, with the host ahead of the GPU "
                              "(host late: samples in which it was not)"));
    return lk_table_note(to, "host's clock: in place, until the host knew of the end. NCCL "
                             "expects: ncclGroupSimulateEnd, not a measurement");
}

enum lk_status calibrate_show_rates(struct calibrate_tables *tables,
                                    const struct lk_rate_rows *rows)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < rows->n; i++) {
        const struct lk_rate_row *r = &rows->row[i];
        bool product = r->kind == LK_RATE_PRODUCT;
        struct lk_table *t = tables->table[product ? CALIBRATE_PRODUCTS : CALIBRATE_COPIES];
        struct lk_estimate e;

        if (r->n <= r->warmup) {
            LK_TRY(lk_table_note(t, "%s in %s: not enough memory", r->shape.name,
                                 lk_dtype_name(r->dtype)));
            continue;
        }
        LK_TRY(lk_calibration_median(r->time_s + r->warmup, r->n - r->warmup, i, &e));
        LK_TRY(lk_table_row(t));
        if (product) {
            PRODUCTS(LK_TABLE_CELL)
        } else {
            COPIES(LK_TABLE_CELL)
        }
    }
out:
    return st;
}

enum lk_status calibrate_show_overlap(struct calibrate_tables *tables,
                                      const struct calibrate_overlap *line)
{
    const struct lk_probe_overlap *s = line->samples;
    const struct lk_probe_beside *beside = line->beside;
    struct lk_table *t = tables->table[CALIBRATE_OVERLAP];
    size_t ctas = beside->ctas ? beside->ctas : (size_t)line->ctas, n = s->n - s->warmup;
    struct lk_estimate alone, wait, wire, delta;
    enum lk_status st = LK_OK;

    LK_TRY(lk_calibration_median(s->call_s + s->warmup, n, n, &alone));
    LK_TRY(lk_calibration_median(s->gamma_wait + s->warmup, n, n, &wait));
    LK_TRY(lk_calibration_median(s->gamma_wire + s->warmup, n, n, &wire));
    LK_TRY(lk_calibration_median(s->delta + s->warmup, n, n, &delta));
    LK_TRY(lk_table_row(t));
    OVERLAP(LK_TABLE_CELL)
    if (!ctas)
        LK_TRY(lk_table_word(t, "ctas", "NCCL's"));
out:
    return st;
}

/* ---- The cluster file ---- */

/* Add notes on what the file has not, and on ranks that are slow. */
static enum lk_status add_notes(const struct calibrate_options *o, const struct lk_cluster *c,
                                int least, struct lk_page *page)
{
    if (!lk_quantity_known(&c->delta) && o->device == CALIBRATE_CPU && least > c->gpus_per_node)
        LK_PASS(lk_page_note(page,
                             "overlap not probed: %d ranks on %d usable CPU%s; compute and "
                             "collectives would share a CPU, which is co-location",
                             least, c->gpus_per_node, c->gpus_per_node == 1 ? "" : "s"));
    for (size_t i = 0; i < c->n_slow; i++)
        LK_PASS(lk_page_note(page,
                             "rank %d is slow: it computes %.2f times as long as the others (%s)",
                             c->slow[i].rank, c->slow[i].compute.value, c->slow[i].compute.source));
    return LK_OK;
}

enum lk_status calibrate_print(const struct calibrate_options *o, const struct lk_cluster *c,
                               struct calibrate_tables *gpu, int least, struct lk_page *page)
{
    LK_PASS(cluster_answer(c, page));
    LK_PASS(cluster_tables(c, page));
    for (size_t i = 0; i < CALIBRATE_TABLES; i++)
        if (gpu->table[i] && gpu->table[i]->n_rows)
            LK_PASS(lk_page_table(page, kinds[i].name, LK_PAGE_DETAIL, NULL, 0, &gpu->table[i]));
    LK_PASS(add_notes(o, c, least, page));
    if (o->share_gpu)
        return lk_page_note(page, "no cluster file: " SHARE_GPU_WARNING);
    LK_PASS(lk_page_next(page, "written: %s", o->out));
    return lk_page_next(page, "next: lockstep predict JOB %s --gpus 8,64", o->out);
}
