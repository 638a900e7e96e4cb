/* Trees of JSON values, and walks over one large array: events to values in an arena. */
#include "base/json.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json_node.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Arena ---- */

/* A chunk holds at least this much, so that small documents take one allocation. */
enum { CHUNK_BYTES = 16 * 1024 };

struct lk_arena_chunk {
    struct lk_arena_chunk *next;
    size_t size;
    max_align_t data[];
};

void *lk_arena_take(struct lk_arena *a, size_t size)
{
    size_t align = alignof(max_align_t);
    struct lk_arena_chunk *c = a->chunks;
    void *p;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    if (!c || c->size - a->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

        c = malloc(sizeof *c + room);
        if (!c)
            return NULL;
        c->size = room;
        c->next = a->chunks;
        a->chunks = c;
        a->used = 0;
    }
    p = (char *)c->data + a->used;
    a->used += size;
    return p;
}

/* Free everything taken so far, and keep one chunk for the next takes. */
static void arena_reset(struct lk_arena *a)
{
    struct lk_arena_chunk *keep = a->chunks;

    if (!keep)
        return;
    while (keep->next) {
        struct lk_arena_chunk *c = keep->next;

        keep->next = c->next;
        free(c);
    }
    a->used = 0;
}

static void arena_fini(struct lk_arena *a)
{
    arena_reset(a);
    free(a->chunks);
    *a = (struct lk_arena){0};
}

void lk_json_free(struct lk_json_doc *doc)
{
    if (!doc)
        return;
    arena_fini(&doc->arena);
    free(doc->name);
    free(doc);
}

/* ---- Events to values ---- */

/* Up to here comparing all pairs of keys is cheaper than sorting. */
enum { SMALL_OBJECT = 16 };

/*
 * Events to values. With a walk, the root and its one large array live outside the arena, and
 * everything in the arena is given back once a hook has seen it.
 */
struct builder {
    struct lk_json_parser parser; /* first: callbacks get its address */
    struct lk_json_doc *doc;
    struct lk_json *open; /* the innermost container */
    const char *key;      /* of the next value */
    const struct lk_json_walk *walk;
    void *walk_ctx;
    struct lk_json root, array; /* of a walk */
    char **root_keys;           /* of a walk */
    size_t n_root_keys, root_keys_capacity;
};

static enum lk_status located(struct builder *b, enum lk_status st)
{
    if (st != LK_OK)
        b->parser.located = true;
    return st;
}

static enum lk_status copy_text(struct builder *b, const char *text, size_t len, const char **out)
{
    char *p;

    if (memchr(text, 0, len))
        return lk_fail(LK_EPARSE, "a string contains a NUL character");
    p = lk_arena_take(&b->doc->arena, len + 1);
    if (!p)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu bytes", len);
    memcpy(p, text, len);
    p[len] = '\0';
    *out = p;
    return LK_OK;
}

/* Sets what every value has and counts it in its container. */
static void place(struct builder *b, struct lk_json *v, enum lk_json_type type)
{
    struct lk_json *parent = b->open;

    *v = (struct lk_json){.doc = b->doc,
                          .parent = parent,
                          .key = b->key,
                          .line = lk_json_parser_line(&b->parser),
                          .type = type};
    b->key = NULL;
    if (!parent)
        return;
    v->index = parent->n_items++;
    if (parent == &b->root || parent == &b->array)
        return;
    if (parent->last)
        parent->last->next = v;
    else
        parent->first = v;
    parent->last = v;
}

/* A value in the arena; NULL with an error text when there is no memory. */
static struct lk_json *make(struct builder *b, enum lk_json_type type)
{
    struct lk_json *v = lk_arena_take(&b->doc->arena, sizeof *v);

    if (!v) {
        lk_fail(LK_ENOMEM, "cannot allocate a value");
        return NULL;
    }
    place(b, v, type);
    if (!b->doc->root)
        b->doc->root = v;
    return v;
}

/* A value is complete: gives it to the walk's hook when it is at the top. */
static enum lk_status complete(struct builder *b, struct lk_json *v)
{
    enum lk_status st = LK_OK;

