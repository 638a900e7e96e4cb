/* Tables of a calibration on GPUs; see the header. */
#include "commands/calibrate_tables.h"

#include "base/array.h"
#include "base/json.h"
#include "commands/calibrate.h"
#include "reports/print.h"

#include <math.h>
#include <string.h>

static const struct lk_column collective_columns[] = {
    {"collective",    "collective",   LK_DIM_NONE,  -1},
    {"dtype",         "type",         LK_DIM_NONE,  -1},
    {"timing",        "timing",       LK_DIM_NONE,  -1},
    {"ranks",         "ranks",        LK_DIM_NONE,  -1},
    {"bytes",         "size",         LK_DIM_BYTES, -1},
    {"out_time_s",    "out of place", LK_DIM_TIME,  -1},
    {"out_algbw_Bps", "algbw",        LK_DIM_RATE,  -1},
    {"out_busbw_Bps", "busbw",        LK_DIM_RATE,  -1},
    {"in_time_s",     "in place",     LK_DIM_TIME,  -1},
    {"in_algbw_Bps",  "algbw",        LK_DIM_RATE,  -1},
    {"in_busbw_Bps",  "busbw",        LK_DIM_RATE,  -1},
    {"host_s",        "host's clock", LK_DIM_TIME,  -1},
    {"estimate_s",    "NCCL expects", LK_DIM_TIME,  -1},
    {"n",             "n",            LK_DIM_NONE,  -1},
    {"host_late",     "host late",    LK_DIM_NONE,  -1},
};

static const struct lk_column copy_columns[] = {
    {"copy",     "copy", LK_DIM_NONE,  -1},
    {"bytes",    "size", LK_DIM_BYTES, -1},
    {"time_s",   "time", LK_DIM_TIME,  -1},
    {"lo_s",     "from", LK_DIM_TIME,  -1},
    {"hi_s",     "to",   LK_DIM_TIME,  -1},
    {"rate_Bps", "rate", LK_DIM_RATE,  -1},
    {"n",        "n",    LK_DIM_NONE,  -1},
};

static const struct lk_column product_columns[] = {
    {"shape",      "shape",   LK_DIM_NONE,  -1},
    {"dtype",      "type",    LK_DIM_NONE,  -1},
    {"rows",       "rows",    LK_DIM_NONE,  -1},
    {"inner",      "inner",   LK_DIM_NONE,  -1},
    {"columns",    "columns", LK_DIM_NONE,  -1},
    {"time_s",     "time",    LK_DIM_TIME,  -1},
    {"lo_s",       "from",    LK_DIM_TIME,  -1},
    {"hi_s",       "to",      LK_DIM_TIME,  -1},
    {"rate_flops", "rate",    LK_DIM_FLOPS, -1},
    {"n",          "n",       LK_DIM_NONE,  -1},
};

static const struct lk_column overlap_columns[] = {
    {"beside",        "beside compute", LK_DIM_NONE,  -1},
    {"ranks",         "ranks",          LK_DIM_NONE,  -1},
    {"ctas",          "CTAs",           LK_DIM_NONE,  -1},
    {"bytes",         "size",           LK_DIM_BYTES, -1},
    {"rate_Bps",      "asked to copy",  LK_DIM_RATE,  -1},
    {"alone_Bps",     "moves alone",    LK_DIM_RATE,  -1},
    {"gamma_wait",    "gamma_wait",     LK_DIM_NONE,  3 },
    {"gamma_wait_lo", "from",           LK_DIM_NONE,  3 },
    {"gamma_wait_hi", "to",             LK_DIM_NONE,  3 },
    {"gamma_wire",    "gamma_wire",     LK_DIM_NONE,  3 },
    {"gamma_wire_lo", "from",           LK_DIM_NONE,  3 },
    {"gamma_wire_hi", "to",             LK_DIM_NONE,  3 },
    {"delta",         "delta",          LK_DIM_NONE,  3 },
    {"delta_lo",      "from",           LK_DIM_NONE,  3 },
    {"delta_hi",      "to",             LK_DIM_NONE,  3 },
    {"n",             "n",              LK_DIM_NONE,  -1},
    {"in_file",       "in the file",    LK_DIM_NONE,  -1},
};

