/* forecast.json, in and out. The numbers of a point are one list, for both directions. */
#include "base/forecast.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/json.h"

#include <math.h>
#include <string.h>

/* X(field, largest): whole numbers from 1. */
#define POINT_INTS(X)                                                                              \
    X(gpus, LK_RANKS_MAX)                                                                          \
    X(nodes, LK_RANKS_MAX)                                                                         \
    X(local_batch, LK_BATCH_MAX)                                                                   \
    X(accumulation, LK_ACCUMULATION_MAX)

/* X(field): numbers; NaN is written as null and read back as NaN. */
#define POINT_NUMBERS(X)                                                                           \
    X(step_s)                                                                                      \
    X(step_lo_s)                                                                                   \
    X(step_hi_s)                                                                                   \
    X(throughput_per_s)                                                                            \
    X(efficiency)                                                                                  \
    X(efficiency_lo)                                                                               \
    X(efficiency_hi)                                                                               \
    X(measured_step_s)                                                                             \
    X(measured_lo_s)                                                                               \
    X(measured_hi_s)

#define GAIN_NUMBERS(X) X(ratio) X(lo) X(hi) X(certainty)

#define BACKTEST_NUMBERS(X) X(predicted_s) X(lo_s) X(hi_s) X(measured_s)

/* Only what is known; nothing for a point without a plan. */
static void write_plan(struct lk_json_out *o, const struct lk_plan *p)
{
    if (!p->known)
        return;
    lk_json_out_object(o, "plan");
#define WRITE_KNOWN(field, heading, dim, digits)                                                   \
    if (!isnan(p->field))                                                                          \
        lk_json_out_number(o, #field, p->field);
    LK_PLAN_LIST(WRITE_KNOWN)
#undef WRITE_KNOWN
    if (*p->memory_fit)
        lk_json_out_text(o, "memory_fit", p->memory_fit);
    if (*p->fits_with)
        lk_json_out_text(o, "fits_with", p->fits_with);
    lk_json_out_close(o);
}

static void write_gain(struct lk_json_out *o, const struct lk_gain *g)
{
    if (!g->known)
        return;
    lk_json_out_compact(o);
    lk_json_out_object(o, "gain");
#define WRITE_NUMBER(field) lk_json_out_number(o, #field, g->field);
    GAIN_NUMBERS(WRITE_NUMBER)
#undef WRITE_NUMBER
    if (g->verdict)
        lk_json_out_text(o, "verdict", lk_verdict_name(g->verdict));
    lk_json_out_close(o);
}

/* An axis that has no meaning for the point is left out. */
static void write_words(struct lk_json_out *o, const struct lk_forecast *f,
                        const struct lk_forecast_point *p)
{
    if (!f->n_axes)
        return;
    lk_json_out_compact(o);
    lk_json_out_object(o, "axes");
    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            lk_json_out_text(o, f->axes[i], p->words[i]);
    lk_json_out_close(o);
}

static void write_point(struct lk_json_out *o, const struct lk_forecast *f,
                        const struct lk_forecast_point *p)
{
    lk_json_out_object(o, NULL);
#define WRITE_INT(field, max) lk_json_out_int(o, #field, p->field);
    POINT_INTS(WRITE_INT)
#undef WRITE_INT
    lk_json_out_uint(o, "bucket_cap_bytes", p->cap_bytes);
#define WRITE_NUMBER(field) lk_json_out_number(o, #field, p->field);
    POINT_NUMBERS(WRITE_NUMBER)
#undef WRITE_NUMBER
    lk_json_out_text(o, "evidence", lk_evidence_name(p->evidence));
    lk_json_out_text(o, "evidence_text", p->evidence_text);
    lk_json_out_compact(o);
    lk_json_out_object(o, "losses_s");
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        lk_json_out_number(o, lk_loss_key((enum lk_loss)i), p->losses_s[i]);
    lk_json_out_close(o);
    write_words(o, f, p);
    write_gain(o, &p->gain);
    write_plan(o, &p->plan);
    lk_json_out_close(o);
}

static void write_backtest(struct lk_json_out *o, const struct lk_backtest *b)
{
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "what", b->what);
#define WRITE_NUMBER(field) lk_json_out_number(o, #field, b->field);
    BACKTEST_NUMBERS(WRITE_NUMBER)
#undef WRITE_NUMBER
    lk_json_out_close(o);
}

