/* Read and check structs by their rows. member_own.c clears and frees them, member_out.c writes
 * them. */
#include "base/member.h"

#include "base/array.h"
#include "base/member_impl.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "LK_KIND_UINT is both");

/* The object that is being read, its struct, and the file's struct. */
struct reader {
    struct lk_json *obj;
    void *base;
    const void *root;
};

static enum lk_status read_object(const struct lk_record *r, struct lk_json *obj, void *base,
                                  const void *root);

/* Return what is wrong with a number, or NULL. */
static const char *out_of_range(enum lk_member_range range, double v)
{
    if (range == LK_RANGE_ABOVE_0 && !(v > 0))
        return "must be above 0";
    if (range == LK_RANGE_FROM_1 && !(v >= 1))
        return "must be 1 or more";
    if (range == LK_RANGE_SHARE && !(v >= 0 && v <= 1))
        return "must be from 0 to 1";
    return NULL;
}

static enum lk_status check_range(const struct lk_json *v, enum lk_member_range range,
                                  double number)
{
    const char *wrong = out_of_range(range, number);

    return wrong ? lk_json_error(v, "%s", wrong) : LK_OK;
}

static enum lk_status read_uint(const struct lk_member *m, struct lk_json *v, uint64_t *out)
{
    enum lk_status st = LK_OK;
    int64_t n = 0;

    if (m->min > 0) {
        LK_TRY(lk_json_as_int(v, m->min, m->max ? m->max : INT64_MAX, &n));
        *out = (uint64_t)n;
    } else {
        LK_TRY(lk_json_as_uint(v, m->max ? (uint64_t)m->max : UINT64_MAX, out));
    }
    st = check_range(v, m->range, (double)*out);
out:
    return st;
}

static enum lk_status read_integer(const struct lk_member *m, struct lk_json *v, void *at)
{
    enum lk_status st = LK_OK;
    int64_t largest = m->kind == LK_KIND_INT ? INT32_MAX : INT64_MAX;
    int64_t n = 0;

    if (m->kind == LK_KIND_UINT)
        return read_uint(m, v, at);
    LK_TRY(lk_json_as_int(v, m->min, m->max ? m->max : largest, &n));
    if (m->kind == LK_KIND_INT64)
        *(int64_t *)at = n;
    else
        *(int *)at = (int)n;
out:
    return st;
}

static enum lk_status read_flag(const struct lk_member *m, struct lk_json *v, void *at)
{
    enum lk_status st = LK_OK;
    bool yes = false;

    LK_TRY(lk_json_as_bool(v, &yes));
    if (m->kind == LK_KIND_BOOL)
        *(bool *)at = yes;
    else
        *(int *)at = yes ? 1 : -1;
out:
    return st;
}

static enum lk_status read_number(const struct lk_member *m, struct lk_json *v, double *at)
{
    enum lk_status st = LK_OK;

    *at = NAN;
    if (m->need == LK_NEED_NULLABLE && lk_json_type(v) == LK_JSON_NULL)
        return LK_OK;
    LK_TRY(lk_json_as_number(v, at));
    st = check_range(v, m->range, *at);
out:
    return st;
}

static enum lk_status read_text(const struct lk_member *m, struct lk_json *v, void *at)
{
    enum lk_status st = LK_OK;
    const char *text = NULL;

    LK_TRY(lk_json_as_text(v, &text));
    if (m->kind == LK_KIND_TEXT)
        return lk_strdup(at, text);
    if (strlen(text) >= m->size)
        return lk_json_error(v, "longer than %zu bytes", m->size - 1);
    memcpy(at, text, strlen(text) + 1);
out:
    return st;
}

static enum lk_status read_quantity(const struct lk_member *m, struct lk_json *v,
                                    struct lk_quantity *at)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_quantity_read(v, m->dim, at));
    st = check_range(v, m->range, at->value);
out:
    return st;
}

/* Read an item of a list, of numbers or of texts. */
static enum lk_status read_item(const struct lk_member *m, struct lk_json *v, void *item,
                                const void *root)
{
    const char *text = NULL;
    enum lk_status st = LK_OK;

    if (m->kind == LK_KIND_LIST)
        return read_object(m->of, v, item, root);
    if (m->kind != LK_KIND_TEXTS)
        return read_number(m, v, item);
    LK_TRY(lk_json_as_text(v, &text));
    st = lk_strdup(item, text);
out:
    return st;
}

