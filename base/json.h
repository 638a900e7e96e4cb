/*
 * JSON in and out, on yajl. `//` and slash-star comments are read, and a UTF-8 byte order mark is
 * skipped. Every error names file, line and key path:
 * "cluster.json:14: collectives[3].bytes: expected a number, got a string".
 *
 * Small documents are read into a tree. Reading a member marks it as used, and lk_json_end fails on
 * members that nobody read: a typo must not be ignored.
 *
 *     const struct lk_json *o = lk_json_root(doc);
 *     LK_TRY(lk_json_text(o, "name", &name));
 *     LK_TRY(lk_json_end(o));
 *
 * Large documents (traces) are streamed: lk_json_stream.
 */
#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_json_type {
    LK_JSON_NULL,
    LK_JSON_BOOL,
    LK_JSON_NUMBER,
    LK_JSON_STRING,
    LK_JSON_ARRAY,
    LK_JSON_OBJECT
};

struct lk_json; /* one value; belongs to its document */
struct lk_json_doc;

/* Reads a file (gzip or plain). LK_EPARSE has file, line and yajl's text. Depth is at most 64. */
enum lk_status lk_json_load(const char *path, struct lk_json_doc **out);
/* Parses text; `name` stands for the file in errors. */
enum lk_status lk_json_parse(const char *name, const char *text, size_t size,
                             struct lk_json_doc **out);
void lk_json_free(struct lk_json_doc *doc); /* NULL is legal */
/* Loads, calls read with the root, frees: for files that become a struct (ctx). */
enum lk_status lk_json_read(const char *path,
                            enum lk_status (*read)(struct lk_json *root, void *ctx), void *ctx);

struct lk_json *lk_json_root(struct lk_json_doc *doc);
enum lk_json_type lk_json_type(const struct lk_json *v);
/* The line of the file, from 1, where the value ends or, of objects and arrays, begins. */
size_t lk_json_line(const struct lk_json *v);

/* Required members of an object, with type check. Strings belong to the document. */
enum lk_status lk_json_text(struct lk_json *obj, const char *key, const char **out);
enum lk_status lk_json_int(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                           int64_t *out);
enum lk_status lk_json_number(struct lk_json *obj, const char *key, double *out);
/* The same, but null gives NaN, as lk_json_out_number writes it. */
enum lk_status lk_json_number_or_null(struct lk_json *obj, const char *key, double *out);
/* pre: min and max fit an int. */
enum lk_status lk_json_int32(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                             int *out);
/* A copy of a string member, freed by the caller with free(). */
enum lk_status lk_json_text_copy(struct lk_json *obj, const char *key, char **out);
/* Up to all 64 bits. */
enum lk_status lk_json_uint(struct lk_json *obj, const char *key, uint64_t max, uint64_t *out);
enum lk_status lk_json_bool(struct lk_json *obj, const char *key, bool *out);
/* A text that is one of n words; *out is its index. LK_EPARSE suggests the nearest. */
enum lk_status lk_json_choice(struct lk_json *obj, const char *key, const char *const *words,
                              size_t n, int *out);
/* The same members when they may be absent or null: then *out stays as it is. */
enum lk_status lk_json_bool_optional(struct lk_json *obj, const char *key, bool *out);
enum lk_status lk_json_int32_optional(struct lk_json *obj, const char *key, int64_t min,
                                      int64_t max, int *out);
enum lk_status lk_json_choice_optional(struct lk_json *obj, const char *key,
                                       const char *const *words, size_t n, int *out);
enum lk_status lk_json_array(struct lk_json *obj, const char *key, struct lk_json **out);
enum lk_status lk_json_object(struct lk_json *obj, const char *key, struct lk_json **out);
/* The member, marked as used, or NULL when it is absent or null. Never fails. pre: key outlives the
 * document (a literal): lk_json_end suggests it for a misspelt one. */
struct lk_json *lk_json_optional(struct lk_json *obj, const char *key);
/* Fails on the first member that was not read. */
enum lk_status lk_json_end(struct lk_json *obj);

/* What a list member may be: absent, null or empty; there but empty; not empty. */
enum lk_json_need { LK_JSON_OPTIONAL, LK_JSON_REQUIRED, LK_JSON_FILLED };
/*
 * The items of a list member as structs of `size` bytes: allocates *(void **)items, zeroed, and
 * calls read for one after the other. *n counts those begun, so that the owner of the list frees
 * what a failure left half read. An absent list leaves both alone.
 */
enum lk_status lk_json_items(struct lk_json *obj, const char *key, enum lk_json_need need,
                             enum lk_status (*read)(struct lk_json *v, void *item), void *items,
                             size_t size, size_t *n);

