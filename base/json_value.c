/* One value of a JSON document: where it stands, and what it is as text or number. */
#include "base/json.h"

#include "base/json_node.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers in exponent or decimal form ("1e9") are exact as doubles up to here. */
#define EXACT_DOUBLE_MAX 9007199254740992.0 /* 2^53 */

const char *lk_json_type_text(enum lk_json_type t)
{
    static const char *const texts[] = {
        [LK_JSON_NULL] = "null",       [LK_JSON_BOOL] = "true or false",
        [LK_JSON_NUMBER] = "a number", [LK_JSON_STRING] = "a string",
        [LK_JSON_ARRAY] = "an array",  [LK_JSON_OBJECT] = "an object",
    };

    return texts[t];
}

/* "a.b[3].c" in buf, cut at the front when it is too long. */
static const char *path_of(const struct lk_json *v, const char *key, char *buf, size_t size)
{
    char part[256];
    size_t at = size - 1;

    buf[at] = '\0';
    for (bool first = true; v || first; first = false) {
        const char *name = first ? key : v->key;
        int n = 0;

        if (name)
            n = snprintf(part, sizeof part, ".%s", name);
        else if (!first && v->parent)
            n = snprintf(part, sizeof part, "[%zu]", v->index);
        if (n < 0 || (size_t)n >= sizeof part)
            n = (int)strlen(part);
        if ((size_t)n > at)
            break;
        at -= (size_t)n;
        memcpy(buf + at, part, (size_t)n);
        if (!first)
            v = v->parent;
    }
    return buf[at] == '.' ? buf + at + 1 : buf + at;
}

enum lk_status lk_json_fail_at_(const struct lk_json *v, const char *key, const char *fmt, ...)
{
    char text[512];
    char path[256];
    const char *where = path_of(v, key, path, sizeof path);
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    return lk_fail(LK_EPARSE, "%s:%zu: %s%s%s", v->doc->name, v->line, where, *where ? ": " : "",
                   text);
}

enum lk_status lk_json_error_(const struct lk_json *v, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    return lk_json_fail_at(v, NULL, "%s", text);
}

enum lk_status lk_json_expect(const struct lk_json *v, enum lk_json_type type)
{
    if (v->type == type)
        return LK_OK;
    return lk_json_fail_at(v, NULL, "expected %s, got %s", lk_json_type_text(type),
                           lk_json_type_text(v->type));
}

enum lk_status lk_json_as_text(struct lk_json *v, const char **out)
{
    enum lk_status st = lk_json_expect(v, LK_JSON_STRING);

    if (st == LK_OK)
        *out = v->text;
    return st;
}

enum lk_status lk_json_as_number(struct lk_json *v, double *out)
{
    enum lk_status st = LK_OK;
    double d = 0.0;

    LK_TRY(lk_json_expect(v, LK_JSON_NUMBER));
    d = strtod(v->text, NULL);
    if (!isfinite(d))
        return lk_json_fail_at(v, NULL, "%.40s is too large a number", v->text);
    *out = d;
out:
    return st;
}

static enum lk_status whole(struct lk_json *v, int64_t *out)
{
    enum lk_status st = LK_OK;
    char *end;
    long long n;
    double d = 0.0;

    LK_TRY(lk_json_expect(v, LK_JSON_NUMBER));
    errno = 0;
    n = strtoll(v->text, &end, 10);
    if (!*end && !errno) {
        *out = n;
        return LK_OK;
    }
    LK_TRY(lk_json_as_number(v, &d));
    if (d != floor(d))
        return lk_json_fail_at(v, NULL, "expected a whole number, got %.40s", v->text);
    if (fabs(d) > EXACT_DOUBLE_MAX)
        return lk_json_fail_at(v, NULL, "%.40s is out of range", v->text);
    *out = (int64_t)d;
out:
    return st;
}

enum lk_status lk_json_as_int(struct lk_json *v, int64_t min, int64_t max, int64_t *out)
{
    enum lk_status st = LK_OK;
    int64_t n = 0;

    LK_TRY(whole(v, &n));
    if (n < min || n > max)
        return lk_json_fail_at(v, NULL, "%.40s is out of range: expected %lld to %lld", v->text,
                               (long long)min, (long long)max);
    *out = n;
out:
    return st;
}

enum lk_status lk_json_as_uint(struct lk_json *v, uint64_t max, uint64_t *out)
{
    enum lk_status st = LK_OK;
    unsigned long long n;
    int64_t small = 0;
    char *end;

    LK_TRY(lk_json_expect(v, LK_JSON_NUMBER));
    errno = 0;
    n = strtoull(v->text, &end, 10);
    if (v->text[0] == '-' || *end || errno) {
        LK_TRY(whole(v, &small));
        n = (unsigned long long)small;
    }
    if (small < 0 || n > max)
        return lk_json_fail_at(v, NULL, "%.40s is out of range: expected 0 to %llu", v->text,
                               (unsigned long long)max);
    *out = n;
out:
    return st;
}

bool lk_json_fixed(const char *text, size_t len, int places, int64_t *out)
{
    bool negative = len > 0 && text[0] == '-';
    bool point = false;
    uint64_t n = 0;
    int left = places; /* decimals still to come */

    for (size_t i = negative; i < len; i++) {
        unsigned digit = (unsigned)(text[i] - '0');

        if (text[i] == '.' && !point) {
            point = true;
        } else if (digit > 9) {
            return false;
        } else if (point && left == 0) {
            if (digit)
                return false;
        } else {
            if (n > ((uint64_t)INT64_MAX - digit) / 10)
                return false;
            n = 10 * n + digit;
            left -= point;
        }
    }
    for (; left > 0; left--) {
        if (n > INT64_MAX / 10)
            return false;
        n *= 10;
    }
    *out = negative ? -(int64_t)n : (int64_t)n;
    return len > (size_t)negative;
}

enum lk_status lk_json_as_fixed(struct lk_json *v, int places, int64_t *out)
{
    enum lk_status st = lk_json_expect(v, LK_JSON_NUMBER);

    if (st == LK_OK && !lk_json_fixed(v->text, strlen(v->text), places, out))
        return lk_json_fail_at(v, NULL, "%.40s: expected a number with at most %d decimals",
                               v->text, places);
    return st;
}
