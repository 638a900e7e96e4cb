/*
 * Inside of base/json.h: the values of a document, the arena that they lie in, and the parser. For
 * base/json*.c only.
 */
#ifndef LK_BASE_JSON_NODE_H
#define LK_BASE_JSON_NODE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <yajl/yajl_parse.h>

enum { LK_JSON_DEPTH_MAX = 64 };

struct lk_arena_chunk;
struct lk_arena {
    struct lk_arena_chunk *chunks; /* the newest first */
    size_t used;                   /* of the newest */
};
/* size bytes, aligned for any type; freed by lk_arena_fini. NULL: out of memory. */
void *lk_arena_take(struct lk_arena *a, size_t size);
/* Frees everything taken so far, and keeps one chunk for the next takes. */
void lk_arena_reset(struct lk_arena *a);
void lk_arena_fini(struct lk_arena *a);

/* A key that a reader asked for and did not find: what a misspelt key may have meant. */
struct lk_json_wish {
    const char *key;
    struct lk_json_wish *next;
};

struct lk_json {
    struct lk_json_doc *doc;
    struct lk_json *parent; /* NULL: the root */
    const char *key;        /* in the parent; NULL in an array and at the root */
    size_t index;           /* in the parent */
    size_t line;            /* where the value ends or, of objects and arrays, begins */
    enum lk_json_type type;
    bool used;
    bool boolean;
    const char *text;       /* of strings and numbers */
    struct lk_json **items; /* of arrays and objects */
    size_t n_items;
    struct lk_json *first, *last, *next; /* while parsing: children of a container, its siblings */
    struct lk_json_wish *wishes;
};

struct lk_json_doc {
    char *name;
    struct lk_arena arena;
    struct lk_json *root;
};

/* One parse. name, events and ctx are set by the caller, the rest is zero. */
struct lk_json_parser {
    const char *name;
    const struct lk_json_events *events;
    void *ctx;
    yajl_handle yajl; /* set by the two below */
    const unsigned char *chunk;
    size_t chunk_size;
    size_t counted; /* of the chunk, bytes whose newlines are in `line` */
    size_t line;
    int depth;
    enum lk_status st; /* of the hook that stopped the parse */
    bool located;      /* its text has file and line already */
    bool begun;        /* the first chunk is past: a byte order mark before it is skipped */
};
/* The line of the token that is being reported. */
size_t lk_json_parser_line(struct lk_json_parser *p);
/* Parses a text, or the file that p->name names. */
enum lk_status lk_json_parser_text(struct lk_json_parser *p, const char *text, size_t size);
enum lk_status lk_json_parser_file(struct lk_json_parser *p);

/* LK_EPARSE with file, line and key path; key: a member of v that the error is about, or NULL. */
#define lk_json_fail_at(...) lk_failed_(lk_json_fail_at_(__VA_ARGS__))
enum lk_status lk_json_fail_at_(const struct lk_json *v, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* LK_EPARSE unless v is of the type. */
enum lk_status lk_json_expect(const struct lk_json *v, enum lk_json_type type);

/* "an object", "a number", ... for messages. */
const char *lk_json_type_text(enum lk_json_type t);

#endif
