/*
 * Define a value of a JSON document and the arena that values lie in, which base/json.h hides. For
 * base/json*.c only: json_tree.c parses (texts and words: json_text.c), json.c reads values,
 * json_out.c writes.
 */
#ifndef LK_BASE_JSON_NODE_H
#define LK_BASE_JSON_NODE_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

enum { LK_JSON_DEPTH_MAX = 64 }; /* nested arrays and objects */

struct lk_arena_chunk;
struct lk_arena {
    struct lk_arena_chunk *chunks; /* the newest first */
    size_t used;                   /* bytes of the newest */
};
/* Return size bytes, aligned for any type, that live as long as the arena; NULL, with an
 * error text: no memory. */
void *lk_arena_take(struct lk_arena *a, size_t size);

/* A key in a list: one that a reader asked for and did not find, and that a misspelt key may have
 * meant. */
struct lk_json_wish {
    const char *key;
    struct lk_json_wish *next;
};

/* A value of a document; its texts and items lie in the arena. */
struct lk_json {
    struct lk_json_doc *doc;
    struct lk_json *parent; /* NULL: the root */
    const char *key;        /* in the parent; NULL in an array and at the root */
    size_t index;           /* in the parent */
    size_t line;            /* where the value ends or, of objects and arrays, begins */
    enum lk_json_type type;
    bool used;              /* a reader has read it (lk_json_end) */
    bool boolean;           /* the value of a boolean */
    const char *text;       /* of strings and numbers */
    struct lk_json **items; /* of arrays and objects */
    size_t n_items;
    struct lk_json *first, *last, *next; /* while parsing: children of a container, its siblings */
    struct lk_json_wish *wishes;         /* of an object, the newest first */
};

struct lk_json_doc {
    char *name; /* of the file, for errors; owned */
    struct lk_arena arena;
    struct lk_json *root;
};

/* Return "an object", "a number", ... for messages. */
const char *lk_json_type_text(enum lk_json_type t);
/* Write the path of v, or of its member `key` (NULL: v itself), as "a.b[3].c" to buf, cut at the
 * front when it is too long. Return its start. v may be NULL: the root. */
const char *lk_json_path(const struct lk_json *v, const char *key, char *buf, size_t size);

/* ---- json_text.c ---- */

/* Tell the type of a word; false: it is no JSON. */
bool lk_json_word(const char *text, size_t n, enum lk_json_type *type);
/* Write a text without its escapes, at most n bytes and a NUL, to out. Return what is wrong with
 * it; NULL: nothing. pre: a quote is behind the text. */
const char *lk_json_decode(const char *text, size_t n, char *out);

#endif