static const struct {
    const char *title;
    const struct lk_column *columns;
    size_t n_columns;
} kinds[CALIBRATE_TABLES] = {
    [CALIBRATE_COLLECTIVES] = {"Collectives on GPUs: median of n samples",                      collective_columns,
                               LK_COUNT(collective_columns)                                                                                  },
    [CALIBRATE_COPIES] = {"Copies of one GPU: median of n bursts, 90 % interval",          copy_columns,
                               LK_COUNT(copy_columns)                                                                                        },
    [CALIBRATE_PRODUCTS] = {"Matrix products of one GPU: median of n bursts, 90 % interval",
                               product_columns,                                                                     LK_COUNT(product_columns)},
    [CALIBRATE_OVERLAP] = {"Backward of a GPT block beside a collective: median of n repetitions, "
                           "90 % interval",                      overlap_columns,    LK_COUNT(overlap_columns)},
};

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

/* ---- To a file and back ---- */

enum lk_status calibrate_tables_write(const struct calibrate_tables *t, const char *path)
{
    return lk_report_tables((const struct lk_table *const *)t->table, CALIBRATE_TABLES,
                            LK_FORMAT_JSON, path);
}

static enum lk_status read_cell(struct lk_json *row, struct lk_table *to, const char *column)
{
    struct lk_json *v = lk_json_optional(row, column);
    enum lk_status st = LK_OK;
    const char *text;
    double number;

    if (!v)
        return LK_OK;
    if (lk_json_type(v) == LK_JSON_STRING) {
        LK_TRY(lk_json_as_text(v, &text));
        LK_TRY(lk_table_text(to, column, "%s", text));
    } else {
        LK_TRY(lk_json_as_number(v, &number));
        LK_TRY(lk_table_number(to, column, number));
    }
out:
    return st;
}

/* A note of several counts of ranks is printed once. */
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
    enum lk_status st = LK_OK;
    struct lk_json *rows, *notes;

    LK_TRY(lk_json_array(v, "rows", &rows));
    LK_TRY(lk_json_array(v, "notes", &notes));
    for (size_t r = 0; r < lk_json_count(rows); r++) {
        LK_TRY(lk_table_row(to));
        for (size_t c = 0; c < to->n_columns; c++)
            LK_TRY(read_cell(lk_json_item(rows, r), to, to->columns[c].name));
    }
    for (size_t i = 0; i < lk_json_count(notes); i++)
        LK_TRY(read_note(lk_json_item(notes, i), to));
out:
    return st;
}

static enum lk_status read_tables(struct lk_json *root, void *ctx)
{
    struct calibrate_tables *t = ctx;
    enum lk_status st = LK_OK;
    struct lk_json *tables;

    LK_TRY(lk_json_array(root, "tables", &tables));
    if (lk_json_count(tables) != CALIBRATE_TABLES)
        LK_TRY(lk_json_error(tables, "expected %d tables", (int)CALIBRATE_TABLES));
    for (size_t i = 0; i < CALIBRATE_TABLES; i++)
        LK_TRY(read_table(lk_json_item(tables, i), t->table[i]));
out:
    return st;
}

enum lk_status calibrate_tables_append(struct calibrate_tables *t, const char *path)
{
    return lk_json_read(path, read_tables, t);
}

/* ---- Rows ---- */

static bool has_samples(const struct lk_sweep_row *r)
{
    return r->n > r->warmup;
}

