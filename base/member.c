/*
 * Structs by their rows. Divisions: kinds of members, absent members, pairs, freeing, reading,
 * writing. The kinds that are whole numbers in memory (integers, bools, words) share their code.
 * member_load.c reads whole files.
 */
#include "base/member.h"

#include "base/array.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Kinds of members ---- */

/* Bytes of a field, 0: any; and of an item of what it points to. */
static const struct {
    size_t field, item;
} sizes[LK_KIND_COUNT] = {
    [LK_KIND_INT] = {sizeof(int), 0},
    [LK_KIND_INT64] = {sizeof(int64_t), 0},
    [LK_KIND_UINT] = {sizeof(uint64_t), 0},
    [LK_KIND_BOOL] = {sizeof(bool), 0},
    [LK_KIND_TRISTATE] = {sizeof(int), 0},
    [LK_KIND_NUMBER] = {sizeof(double), 0},
    [LK_KIND_TEXT] = {sizeof(char *), 0},
    [LK_KIND_WORD] = {sizeof(int), 0},
    [LK_KIND_QUANTITY] = {sizeof(struct lk_quantity), 0},
    [LK_KIND_LIST] = {sizeof(void *), 0},
    [LK_KIND_NUMBERS] = {sizeof(double *), sizeof(double)},
    [LK_KIND_PER_GPU] = {sizeof(double *), sizeof(double)},
    [LK_KIND_TEXTS] = {sizeof(char **), sizeof(char *)},
    [LK_KIND_PAIRS] = {sizeof(struct lk_pair *), sizeof(struct lk_pair)},
};

/* Return true if the field has the size of its kind. */
static bool fits(const struct lk_member *m)
{
    size_t size = m->kind == LK_KIND_OBJECT ? m->of->size : sizes[m->kind].field;

    return !size || size == m->size;
}

/* Return the address of a field; of a group, which has none, that of the struct itself. */
static void *field(const struct lk_member *m, const void *base)
{
    return (char *)(uintptr_t)base + m->offset;
}

/* Return the pointer in a field, of whatever type. */
static void *pointer_at(const void *at)
{
    void *p;

    memcpy(&p, at, sizeof p);
    return p;
}

/* Return true for the kinds that are kept as a whole number: of 1, 4 or 8 bytes. */
static bool is_whole(const struct lk_member *m)
{
    return m->kind <= LK_KIND_TRISTATE || m->kind == LK_KIND_WORD;
}

static int64_t whole_of(const struct lk_member *m, const void *at)
{
    return m->size == sizeof(bool)  ? *(const bool *)at
           : m->size == sizeof(int) ? *(const int *)at
                                    : *(const int64_t *)at;
}

static void set_whole(const struct lk_member *m, void *at, int64_t v)
{
    if (m->size == sizeof(bool))
        *(bool *)at = v != 0;
    else if (m->size == sizeof(int))
        *(int *)at = (int)v;
    else
        *(int64_t *)at = v;
}

static size_t *count_at(const struct lk_member *m, const void *base)
{
    return (size_t *)(void *)((char *)(uintptr_t)base + m->count);
}

/* Return the number of items of a list, of numbers, texts or pairs. */
static size_t count_of(const struct lk_member *m, const void *base)
{
    return m->kind == LK_KIND_PER_GPU ? (size_t) * (const int *)(const void *)count_at(m, base)
                                      : *count_at(m, base);
}

/* Return the bytes of such an item; 0: the kind has no items. */
static size_t item_bytes(const struct lk_member *m)
{
    return m->kind == LK_KIND_LIST ? m->of->size : sizes[m->kind].item;
}

/* ---- Absent members ---- */

static void init_rows(const struct lk_member *m, void *base)
{
    for (; m->key; m++) {
        void *at = field(m, base);

        if (m->kind == LK_KIND_QUANTITY)
            *(struct lk_quantity *)at = lk_quantity_none();
        else if (m->kind == LK_KIND_NUMBER)
            *(double *)at = NAN;
        else if (m->kind == LK_KIND_OBJECT || m->kind == LK_KIND_GROUP)
            init_rows(m->of->rows, at);
    }
}

