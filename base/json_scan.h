/*
 * A lexer of JSON for files of gigabytes, plain or gzipped: a window of the file is in memory,
 * values are slices of it. With files that other programs wrote it is lenient where writers are
 * sloppy: commas and colons are blanks, bare words (NaN, ncclFloat32) are words, bytes that are no
 * UTF-8 pass. A file that ends too early ends as one that was closed, and says so.
 *
 *     while (lk_scan_next_object(s)) {                 an array of objects
 *         lk_scan_pin(s);                              slices stay valid until unpinned
 *         lk_scan_object(s, table, LK_COUNT(table), &x);
 *         lk_scan_unpin(s);
 *     }
 *     LK_PASS(lk_scan_status(s));
 *
 * base/json.h reads our own files with it, strictly, into trees.
 */
#ifndef LK_BASE_JSON_SCAN_H
#define LK_BASE_JSON_SCAN_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_scan_token {
    LK_SCAN_END, /* of the file, or of what can be read of it */
    LK_SCAN_OBJECT,
    LK_SCAN_ARRAY,
    LK_SCAN_CLOSE, /* of an object or array */
    LK_SCAN_TEXT,  /* the slice has no quotes */
    LK_SCAN_WORD,  /* a number, true, false, null, or any bare word */
    LK_SCAN_COMMA, /* these two of a strict scanner alone */
    LK_SCAN_COLON
};

/* A place in the window, counted from the pin. */
struct lk_slice {
    size_t at, n;
    enum lk_scan_token token; /* of objects and arrays, the slice is the whole value */
    bool escaped;             /* a text with backslashes, which are still in it */
};

/* The largest object that may be pinned; one that is larger is left out and counted. */
enum { LK_SCAN_PINNED_MAX = 16 << 20 };

struct lk_scan;

/* A source fills a window (base/json_scan_file.c). */
struct lk_scan_source {
    /* Read up to n bytes. Return 0 at the end, -1 after a failure, which s->status then says. */
    int (*read)(struct lk_scan *s, unsigned char *to, size_t n);
    const char *(*damage)(const struct lk_scan *s); /* see lk_scan_damage */
    void (*close)(struct lk_scan *s);
};

struct lk_scan {
    const char *path;
    const struct lk_scan_source *source; /* NULL: a text in memory */
    void *file;                          /* the source's */
    unsigned char *buf;
    size_t size, at, end, pin;
    bool pinned, overflown; /* overflown: the pinned object was too large */
    bool eof;
    const unsigned char *classes; /* of bytes outside of texts */
    size_t line;                  /* of the last token, from 1; of a strict scanner alone */
    int64_t depth;
    uint64_t bytes;      /* read so far, unpacked */
    uint64_t file_bytes; /* of the file as it is; 0: not known */
    uint64_t n_too_large;
    size_t n_lost; /* how often the window's content was given up */
    bool cut;      /* the file ended inside a value */
    enum lk_status status;
    struct lk_slice slice; /* of the last token */
};

/* Open a file. path is borrowed. LK_EIO. Close in any case. */
enum lk_status lk_scan_open(struct lk_scan *s, const char *path);
/* Scan what a source gives; path, by which errors name it, is borrowed. Close in any case. */
enum lk_status lk_scan_begin(struct lk_scan *s, const char *path,
                             const struct lk_scan_source *source);
/* Scan a text in memory, which is borrowed; slices count from its start. */
void lk_scan_memory(struct lk_scan *s, const char *text, size_t n);
/* Make a scanner strict, before its first token: commas and colons are tokens, `//` and slash-star
 * comments are blanks (one without an end: `cut`), a byte order mark is passed over, lines are
 * counted. What follows what, and what words and texts hold, is left to whoever calls lk_scan_next;
 * the functions that read whole values are for lenient scanners. */
void lk_scan_strict(struct lk_scan *s);
void lk_scan_close(struct lk_scan *s); /* safe on a zeroed one */
/* Return why the file could not be read to its end: LK_EIO; a cut file is none. */
enum lk_status lk_scan_status(const struct lk_scan *s);
/* Return what is wrong with a file that was read as far as it goes, as lk_gz_damage; NULL: nothing.
 */
const char *lk_scan_damage(const struct lk_scan *s);

enum lk_scan_token lk_scan_next(struct lk_scan *s);
/* Read one value whole, of whatever type; false at a CLOSE, or the end. */
bool lk_scan_value(struct lk_scan *s, struct lk_slice *out);

/* A scan does this with a member's value. */
enum lk_scan_as {
    LK_SCAN_SLICE, /* a struct lk_slice */
    LK_SCAN_FIRST, /* a struct lk_slice, unless another member has set it */
    LK_SCAN_INT    /* an int64_t; -1: it is no whole number */
};

/* A member of an object goes into a struct. */
struct lk_scan_member {
    const char *key;
    size_t n, offset; /* of the key; in the struct */
    enum lk_scan_as as;
};
#define LK_SCAN_MEMBER(type, key, member, as)                                                      \
    {                                                                                              \
        key, sizeof(key) - 1, offsetof(type, member), as                                           \
    }
/*
 * Read the object whose OBJECT was the last token: the members in the table into *out, from which
 * others are missing. False: the file ends in it. pre: pinned, or in memory.
 */
bool lk_scan_object(struct lk_scan *s, const struct lk_scan_member *table, size_t n, void *out);
/* Go to the next object of the array in which the scanner is, past values that are none. False: the
 * array, or the file, has ended. */
bool lk_scan_next_object(struct lk_scan *s);
/* Skip up to the CLOSE of the object or array in which `depth` was s->depth. */
void lk_scan_leave(struct lk_scan *s, int64_t depth);

/* Keep the window from the last token on. Return false from unpin if what was pinned was too large:
 * its slices mean nothing. */
void lk_scan_pin(struct lk_scan *s);
bool lk_scan_unpin(struct lk_scan *s);
/* Return the bytes of a slice; valid until the next token. */
const char *lk_scan_at(const struct lk_scan *s, const struct lk_slice *v);
bool lk_scan_is(const struct lk_scan *s, const struct lk_slice *v, const char *text, size_t n);
/* Compare with a literal. */
#define LK_SCAN_IS(s, v, literal) lk_scan_is(s, v, literal, sizeof(literal) - 1)

/*
 * Read a decimal number times 10^places, exactly: "1712195495519689.047" with 3 places. Digits
 * beyond are rounded, to the nearest. False for no number, infinity, or what 63 bits cannot hold.
 */
bool lk_scan_fixed(const char *text, size_t n, int places, int64_t *out);
/* Write a text without its escapes, cut to size - 1 bytes, with a NUL. */
void lk_scan_plain(const char *text, size_t n, char *out, size_t size);

#endif