/* The count includes an item that is half read, so that it is freed. */
static enum lk_status read_items(const struct lk_member *m, struct lk_json *v, struct reader *r)
{
    enum lk_status st = LK_OK;
    size_t size = lk_member_item_bytes(m), ignored = 0;
    size_t *n = m->kind == LK_KIND_PER_GPU ? &ignored : lk_member_count(m, r->base);
    char *items;

    LK_TRY(lk_json_expect(v, LK_JSON_ARRAY));
    if (m->need == LK_NEED_FILLED && !lk_json_count(v))
        return lk_json_error(v, "must not be empty");
    LK_TRY(lk_alloc(&items, lk_json_count(v), size));
    memcpy(lk_member_at(m, r->base), &items, sizeof items);
    for (*n = 0; *n < lk_json_count(v);) {
        size_t i = (*n)++;

        LK_TRY(read_item(m, lk_json_item(v, i), items + i * size, r->root));
    }
    if (m->kind == LK_KIND_PER_GPU && *n != lk_member_size(m, r->base))
        st = lk_json_error(v, "has %zu entries for %zu GPUs", *n, lk_member_size(m, r->base));
out:
    return st;
}

static enum lk_status read_pairs(const struct lk_member *m, struct lk_json *v, void *base)
{
    enum lk_status st = LK_OK;
    const char *key, *text;
    struct lk_json *item;

    LK_TRY(lk_json_expect(v, LK_JSON_OBJECT));
    for (size_t i = 0; (item = lk_json_member(v, i, &key)); i++) {
        LK_TRY(lk_json_as_text(item, &text));
        LK_TRY(lk_pairs_add(lk_member_at(m, base), lk_member_count(m, base), key, text));
    }
out:
    return st;
}

static enum lk_status read_value(const struct lk_member *m, struct lk_json *v, struct reader *r)
{
    void *at = lk_member_at(m, r->base);

    switch (m->kind) {
    case LK_KIND_INT:
    case LK_KIND_INT64:
    case LK_KIND_UINT:
        return read_integer(m, v, at);
    case LK_KIND_BOOL:
    case LK_KIND_TRISTATE:
        return read_flag(m, v, at);
    case LK_KIND_NUMBER:
        return read_number(m, v, at);
    case LK_KIND_TEXT:
    case LK_KIND_CHARS:
        return read_text(m, v, at);
    case LK_KIND_WORD:
        return lk_json_as_word(v, m->words, at);
    case LK_KIND_QUANTITY:
        return read_quantity(m, v, at);
    case LK_KIND_OBJECT:
        return read_object(m->of, v, at, r->root);
    case LK_KIND_GROUP:
        return read_object(m->of, v, r->base, r->root);
    case LK_KIND_LIST:
    case LK_KIND_NUMBERS:
    case LK_KIND_PER_GPU:
    case LK_KIND_TEXTS:
        return read_items(m, v, r);
    case LK_KIND_PAIRS:
        return read_pairs(m, v, r->base);
    case LK_KIND_OWN:
    case LK_KIND_COUNT:
        break;
    }
    return lk_fail(LK_EINTERNAL, "%s: no such kind of member", m->key);
}

/* Return true if the field's size is that of the kind's C type; 0: of any. */
static bool fits(const struct lk_member *m)
{
    static const size_t sizes[LK_KIND_COUNT] = {
        [LK_KIND_INT] = sizeof(int),
        [LK_KIND_INT64] = sizeof(int64_t),
        [LK_KIND_UINT] = sizeof(uint64_t),
        [LK_KIND_BOOL] = sizeof(bool),
        [LK_KIND_TRISTATE] = sizeof(int),
        [LK_KIND_NUMBER] = sizeof(double),
        [LK_KIND_TEXT] = sizeof(char *),
        [LK_KIND_WORD] = sizeof(int),
        [LK_KIND_QUANTITY] = sizeof(struct lk_quantity),
        [LK_KIND_LIST] = sizeof(void *),
        [LK_KIND_NUMBERS] = sizeof(double *),
        [LK_KIND_PER_GPU] = sizeof(double *),
        [LK_KIND_TEXTS] = sizeof(char **),
        [LK_KIND_PAIRS] = sizeof(struct lk_pair *),
    };
    size_t size = m->kind == LK_KIND_OBJECT ? m->of->size : sizes[m->kind];

    return !size || size == m->size;
}