size_t lk_json_count(const struct lk_json *array_or_object);
/* Item i of an array, or NULL past its end. */
struct lk_json *lk_json_item(struct lk_json *array, size_t i);
/* Key and value i of an object (marks it used); NULL past its end. */
struct lk_json *lk_json_member(struct lk_json *obj, size_t i, const char **out_key);
/* The value itself, with type check. */
enum lk_status lk_json_as_text(struct lk_json *v, const char **out);
enum lk_status lk_json_as_number(struct lk_json *v, double *out);
enum lk_status lk_json_as_int(struct lk_json *v, int64_t min, int64_t max, int64_t *out);
enum lk_status lk_json_as_uint(struct lk_json *v, uint64_t max, uint64_t *out);
/*
 * The number times 10^places, exactly and never through a double: microseconds with three decimals
 * as ns. LK_EPARSE for exponents, further decimals that are not 0, and what 64 bits cannot hold.
 */
enum lk_status lk_json_as_fixed(struct lk_json *v, int places, int64_t *out);
/* The same for a number of a stream; false instead of LK_EPARSE. */
bool lk_json_fixed(const char *text, size_t len, int places, int64_t *out);

/* "file:line: key.path: " + printf text, as LK_EPARSE: for errors of meaning found by a reader. */
#define lk_json_error(...) lk_failed_(lk_json_error_(__VA_ARGS__))
enum lk_status lk_json_error_(const struct lk_json *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * A failure that came from the value of obj's member `key`, e.g. of a function that knows names:
 * puts file, line and key before its text. LK_OK stays LK_OK.
 */
enum lk_status lk_json_blame(struct lk_json *obj, const char *key, enum lk_status st);

/*
 * Checks the "schema" and "version" members of a file of ours. A newer version is an error that
 * says so.
 */
enum lk_status lk_json_schema(struct lk_json *root, const char *schema, int version);

/* ---- Streaming ---- */

/*
 * Any hook may return a failure, which stops the parse and is returned; a hook may be NULL. Texts
 * are not NUL-terminated and last for the call. Numbers come as text.
 */
struct lk_json_events {
    enum lk_status (*start_object)(void *ctx);
    enum lk_status (*end_object)(void *ctx);
    enum lk_status (*start_array)(void *ctx);
    enum lk_status (*end_array)(void *ctx);
    enum lk_status (*key)(void *ctx, const char *text, size_t len);
    enum lk_status (*string)(void *ctx, const char *text, size_t len);
    enum lk_status (*number)(void *ctx, const char *text, size_t len);
    enum lk_status (*boolean)(void *ctx, bool value);
    enum lk_status (*null)(void *ctx);
};
/* Parses a file (gzip or plain) in bounded memory. An error gets "file:line: " in front. */
enum lk_status lk_json_stream(const char *path, const struct lk_json_events *events, void *ctx);

/*
 * A file that is an object with one large array (a trace): the items of that array and the other
 * members of the root come one by one as values, each valid during its hook alone. Memory is that
 * of the largest value. Errors are as for documents: file, line and key path. A file without the
 * array is no error.
 */
struct lk_json_walk {
    const char *array; /* its key in the root */
    enum lk_status (*item)(void *ctx, struct lk_json *v);
    enum lk_status (*member)(void *ctx, const char *key, struct lk_json *v);
};
enum lk_status lk_json_walk(const char *path, const struct lk_json_walk *walk, void *ctx);

/* ---- Writing ---- */

/*
 * Writes through a lk_writer, pretty-printed with two spaces. Numbers with as
 * many digits (15 to 17) as reading back exactly takes, NaN and infinity as null. Bytes of a text
 * that are no UTF-8 become U+FFFD. key is NULL inside arrays. Errors stick: only lk_json_out_end
 * has to be checked.
 */
struct lk_json_out;
enum lk_status lk_json_out_begin(struct lk_writer *w, struct lk_json_out **out);
void lk_json_out_object(struct lk_json_out *o, const char *key);
void lk_json_out_array(struct lk_json_out *o, const char *key);
void lk_json_out_close(struct lk_json_out *o); /* the innermost open object or array */
void lk_json_out_text(struct lk_json_out *o, const char *key, const char *v);
void lk_json_out_number(struct lk_json_out *o, const char *key, double v);
void lk_json_out_int(struct lk_json_out *o, const char *key, int64_t v);
void lk_json_out_uint(struct lk_json_out *o, const char *key, uint64_t v);
void lk_json_out_bool(struct lk_json_out *o, const char *key, bool v);
void lk_json_out_null(struct lk_json_out *o, const char *key);
/* A number that the caller formatted, e.g. a decimal with three places; at most 63 characters. */
void lk_json_out_raw(struct lk_json_out *o, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The next object or array is written on one line: for rows of numbers. */
void lk_json_out_compact(struct lk_json_out *o);
/* Ends the document and frees o; the first error of any call above. Does not commit the writer. */
enum lk_status lk_json_out_end(struct lk_json_out *o);
/* A whole file: write puts its one value. As with every writer, all of it or nothing. */
enum lk_status lk_json_write(const char *path,
                             void (*write)(struct lk_json_out *o, const void *ctx),
                             const void *ctx);

#endif
