/* The forecast artefact: its words, its members as rows (base/member.h), a what-if's axes. */
#include "facts/forecast.h"

#include "base/array.h"
#include "base/lines.h"
#include "facts/config_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct lk_words lk_evidence_words = LK_WORDS("a grade of evidence", LK_EVIDENCE_LIST);
const struct lk_words lk_verdict_words = LK_WORDS("a verdict", LK_VERDICT_LIST);

const struct lk_words lk_contradiction_words = LK_WORDS("a contradiction", LK_CONTRADICTION_LIST);

const struct lk_plan lk_plan_none = {
#define LK_PLAN_NONE_(field, heading, dim, digits) .field = NAN,
    LK_PLAN_LIST(LK_PLAN_NONE_)
#undef LK_PLAN_NONE_
};

bool lk_forecast_same_curve(const struct lk_forecast *f, const struct lk_forecast_point *a,
                            const struct lk_forecast_point *b)
{
    for (size_t i = 0; i < f->n_axes; i++)
        if (strcmp(a->words[i], b->words[i]) != 0)
            return false;
    return a->config.local_batch == b->config.local_batch &&
           a->config.accumulation == b->config.accumulation &&
           a->config.cap_bytes == b->config.cap_bytes;
}

void lk_evidence_add_reach(char text[LK_EVIDENCE_TEXT_BYTES], const char **joint, double reach,
                           const char *axis)
{
    size_t n = strlen(text);

    if (reach <= 1)
        return;
    snprintf(text + n, LK_EVIDENCE_TEXT_BYTES - n,
             reach < 1000 ? "%s x%.3g on %s" : "%s x%.0f on %s", *joint, reach, axis);
    *joint = ",";
}

/* ---- Lines ---- */

/* clang-format off */
static LK_LINES_ADDER(name_assumed, struct lk_forecast, assumed)
LK_LINES_ADDER(lk_forecast_say, struct lk_forecast, answer)
LK_LINES_ADDER(lk_forecast_warn, struct lk_forecast, warnings)
LK_LINES_ADDER(lk_forecast_note, struct lk_forecast, notes)
    /* clang-format on */

    enum lk_status lk_forecast_assume(struct lk_forecast *f, const char *what, const char *fmt, ...)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    va_list args;
    size_t i = 0;

    va_start(args, fmt);
    st = lk_vasprintf(&text, fmt, args);
    va_end(args);
    LK_TRY(st);
    while (i < f->n_assumed && strcmp(f->assumed[i], what) != 0)
        i++;
    if (i == f->n_assumed)
        LK_TRY(name_assumed(f, "%s", what));
    LK_TRY(lk_forecast_note(f, "assumed: %s: %s", what, text));
out:
    free(text);
    return st;
}

static void contradiction_fini(struct lk_contradiction *c)
{
    free(c->refuted);
    free(c->by);
    free(c->says);
    free(c->instead);
}

enum lk_status lk_forecast_contradict(struct lk_forecast *f, enum lk_contradiction_kind kind,
                                      const char *refuted, const char *by, double found,
                                      double allowed, const char *says, ...)
{
    enum lk_status st = LK_OK;
    struct lk_contradiction c = {.kind = kind, .found = found, .allowed = allowed};
    va_list args;

    va_start(args, says);
    st = lk_vasprintf(&c.says, says, args);
    va_end(args);
    LK_TRY(st);
    LK_TRY(lk_strdup(&c.refuted, refuted));
    LK_TRY(lk_strdup(&c.by, by));
    LK_TRY(lk_array_grow(&f->contradictions, &f->contradictions_capacity, f->n_contradictions + 1,
                         sizeof *f->contradictions));
    f->contradictions[f->n_contradictions++] = c;
    c = (struct lk_contradiction){0};
out:
    contradiction_fini(&c);
    return st;
}

/* ---- Plan and gain ---- */

/* Both structs begin with `known`: whether the file has the object. */
_Static_assert(offsetof(struct lk_plan, known) == 0 && offsetof(struct lk_gain, known) == 0, "");

static bool is_known(const void *base)
{
    return *(const bool *)base;
}

static enum lk_status set_known(struct lk_json *v, void *base)
{
    (void)v;
    *(bool *)base = true;
    return LK_OK;
}