static enum lk_status read_member(const struct lk_member *m, struct reader *r)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = NULL;

    assert(fits(m));
    if (m->kind == LK_KIND_OWN)
        return m->own->read(r->obj, r->base, r->root);
    if (m->need <= LK_NEED_NULLABLE)
        LK_TRY(lk_json_required(r->obj, m->key, &v));
    else
        v = lk_json_optional(r->obj, m->key);
    st = v ? read_value(m, v, r) : lk_member_clear(m, r->base);
out:
    return st;
}

static enum lk_status read_object(const struct lk_record *r, struct lk_json *obj, void *base,
                                  const void *root)
{
    enum lk_status st = LK_OK;
    struct reader reader = {obj, base, root};

    LK_TRY(lk_json_expect(obj, LK_JSON_OBJECT));
    if (r->schema)
        LK_TRY(lk_json_schema(obj, r->schema, r->version));
    for (const struct lk_member *m = r->rows; m->key; m++)
        LK_TRY(read_member(m, &reader));
    LK_TRY(lk_json_end(obj));
    if (r->check)
        LK_TRY(r->check(obj, base));
out:
    return st;
}

enum lk_status lk_record_read(const struct lk_record *r, struct lk_json *obj, void *base)
{
    return read_object(r, obj, base, base);
}

/* The documents of a file, of its base, of the base's base, ... */
struct lineage {
    struct lk_json_doc *docs[LK_BASES_MAX + 1];
    size_t n;
};

/* Let the newest document of the lineage inherit from its base, if it names one. `name` is its
 * file. */
static enum lk_status inherit(const struct lk_record *r, const char *name, struct lineage *l)
{
    enum lk_status st = LK_OK;
    size_t mine = l->n - 1;
    struct lk_json *root = lk_json_root(l->docs[mine]), *base = NULL;
    const char *of = NULL;
    char *path = NULL;

    if (lk_json_type(root) == LK_JSON_OBJECT)
        base = lk_json_optional(root, "base");
    if (!base)
        return LK_OK;
    LK_TRY(lk_json_as_text(base, &of));
    if (l->n > LK_BASES_MAX)
        return lk_json_error(base, "more than %d files, each the base of another", LK_BASES_MAX);
    if (r->find_base(name, of, &path) != LK_OK) {
        st = lk_json_error(base, "%s", lk_error_text());
        goto out;
    }
    LK_TRY(lk_json_load(path, &l->docs[mine + 1]));
    l->n++;
    base = lk_json_root(l->docs[mine + 1]);
    LK_TRY(lk_json_expect(base, LK_JSON_OBJECT));
    LK_TRY(lk_json_schema(base, r->schema, r->version));
    LK_TRY(inherit(r, path, l));
    st = lk_json_inherit(root, base);
out:
    free(path);
    return st;
}

/* Read a text, or the file `name` where text is NULL. */
static enum lk_status load(const struct lk_record *r, const char *name, const char *text,
                           size_t size, void *out)
{
    enum lk_status st = LK_OK;
    struct lineage l = {.n = 0};
    void *base = NULL;

    LK_TRY(text ? lk_json_parse(name, text, size, &l.docs[0]) : lk_json_load(name, &l.docs[0]));
    l.n = 1;
    if (r->find_base)
        LK_TRY(inherit(r, name, &l));
    LK_TRY(lk_alloc(&base, 1, r->size));
    LK_TRY(lk_record_read(r, lk_json_root(l.docs[0]), base));
    memcpy(out, base, r->size);
    memset(base, 0, r->size);
out:
    if (base)
        lk_record_fini(r, base);
    free(base);
    for (size_t i = 0; i < l.n; i++)
        lk_json_free(l.docs[i]);
    return st;
}

enum lk_status lk_record_load(const struct lk_record *r, const char *path, void *out)
{
    return load(r, path, NULL, 0, out);
}

enum lk_status lk_record_load_text(const struct lk_record *r, const char *name, const char *text,
                                   size_t size, void *out)
{
    return load(r, name, text, size, out);
}
