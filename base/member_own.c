/* Find a struct's fields by their rows, set those that the file lacks, and free what they own. */
#include "base/member.h"

#include "base/array.h"
#include "base/member_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void *lk_member_at(const struct lk_member *m, void *base)
{
    return (char *)base + m->offset;
}

size_t *lk_member_count(const struct lk_member *m, void *base)
{
    return (size_t *)(void *)((char *)base + m->count);
}

size_t lk_member_size(const struct lk_member *m, const void *base)
{
    const char *at = (const char *)base + m->count;

    return m->kind == LK_KIND_PER_GPU ? (size_t) * (const int *)(const void *)at
                                      : *(const size_t *)(const void *)at;
}

size_t lk_member_item_bytes(const struct lk_member *m)
{
    switch (m->kind) {
    case LK_KIND_LIST:
        return m->of->size;
    case LK_KIND_PAIRS:
        return sizeof(struct lk_pair);
    case LK_KIND_TEXTS:
        return sizeof(char *);
    default:
        return sizeof(double);
    }
}

/* ---- Absent members ---- */

static void init_rows(const struct lk_member *m, void *base)
{
    for (; m->key; m++) {
        void *at = lk_member_at(m, base);

        if (m->kind == LK_KIND_QUANTITY)
            *(struct lk_quantity *)at = lk_quantity_none();
        else if (m->kind == LK_KIND_NUMBER)
            *(double *)at = NAN;
        else if (m->kind == LK_KIND_OBJECT)
            init_rows(m->of->rows, at);
        else if (m->kind == LK_KIND_GROUP)
            init_rows(m->of->rows, base);
    }
}

void lk_record_init(const struct lk_record *r, void *base)
{
    memset(base, 0, r->size);
    init_rows(r->rows, base);
}

enum lk_status lk_member_clear(const struct lk_member *m, void *base)
{
    void *at = lk_member_at(m, base);

    switch (m->kind) {
    case LK_KIND_INT:
    case LK_KIND_TRISTATE:
    case LK_KIND_WORD:
        *(int *)at = (int)m->absent;
        return LK_OK;
    case LK_KIND_INT64:
    case LK_KIND_UINT:
        *(int64_t *)at = m->absent;
        return LK_OK;
    case LK_KIND_BOOL:
        *(bool *)at = m->absent != 0;
        return LK_OK;
    case LK_KIND_TEXT:
        return m->absent_text ? lk_strdup(at, m->absent_text) : LK_OK;
    default: /* unknown, or nothing */
        init_rows((struct lk_member[]){*m, LK_MEMBER_END}, base);
        break;
    }
    if (m->need != LK_NEED_ASSUMED)
        return LK_OK;
    return lk_quantity_set(at, 0, NAN, NAN, 0, "assumed: %s is not given", m->key);
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

/* Return the pointer in a field, of whatever type. */
static void *pointer_at(const void *at)
{
    void *p;

    memcpy(&p, at, sizeof p);
    return p;
}

static void free_items(const struct lk_member *m, void *base)
{
    char *items = pointer_at(lk_member_at(m, base));

    for (size_t i = 0; items && i < lk_member_size(m, base); i++) {
        void *item = items + i * lk_member_item_bytes(m);

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
        void *at = lk_member_at(m, base);

        if (m->kind == LK_KIND_TEXT || (m->kind == LK_KIND_OWN && m->own->owned))
            free(pointer_at(at));
        else if (m->kind == LK_KIND_QUANTITY)
            lk_quantity_fini(at);
        else if (m->kind == LK_KIND_OBJECT)
            free_rows(m->of->rows, at);
        else if (m->kind == LK_KIND_GROUP)
            free_rows(m->of->rows, base);
        else if (m->kind == LK_KIND_PER_GPU ||
                 (m->kind >= LK_KIND_LIST && m->kind <= LK_KIND_PAIRS))
            free_items(m, base);
    }
}

void lk_record_fini(const struct lk_record *r, void *base)
{
    free_rows(r->rows, base);
    memset(base, 0, r->size);
}