void lk_record_init(const struct lk_record *r, void *base)
{
    memset(base, 0, r->size);
    init_rows(r->rows, base);
}

/* Set a field to the value of an absent member. pre: it owns nothing. */
static enum lk_status clear(const struct lk_member *m, void *base)
{
    void *at = field(m, base);

    if (m->kind == LK_KIND_TEXT)
        return m->absent_text ? lk_strdup(at, m->absent_text) : LK_OK;
    if (is_whole(m))
        set_whole(m, at, m->absent);
    else /* unknown, or nothing */
        init_rows((struct lk_member[]){*m, LK_MEMBER_END}, base);
    if (m->need != LK_NEED_ASSUMED)
        return LK_OK;
    return lk_quantity_set(at, 0, NAN, NAN, 0, "assumed: %s is not given", m->key);
}

/* Return true if the field has the value of an absent member. */
static bool is_absent(const struct lk_member *m, const void *base)
{
    const void *at = field(m, base);

    if (is_whole(m))
        return whole_of(m, at) == m->absent;
    if (m->kind == LK_KIND_NUMBER)
        return isnan(*(const double *)at);
    if (m->kind == LK_KIND_CHARS)
        return !*(const char *)at;
    if (m->kind == LK_KIND_TEXT || m->kind == LK_KIND_PER_GPU)
        return !pointer_at(at);
    return item_bytes(m) && !count_of(m, base);
}

/* ---- Pairs ---- */

static void pair_fini(struct lk_pair *p)
{
    free(p->key);
    free(p->value);
}

enum lk_status lk_pairs_add(struct lk_pair **pairs, size_t *n, const char *key, const char *value)
{
    struct lk_pair pair = {NULL, NULL};
    enum lk_status st = LK_OK;
    size_t capacity = *n;

    LK_TRY(lk_strdup(&pair.key, key));
    LK_TRY(lk_strdup(&pair.value, value));
    LK_TRY(lk_array_grow(pairs, &capacity, *n + 1, sizeof **pairs));
    (*pairs)[(*n)++] = pair;
    pair = (struct lk_pair){NULL, NULL};
out:
    pair_fini(&pair);
    return st;
}

/* ---- Freeing ---- */

static void free_items(const struct lk_member *m, void *base)
{
    char *items = pointer_at(field(m, base));

    for (size_t i = 0; items && i < count_of(m, base); i++) {
        void *item = items + i * item_bytes(m);

        if (m->kind == LK_KIND_LIST)
            lk_record_fini(m->of, item);
        else if (m->kind == LK_KIND_TEXTS)
            free(*(char **)item);
        else if (m->kind == LK_KIND_PAIRS)
            pair_fini(item);
    }
    free(items);
}

static void free_rows(const struct lk_member *m, void *base)
{
    for (; m->key; m++) {
        void *at = field(m, base);

        if (m->kind == LK_KIND_TEXT || (m->kind == LK_KIND_OWN && m->own->owned))
            free(pointer_at(at));
        else if (m->kind == LK_KIND_QUANTITY)
            lk_quantity_fini(at);
        else if (m->kind == LK_KIND_OBJECT || m->kind == LK_KIND_GROUP)
            free_rows(m->of->rows, at);
        else if (item_bytes(m))
            free_items(m, base);
    }
}

void lk_record_fini(const struct lk_record *r, void *base)
{
    free_rows(r->rows, base);
    memset(base, 0, r->size);
}

/* ---- Quantities ---- */

enum lk_status lk_record_each_quantity(const struct lk_record *r, void *base,
                                       enum lk_status (*each)(struct lk_quantity *q, void *ctx),
                                       void *ctx)
{
    for (const struct lk_member *m = r->rows; m->key; m++) {
        void *at = field(m, base);

        if (m->kind == LK_KIND_QUANTITY && lk_quantity_known(at))
            LK_PASS(each(at, ctx));
        else if (m->kind == LK_KIND_OBJECT || m->kind == LK_KIND_GROUP)
            LK_PASS(lk_record_each_quantity(m->of, at, each, ctx));
        for (size_t i = 0; m->kind == LK_KIND_LIST && i < count_of(m, base); i++)
            LK_PASS(lk_record_each_quantity(m->of, (char *)pointer_at(at) + i * m->of->size, each,
                                            ctx));
    }
    return LK_OK;
}

