/* Numbers with unit, interval and source. */
#include "base/quantity.h"

#include "base/array.h"

#include <math.h>
#include <stdarg.h>
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
    enum lk_status st;
    va_list ap;

    va_start(ap, source);
    st = lk_vasprintf(&text, source, ap);
    va_end(ap);
    if (st != LK_OK)
        return st;
    free(q->source);
    *q = (struct lk_quantity){.value = value, .lo = lo, .hi = hi, .n = n, .source = text};
    return LK_OK;
}

void lk_quantity_fini(struct lk_quantity *q)
{
    free(q->source);
    *q = lk_quantity_none();
}

/* Read an optional bound, in base units; NaN when absent. */
static enum lk_status read_bound(struct lk_json *obj, const char *key, double factor, double *out)
{
    struct lk_json *v = lk_json_optional(obj, key);

    *out = NAN;
    if (!v)
        return LK_OK;
    LK_PASS(lk_json_as_number(v, out));
    *out *= factor;
    return LK_OK;
}

static enum lk_status read_unit(struct lk_json *obj, enum lk_dimension dim, double *out_factor)
{
    enum lk_status st = LK_OK;
    const char *unit;

    LK_TRY(lk_json_text(obj, "unit", &unit));
    if (lk_units_factor(dim, unit, out_factor) != LK_OK)
        st = lk_json_error(lk_json_optional(obj, "unit"), "%s", lk_error_text());
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

enum lk_status lk_quantity_read(struct lk_json *v, enum lk_dimension dim, struct lk_quantity *out)
{
    struct lk_quantity q = lk_quantity_none();
    struct lk_json *n;
    const char *source;
    double factor = 1.0;
    int64_t samples = 0;

    LK_PASS(lk_json_expect(v, LK_JSON_OBJECT));
    LK_PASS(lk_json_number(v, "value", &q.value));
    LK_PASS(read_unit(v, dim, &factor));
    q.value *= factor;
    LK_PASS(read_bound(v, "lo", factor, &q.lo));
    LK_PASS(read_bound(v, "hi", factor, &q.hi));
    n = lk_json_optional(v, "n");
    if (n)
        LK_PASS(lk_json_as_int(n, 0, INT64_MAX, &samples));
    q.n = (uint64_t)samples;
    LK_PASS(lk_json_text(v, "source", &source));
    LK_PASS(lk_json_end(v));
    LK_PASS(check(v, &q));
    LK_PASS(lk_strdup(&q.source, source));
    *out = q;
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
