/*
 * Read and write JSON. `//` and slash-star comments are read. A UTF-8 byte order mark
 * is skipped. Every error names file, line and key path:
 * "cluster.json:14: collectives[3].bytes: expected a number, got a string".
 *
 * Small documents are read into a tree. Reading a member marks it as used, and lk_json_end fails on
 * members that nobody read: a typo must not be ignored.
 *
 *     struct lk_json *o = lk_json_root(doc);
 *     LK_TRY(lk_json_text(o, "name", &name));
 *     LK_TRY(lk_json_end(o));
 *
 * Large documents (traces) are read item by item: lk_json_walk. Structs are read by rows:
 * base/member.h.
 */
#ifndef LK_BASE_JSON_H
#define LK_BASE_JSON_H

#include "base/file.h"
#include "base/status.h"
#include "base/words.h"

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

/* Read a file (gzip or plain). LK_EPARSE has file, line and key. Depth is at most 64. */
enum lk_status lk_json_load(const char *path, struct lk_json_doc **out);
/* Parse text; `name` stands for the file in errors. */
enum lk_status lk_json_parse(const char *name, const char *text, size_t size,
                             struct lk_json_doc **out);
void lk_json_free(struct lk_json_doc *doc); /* NULL is legal */

/* Return the outermost value. */
struct lk_json *lk_json_root(struct lk_json_doc *doc);
enum lk_json_type lk_json_type(const struct lk_json *v);
/* Return the line of the file, from 1, where the value ends or, of objects and arrays, begins. */
size_t lk_json_line(const struct lk_json *v);

/* Read a required member of an object. LK_EPARSE when it is absent, of another type or outside
 * [min, max]. Strings belong to the document. */
enum lk_status lk_json_text(struct lk_json *obj, const char *key, const char **out);
enum lk_status lk_json_int(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                           int64_t *out);
enum lk_status lk_json_number(struct lk_json *obj, const char *key, double *out);
/* Read an int. pre: min and max fit one. */
enum lk_status lk_json_int32(struct lk_json *obj, const char *key, int64_t min, int64_t max,
                             int *out);
/* Read a whole number from 0 of up to 64 bits. */
enum lk_status lk_json_uint(struct lk_json *obj, const char *key, uint64_t max, uint64_t *out);
enum lk_status lk_json_array(struct lk_json *obj, const char *key, struct lk_json **out);
enum lk_status lk_json_object(struct lk_json *obj, const char *key, struct lk_json **out);
/* Return the member, marked as used, of any type; LK_EPARSE suggests a key that may be meant. */
enum lk_status lk_json_required(struct lk_json *obj, const char *key, struct lk_json **out);
/* Return the member, marked as used, or NULL when it is absent or null. Never fails. pre: key
 * outlives the document (a literal): lk_json_end suggests it for a misspelt one. */
struct lk_json *lk_json_optional(struct lk_json *obj, const char *key);
/* Fail on the first member that was not read. */
enum lk_status lk_json_end(struct lk_json *obj);

/* Return the number of items or members. */
size_t lk_json_count(const struct lk_json *array_or_object);
/* Return item i of an array, or NULL past its end. */
struct lk_json *lk_json_item(struct lk_json *array, size_t i);
/* Return value i of an object, marked as used, and its key; NULL past its end. */
struct lk_json *lk_json_member(struct lk_json *obj, size_t i, const char **out_key);
/* Fail with LK_EPARSE unless the value is of the type. */
enum lk_status lk_json_expect(const struct lk_json *v, enum lk_json_type type);
/* Read the value itself. LK_EPARSE when it is of another type or outside [min, max]. */
enum lk_status lk_json_as_text(struct lk_json *v, const char **out);
enum lk_status lk_json_as_number(struct lk_json *v, double *out);
enum lk_status lk_json_as_bool(struct lk_json *v, bool *out);
/* Read a text that is one of the words into the enum at out_enum. LK_EPARSE suggests the nearest.
 */
enum lk_status lk_json_as_word(struct lk_json *v, const struct lk_words *words, void *out_enum);
enum lk_status lk_json_as_int(struct lk_json *v, int64_t min, int64_t max, int64_t *out);
enum lk_status lk_json_as_uint(struct lk_json *v, uint64_t max, uint64_t *out);
/*
 * Read the number times 10^places, exactly and never through a double: microseconds with three
 * decimals as ns. LK_EPARSE for exponents, further decimals that are not 0, and what 64 bits cannot
 * hold.
 */
enum lk_status lk_json_as_fixed(struct lk_json *v, int places, int64_t *out);

/* Fail with LK_EPARSE and "file:line: key.path: " + printf text, for a value of the right type that
 * makes no sense. lk_json_error takes the arguments of lk_json_error_. */
#define lk_json_error(...) lk_failed_(lk_json_error_(__VA_ARGS__))
enum lk_status lk_json_error_(const struct lk_json *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Check the "schema" and "version" members of a file of ours. A newer version is an error that
 * says so.
 */
enum lk_status lk_json_schema(struct lk_json *root, const char *schema, int version);

/* ---- Large files ---- */

/*
 * Walk a file that is an object with one large array (a trace): the items of that array and the
 * other members of the root come one by one as values, each valid during its hook alone. Memory is
 * that of the largest value. Errors are as for documents: file, line and key path; a hook that
 * fails ends the walk with its status. Both hooks are required. A file without the array is no
 * error.
 */
struct lk_json_walk {
    const char *array; /* its key in the root */
    enum lk_status (*item)(void *ctx, struct lk_json *v);
    enum lk_status (*member)(void *ctx, const char *key, struct lk_json *v);
};
enum lk_status lk_json_walk(const char *path, const struct lk_json_walk *walk, void *ctx);

/* ---- Writing ---- */

/*
 * Write a document to w, which outlives *out, indented by two spaces a level. Numbers have as many
 * digits (15 to 17) as reading back exactly takes; NaN and infinity are null. Bytes of a text that
 * are no UTF-8 become U+FFFD. key is NULL inside arrays. Errors stick: only lk_json_out_end has to
 * be checked.
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
/* Write a number that the caller formatted, e.g. a decimal with three places; at most 63
 * characters. */
void lk_json_out_raw(struct lk_json_out *o, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Write the next object or array on one line: for rows of numbers. */
void lk_json_out_compact(struct lk_json_out *o);
/* End the document, free o, and return the first error of any call above. The writer is not
 * committed. */
enum lk_status lk_json_out_end(struct lk_json_out *o);
/* Write a whole file, all of it or nothing: `write`, called with ctx, writes its one value. */
enum lk_status lk_json_write(const char *path,
                             void (*write)(struct lk_json_out *o, const void *ctx),
                             const void *ctx);
/* Write into memory likewise; the caller frees *text. */
enum lk_status lk_json_write_text(void (*write)(struct lk_json_out *o, const void *ctx),
                                  const void *ctx, char **text, size_t *size);

#endif
