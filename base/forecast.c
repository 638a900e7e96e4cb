/* The forecast artefact: names and memory. forecast_io.c reads and writes it. */
#include "base/forecast.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key, *text;
} loss_rows[LK_LOSS_COUNT] = {
#define LK_LOSS_ROW_(row, key, text) [row] = {key, text},
    LK_LOSS_LIST(LK_LOSS_ROW_)
#undef LK_LOSS_ROW_
};

static const char *const evidence_names[] = {
#define LK_EVIDENCE_NAME_(grade, name) [grade] = name,
    LK_EVIDENCE_LIST(LK_EVIDENCE_NAME_)
#undef LK_EVIDENCE_NAME_
};

const struct lk_plan lk_plan_none = {
#define LK_PLAN_NONE_(field, heading, dim, digits) .field = NAN,
    LK_PLAN_LIST(LK_PLAN_NONE_)
#undef LK_PLAN_NONE_
};

const char *lk_loss_key(enum lk_loss row)
{
    return loss_rows[row].key;
}

const char *lk_loss_text(enum lk_loss row)
{
    return loss_rows[row].text;
}

const char *lk_evidence_name(enum lk_evidence e)
{
    return evidence_names[e];
}

const char *lk_verdict_name(enum lk_verdict v)
{
    static const char *const names[LK_VERDICT_COUNT] = {
#define LK_VERDICT_NAME_(verdict, name) [verdict] = name,
        LK_VERDICT_LIST(LK_VERDICT_NAME_)
#undef LK_VERDICT_NAME_
    };

    return names[v];
}

bool lk_forecast_same_curve(const struct lk_forecast *f, const struct lk_forecast_point *a,
                            const struct lk_forecast_point *b)
{
    for (size_t i = 0; i < f->n_axes; i++)
        if (strcmp(a->words[i], b->words[i]) != 0)
            return false;
    return a->local_batch == b->local_batch && a->accumulation == b->accumulation &&
           a->cap_bytes == b->cap_bytes;
}

void lk_forecast_fini(struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_notes; i++)
        free(f->notes[i]);
    free(f->notes);
    free(f->points);
    free(f->backtests);
    free(f->job);
    free(f->cluster);
    free(f->reference);
    free(f->sample_unit);
    *f = (struct lk_forecast){0};
}

enum lk_status lk_forecast_note(struct lk_forecast *f, const char *fmt, ...)
{
    enum lk_status st = LK_OK;
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    LK_TRY(lk_array_grow(&f->notes, &f->notes_capacity, f->n_notes + 1, sizeof *f->notes));
    LK_TRY(lk_strdup(&f->notes[f->n_notes], text));
    f->n_notes++;
out:
    return st;
}