/* The same call out of place, or NULL. */
static const struct lk_sweep_row *out_of_place(const struct lk_sweep_rows *rows,
                                               const struct lk_sweep_row *in)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct lk_sweep_row *r = &rows->row[i];

        if (r->out_of_place && r->coll == in->coll && r->algo == in->algo &&
            r->dtype == in->dtype && r->timing == in->timing && r->bytes == in->bytes)
            return has_samples(r) ? r : NULL;
    }
    return NULL;
}

/* Time and rates of one place. */
static enum lk_status show_place(struct lk_table *t, const struct lk_sweep_row *r,
                                 const char *const columns[3])
{
    enum lk_status st = LK_OK;
    struct lk_estimate e;
    double rate;

    LK_TRY(calibrate_median(calibrate_samples(r), r->n - r->warmup, r->bytes, &e));
    rate = (double)r->bytes / e.value;
    LK_TRY(lk_table_number(t, columns[0], e.value));
    LK_TRY(lk_table_number(t, columns[1], rate));
    LK_TRY(lk_table_number(t, columns[2], rate * lk_coll_busbw_factor(r->coll, r->ranks)));
out:
    return st;
}

static enum lk_status show_line(struct lk_table *t, const struct lk_sweep_rows *rows,
                                const struct lk_sweep_row *r)
{
    static const char *const in[] = {"in_time_s", "in_algbw_Bps", "in_busbw_Bps"};
    static const char *const out[] = {"out_time_s", "out_algbw_Bps", "out_busbw_Bps"};
    const struct lk_sweep_row *other = out_of_place(rows, r);
    enum lk_status st = LK_OK;
    struct lk_estimate e;

    LK_TRY(calibrate_median(r->host_s + r->warmup, r->n - r->warmup, r->bytes, &e));
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "collective", "%s", lk_coll_name(r->coll)));
    LK_TRY(lk_table_text(t, "dtype", "%s", lk_dtype_name(r->dtype)));
    LK_TRY(lk_table_text(t, "timing", "%s", lk_timing_names[r->timing]));
    LK_TRY(lk_table_number(t, "ranks", r->ranks));
    LK_TRY(lk_table_number(t, "bytes", (double)r->bytes));
    LK_TRY(show_place(t, r, in));
    if (other)
        LK_TRY(show_place(t, other, out));
    LK_TRY(lk_table_number(t, "host_s", e.value));
    LK_TRY(lk_table_number(t, "estimate_s", r->estimate_s));
    LK_TRY(lk_table_number(t, "n", (double)(r->n - r->warmup)));
    LK_TRY(lk_table_number(t, "host_late", (double)r->n_late));
out:
    return st;
}

enum lk_status calibrate_show_collectives(struct calibrate_tables *t,
                                          const struct lk_sweep_rows *rows)
{
    struct lk_table *to = t->table[CALIBRATE_COLLECTIVES];
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < rows->n; i++)
        if (!rows->row[i].out_of_place && has_samples(&rows->row[i]))
            LK_TRY(show_line(to, rows, &rows->row[i]));
    if (!rows->n)
        return LK_OK;
    LK_TRY(lk_table_note(to, "size, algbw and busbw as nccl-tests has them. alone: from the last "
                             "rank's arrival to the end; back_to_back: a call of a burst; by the "
                             "GPU's events, the host ahead (host late: samples where it was not)"));
    LK_TRY(lk_table_note(to, "host's clock: in place, to when the host knew of the end. NCCL "
                             "expects: ncclGroupSimulateEnd, no measurement"));
out:
    return st;
}

enum lk_status calibrate_show_rates(struct calibrate_tables *t, const struct lk_rate_rows *rows)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < rows->n; i++) {
        const struct lk_rate_row *r = &rows->row[i];
        bool product = r->kind == LK_RATE_PRODUCT;
        struct lk_table *to = t->table[product ? CALIBRATE_PRODUCTS : CALIBRATE_COPIES];
        struct lk_estimate e;

