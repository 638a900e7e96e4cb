/*
 * Define the values of a JSON document, the arena that they lie in, and the parser, all of which
 * base/json.h hides. For base/json*.c only.
 */
#ifndef LK_BASE_JSON_NODE_H
#define LK_BASE_JSON_NODE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <yajl/yajl_parse.h>

enum { LK_JSON_DEPTH_MAX = 64 }; /* nested arrays and objects */

struct lk_arena_chunk;
struct lk_arena {
    struct lk_arena_chunk *chunks; /* the newest first */
    size_t used;                   /* bytes of the newest */
};
/* Return size bytes, aligned for any type, that live as long as the document; NULL: no memory. */
void *lk_arena_take(struct lk_arena *a, size_t size);

/* A key that a reader asked for and did not find: what a misspelt key may have meant. */
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

/* One parse. name and callbacks are set by the caller, the rest is zero. The callbacks get the
 * parser. */
struct lk_json_parser {
    const char *name;
    const yajl_callbacks *callbacks;
    yajl_handle yajl;           /* set by lk_json_parser_text and _file, as are the next four */
    const unsigned char *chunk; /* the bytes that yajl is parsing; borrowed */
    size_t chunk_size;
    size_t counted;    /* bytes of the chunk whose newlines are in `line` */
    size_t line;       /* from 1 */
    int depth;         /* arrays and objects that are open; the callbacks count it */
    enum lk_status st; /* of the callback that stopped the parse */
    bool located;      /* that callback's error text has file and line already */
    bool begun;        /* the first chunk, where a byte order mark is skipped, is past */
};
/* Return the line, from 1, of the token that a callback is called for. */
size_t lk_json_parser_line(struct lk_json_parser *p);
/* Parse a text, or the file that p->name names (gzip or plain). */
enum lk_status lk_json_parser_text(struct lk_json_parser *p, const char *text, size_t size);
enum lk_status lk_json_parser_file(struct lk_json_parser *p);

/* Return "an object", "a number", ... for messages. */
const char *lk_json_type_text(enum lk_json_type t);

#endif
