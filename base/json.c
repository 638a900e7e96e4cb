/* Values of JSON documents: errors with place, texts and numbers, and the members of objects with
 * their use marks. */
#include "base/json.h"

#include "base/json_node.h"
#include "base/words.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST_MAX = 32 };

/* ---- One value ---- */

/* Doubles hold integers in exponent or decimal form ("1e9") exactly up to here. */
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

const char *lk_json_path(const struct lk_json *v, const char *key, char *buf, size_t size)
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

enum lk_status lk_json_error_(const struct lk_json *v, const char *fmt, ...)
{
    char text[512];
    char path[256];
    const char *where = lk_json_path(v, NULL, path, sizeof path);
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    return lk_fail(LK_EPARSE, "%s:%zu: %s%s%s", v->doc->name, v->line, where, *where ? ": " : "",
                   text);
}

enum lk_status lk_json_expect(const struct lk_json *v, enum lk_json_type type)
{
    if (v->type == type)
        return LK_OK;
    return lk_json_error(v, "expected %s, got %s", lk_json_type_text(type),
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
    double d = 0.0;

    LK_PASS(lk_json_expect(v, LK_JSON_NUMBER));
    d = strtod(v->text, NULL);
    if (!isfinite(d))
        return lk_json_error(v, "%.40s is too large a number", v->text);
    *out = d;
    return LK_OK;
}

enum lk_status lk_json_as_bool(struct lk_json *v, bool *out)
{
    enum lk_status st = lk_json_expect(v, LK_JSON_BOOL);

    if (st == LK_OK)
        *out = v->boolean;
    return st;
}

enum lk_status lk_json_as_word(struct lk_json *v, const struct lk_words *words, void *out_enum)
{
    enum lk_status st = LK_OK;
    const char *near;
    char known[256];

    LK_TRY(lk_json_expect(v, LK_JSON_STRING));
    if (lk_words_find(words, v->text, out_enum) == LK_OK)
        return LK_OK;
    near = lk_words_nearest(v->text, words->names, words->n);
    st = near ? lk_json_error(v, "unknown word '%s'; did you mean '%s'?", v->text, near)
              : lk_json_error(v, "unknown word '%.60s' (known:%s)", v->text,
                              lk_words_list(words, known, sizeof known));
out:
    return st;
}

static enum lk_status whole(struct lk_json *v, int64_t *out)
{
    char *end;
    long long n;
    double d = 0.0;

    LK_PASS(lk_json_expect(v, LK_JSON_NUMBER));
    errno = 0;
    n = strtoll(v->text, &end, 10);
    if (!*end && !errno) {
        *out = n;
        return LK_OK;
    }
    LK_PASS(lk_json_as_number(v, &d));
    if (d != floor(d))
        return lk_json_error(v, "expected a whole number, got %.40s", v->text);
    if (fabs(d) > EXACT_DOUBLE_MAX)
        return lk_json_error(v, "%.40s is out of range", v->text);
    *out = (int64_t)d;
    return LK_OK;
}

enum lk_status lk_json_as_int(struct lk_json *v, int64_t min, int64_t max, int64_t *out)
{
    int64_t n = 0;

    LK_PASS(whole(v, &n));
    if (n < min || n > max)
        return lk_json_error(v, "%.40s is out of range: expected %lld to %lld", v->text,
                             (long long)min, (long long)max);
    *out = n;
    return LK_OK;
}

enum lk_status lk_json_as_uint(struct lk_json *v, uint64_t max, uint64_t *out)
{
    unsigned long long n;
    int64_t small = 0;
    char *end;