/* ---- Reading ---- */

/* The object that is being read, its struct, and the file's struct. */
struct reader {
    struct lk_json *obj;
    void *base;
    const void *root;
};

static enum lk_status read_object(const struct lk_record *r, struct lk_json *obj, void *base,
                                  const void *root);

static enum lk_status check_range(const struct lk_json *v, enum lk_member_range range,
                                  double number)
{
    static const char *const texts[] = {[LK_RANGE_ABOVE_0] = "must be above 0",
                                        [LK_RANGE_FROM_1] = "must be 1 or more",
                                        [LK_RANGE_SHARE] = "must be from 0 to 1"};
    const bool inside[] = {[LK_RANGE_ANY] = true,
                           [LK_RANGE_ABOVE_0] = number > 0,
                           [LK_RANGE_FROM_1] = number >= 1,
                           [LK_RANGE_SHARE] = number >= 0 && number <= 1};

    return inside[range] ? LK_OK : lk_json_error(v, "%s", texts[range]);
}

static enum lk_status read_whole(const struct lk_member *m, struct lk_json *v, void *at)
{
    int64_t largest = m->max ? m->max : m->kind == LK_KIND_INT ? INT32_MAX : INT64_MAX, n = 0;
    uint64_t u = 0;
    bool yes = false;

    if (m->kind == LK_KIND_WORD)
        return lk_json_as_word(v, m->words, at);
    if (m->kind == LK_KIND_BOOL || m->kind == LK_KIND_TRISTATE) {
        LK_PASS(lk_json_as_bool(v, &yes));
        n = yes ? 1 : m->kind == LK_KIND_TRISTATE ? -1 : 0;
    } else if (m->kind == LK_KIND_UINT && m->min <= 0) {
        LK_PASS(lk_json_as_uint(v, m->max ? (uint64_t)m->max : UINT64_MAX, &u));
        LK_PASS(check_range(v, m->range, (double)u));
        n = (int64_t)u;
    } else {
        LK_PASS(lk_json_as_int(v, m->min, largest, &n));
    }
    set_whole(m, at, n);
    return LK_OK;
}

static enum lk_status read_number(const struct lk_member *m, struct lk_json *v, double *at)
{
    *at = NAN;
    if (m->need == LK_NEED_NULLABLE && lk_json_type(v) == LK_JSON_NULL)
        return LK_OK;
    LK_PASS(lk_json_as_number(v, at));
    return check_range(v, m->range, *at);
}

static enum lk_status read_text(const struct lk_member *m, struct lk_json *v, void *at)
{
    const char *text = NULL;

    LK_PASS(lk_json_as_text(v, &text));
    if (m->kind == LK_KIND_TEXT)
        return lk_strdup(at, text);
    if (strlen(text) >= m->size)
        return lk_json_error(v, "longer than %zu bytes", m->size - 1);
    memcpy(at, text, strlen(text) + 1);
    return LK_OK;
}

static enum lk_status read_quantity(const struct lk_member *m, struct lk_json *v,
                                    struct lk_quantity *at)
{
    LK_PASS(lk_quantity_read(v, m->dim, at));
    return check_range(v, m->range, at->value);
}

/* Read an item of a list, of numbers or of texts. */
static enum lk_status read_item(const struct lk_member *m, struct lk_json *v, void *item,
                                const void *root)
{
    const char *text = NULL;

    if (m->kind == LK_KIND_LIST)
        return read_object(m->of, v, item, root);
    if (m->kind != LK_KIND_TEXTS)
        return read_number(m, v, item);
    LK_PASS(lk_json_as_text(v, &text));
    return lk_strdup(item, text);
}

