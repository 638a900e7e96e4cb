/* Write structs by their rows. */
#include "base/member.h"

#include "base/member_impl.h"

#include <math.h>
#include <string.h>

static void write_object(const struct lk_record *r, struct lk_json_out *o, const char *key,
                         const void *base, const void *root);

/* Return the address of a field, for reading. */
static const void *field(const struct lk_member *m, const void *base)
{
    return (const char *)base + m->offset;
}

/* Return true if the field has the value of an absent member. */
static bool is_absent(const struct lk_member *m, const void *base)
{
    const void *at = field(m, base);

    switch (m->kind) {
    case LK_KIND_INT:
    case LK_KIND_TRISTATE:
    case LK_KIND_WORD:
        return *(const int *)at == m->absent;
    case LK_KIND_INT64:
    case LK_KIND_UINT:
        return *(const int64_t *)at == m->absent;
    case LK_KIND_BOOL:
        return *(const bool *)at == (m->absent != 0);
    case LK_KIND_NUMBER:
        return isnan(*(const double *)at);
    case LK_KIND_TEXT:
        return !*(char *const *)at;
    case LK_KIND_CHARS:
        return !*(const char *)at;
    case LK_KIND_PER_GPU:
        return !*(double *const *)at;
    case LK_KIND_LIST:
    case LK_KIND_NUMBERS:
    case LK_KIND_TEXTS:
    case LK_KIND_PAIRS:
        return !lk_member_size(m, base);
    default:
        return false;
    }
}

static void write_items(const struct lk_member *m, struct lk_json_out *o, const void *base,
                        const void *root)
{
    const char *items;

    memcpy(&items, field(m, base), sizeof items);
    if (m->kind == LK_KIND_NUMBERS || m->kind == LK_KIND_PER_GPU)
        lk_json_out_compact(o);
    lk_json_out_array(o, m->key);
    for (size_t i = 0; i < lk_member_size(m, base); i++) {
        const void *item = items + i * lk_member_item_bytes(m);

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
    const struct lk_pair *pairs;

    memcpy(&pairs, field(m, base), sizeof pairs);
    lk_json_out_object(o, m->key);
    for (size_t i = 0; i < lk_member_size(m, base); i++)
        lk_json_out_text(o, pairs[i].key, pairs[i].value);
    lk_json_out_close(o);
}

static void write_member(const struct lk_member *m, struct lk_json_out *o, const void *base,
                         const void *root)
{
    const void *at = field(m, base);

    switch (m->kind) {
    case LK_KIND_INT:
        lk_json_out_int(o, m->key, *(const int *)at);
        break;
    case LK_KIND_INT64:
        lk_json_out_int(o, m->key, *(const int64_t *)at);
        break;
    case LK_KIND_UINT:
        lk_json_out_uint(o, m->key, *(const uint64_t *)at);
        break;
    case LK_KIND_BOOL:
        lk_json_out_bool(o, m->key, *(const bool *)at);
        break;
    case LK_KIND_TRISTATE:
        lk_json_out_bool(o, m->key, *(const int *)at > 0);
        break;
    case LK_KIND_NUMBER:
        lk_json_out_number(o, m->key, *(const double *)at);
        break;
    case LK_KIND_TEXT:
        lk_json_out_text(o, m->key, *(char *const *)at ? *(char *const *)at : "");
        break;
    case LK_KIND_CHARS:
        lk_json_out_text(o, m->key, at);
        break;
    case LK_KIND_WORD:
        lk_json_out_text(o, m->key, m->words->names[*(const int *)at]);
        break;
    case LK_KIND_QUANTITY:
        lk_quantity_write(o, m->key, m->dim, at);
        break;
    case LK_KIND_OBJECT:
        if (!m->of->given || m->of->given(at))
            write_object(m->of, o, m->key, at, root);
        break;
    case LK_KIND_GROUP:
        write_object(m->of, o, m->key, base, root);
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
