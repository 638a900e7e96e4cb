/*
 * Parse JSON to trees of values, and walk over one large array. Divisions: the arena that values
 * lie in, parsing with yajl, its events to values, documents and walks.
 */
#include "base/json.h"

#include "base/array.h"
#include "base/file.h"
#include "base/gz.h"
#include "base/json_node.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* ---- Arena ---- */

/* A chunk holds at least this much, so that small documents take one allocation. */
enum { ARENA_BYTES = 16 * 1024 };

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

    size = (size + align - 1) / align * align;
    if (!c || c->size - a->used < size) {
        size_t room = size > ARENA_BYTES ? size : ARENA_BYTES;

        if (lk_alloc(&c, 1, sizeof *c + room) != LK_OK)
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

/* ---- Parsing with yajl: chunks, lines, errors ---- */

enum { CHUNK_BYTES = 1 << 16 };

static const yajl_callbacks callbacks; /* below: they make values of events */

/* One parse. The caller sets name, the rest is zero. */
struct parser {
    const char *name;
    yajl_handle yajl;           /* its callbacks get the parser */
    const unsigned char *chunk; /* the bytes that yajl is parsing; borrowed */
    size_t chunk_size;
    size_t counted;    /* bytes of the chunk whose newlines are in `line` */
    size_t line;       /* from 1 */
    int depth;         /* arrays and objects that are open; the callbacks count it */
    enum lk_status st; /* of the callback that stopped the parse */
    bool located;      /* that callback's error text has file and line already */
    bool begun;        /* the first chunk, where a byte order mark is skipped, is past */
};
/* Return the line, from 1, of the token that a callback is called for. Newlines are counted once,
 * in steps. */
static size_t parser_line(struct parser *p)
{
    size_t at = yajl_get_bytes_consumed(p->yajl);

    if (at > p->chunk_size)
        at = p->chunk_size;
    while (p->counted < at) {
        const unsigned char *from = p->chunk + p->counted;
        const unsigned char *newline = memchr(from, '\n', at - p->counted);

        if (!newline) {
            p->counted = at;
            break;
        }
        p->line++;
        p->counted += (size_t)(newline - from) + 1;
    }
    return p->line;
}

static enum lk_status parser_open(struct parser *p)
{
    p->line = 1;
    p->yajl = yajl_alloc(&callbacks, NULL, p);
    if (!p->yajl)
        return lk_fail(LK_ENOMEM, "%s: cannot start yajl", p->name);
    if (!yajl_config(p->yajl, yajl_allow_comments, 1))
        return lk_fail(LK_EINTERNAL, "yajl knows no comments");
    return LK_OK;
}

static void parser_close(struct parser *p)
{
    if (p->yajl)
        yajl_free(p->yajl);
}

/* Turns yajl's answer into a status with file and line. */
static enum lk_status parser_status(struct parser *p, yajl_status answer)
{
    unsigned char *text;
    size_t line;

    if (answer == yajl_status_ok)
        return LK_OK;
    line = parser_line(p);
    if (answer == yajl_status_client_canceled && p->located)
        return p->st;
    if (answer == yajl_status_client_canceled)
        return lk_fail_context(p->st, "%s:%zu", p->name, line);
    text = yajl_get_error(p->yajl, 0, NULL, 0);
    lk_fail(LK_EPARSE, "%s:%zu: %.*s", p->name, line, text ? (int)strcspn((char *)text, "\n") : 0,
            text ? (char *)text : "");
    if (text)
        yajl_free_error(p->yajl, text);
    return LK_EPARSE;
}

/* pre: the chunk stays until the next call. */
static enum lk_status parser_feed(struct parser *p, const void *data, size_t size)
{
    static const char mark[] = "\xEF\xBB\xBF";
    const char *text = data;
    enum lk_status st;

    if (!p->begun && size >= sizeof mark - 1 && !memcmp(text, mark, sizeof mark - 1)) {
        text += sizeof mark - 1;
        size -= sizeof mark - 1;
    }
    p->begun = true;
    p->chunk = (const unsigned char *)text;
    p->chunk_size = size;
    p->counted = 0;
    st = parser_status(p, yajl_parse(p->yajl, p->chunk, size));
    if (st == LK_OK)
        (void)parser_line(p);
    return st;
}

static enum lk_status parser_finish(struct parser *p)
{
    p->chunk_size = 0;
    p->counted = 0;
    return parser_status(p, yajl_complete_parse(p->yajl));
}

/* The rest of an open file, chunk by chunk. */
static enum lk_status feed_all(struct parser *p, gzFile f, char *chunk)
{
    int code;
    int n;

    while ((n = gzread(f, chunk, CHUNK_BYTES)) > 0)
        LK_PASS(parser_feed(p, chunk, (size_t)n));
    /* A gzip stream that ends too early gives what there is, and the error stays behind. */
    (void)gzerror(f, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        return lk_fail(LK_EIO, "%s:%zu: %s", p->name, p->line,
                       code == Z_ERRNO       ? strerror(errno)
                       : code == Z_BUF_ERROR ? "the gzip data end too early"
                                             : "damaged gzip data");
    return parser_finish(p);
}

/* Parse the file that p->name names (gzip or plain). */
static enum lk_status parse_file(struct parser *p)
{
    enum lk_status st = LK_OK;
    char *chunk = NULL;
    gzFile f = NULL;

    LK_TRY(lk_gz_open(p->name, &f));
    LK_TRY(lk_alloc(&chunk, CHUNK_BYTES, 1));
    LK_TRY(parser_open(p));
    LK_TRY(feed_all(p, f, chunk));
out:
    parser_close(p);
    free(chunk);
    if (f)
        (void)gzclose_r(f);
    return st;
}

static enum lk_status parse_text(struct parser *p, const char *text, size_t size)
{
    enum lk_status st = LK_OK;

    LK_TRY(parser_open(p));
    LK_TRY(parser_feed(p, text, size));
    LK_TRY(parser_finish(p));
out:
    parser_close(p);
    return st;
}

/* ---- Events to values ---- */

/* Up to here comparing all pairs of keys is cheaper than sorting. */
enum { SMALL_OBJECT = 16 };

/*
 * Events to values. With a walk, the root and its one large array live outside the arena, and
 * everything in the arena is given back once a hook has seen it.
 */
struct builder {
    struct parser parser; /* first: callbacks get its address */
    struct lk_json_doc *doc;
    struct lk_json *open; /* the innermost container */
    const char *key;      /* of the next value */
    const struct lk_json_walk *walk;
    void *walk_ctx;
    struct lk_json root, array; /* of a walk */
    struct lk_arena keys_arena; /* of a walk: the root's keys outlive the document's arena */
    struct lk_json_wish *root_keys;
};

static enum lk_status located(struct builder *b, enum lk_status st)
{
    if (st != LK_OK)
        b->parser.located = true;
    return st;
}

static enum lk_status copy_text(struct lk_arena *a, const char *text, size_t len, const char **out)
{
    char *p;

    if (memchr(text, 0, len))
        return lk_fail(LK_EPARSE, "a string contains a NUL character");
    p = lk_arena_take(a, len + 1);
    if (!p)
        return LK_ENOMEM;
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
                          .line = parser_line(&b->parser),
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

    if (!v)
        return NULL;
    place(b, v, type);
    if (!b->doc->root)
        b->doc->root = v;
    return v;
}

/* A value is complete: gives it to the walk's hook when it is at the top. */
static enum lk_status complete(struct builder *b, struct lk_json *v)
{
    if (!b->walk)
        return LK_OK;
    if (!v->parent)
        return located(b,
                       lk_json_error(v, "expected an object, got %s", lk_json_type_text(v->type)));
    if (v->parent == &b->array) {
        LK_PASS(located(b, b->walk->item(b->walk_ctx, v)));
    } else if (v->parent == &b->root) {
        if (!strcmp(v->key, b->walk->array))
            return located(
                b, lk_json_error(v, "expected an array, got %s", lk_json_type_text(v->type)));
        LK_PASS(located(b, b->walk->member(b->walk_ctx, v->key, v)));
    } else {
        return LK_OK;
    }
    arena_reset(&b->doc->arena);
    return LK_OK;
}

static enum lk_status build_scalar(struct builder *b, enum lk_json_type type, const char *text,
                                   size_t len, bool boolean)
{
    struct lk_json *v = make(b, type);

    if (!v)
        return LK_ENOMEM;
    v->boolean = boolean;
    if (text)
        LK_PASS(copy_text(&b->doc->arena, text, len, &v->text));
    return complete(b, v);
}

/* Keep a key of the root of a walk; a duplicate is an error, as find_duplicate's in other objects.
 */
static enum lk_status root_key(struct builder *b, const char *text, size_t len)
{
    struct lk_json_wish *k = lk_arena_take(&b->keys_arena, sizeof *k);

    if (!k)
        return LK_ENOMEM;
    LK_PASS(copy_text(&b->keys_arena, text, len, &k->key));
    for (const struct lk_json_wish *other = b->root_keys; other; other = other->next)
        if (!strcmp(other->key, k->key))
            return lk_fail(LK_EPARSE, "%s: duplicate key", k->key);
    k->next = b->root_keys;
    b->root_keys = k;
    b->key = k->key;
    return LK_OK;
}

static enum lk_status build_key(struct builder *b, const char *text, size_t len)
{
    if (b->open == &b->root)
        return root_key(b, text, len);
    return copy_text(&b->doc->arena, text, len, &b->key);
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
    struct lk_json *v = b->open;
    struct lk_json *twice = NULL;
    size_t n = 0;

    b->parser.depth--;
    b->open = v->parent;
    if (v == &b->root || v == &b->array)
        return LK_OK;
    v->items = lk_arena_take(&b->doc->arena, v->n_items * sizeof(struct lk_json *));
    if (!v->items)
        return LK_ENOMEM;
    for (struct lk_json *c = v->first; c; c = c->next)
        v->items[n++] = c;
    if (v->type == LK_JSON_OBJECT)
        LK_PASS(find_duplicate(v, &twice));
    if (twice)
        return located(b, lk_json_error(twice, "duplicate key"));
    return complete(b, v);
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
    struct builder b = {.parser = {.name = name}};

    LK_TRY(lk_alloc(&doc, 1, sizeof *doc));
    LK_TRY(lk_strdup(&doc->name, name));
    b.doc = doc;
    LK_TRY(parse_text(&b.parser, text, size));
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

enum lk_status lk_json_walk(const char *path, const struct lk_json_walk *walk, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc doc = {0};
    struct builder b = {.parser = {.name = path}, .doc = &doc, .walk = walk, .walk_ctx = ctx};

    LK_TRY(lk_strdup(&doc.name, path));
    LK_TRY(parse_file(&b.parser));
out:
    arena_fini(&b.keys_arena);
    arena_fini(&doc.arena);
    free(doc.name);
    return st;
}
