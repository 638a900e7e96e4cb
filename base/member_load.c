/* Read a file into its struct, with the files that it inherits from (lk_record's find_base). */
#include "base/array.h"
#include "base/json_node.h"
#include "base/member.h"

#include <stdlib.h>
#include <string.h>

/* Return the member without marking it as read, or NULL. */
static struct lk_json *member(const struct lk_json *obj, const char *key)
{
    for (size_t i = 0; i < obj->n_items; i++)
        if (!strcmp(obj->items[i]->key, key))
            return obj->items[i];
    return NULL;
}

/* Return true if the members of v are merged with another's one by one. */
static bool merges(const struct lk_json *v)
{
    return v->type == LK_JSON_OBJECT && !member(v, "value");
}

/* Add the members that an object lacks from `base`. Where both have an object of one name, theirs
 * are merged likewise, unless it is a quantity (it has a "value"). Errors about an added member
 * name its own file, since each value knows its document. pre: base's document outlives obj's. */
static enum lk_status add_missing(struct lk_json *obj, struct lk_json *base)
{
    struct lk_json **items =
        lk_arena_take(&obj->doc->arena, (obj->n_items + base->n_items) * sizeof *items);
    size_t n = obj->n_items;

    if (!items)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu items", obj->n_items + base->n_items);
    if (n)
        memcpy(items, obj->items, n * sizeof(struct lk_json *));
    for (size_t i = 0; i < base->n_items; i++) {
        struct lk_json *theirs = base->items[i], *ours = member(obj, theirs->key);

        if (!ours)
            items[n++] = theirs;
        else if (merges(ours) && merges(theirs))
            LK_PASS(add_missing(ours, theirs));
    }
    obj->items = items;
    obj->n_items = n;
    return LK_OK;
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
    if (r->find_base(name, of, &path) != LK_OK)
        LK_TRY(lk_json_error(base, "%s", lk_error_text()));
    LK_TRY(lk_json_load(path, &l->docs[mine + 1]));
    l->n++;
    base = lk_json_root(l->docs[mine + 1]);
    LK_TRY(lk_json_expect(base, LK_JSON_OBJECT));
    LK_TRY(lk_json_schema(base, r->schema, r->version));
    LK_TRY(inherit(r, path, l));
    st = add_missing(root, base);
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