#define NUMBER(field, heading, dim, digits)                                                        \
    LK_MEMBER(struct lk_plan, field, #field, NUMBER, SPARSE, .help = heading),
static const struct lk_member plan_rows[] = {
    LK_PLAN_LIST(NUMBER) LK_MEMBER(struct lk_plan, memory_fit, "memory_fit", CHARS, SPARSE,
                                   .help = "yes, perhaps, no, or unknown"),
    LK_MEMBER(struct lk_plan, fits_with, "fits_with", CHARS, SPARSE,
              .help = "the first ZeRO stage that would fit"),
    LK_MEMBER_END,
};
#undef NUMBER
static const struct lk_record plan_record = {
    .size = sizeof(struct lk_plan), .rows = plan_rows, .check = set_known, .given = is_known};

#define ROW(field, ...) LK_MEMBER(struct lk_gain, field, #field, __VA_ARGS__)
static const struct lk_member gain_rows[] = {
    ROW(ratio, NUMBER, NULLABLE, .help = "throughput over the current configuration's"),
    ROW(lo, NUMBER, NULLABLE, .help = "its interval, from"),
    ROW(hi, NUMBER, NULLABLE, .help = "to"),
    ROW(certainty, NUMBER, NULLABLE, .help = "probability that it is above 1"),
    ROW(verdict, WORD, SPARSE, .words = &lk_verdict_words,
        .help = "among the points with as many GPUs"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record gain_record = {.size = sizeof(struct lk_gain),
                                             .rows = gain_rows,
                                             .one_line = true,
                                             .check = set_known,
                                             .given = is_known};

/* ---- Axes ---- */

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

/* Reads a point's words into the order of the forecast's axes. */
static enum lk_status read_words(struct lk_json *point, void *base, const void *root)
{
    struct lk_forecast_point *p = base;
    const struct lk_forecast *f = root;
    struct lk_json *v, *word;

    if (!f->n_axes)
        return LK_OK;
    LK_PASS(lk_json_object(point, "axes", &v));
    for (size_t i = 0; i < f->n_axes; i++) {
        word = lk_json_optional(v, f->axes[i]);
        if (word)
            LK_PASS(read_word(word, p->words[i]));
    }
    return lk_json_end(v);
}

/* Leaves out an axis that has no meaning for the point. */
static void write_words(struct lk_json_out *o, const void *base, const void *root)
{
    const struct lk_forecast_point *p = base;
    const struct lk_forecast *f = root;

    if (!f->n_axes)
        return;
    lk_json_out_compact(o);
    lk_json_out_object(o, "axes");
    for (size_t i = 0; i < f->n_axes; i++)
        if (*p->words[i])
            lk_json_out_text(o, f->axes[i], p->words[i]);
    lk_json_out_close(o);
}

static enum lk_status read_axes(struct lk_json *obj, void *base, const void *root)
{
    struct lk_forecast *f = base;
    struct lk_json *list;

    (void)root;
    if (!lk_json_optional(obj, "axes"))
        return LK_OK;
    LK_PASS(lk_json_array(obj, "axes", &list));
    if (lk_json_count(list) > LK_FORECAST_AXES_MAX)
        return lk_json_error(list, "more than %d axes", LK_FORECAST_AXES_MAX);
    for (; f->n_axes < lk_json_count(list); f->n_axes++)
        LK_PASS(read_word(lk_json_item(list, f->n_axes), f->axes[f->n_axes]));
    return LK_OK;
}

static void write_axes(struct lk_json_out *o, const void *base, const void *root)
{
    const struct lk_forecast *f = base;

    (void)root;
    if (!f->n_axes)
        return;
    lk_json_out_compact(o);
    lk_json_out_array(o, "axes");
    for (size_t i = 0; i < f->n_axes; i++)
        lk_json_out_text(o, NULL, f->axes[i]);
    lk_json_out_close(o);
}

static const struct lk_member_own words_of_point = {"texts by name", read_words, write_words,
                                                    false};
static const struct lk_member_own axes_of_forecast = {"texts", read_axes, write_axes, false};

/* ---- Points and back-tests ---- */

#define ROW(field, key, ...) LK_MEMBER(struct lk_forecast_point, field, key, __VA_ARGS__)
static const struct lk_member point_rows[] = {
    LK_CONFIG_SIZE_ROWS(struct lk_forecast_point, config., 1, ""),
    ROW(config.cap_bytes, "bucket_cap_bytes", UINT, REQUIRED, .help = "limit of a bucket"),
    ROW(step_s, "step_s", NUMBER, NULLABLE, .help = "time of a step"),
    ROW(step_lo_s, "step_lo_s", NUMBER, NULLABLE, .help = "its interval, from"),
    ROW(step_hi_s, "step_hi_s", NUMBER, NULLABLE, .help = "to"),
    ROW(throughput_per_s, "throughput_per_s", NUMBER, NULLABLE, .help = "samples a second"),
    ROW(efficiency, "efficiency", NUMBER, NULLABLE, .help = "throughput over linear scaling's"),
    ROW(efficiency_lo, "efficiency_lo", NUMBER, NULLABLE, .help = "its interval, from"),
    ROW(efficiency_hi, "efficiency_hi", NUMBER, NULLABLE, .help = "to"),
    ROW(measured_step_s, "measured_step_s", NUMBER, NULLABLE,
        .help = "mean step of a run of this configuration"),
    ROW(measured_lo_s, "measured_lo_s", NUMBER, NULLABLE, .help = "its interval, from"),
    ROW(measured_hi_s, "measured_hi_s", NUMBER, NULLABLE, .help = "to"),
    ROW(evidence, "evidence", WORD, REQUIRED, .words = &lk_evidence_words,
        .help = "grade of what it rests on"),
    ROW(evidence_text, "evidence_text", CHARS, REQUIRED, .help = "the same in words"),
    ROW(losses_s, "losses_s", OBJECT, REQUIRED, .of = &lk_losses_record,
        .help = "where the step goes, seconds, mean over ranks; they sum to the step"),
    ROW(words, "axes", OWN, OPTIONAL, .own = &words_of_point,
        .help = "a what-if's words, by the names in `axes`"),
    ROW(gain, "gain", OBJECT, OPTIONAL, .of = &gain_record, .help = "of a what-if"),
    ROW(plan, "plan", OBJECT, OPTIONAL, .of = &plan_record,
        .help = "memory, cost and time to a target, where inputs are known"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record point_record = {.size = sizeof(struct lk_forecast_point),
                                              .rows = point_rows};

#define ROW(field, key, ...) LK_MEMBER(struct lk_forecast_measured, field, key, __VA_ARGS__)
static const struct lk_member measured_rows[] = {
    LK_CONFIG_SIZE_ROWS(struct lk_forecast_measured, config., 0, "; 0: not known"),
    ROW(config.cap_bytes, "bucket_cap_bytes", UINT, REQUIRED,
        .help = "limit of a bucket; 0: not known"),
    ROW(step_s, "step_s", NUMBER, REQUIRED, .help = "mean step of its runs"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record measured_record = {
    .size = sizeof(struct lk_forecast_measured), .rows = measured_rows, .one_line = true};

#define ROW(field, key, ...) LK_MEMBER(struct lk_backtest, field, key, __VA_ARGS__)
static const struct lk_member backtest_rows[] = {
    ROW(what, "what", CHARS, REQUIRED, .help = "held-out run, and from what it was predicted"),
    ROW(predicted_s, "predicted_s", NUMBER, NULLABLE, .help = "predicted time of a step"),
    ROW(lo_s, "lo_s", NUMBER, NULLABLE, .help = "its interval, from"),
    ROW(hi_s, "hi_s", NUMBER, NULLABLE, .help = "to"),
    ROW(measured_s, "measured_s", NUMBER, NULLABLE, .help = "measured time of a step"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record backtest_record = {
    .size = sizeof(struct lk_backtest), .rows = backtest_rows, .one_line = true};

#define ROW(field, key, ...) LK_MEMBER(struct lk_contradiction, field, key, __VA_ARGS__)
static const struct lk_member contradiction_rows[] = {
    ROW(kind, "kind", WORD, REQUIRED, .words = &lk_contradiction_words, .help = "its kind"),
    ROW(refuted, "refuted", TEXT, REQUIRED, .help = "what is contradicted"),
    ROW(by, "by", TEXT, REQUIRED, .help = "by what"),
    ROW(says, "says", TEXT, REQUIRED, .help = "how, with both figures"),
    ROW(instead, "instead", TEXT, SPARSE, .help = "what answers in its place",
        .without = "nothing does"),
    ROW(found, "found", NUMBER, NULLABLE, .help = "what was measured, or is there"),
    ROW(allowed, "allowed", NUMBER, NULLABLE, .help = "what it is held to, in the same unit"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record contradiction_record = {.size = sizeof(struct lk_contradiction),
                                                      .rows = contradiction_rows};

/* ---- The file ---- */

static enum lk_status check_forecast(struct lk_json *root, void *base)
{
    struct lk_forecast *f = base;

    f->points_capacity = f->n_points;
    f->measured_capacity = f->n_measured;
    f->backtests_capacity = f->n_backtests;
    f->answer_capacity = f->n_answer;
    f->contradictions_capacity = f->n_contradictions;
    f->warnings_capacity = f->n_warnings;
    f->assumed_capacity = f->n_assumed;
    f->notes_capacity = f->n_notes;
    if (f->level > 0.0 && f->level < 1.0)
        return LK_OK;
    return lk_json_error(lk_json_optional(root, "level"), "%g is not between 0 and 1", f->level);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_forecast, field, key, __VA_ARGS__)
static const struct lk_member forecast_rows[] = {
    ROW(job, "job", TEXT, REQUIRED, .help = "name of the job"),
    ROW(cluster, "cluster", TEXT, REQUIRED, .help = "name of the cluster"),
    ROW(reference, "reference", TEXT, REQUIRED, .help = "what efficiency refers to"),
    ROW(sample_unit, "sample_unit", TEXT, REQUIRED, .help = "what a sample is"),
    ROW(currency, "currency", TEXT, SPARSE, .absent_text = "", .help = "of all money",
        .without = "not known"),
    ROW(level, "level", NUMBER, REQUIRED, .help = "probability of the intervals"),
    ROW(knee_gpus, "knee_gpus", INT, SPARSE, .min = 1, .max = LK_RANKS_MAX,
        .help = "GPUs at which weak scaling has its knee", .without = "none is known"),
    ROW(axes, "axes", OWN, OPTIONAL, .own = &axes_of_forecast,
        .help = "names of a what-if's axes that no other member says", .without = "none"),
    ROW(points, "points", LIST, REQUIRED, .of = &point_record,
        .count = offsetof(struct lk_forecast, n_points), .help = "predicted configurations"),
    ROW(measured, "measured", LIST, SPARSE, .of = &measured_record,
        .count = offsetof(struct lk_forecast, n_measured),
        .help = "configurations that were measured", .without = "none"),
    ROW(backtests, "backtests", LIST, REQUIRED, .of = &backtest_record,
        .count = offsetof(struct lk_forecast, n_backtests),
        .help = "runs that were predicted from the others"),
    ROW(answer, "answer", TEXTS, OPTIONAL, .count = offsetof(struct lk_forecast, n_answer),
        .help = "what matters, in sentences", .without = "none"),
    ROW(contradictions, "contradictions", LIST, OPTIONAL, .of = &contradiction_record,
        .count = offsetof(struct lk_forecast, n_contradictions),
        .help = "what contradicts what it rests on, or answers; the answer begins with them",
        .without = "none"),
    ROW(warnings, "warnings", TEXTS, OPTIONAL, .count = offsetof(struct lk_forecast, n_warnings),
        .help = "what a reader must know besides", .without = "none"),
    ROW(assumed, "assumed", TEXTS, OPTIONAL, .count = offsetof(struct lk_forecast, n_assumed),
        .help = "what was assumed and not measured", .without = "none"),
    ROW(notes, "notes", TEXTS, REQUIRED, .count = offsetof(struct lk_forecast, n_notes),
        .help = "remarks for the reader"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_forecast_record = {.size = sizeof(struct lk_forecast),
                                             .rows = forecast_rows,
                                             .schema = LK_FORECAST_SCHEMA,
                                             .version = LK_FORECAST_VERSION,
                                             .check = check_forecast};