/* The count includes an item that is half read, so that it is freed. */
static enum lk_status read_items(const struct lk_member *m, struct lk_json *v, struct reader *r)
{
    enum lk_status st = LK_OK;
    size_t size = item_bytes(m), ignored = 0;
    size_t *n = m->kind == LK_KIND_PER_GPU ? &ignored : count_at(m, r->base);
    char *items;

    LK_TRY(lk_json_expect(v, LK_JSON_ARRAY));
    if (m->need == LK_NEED_FILLED && !lk_json_count(v))
        return lk_json_error(v, "must not be empty");
    LK_TRY(lk_alloc(&items, lk_json_count(v), size));
    memcpy(field(m, r->base), &items, sizeof items);
    for (*n = 0; *n < lk_json_count(v);) {
        size_t i = (*n)++;

        LK_TRY(read_item(m, lk_json_item(v, i), items + i * size, r->root));
    }
    if (m->kind == LK_KIND_PER_GPU && *n != count_of(m, r->base))
        st = lk_json_error(v, "has %zu entries for %zu GPUs", *n, count_of(m, r->base));
out:
    return st;
}

static enum lk_status read_pairs(const struct lk_member *m, struct lk_json *v, void *base)
{
    const char *key, *text;
    struct lk_json *item;

    LK_PASS(lk_json_expect(v, LK_JSON_OBJECT));
    for (size_t i = 0; (item = lk_json_member(v, i, &key)); i++) {
        LK_PASS(lk_json_as_text(item, &text));
        LK_PASS(lk_pairs_add(field(m, base), count_at(m, base), key, text));
    }
    return LK_OK;
}

static enum lk_status read_value(const struct lk_member *m, struct lk_json *v, struct reader *r)
{
    void *at = field(m, r->base);

    if (is_whole(m))
        return read_whole(m, v, at);
    if (item_bytes(m))
        return m->kind == LK_KIND_PAIRS ? read_pairs(m, v, r->base) : read_items(m, v, r);
    switch (m->kind) {
    case LK_KIND_NUMBER:
        return read_number(m, v, at);
    case LK_KIND_TEXT:
    case LK_KIND_CHARS:
        return read_text(m, v, at);
    case LK_KIND_QUANTITY:
        return read_quantity(m, v, at);
    case LK_KIND_OBJECT:
    case LK_KIND_GROUP:
        return read_object(m->of, v, at, r->root);
    default:
        return lk_fail(LK_EINTERNAL, "%s: no such kind of member", m->key);
    }
}

static enum lk_status read_member(const struct lk_member *m, struct reader *r)
{
    struct lk_json *v = NULL;

    assert(fits(m));
    if (m->kind == LK_KIND_OWN)
        return m->own->read(r->obj, r->base, r->root);
    if (m->need <= LK_NEED_NULLABLE)
        LK_PASS(lk_json_required(r->obj, m->key, &v));
    else
        v = lk_json_optional(r->obj, m->key);
    return v ? read_value(m, v, r) : clear(m, r->base);
}

static enum lk_status read_object(const struct lk_record *r, struct lk_json *obj, void *base,
                                  const void *root)
{
    struct reader reader = {obj, base, root};

    LK_PASS(lk_json_expect(obj, LK_JSON_OBJECT));
    if (r->schema)
        LK_PASS(lk_json_schema(obj, r->schema, r->version));
    for (const struct lk_member *m = r->rows; m->key; m++)
        LK_PASS(read_member(m, &reader));
    LK_PASS(lk_json_end(obj));
    if (r->check)
        LK_PASS(r->check(obj, base));
    return LK_OK;
}

enum lk_status lk_record_read(const struct lk_record *r, struct lk_json *obj, void *base)
{
    return read_object(r, obj, base, base);
}

/* ---- Writing ---- */

static void write_object(const struct lk_record *r, struct lk_json_out *o, const char *key,
                         const void *base, const void *root);