    LK_PASS(lk_json_expect(v, LK_JSON_NUMBER));
    errno = 0;
    n = strtoull(v->text, &end, 10);
    if (v->text[0] == '-' || *end || errno) {
        LK_PASS(whole(v, &small));
        n = (unsigned long long)small;
    }
    if (small < 0 || n > max)
        return lk_json_error(v, "%.40s is out of range: expected 0 to %llu", v->text,
                             (unsigned long long)max);
    *out = n;
    return LK_OK;
}

/* Convert a number without exponent to 10^places times itself; false if that is not whole or does
 * not fit. */
static bool to_fixed(const char *text, int places, int64_t *out)
{
    bool negative = text[0] == '-';
    bool point = false;
    uint64_t n = 0;
    int left = places; /* decimals still to come */

    for (const char *p = text + negative; *p; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (*p == '.' && !point) {
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
    return text[negative] != '\0';
}

enum lk_status lk_json_as_fixed(struct lk_json *v, int places, int64_t *out)
{
    enum lk_status st = lk_json_expect(v, LK_JSON_NUMBER);

    if (st == LK_OK && !to_fixed(v->text, places, out))
        return lk_json_error(v, "%.40s: expected a number with at most %d decimals", v->text,
                             places);
    return st;
}

/* ---- Members ---- */

struct lk_json *lk_json_root(struct lk_json_doc *doc)
{
    return doc->root;
}

size_t lk_json_line(const struct lk_json *v)
{
    return v->line;
}

enum lk_json_type lk_json_type(const struct lk_json *v)
{
    return v->type;
}

static struct lk_json *find(struct lk_json *obj, const char *key)
{
    if (obj->type != LK_JSON_OBJECT)
        return NULL;
    for (size_t i = 0; i < obj->n_items; i++)
        if (!strcmp(obj->items[i]->key, key))
            return obj->items[i];
    return NULL;
}

/* Fail for a missing key, and name the key, among those that nobody read, that was probably meant
 * to be it. */
static enum lk_status fail_missing(struct lk_json *obj, const char *key)
{
    const char *words[NEAREST_MAX], *near;
    char path[256];
    size_t n = 0;

    for (size_t i = 0; i < obj->n_items && n < NEAREST_MAX; i++)
        if (!obj->items[i]->used)
            words[n++] = obj->items[i]->key;
    near = n ? lk_words_nearest(key, words, n) : NULL;
    return lk_fail(LK_EPARSE, "%s:%zu: %s: missing%s%s%s", obj->doc->name, obj->line,
                   lk_json_path(obj, key, path, sizeof path), near ? " (there is \"" : "",
                   near ? near : "", near ? "\")" : "");
}

enum lk_status lk_json_required(struct lk_json *obj, const char *key, struct lk_json **out)
{
    struct lk_json *v;

    LK_PASS(lk_json_expect(obj, LK_JSON_OBJECT));
    v = find(obj, key);
    if (!v)
        return fail_missing(obj, key);
    v->used = true;
    *out = v;
    return LK_OK;
}

enum lk_status lk_json_text(struct lk_json *obj, const char *key, const char **out)
{
    struct lk_json *v = NULL;
    enum lk_status st = lk_json_required(obj, key, &v);

    return st == LK_OK ? lk_json_as_text(v, out) : st;
}

enum lk_status lk_json_number(struct lk_json *obj, const char *key, double *out)
{
    struct lk_json *v = NULL;
    enum lk_status st = lk_json_required(obj, key, &v);

    return st == LK_OK ? lk_json_as_number(v, out) : st;
}

enum lk_status lk_json_int(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                           int64_t *out)
{
    struct lk_json *v = NULL;
    enum lk_status st = lk_json_required(obj, key, &v);

    return st == LK_OK ? lk_json_as_int(v, min, max, out) : st;
}

enum lk_status lk_json_int32(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                             int *out)
{
    int64_t v = 0;
    enum lk_status st = lk_json_int(obj, key, min, max, &v);

    if (st == LK_OK)
        *out = (int)v;
    return st;
}

enum lk_status lk_json_uint(struct lk_json *obj, const char *key, uint64_t max, uint64_t *out)
{
    struct lk_json *v = NULL;
    enum lk_status st = lk_json_required(obj, key, &v);

    return st == LK_OK ? lk_json_as_uint(v, max, out) : st;
}

static enum lk_status container(struct lk_json *obj, const char *key, enum lk_json_type type,
                                struct lk_json **out)
{
    struct lk_json *v = NULL;

    LK_PASS(lk_json_required(obj, key, &v));
    LK_PASS(lk_json_expect(v, type));
    *out = v;
    return LK_OK;
}

enum lk_status lk_json_array(struct lk_json *obj, const char *key, struct lk_json **out)
{
    return container(obj, key, LK_JSON_ARRAY, out);
}

enum lk_status lk_json_object(struct lk_json *obj, const char *key, struct lk_json **out)
{
    return container(obj, key, LK_JSON_OBJECT, out);
}

struct lk_json *lk_json_optional(struct lk_json *obj, const char *key)
{
    struct lk_json *v = find(obj, key);
    struct lk_json_wish *w;

    if (v) {
        v->used = true;
        return v->type == LK_JSON_NULL ? NULL : v;
    }
    w = lk_arena_take(&obj->doc->arena, sizeof *w);
    if (w) { /* without memory only a suggestion is lost */
        w->key = key;
        w->next = obj->wishes;
        obj->wishes = w;
    }
    return NULL;
}

enum lk_status lk_json_end(struct lk_json *obj)
{
    const char *words[NEAREST_MAX];
    const char *near;
    size_t n = 0;

    LK_PASS(lk_json_expect(obj, LK_JSON_OBJECT));
    for (size_t i = 0; i < obj->n_items; i++) {
        const struct lk_json *v = obj->items[i];

        if (v->used)
            continue;
        for (const struct lk_json_wish *w = obj->wishes; w && n < NEAREST_MAX; w = w->next)
            words[n++] = w->key;
        near = n ? lk_words_nearest(v->key, words, n) : NULL;
        return lk_json_error(v, "unknown key%s%s%s", near ? "; did you mean \"" : "",
                             near ? near : "", near ? "\"?" : "");
    }
    return LK_OK;
}

size_t lk_json_count(const struct lk_json *array_or_object)
{
    return array_or_object->n_items;
}

struct lk_json *lk_json_item(struct lk_json *array, size_t i)
{
    return array->type == LK_JSON_ARRAY && i < array->n_items ? array->items[i] : NULL;
}

struct lk_json *lk_json_member(struct lk_json *obj, size_t i, const char **out_key)
{
    if (obj->type != LK_JSON_OBJECT || i >= obj->n_items)
        return NULL;
    obj->items[i]->used = true;
    *out_key = obj->items[i]->key;
    return obj->items[i];
}

enum lk_status lk_json_schema(struct lk_json *root, const char *schema, int version)
{
    const char *name = "";
    int64_t v = 0;

    LK_PASS(lk_json_text(root, "schema", &name));
    if (strcmp(name, schema) != 0)
        return lk_json_error(find(root, "schema"), "expected \"%s\", got \"%.60s\"", schema, name);
    LK_PASS(lk_json_int(root, "version", 1, INT32_MAX, &v));
    if (v > version)
        return lk_json_error(
            find(root, "version"),
            "version %lld was written by a newer lockstep; this one reads up to %d", (long long)v,
            version);
    return LK_OK;
}
