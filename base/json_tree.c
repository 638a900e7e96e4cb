/*
 * Parse JSON to trees of values, and walk over one large array. Divisions: the arena that values
 * lie in, values, tokens, documents and walks.
 */
#include "base/json.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json_node.h"
#include "base/json_scan.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Values ---- */

/* Up to here comparing all pairs of keys is cheaper than sorting. */
enum { SMALL_OBJECT = 16 };

/* As much of a token stands in a message. */
enum { SHOWN = 40 };

/* The parser expects one of these next. */
enum expected { VALUE, VALUE_OR_CLOSE, KEY, KEY_OR_CLOSE, COLON, COMMA_OR_CLOSE, NOTHING };

/*
 * Makes values of tokens. With a walk, the root and its one large array live outside the arena, and
 * everything in the arena is given back once a hook has seen it.
 */
struct builder {
    struct lk_scan scan;
    enum expected expected;
    struct lk_json_doc *doc;
    struct lk_json *open; /* the innermost container */
    const char *key;      /* of the next value */
    const struct lk_json_walk *walk;
    void *walk_ctx;
    struct lk_json root, array; /* of a walk */
    struct lk_arena keys_arena; /* of a walk: the root's keys outlive the document's arena */
    struct lk_json_wish *root_keys;
};

/* Fail for what is at the scanner: file, line, the key of the next value, and the text. */
static enum lk_status fail_here(const struct builder *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static enum lk_status fail_here(const struct builder *b, const char *fmt, ...)
{
    char text[256], path[256];
    const char *where = lk_json_path(b->open, b->key, path, sizeof path);
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof text, fmt, ap) < 0)
        *text = '\0';
    va_end(ap);
    return lk_fail(LK_EPARSE, "%s:%zu: %s%s%s", b->doc->name, b->scan.line, where,
                   *where ? ": " : "", text);
}

/* Copy the text at the scanner, without its escapes. */
static enum lk_status copy_text(const struct builder *b, struct lk_arena *a, const char **out)
{
    const struct lk_slice *v = &b->scan.slice;
    char *p = lk_arena_take(a, v->n + 1);
    const char *wrong;

    if (!p)
        return LK_ENOMEM;
    wrong = lk_json_decode(lk_scan_at(&b->scan, v), v->n, p);
    if (wrong)
        return fail_here(b, "%s", wrong);
    *out = p;
    return LK_OK;
}

/* Sets what every value has and counts it in its container. */
static void place(struct builder *b, struct lk_json *v, enum lk_json_type type)
{
    struct lk_json *parent = b->open;

    *v = (struct lk_json){
        .doc = b->doc, .parent = parent, .key = b->key, .line = b->scan.line, .type = type};
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
        return lk_json_error(v, "expected an object, got %s", lk_json_type_text(v->type));
    if (v->parent == &b->array) {
        LK_PASS(b->walk->item(b->walk_ctx, v));
    } else if (v->parent == &b->root) {
        if (!strcmp(v->key, b->walk->array))
            return lk_json_error(v, "expected an array, got %s", lk_json_type_text(v->type));
        LK_PASS(b->walk->member(b->walk_ctx, v->key, v));
    } else {
        return LK_OK;
    }
    arena_reset(&b->doc->arena);
    return LK_OK;
}

static enum lk_status build_string(struct builder *b)
{
    const char *text = NULL;
    struct lk_json *v;

    LK_PASS(copy_text(b, &b->doc->arena, &text));
    v = make(b, LK_JSON_STRING);
    if (!v)
        return LK_ENOMEM;
    v->text = text;
    return complete(b, v);
}

static enum lk_status build_word(struct builder *b)
{
    const struct lk_slice *word = &b->scan.slice;
    const char *text = lk_scan_at(&b->scan, word);
    enum lk_json_type type;
    struct lk_json *v;
    char *copy;

    if (!lk_json_word(text, word->n, &type))
        return fail_here(b,
                         "'%.*s' is no value: JSON has numbers, strings in double quotes, true, "
                         "false and null",
                         word->n < SHOWN ? (int)word->n : SHOWN, text);
    v = make(b, type);
    copy = v ? lk_arena_take(&b->doc->arena, word->n + 1) : NULL;
    if (!copy)
        return LK_ENOMEM;
    memcpy(copy, text, word->n);
    copy[word->n] = '\0';
    v->boolean = *text == 't';
    v->text = type == LK_JSON_NUMBER ? copy : NULL;
    return complete(b, v);
}

/* Keep a key of the root of a walk; a duplicate is an error, as find_duplicate's in other objects.
 */
static enum lk_status root_key(struct builder *b)
{
    struct lk_json_wish *k = lk_arena_take(&b->keys_arena, sizeof *k);

    if (!k)
        return LK_ENOMEM;
    LK_PASS(copy_text(b, &b->keys_arena, &k->key));
    b->key = k->key;
    for (const struct lk_json_wish *other = b->root_keys; other; other = other->next)
        if (!strcmp(other->key, k->key))
            return fail_here(b, "duplicate key");
    k->next = b->root_keys;
    b->root_keys = k;
    return LK_OK;
}

static enum lk_status build_key(struct builder *b)
{
    return b->open == &b->root ? root_key(b) : copy_text(b, &b->doc->arena, &b->key);
}

static enum lk_status build_start(struct builder *b, enum lk_json_type type)
{
    struct lk_json *v;