static void write_items(const struct lk_member *m, struct lk_json_out *o, const void *base,
                        const void *root)
{
    const char *items = pointer_at(field(m, base));

    if (m->kind == LK_KIND_NUMBERS || m->kind == LK_KIND_PER_GPU)
        lk_json_out_compact(o);
    lk_json_out_array(o, m->key);
    for (size_t i = 0; i < count_of(m, base); i++) {
        const void *item = items + i * item_bytes(m);

        if (m->kind == LK_KIND_LIST)
            write_object(m->of, o, NULL, item, root);
        else if (m->kind == LK_KIND_TEXTS)
            lk_json_out_text(o, NULL, *(char *const *)item);
        else
            lk_json_out_number(o, NULL, *(const double *)item);
    }
    lk_json_out_close(o);
}

static void write_pairs(const struct lk_member *m, struct lk_json_out *o, const void *base)
{
    const struct lk_pair *pairs = pointer_at(field(m, base));

    lk_json_out_object(o, m->key);
    for (size_t i = 0; i < count_of(m, base); i++)
        lk_json_out_text(o, pairs[i].key, pairs[i].value);
    lk_json_out_close(o);
}

static void write_member(const struct lk_member *m, struct lk_json_out *o, const void *base,
                         const void *root)
{
    const void *at = field(m, base);
    int64_t whole = is_whole(m) ? whole_of(m, at) : 0;

    switch (m->kind) {
    case LK_KIND_INT:
    case LK_KIND_INT64:
        lk_json_out_int(o, m->key, whole);
        break;
    case LK_KIND_UINT:
        lk_json_out_uint(o, m->key, (uint64_t)whole);
        break;
    case LK_KIND_BOOL:
    case LK_KIND_TRISTATE:
        lk_json_out_bool(o, m->key, whole > 0);
        break;
    case LK_KIND_NUMBER:
        lk_json_out_number(o, m->key, *(const double *)at);
        break;
    case LK_KIND_TEXT:
        lk_json_out_text(o, m->key, pointer_at(at) ? pointer_at(at) : "");
        break;
    case LK_KIND_CHARS:
        lk_json_out_text(o, m->key, at);
        break;
    case LK_KIND_WORD:
        lk_json_out_text(o, m->key, m->words->names[whole]);
        break;
    case LK_KIND_QUANTITY:
        lk_quantity_write(o, m->key, m->dim, at);
        break;
    case LK_KIND_OBJECT:
    case LK_KIND_GROUP:
        if (!m->of->given || m->of->given(at))
            write_object(m->of, o, m->key, at, root);
        break;
    case LK_KIND_PAIRS:
        write_pairs(m, o, base);
        break;
    case LK_KIND_OWN:
        m->own->write(o, base, root);
        break;
    default:
        write_items(m, o, base, root);
    }
}

static void write_object(const struct lk_record *r, struct lk_json_out *o, const char *key,
                         const void *base, const void *root)
{
    if (r->one_line)
        lk_json_out_compact(o);
    lk_json_out_object(o, key);
    if (r->schema) {
        lk_json_out_text(o, "schema", r->schema);
        lk_json_out_int(o, "version", r->version);
    }
    for (const struct lk_member *m = r->rows; m->key; m++)
        if (m->need != LK_NEED_SPARSE || !is_absent(m, base))
            write_member(m, o, base, root);
    lk_json_out_close(o);
}

void lk_record_write(const struct lk_record *r, struct lk_json_out *o, const char *key,
                     const void *base)
{
    write_object(r, o, key, base, base);
}

/* Arguments of write_root, which lk_json_write calls. */
struct save {
    const struct lk_record *record;
    const void *base;
};

static void write_root(struct lk_json_out *o, const void *ctx)
{
    const struct save *s = ctx;

    lk_record_write(s->record, o, NULL, s->base);
}

enum lk_status lk_record_save(const struct lk_record *r, const char *path, const void *base)
{
    const struct save s = {r, base};

    return lk_json_write(path, write_root, &s);
}

enum lk_status lk_record_save_text(const struct lk_record *r, const void *base, char **text,
                                   size_t *size)
{
    const struct save s = {r, base};

    return lk_json_write_text(write_root, &s, text, size);
}