    if (!b->walk)
        return LK_OK;
    if (!v->parent)
        return located(b,
                       lk_json_error(v, "expected an object, got %s", lk_json_type_text(v->type)));
    if (v->parent == &b->array) {
        LK_TRY(located(b, b->walk->item(b->walk_ctx, v)));
    } else if (v->parent == &b->root) {
        if (!strcmp(v->key, b->walk->array))
            return located(
                b, lk_json_error(v, "expected an array, got %s", lk_json_type_text(v->type)));
        LK_TRY(located(b, b->walk->member(b->walk_ctx, v->key, v)));
    } else {
        return LK_OK;
    }
    arena_reset(&b->doc->arena);
out:
    return st;
}

static enum lk_status build_scalar(struct builder *b, enum lk_json_type type, const char *text,
                                   size_t len, bool boolean)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = make(b, type);

    if (!v)
        return LK_ENOMEM;
    v->boolean = boolean;
    if (text)
        LK_TRY(copy_text(b, text, len, &v->text));
    LK_TRY(complete(b, v));
out:
    return st;
}

/* Keys of the root of a walk outlive the arena; this also sees its duplicates. */
static enum lk_status root_key(struct builder *b, const char *text, size_t len)
{
    enum lk_status st = LK_OK;
    char *copy = NULL;

    if (memchr(text, 0, len))
        return lk_fail(LK_EPARSE, "a string contains a NUL character");
    LK_TRY(lk_strndup(&copy, text, len));
    for (size_t i = 0; i < b->n_root_keys; i++)
        if (!strcmp(b->root_keys[i], copy)) {
            st = lk_fail(LK_EPARSE, "%s: duplicate key", copy);
            goto out;
        }
    LK_TRY(lk_array_grow(&b->root_keys, &b->root_keys_capacity, b->n_root_keys + 1,
                         sizeof *b->root_keys));
    b->root_keys[b->n_root_keys++] = copy;
    b->key = copy;
    copy = NULL;
out:
    free(copy);
    return st;
}

static enum lk_status build_key(struct builder *b, const char *text, size_t len)
{
    if (b->open == &b->root)
        return root_key(b, text, len);
    return copy_text(b, text, len, &b->key);
}

static enum lk_status build_start(struct builder *b, enum lk_json_type type)
{
    struct lk_json *v;

    if (++b->parser.depth > LK_JSON_DEPTH_MAX)
        return lk_fail(LK_EPARSE, "nested deeper than %d", LK_JSON_DEPTH_MAX);
    if (b->walk && !b->open && type == LK_JSON_OBJECT) {
        v = &b->root;
        place(b, v, type);
    } else if (b->walk && b->open == &b->root && type == LK_JSON_ARRAY &&
               !strcmp(b->key, b->walk->array)) {
        v = &b->array;
        place(b, v, type);
    } else {
        v = make(b, type);
    }
    if (!v)
        return LK_ENOMEM;
    b->open = v;
    return LK_OK;
}

static int by_key(const void *a, const void *b)
{
    const struct lk_json *const *x = a;
    const struct lk_json *const *y = b;
    int order = strcmp((*x)->key, (*y)->key);

    return order ? order : ((*x)->index > (*y)->index) - ((*x)->index < (*y)->index);
}

/* *out is the second of two members with the same key, or NULL. */
static enum lk_status find_duplicate(struct lk_json *v, struct lk_json **out)
{
    enum lk_status st = LK_OK;
    struct lk_json **sorted = NULL;

    *out = NULL;
    if (v->n_items <= SMALL_OBJECT) {
        for (size_t i = 1; i < v->n_items; i++)
            for (size_t j = 0; j < i; j++)
                if (!strcmp(v->items[i]->key, v->items[j]->key))
                    *out = v->items[i];
        return LK_OK;
    }
    LK_TRY(lk_alloc(&sorted, v->n_items, sizeof *sorted));
    memcpy(sorted, v->items, v->n_items * sizeof *sorted);
    qsort(sorted, v->n_items, sizeof *sorted, by_key);
    for (size_t i = 1; i < v->n_items; i++)
        if (!strcmp(sorted[i]->key, sorted[i - 1]->key))
            *out = sorted[i];
out:
    free(sorted);
    return st;
}