    if (b->scan.depth > LK_JSON_DEPTH_MAX)
        return lk_fail(LK_EPARSE, "%s:%zu: nested deeper than %d", b->doc->name, b->scan.line,
                       LK_JSON_DEPTH_MAX);
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
        return lk_json_error(twice, "duplicate key");
    return complete(b, v);
}

/* ---- Tokens ---- */

/* Say what was expected, and what came. */
static enum lk_status fail_token(const struct builder *b, enum lk_scan_token token)
{
    static const char *const texts[] = {
        [VALUE] = "a value",
        [VALUE_OR_CLOSE] = "a value or ']'",
        [KEY] = "a key in double quotes",
        [KEY_OR_CLOSE] = "a key in double quotes or '}'",
        [COLON] = "':' and a value",
        [COMMA_OR_CLOSE] = "',' or ']'",
        [NOTHING] = "nothing behind the value",
    };
    const char *expected = b->expected == COMMA_OR_CLOSE && b->open->type == LK_JSON_OBJECT
                               ? "',' or '}'"
                               : texts[b->expected];
    const struct lk_slice *v = &b->scan.slice;

    if (token == LK_SCAN_END)
        return fail_here(b, "the text ends too early: expected %s", expected);
    return fail_here(b, "expected %s, got %s%.*s%s", expected, token == LK_SCAN_TEXT ? "\"" : "'",
                     v->n < SHOWN ? (int)v->n : SHOWN, lk_scan_at(&b->scan, v),
                     token == LK_SCAN_TEXT ? "\"" : "'");
}

/* Take a token where it may be; else it is an error. */
static enum lk_status take_token(struct builder *b, enum lk_scan_token token)
{
    const bool value = b->expected == VALUE || b->expected == VALUE_OR_CLOSE;
    const bool close = b->expected == VALUE_OR_CLOSE || b->expected == KEY_OR_CLOSE ||
                       b->expected == COMMA_OR_CLOSE;
    const bool object = b->open && b->open->type == LK_JSON_OBJECT;

    if (value && (token == LK_SCAN_OBJECT || token == LK_SCAN_ARRAY)) {
        b->expected = token == LK_SCAN_OBJECT ? KEY_OR_CLOSE : VALUE_OR_CLOSE;
        return build_start(b, token == LK_SCAN_OBJECT ? LK_JSON_OBJECT : LK_JSON_ARRAY);
    }
    if ((b->expected == KEY || b->expected == KEY_OR_CLOSE) && token == LK_SCAN_TEXT) {
        b->expected = COLON;
        return build_key(b);
    }
    if (b->expected == COLON && token == LK_SCAN_COLON) {
        b->expected = VALUE;
        return LK_OK;
    }
    if (b->expected == COMMA_OR_CLOSE && token == LK_SCAN_COMMA) {
        b->expected = object ? KEY : VALUE;
        return LK_OK;
    }
    if (close && token == LK_SCAN_CLOSE &&
        *lk_scan_at(&b->scan, &b->scan.slice) == (object ? '}' : ']'))
        LK_PASS(build_end(b));
    else if (value && token == LK_SCAN_TEXT)
        LK_PASS(build_string(b));
    else if (value && token == LK_SCAN_WORD)
        LK_PASS(build_word(b));
    else
        return fail_token(b, token);
    b->expected = b->open ? COMMA_OR_CLOSE : NOTHING;
    return LK_OK;
}

/* The file has been read to where it ends, or is damaged. */
static enum lk_status finish(struct builder *b)
{
    const char *damage = lk_scan_damage(&b->scan);

    if (damage)
        return lk_fail(LK_EIO, "%s:%zu: %s", b->doc->name, b->scan.line, damage);
    LK_PASS(lk_scan_status(&b->scan));
    if (b->expected != NOTHING)
        return fail_token(b, LK_SCAN_END);
    return b->scan.cut ? fail_here(b, "a comment or string behind the value has no end") : LK_OK;
}

static enum lk_status build(struct builder *b)
{
    enum lk_scan_token token;

    lk_scan_strict(&b->scan);
    while ((token = lk_scan_next(&b->scan)) != LK_SCAN_END) {
        if (b->scan.n_lost)
            return fail_here(b, "a string of more than %d MiB", LK_SCAN_PINNED_MAX >> 20);
        LK_PASS(take_token(b, token));
    }
    return finish(b);
}

/* ---- Documents and walks ---- */

enum lk_status lk_json_parse(const char *name, const char *text, size_t size,
                             struct lk_json_doc **out)
{
    enum lk_status st = LK_OK;
    struct lk_json_doc *doc = NULL;
    struct builder b = {0};

    LK_TRY(lk_alloc(&doc, 1, sizeof *doc));
    LK_TRY(lk_strdup(&doc->name, name));
    b.doc = doc;
    lk_scan_memory(&b.scan, text, size);
    LK_TRY(build(&b));
    LK_HAND_OVER(out, doc);
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
    struct builder b = {.doc = &doc, .walk = walk, .walk_ctx = ctx};

    LK_TRY(lk_strdup(&doc.name, path));
    LK_TRY(lk_scan_open(&b.scan, path));
    LK_TRY(build(&b));
out:
    lk_scan_close(&b.scan);
    arena_fini(&b.keys_arena);
    arena_fini(&doc.arena);
    free(doc.name);
    return st;
}