        if (r->n <= r->warmup) {
            LK_TRY(lk_table_note(to, "%s in %s: not enough memory", r->shape.name,
                                 lk_dtype_name(r->dtype)));
            continue;
        }
        LK_TRY(calibrate_median(r->time_s + r->warmup, r->n - r->warmup, i, &e));
        LK_TRY(lk_table_row(to));
        if (product) {
            LK_TRY(lk_table_text(to, "shape", "%s", r->shape.name));
            LK_TRY(lk_table_text(to, "dtype", "%s", r->dtype == LK_F32 ? "tf32" : "bfloat16"));
            LK_TRY(lk_table_number(to, "rows", (double)r->shape.rows));
            LK_TRY(lk_table_number(to, "inner", (double)r->shape.inner));
            LK_TRY(lk_table_number(to, "columns", (double)r->shape.columns));
        } else {
            LK_TRY(lk_table_text(to, "copy", "%s", lk_rate_names[r->kind]));
            LK_TRY(lk_table_number(to, "bytes", (double)r->bytes));
        }
        LK_TRY(lk_table_number(to, "time_s", e.value));
        LK_TRY(lk_table_number(to, "lo_s", e.lo));
        LK_TRY(lk_table_number(to, "hi_s", e.hi));
        LK_TRY(lk_table_number(to, product ? "rate_flops" : "rate_Bps", lk_rate_work(r) / e.value));
        LK_TRY(lk_table_number(to, "n", (double)e.n));
    }
out:
    return st;
}

static enum lk_status show_slowdown(struct lk_table *t, const double *samples, size_t n,
                                    const char *const columns[3])
{
    enum lk_status st = LK_OK;
    struct lk_estimate e;

    LK_TRY(calibrate_median(samples, n, n, &e));
    LK_TRY(lk_table_number(t, columns[0], e.value));
    LK_TRY(lk_table_number(t, columns[1], e.lo));
    LK_TRY(lk_table_number(t, columns[2], e.hi));
out:
    return st;
}

enum lk_status calibrate_show_overlap(struct calibrate_tables *t,
                                      const struct calibrate_overlap *line)
{
    static const char *const wait[] = {"gamma_wait", "gamma_wait_lo", "gamma_wait_hi"};
    static const char *const wire[] = {"gamma_wire", "gamma_wire_lo", "gamma_wire_hi"};
    static const char *const delta[] = {"delta", "delta_lo", "delta_hi"};
    const struct lk_sweep_overlap *s = line->samples;
    struct lk_table *to = t->table[CALIBRATE_OVERLAP];
    size_t ctas = line->beside->ctas, n = s->n - s->warmup;
    enum lk_status st = LK_OK;
    struct lk_estimate alone;

    LK_TRY(lk_table_row(to));
    LK_TRY(lk_table_text(to, "beside", "%s", ctas ? "stand-in" : "all_reduce"));
    LK_TRY(lk_table_number(to, "ranks", line->ranks));
    if (ctas || line->ctas)
        LK_TRY(lk_table_number(to, "ctas", ctas ? (double)ctas : line->ctas));
    else
        LK_TRY(lk_table_text(to, "ctas", "NCCL's"));
    LK_TRY(lk_table_number(to, "bytes", (double)s->bytes));
    if (line->beside->Bps > 0)
        LK_TRY(lk_table_number(to, "rate_Bps", line->beside->Bps));
    LK_TRY(calibrate_median(s->call_s + s->warmup, n, n, &alone));
    LK_TRY(lk_table_number(to, "alone_Bps", (double)s->bytes / alone.value));
    LK_TRY(show_slowdown(to, s->gamma_wait + s->warmup, n, wait));
    LK_TRY(show_slowdown(to, s->gamma_wire + s->warmup, n, wire));
    LK_TRY(show_slowdown(to, s->delta + s->warmup, n, delta));
    LK_TRY(lk_table_number(to, "n", (double)n));
    LK_TRY(lk_table_text(to, "in_file", "%s", line->in_file ? "yes" : ""));
out:
    return st;
}