static void write_root(struct lk_json_out *o, const void *ctx)
{
    const struct lk_forecast *f = ctx;

    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", LK_FORECAST_SCHEMA);
    lk_json_out_int(o, "version", LK_FORECAST_VERSION);
    lk_json_out_text(o, "job", f->job);
    lk_json_out_text(o, "cluster", f->cluster);
    lk_json_out_text(o, "reference", f->reference);
    lk_json_out_text(o, "sample_unit", f->sample_unit);
    lk_json_out_number(o, "level", f->level);
    if (f->n_axes) {
        lk_json_out_compact(o);
        lk_json_out_array(o, "axes");
        for (size_t i = 0; i < f->n_axes; i++)
            lk_json_out_text(o, NULL, f->axes[i]);
        lk_json_out_close(o);
    }
    lk_json_out_array(o, "points");
    for (size_t i = 0; i < f->n_points; i++)
        write_point(o, f, &f->points[i]);
    lk_json_out_close(o);
    lk_json_out_array(o, "backtests");
    for (size_t i = 0; i < f->n_backtests; i++)
        write_backtest(o, &f->backtests[i]);
    lk_json_out_close(o);
    lk_json_out_array(o, "notes");
    for (size_t i = 0; i < f->n_notes; i++)
        lk_json_out_text(o, NULL, f->notes[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

enum lk_status lk_forecast_write(const char *path, const struct lk_forecast *f)
{
    return lk_json_write(path, write_root, f);
}

/* A text into a fixed field. */
static enum lk_status read_text(struct lk_json *obj, const char *key, char *out, size_t size)
{
    const char *text;
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_text(obj, key, &text));
    if (strlen(text) >= size)
        st = lk_json_error(obj, "%s: longer than %zu bytes", key, size - 1);
    else
        memcpy(out, text, strlen(text) + 1);
out:
    return st;
}

static enum lk_status read_evidence(struct lk_json *obj, enum lk_evidence *out)
{
    const char *name;
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_text(obj, "evidence", &name));
    for (int i = LK_EVIDENCE_MEASURED; i <= LK_EVIDENCE_NONE; i++)
        if (!strcmp(name, lk_evidence_name((enum lk_evidence)i))) {
            *out = (enum lk_evidence)i;
            return LK_OK;
        }
    st = lk_json_error(obj, "evidence: unknown grade '%s'", name);
out:
    return st;
}

static enum lk_status read_plan(struct lk_json *point, struct lk_plan *p)
{
    enum lk_status st = LK_OK;
    struct lk_json *v;

    *p = lk_plan_none;
    if (!lk_json_optional(point, "plan"))
        return LK_OK;
    LK_TRY(lk_json_object(point, "plan", &v));
    p->known = true;
#define READ_KNOWN(field, heading, dim, digits)                                                    \
    if (lk_json_optional(v, #field))                                                               \
        LK_TRY(lk_json_number(v, #field, &p->field));
    LK_PLAN_LIST(READ_KNOWN)
#undef READ_KNOWN
    if (lk_json_optional(v, "memory_fit"))
        LK_TRY(read_text(v, "memory_fit", p->memory_fit, sizeof p->memory_fit));
    if (lk_json_optional(v, "fits_with"))
        LK_TRY(read_text(v, "fits_with", p->fits_with, sizeof p->fits_with));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_gain(struct lk_json *point, struct lk_gain *g)
{
    static const char *const names[LK_VERDICT_COUNT] = {
#define VERDICT_NAME_(verdict, name) [verdict] = name,
        LK_VERDICT_LIST(VERDICT_NAME_)
#undef VERDICT_NAME_
    };
    enum lk_status st = LK_OK;
    struct lk_json *v;
    int verdict = LK_VERDICT_NONE;

    if (!lk_json_optional(point, "gain"))
        return LK_OK;
    g->known = true;
    LK_TRY(lk_json_object(point, "gain", &v));
#define READ_NUMBER(field) LK_TRY(lk_json_number_or_null(v, #field, &g->field));
    GAIN_NUMBERS(READ_NUMBER)
#undef READ_NUMBER
    LK_TRY(lk_json_choice_optional(v, "verdict", names, LK_VERDICT_COUNT, &verdict));
    g->verdict = (enum lk_verdict)verdict;
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_word(struct lk_json *v, lk_forecast_word out)
{
    enum lk_status st = LK_OK;
    const char *text;

    LK_TRY(lk_json_as_text(v, &text));
    if (strlen(text) >= LK_FORECAST_WORD_BYTES)
        st = lk_json_error(v, "longer than %d bytes", LK_FORECAST_WORD_BYTES - 1);
    else
        memcpy(out, text, strlen(text) + 1);
out:
    return st;
}

/* The point's words, in the order of the forecast's axes. */
static enum lk_status read_words(struct lk_json *point, const struct lk_forecast *f,
                                 struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;
    struct lk_json *v, *word;

    if (!f->n_axes)
        return LK_OK;
    LK_TRY(lk_json_object(point, "axes", &v));
    for (size_t i = 0; i < f->n_axes; i++) {
        word = lk_json_optional(v, f->axes[i]);
        if (word)
            LK_TRY(read_word(word, p->words[i]));
    }
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_point(struct lk_json *v, const struct lk_forecast *f,
                                 struct lk_forecast_point *p)
{
    enum lk_status st = LK_OK;
    struct lk_json *losses;

#define READ_INT(field, max) LK_TRY(lk_json_int32(v, #field, 1, max, &p->field));
    POINT_INTS(READ_INT)
#undef READ_INT
    LK_TRY(lk_json_uint(v, "bucket_cap_bytes", UINT64_MAX, &p->cap_bytes));
#define READ_NUMBER(field) LK_TRY(lk_json_number_or_null(v, #field, &p->field));
    POINT_NUMBERS(READ_NUMBER)
#undef READ_NUMBER
    LK_TRY(read_evidence(v, &p->evidence));
    LK_TRY(read_text(v, "evidence_text", p->evidence_text, sizeof p->evidence_text));
    LK_TRY(lk_json_object(v, "losses_s", &losses));
    for (int row = 0; row < LK_LOSS_COUNT; row++)
        LK_TRY(lk_json_number_or_null(losses, lk_loss_key((enum lk_loss)row), &p->losses_s[row]));
    LK_TRY(lk_json_end(losses));
    LK_TRY(read_words(v, f, p));
    LK_TRY(read_gain(v, &p->gain));
    LK_TRY(read_plan(v, &p->plan));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_backtest(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_backtest *b = item;

    LK_TRY(read_text(v, "what", b->what, sizeof b->what));
#define READ_NUMBER(field) LK_TRY(lk_json_number_or_null(v, #field, &b->field));
    BACKTEST_NUMBERS(READ_NUMBER)
#undef READ_NUMBER
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_axes(struct lk_json *root, struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_json *list;

    if (!lk_json_optional(root, "axes"))
        return LK_OK;
    LK_TRY(lk_json_array(root, "axes", &list));
    if (lk_json_count(list) > LK_FORECAST_AXES_MAX)
        return lk_json_error(list, "axes: more than %d", LK_FORECAST_AXES_MAX);
    for (; f->n_axes < lk_json_count(list); f->n_axes++)
        LK_TRY(read_word(lk_json_item(list, f->n_axes), f->axes[f->n_axes]));
out:
    return st;
}

static enum lk_status read_lists(struct lk_json *root, struct lk_forecast *f)
{
    enum lk_status st = LK_OK;
    struct lk_json *list;
    const char *text;

    LK_TRY(read_axes(root, f));
    LK_TRY(lk_json_array(root, "points", &list));
    LK_TRY(lk_array_grow(&f->points, &f->points_capacity, lk_json_count(list), sizeof *f->points));
    for (; f->n_points < lk_json_count(list); f->n_points++) {
        f->points[f->n_points] = (struct lk_forecast_point){0};
        LK_TRY(read_point(lk_json_item(list, f->n_points), f, &f->points[f->n_points]));
    }
    LK_TRY(lk_json_items(root, "backtests", LK_JSON_REQUIRED, read_backtest, &f->backtests,
                         sizeof *f->backtests, &f->n_backtests));
    f->backtests_capacity = f->n_backtests;
    LK_TRY(lk_json_array(root, "notes", &list));
    for (size_t i = 0; i < lk_json_count(list); i++) {
        LK_TRY(lk_json_as_text(lk_json_item(list, i), &text));
        LK_TRY(lk_forecast_note(f, "%s", text));
    }
out:
    return st;
}

static enum lk_status read_root(struct lk_json *root, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = ctx;

    LK_TRY(lk_json_schema(root, LK_FORECAST_SCHEMA, LK_FORECAST_VERSION));
    LK_TRY(lk_json_text_copy(root, "job", &f->job));
    LK_TRY(lk_json_text_copy(root, "cluster", &f->cluster));
    LK_TRY(lk_json_text_copy(root, "reference", &f->reference));
    LK_TRY(lk_json_text_copy(root, "sample_unit", &f->sample_unit));
    LK_TRY(lk_json_number(root, "level", &f->level));
    if (!(f->level > 0.0 && f->level < 1.0))
        LK_TRY(
            lk_json_error(lk_json_optional(root, "level"), "%g is not between 0 and 1", f->level));
    LK_TRY(read_lists(root, f));
    LK_TRY(lk_json_end(root));
out:
    return st;
}

enum lk_status lk_forecast_read(const char *path, struct lk_forecast *out)
{
    struct lk_forecast f = {0};
    enum lk_status st = lk_json_read(path, read_root, &f);

    if (st == LK_OK)
        *out = f;
    else
        lk_forecast_fini(&f);
    return st;
}
