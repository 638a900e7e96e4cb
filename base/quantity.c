/* Numbers with unit, interval and origin. */
#include "base/quantity.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct lk_quantity lk_quantity_none(void)
{
    return (struct lk_quantity){.value = NAN, .lo = NAN, .hi = NAN};
}

bool lk_quantity_known(const struct lk_quantity *q)
{
    return !isnan(q->value) && q->source;
}

enum lk_status lk_quantity_set(struct lk_quantity *q, double value, double lo, double hi,
                               uint64_t n, const char *source, ...)
{
    char *text = NULL;
    va_list ap;
    int len;

    va_start(ap, source);
    len = vasprintf(&text, source, ap);
    va_end(ap);
    if (len < 0)
        return lk_fail(LK_ENOMEM, "cannot format a source");
    free(q->source);
    *q = (struct lk_quantity){.value = value, .lo = lo, .hi = hi, .n = n, .source = text};
    return LK_OK;
}

enum lk_status lk_quantity_copy(struct lk_quantity *to, const struct lk_quantity *from)
{
    enum lk_status st = LK_OK;
    struct lk_quantity q = *from;

    q.source = NULL;
    if (from->source)
        LK_TRY(lk_strdup(&q.source, from->source));
    *to = q;
out:
    return st;
}

void lk_quantity_fini(struct lk_quantity *q)
{
    free(q->source);
    *q = lk_quantity_none();
}

/* An optional bound, in base units; NaN when absent. */
static enum lk_status read_bound(struct lk_json *obj, const char *key, double factor, double *out)
{
    struct lk_json *v = lk_json_optional(obj, key);
    enum lk_status st = LK_OK;

    *out = NAN;
    if (!v)
        return LK_OK;
    LK_TRY(lk_json_as_number(v, out));
    *out *= factor;
out:
    return st;
}

static enum lk_status read_unit(struct lk_json *obj, enum lk_dimension dim, double *out_factor)
{
    enum lk_status st = LK_OK;
    const char *unit;

    LK_TRY(lk_json_text(obj, "unit", &unit));
    LK_TRY(lk_json_blame(obj, "unit", lk_units_factor(dim, unit, out_factor)));
out:
    return st;
}

static enum lk_status check(const struct lk_json *v, const struct lk_quantity *q)
{
    if (!isfinite(q->value) || isinf(q->lo) || isinf(q->hi))
        return lk_json_error(v, "out of range in its base unit");
    if (q->value < 0.0 || q->lo < 0.0)
        return lk_json_error(v, "must not be negative");
    if (isnan(q->lo) != isnan(q->hi))
        return lk_json_error(v, "has one bound: give both lo and hi, or neither");
    if (q->lo > q->value || q->hi < q->value)
        return lk_json_error(v, "the value lies outside lo and hi");
    return LK_OK;
}

static enum lk_status read_value(struct lk_json *v, enum lk_dimension dim, struct lk_quantity *out)
{
    enum lk_status st = LK_OK;
    struct lk_quantity q = lk_quantity_none();
    struct lk_json *n;
    const char *source;
    double factor = 1.0;
    int64_t samples = 0;

    LK_TRY(lk_json_number(v, "value", &q.value));
    LK_TRY(read_unit(v, dim, &factor));
    q.value *= factor;
    LK_TRY(read_bound(v, "lo", factor, &q.lo));
    LK_TRY(read_bound(v, "hi", factor, &q.hi));
    n = lk_json_optional(v, "n");
    if (n)
        LK_TRY(lk_json_as_int(n, 0, INT64_MAX, &samples));
    q.n = (uint64_t)samples;
    LK_TRY(lk_json_text(v, "source", &source));
    LK_TRY(lk_json_end(v));
    LK_TRY(check(v, &q));
    LK_TRY(lk_strdup(&q.source, source));
    *out = q;
out:
    return st;
}

enum lk_status lk_quantity_read(struct lk_json *obj, const char *key, enum lk_dimension dim,
                                struct lk_quantity *out)
{
    struct lk_json *v;
    enum lk_status st = lk_json_object(obj, key, &v);

    return st == LK_OK ? read_value(v, dim, out) : st;
}

enum lk_status lk_quantity_read_optional(struct lk_json *obj, const char *key,
                                         enum lk_dimension dim, struct lk_quantity *out)
{
    if (lk_json_optional(obj, key))
        return lk_quantity_read(obj, key, dim, out);
    *out = lk_quantity_none();
    return LK_OK;
}

void lk_quantity_write(struct lk_json_out *o, const char *key, enum lk_dimension dim,
                       const struct lk_quantity *q)
{
    if (!lk_quantity_known(q))
        return;
    lk_json_out_compact(o);
    lk_json_out_object(o, key);
    lk_json_out_number(o, "value", q->value);
    lk_json_out_text(o, "unit", lk_units_base(dim));
    if (!isnan(q->lo) && !isnan(q->hi)) {
        lk_json_out_number(o, "lo", q->lo);
        lk_json_out_number(o, "hi", q->hi);
    }
    if (q->n)
        lk_json_out_int(o, "n", q->n > INT64_MAX ? INT64_MAX : (int64_t)q->n);
    lk_json_out_text(o, "source", q->source);
    lk_json_out_close(o);
}

static struct lk_quantity *at(const struct lk_quantity_row *row, void *base)
{
    return (struct lk_quantity *)(void *)((char *)base + row->offset);
}

void lk_quantity_rows_clear(const struct lk_quantity_row *rows, void *base)
{
    for (; rows->key; rows++)
        *at(rows, base) = lk_quantity_none();
}

enum lk_status lk_quantity_rows_read(struct lk_json *obj, const struct lk_quantity_row *rows,
                                     void *base)
{
    enum lk_status st = LK_OK;

    for (; rows->key; rows++) {
        struct lk_quantity *q = at(rows, base);

        if (rows->need == LK_QUANTITY_REQUIRED) {
            LK_TRY(lk_quantity_read(obj, rows->key, rows->dim, q));
            continue;
        }
        LK_TRY(lk_quantity_read_optional(obj, rows->key, rows->dim, q));
        if (rows->need == LK_QUANTITY_ZERO && !lk_quantity_known(q))
            LK_TRY(lk_quantity_set(q, 0, NAN, NAN, 0, "assumed: %s is not given", rows->key));
    }
out:
    return st;
}

void lk_quantity_rows_write(struct lk_json_out *o, const struct lk_quantity_row *rows,
                            const void *base)
{
    for (; rows->key; rows++)
        lk_quantity_write(o, rows->key, rows->dim,
                          (const void *)((const char *)base + rows->offset));
}

void lk_quantity_rows_fini(const struct lk_quantity_row *rows, void *base)
{
    for (; rows->key; rows++)
        lk_quantity_fini(at(rows, base));
}