static enum lk_status build_end(struct builder *b)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = b->open;
    struct lk_json *twice = NULL;
    size_t n = 0;

    b->parser.depth--;
    b->open = v->parent;
    if (v == &b->root || v == &b->array)
        return LK_OK;
    v->items = lk_arena_take(&b->doc->arena, v->n_items * sizeof(struct lk_json *));
    if (!v->items)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu items", v->n_items);
    for (struct lk_json *c = v->first; c; c = c->next)
        v->items[n++] = c;
    if (v->type == LK_JSON_OBJECT)
        LK_TRY(find_duplicate(v, &twice));
    if (twice)
        return located(b, lk_json_error(twice, "duplicate key"));
    LK_TRY(complete(b, v));
out:
    return st;
}

/* ---- yajl's callbacks ---- */

/* Keeps the status for the parser; false stops yajl. */
static int after(struct builder *b, enum lk_status st)
{
    b->parser.st = st;
    return st == LK_OK;
}

static int on_null(void *ctx)
{
    return after(ctx, build_scalar(ctx, LK_JSON_NULL, NULL, 0, false));
}

static int on_boolean(void *ctx, int value)
{
    return after(ctx, build_scalar(ctx, LK_JSON_BOOL, NULL, 0, value != 0));
}

static int on_number(void *ctx, const char *text, size_t len)
{
    return after(ctx, build_scalar(ctx, LK_JSON_NUMBER, text, len, false));
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
    return after(ctx, build_scalar(ctx, LK_JSON_STRING, (const char *)text, len, false));
}

static int on_key(void *ctx, const unsigned char *text, size_t len)
{
    return after(ctx, build_key(ctx, (const char *)text, len));
}

static int on_start_map(void *ctx)
{
    return after(ctx, build_start(ctx, LK_JSON_OBJECT));
}

static int on_start_array(void *ctx)
{
    return after(ctx, build_start(ctx, LK_JSON_ARRAY));
}

static int on_end(void *ctx)
{
    return after(ctx, build_end(ctx));
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end,
};

/* ---- Documents and walks ---- */

enum lk_status lk_json_parse(const char *name, const char *text, size_t size,
                             struct lk_json_doc **out)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc *doc = NULL;
    struct builder b = {.parser = {.name = name, .callbacks = &callbacks}};

    LK_TRY(lk_alloc(&doc, 1, sizeof *doc));
    LK_TRY(lk_strdup(&doc->name, name));
    b.doc = doc;
    LK_TRY(lk_json_parser_text(&b.parser, text, size));
    *out = doc;
    doc = NULL;
out:
    lk_json_free(doc);
    return st;
}

enum lk_status lk_json_load(const char *path, struct lk_json_doc **out)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t size;

    LK_TRY(lk_file_read(path, &text, &size));
    LK_TRY(lk_json_parse(path, text, size, out));
out:
    free(text);
    return st;
}

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

enum lk_status lk_json_inherit(struct lk_json *obj, struct lk_json *base)
{
    enum lk_status st = LK_OK;
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
            LK_TRY(lk_json_inherit(ours, theirs));
    }
    obj->items = items;
    obj->n_items = n;
out:
    return st;
}

enum lk_status lk_json_read_text(const char *name, const char *text, size_t size,
                                 enum lk_status (*read)(struct lk_json *root, void *ctx), void *ctx)
{
    struct lk_json_doc *doc = NULL;
    enum lk_status st = lk_json_parse(name, text, size, &doc);

    if (st == LK_OK)
        st = read(lk_json_root(doc), ctx);
    lk_json_free(doc);
    return st;
}

enum lk_status lk_json_walk(const char *path, const struct lk_json_walk *walk, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc doc = {0};
    struct builder b = {.parser = {.name = path, .callbacks = &callbacks},
                        .doc = &doc,
                        .walk = walk,
                        .walk_ctx = ctx};

    LK_TRY(lk_strdup(&doc.name, path));
    LK_TRY(lk_json_parser_file(&b.parser));
out:
    for (size_t i = 0; i < b.n_root_keys; i++)
        free(b.root_keys[i]);
    free(b.root_keys);
    arena_fini(&doc.arena);
    free(doc.name);
    return st;
}
