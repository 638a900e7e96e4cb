/*
 * Members of JSON objects: typed access, use marks, lists, unknown keys. json_value.c has what one
 * value is, and the errors.
 */
#include "base/json.h"

#include "base/array.h"
#include "base/json_node.h"
#include "base/option.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST_MAX = 32 };

void lk_json_free(struct lk_json_doc *doc)
{
    if (!doc)
        return;
    lk_arena_fini(&doc->arena);
    free(doc->name);
    free(doc);
}

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

enum lk_status lk_json_blame(struct lk_json *obj, const char *key, enum lk_status st)
{
    return st == LK_OK ? LK_OK : lk_json_error(lk_json_optional(obj, key), "%s", lk_error_text());
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

/* "; did you mean "x"?" or "". */
static const char *suggestion(const char *word, const char *const *words, size_t n, char *buf,
                              size_t size)
{
    const char *near = lk_option_nearest(word, words, n);

    if (!near || snprintf(buf, size, "; did you mean \"%s\"?", near) < 0)
        return "";
    return buf;
}

/* What the key may be a slip of: of those that nobody asked for; or NULL. */
static const char *nearest_unused(struct lk_json *obj, const char *key)
{
    const char *words[NEAREST_MAX];
    size_t n = 0;

    for (size_t i = 0; i < obj->n_items && n < NEAREST_MAX; i++)
        if (!obj->items[i]->used)
            words[n++] = obj->items[i]->key;
    return n ? lk_option_nearest(key, words, n) : NULL;
}

/* The member, marked as used. NULL: *out_st says why. */
static struct lk_json *get(struct lk_json *obj, const char *key, enum lk_status *out_st)
{
    struct lk_json *v;
    const char *near;

    *out_st = lk_json_expect(obj, LK_JSON_OBJECT);
    if (*out_st != LK_OK)
        return NULL;
    v = find(obj, key);
    if (v) {
        v->used = true;
        return v;
    }
    near = nearest_unused(obj, key);
    *out_st = near ? lk_json_fail_at(obj, key, "missing (there is \"%s\")", near)
                   : lk_json_fail_at(obj, key, "missing");
    return NULL;
}

enum lk_status lk_json_text(struct lk_json *obj, const char *key, const char **out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    return v ? lk_json_as_text(v, out) : st;
}

enum lk_status lk_json_number(struct lk_json *obj, const char *key, double *out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    return v ? lk_json_as_number(v, out) : st;
}

enum lk_status lk_json_number_or_null(struct lk_json *obj, const char *key, double *out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    if (!v)
        return st;
    if (v->type != LK_JSON_NULL)
        return lk_json_as_number(v, out);
    *out = NAN;
    return LK_OK;
}

enum lk_status lk_json_int(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                           int64_t *out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    return v ? lk_json_as_int(v, min, max, out) : st;
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

enum lk_status lk_json_text_copy(struct lk_json *obj, const char *key, char **out)
{
    const char *text = NULL;
    enum lk_status st = lk_json_text(obj, key, &text);

    return st == LK_OK ? lk_strdup(out, text) : st;
}

enum lk_status lk_json_uint(struct lk_json *obj, const char *key, uint64_t max, uint64_t *out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    return v ? lk_json_as_uint(v, max, out) : st;
}

enum lk_status lk_json_bool(struct lk_json *obj, const char *key, bool *out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    if (!v)
        return st;
    st = lk_json_expect(v, LK_JSON_BOOL);
    if (st == LK_OK)
        *out = v->boolean;
    return st;
}

enum lk_status lk_json_choice(struct lk_json *obj, const char *key, const char *const *words,
                              size_t n, int *out)
{
    enum lk_status st = LK_OK;
    const char *text = NULL;
    const char *near;

    LK_TRY(lk_json_text(obj, key, &text));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(text, words[i])) {
            *out = (int)i;
            return LK_OK;
        }
    near = lk_option_nearest(text, words, n);
    st = near ? lk_json_error(lk_json_optional(obj, key), "unknown word '%s'; did you mean '%s'?",
                              text, near)
              : lk_json_error(lk_json_optional(obj, key), "unknown word '%s'", text);
out:
    return st;
}

enum lk_status lk_json_bool_optional(struct lk_json *obj, const char *key, bool *out)
{
    return lk_json_optional(obj, key) ? lk_json_bool(obj, key, out) : LK_OK;
}

enum lk_status lk_json_int32_optional(struct lk_json *obj, const char *key, int64_t min,
                                      int64_t max, int *out)
{
    return lk_json_optional(obj, key) ? lk_json_int32(obj, key, min, max, out) : LK_OK;
}

enum lk_status lk_json_choice_optional(struct lk_json *obj, const char *key,
                                       const char *const *words, size_t n, int *out)
{
    return lk_json_optional(obj, key) ? lk_json_choice(obj, key, words, n, out) : LK_OK;
}

static enum lk_status container(struct lk_json *obj, const char *key, enum lk_json_type type,
                                struct lk_json **out)
{
    enum lk_status st;
    struct lk_json *v = get(obj, key, &st);

    if (!v)
        return st;
    st = lk_json_expect(v, type);
    if (st == LK_OK)
        *out = v;
    return st;
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
    enum lk_status st = LK_OK;
    const char *words[NEAREST_MAX];
    char buf[128];
    size_t n = 0;

    LK_TRY(lk_json_expect(obj, LK_JSON_OBJECT));
    for (size_t i = 0; i < obj->n_items; i++) {
        const struct lk_json *v = obj->items[i];

        if (v->used)
            continue;
        for (const struct lk_json_wish *w = obj->wishes; w && n < NEAREST_MAX; w = w->next)
            words[n++] = w->key;
        return lk_json_fail_at(v, NULL, "unknown key%s",
                               n ? suggestion(v->key, words, n, buf, sizeof buf) : "");
    }
out:
    return st;
}

enum lk_status lk_json_items(struct lk_json *obj, const char *key, enum lk_json_need need,
                             enum lk_status (*read)(struct lk_json *v, void *item), void *items,
                             size_t size, size_t *n)
{
    enum lk_status st = LK_OK;
    struct lk_json *list = NULL;
    char *v;

    if (need == LK_JSON_OPTIONAL && !lk_json_optional(obj, key))
        return LK_OK;
    LK_TRY(lk_json_array(obj, key, &list));
    if (need == LK_JSON_FILLED && !list->n_items)
        return lk_json_fail_at(list, NULL, "must not be empty");
    LK_TRY(lk_alloc(&v, list->n_items, size));
    memcpy(items, &v, sizeof v);
    for (*n = 0; *n < list->n_items;) {
        size_t i = (*n)++;

        LK_TRY(read(list->items[i], v + i * size));
    }
out:
    return st;
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
    enum lk_status st = LK_OK;
    const char *name = "";
    int64_t v = 0;

    LK_TRY(lk_json_text(root, "schema", &name));
    if (strcmp(name, schema) != 0)
        return lk_json_fail_at(find(root, "schema"), NULL, "expected \"%s\", got \"%.60s\"", schema,
                               name);
    LK_TRY(lk_json_int(root, "version", 1, INT32_MAX, &v));
    if (v > version)
        return lk_json_fail_at(
            find(root, "version"), NULL,
            "version %lld was written by a newer lockstep; this one reads up to %d", (long long)v,
            version);
out:
    return st;
}
