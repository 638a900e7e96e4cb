/* Write JSON; see the header. */
#include "base/json.h"

#include "base/array.h"
#include "base/json_node.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 14 };

struct lk_json_out {
    struct lk_writer *w; /* borrowed, outlives o */
    enum lk_status st;   /* the first failure, and its text */
    char error[512];
    struct {
        bool array;
        bool compact;              /* on one line, as all that is inside */
        bool filled;               /* has an item already */
    } open[LK_JSON_DEPTH_MAX + 1]; /* open[0]: the document */
    int depth;
    bool next_compact;
    size_t used;
    char buffer[BUFFER_BYTES];
};

static void stick(struct lk_json_out *o, enum lk_status st)
{
    if (o->st != LK_OK || st == LK_OK)
        return;
    o->st = st;
    snprintf(o->error, sizeof o->error, "%s", lk_error_text());
}

static void flush(struct lk_json_out *o)
{
    if (o->st == LK_OK && o->used)
        stick(o, lk_writer_put(o->w, o->buffer, o->used));
    o->used = 0;
}

static void put(struct lk_json_out *o, const char *text, size_t n)
{
    while (n) {
        size_t part = BUFFER_BYTES - o->used;

        if (part > n)
            part = n;
        memcpy(o->buffer + o->used, text, part);
        o->used += part;
        text += part;
        n -= part;
        if (o->used == BUFFER_BYTES)
            flush(o);
    }
}

static void put_text(struct lk_json_out *o, const char *text)
{
    put(o, text, strlen(text));
}

/* Quote a string; a byte that is no UTF-8 becomes U+FFFD, so that the file can be read. */
static void put_quoted(struct lk_json_out *o, const char *text)
{
    const char *s = text;
    char escape[8];

    put(o, "\"", 1);
    while (*s) {
        size_t n = lk_utf8_bytes(s);

        if (n == 0) {
            put_text(o, "\\ufffd");
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            put(o, "\\", 1);
            put(o, s, 1);
        } else if ((unsigned char)*s < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*s);
            put_text(o, escape);
        } else {
            put(o, s, n);
        }
        s += n;
    }
    put(o, "\"", 1);
}

static void newline(struct lk_json_out *o)
{
    put(o, "\n", 1);
    for (int i = 0; i < o->depth; i++)
        put(o, "  ", 2);
}

/* Write what comes before a value: separator, line, key. */
static void before(struct lk_json_out *o, const char *key)
{
    bool object = o->depth > 0 && !o->open[o->depth].array;

    if (object != (key != NULL) || (o->depth == 0 && o->open[0].filled)) {
        stick(o, lk_fail(LK_EINTERNAL, "JSON value %s out of place", key ? key : "without a key"));
        return;
    }
    if (o->open[o->depth].filled)
        put(o, ",", 1);
    if (o->depth > 0 && !o->open[o->depth].compact)
        newline(o);
    else if (o->open[o->depth].filled)
        put(o, " ", 1);
    o->open[o->depth].filled = true;
    if (key) {
        put_quoted(o, key);
        put(o, ": ", 2);
    }
}

static void open_container(struct lk_json_out *o, const char *key, bool array)
{
    bool compact = o->open[o->depth].compact || o->next_compact;

    before(o, key);
    if (o->depth == LK_JSON_DEPTH_MAX) {
        stick(o, lk_fail(LK_EINTERNAL, "JSON nested deeper than %d", LK_JSON_DEPTH_MAX));
        return;
    }
    put(o, array ? "[" : "{", 1);
    o->depth++;
    o->open[o->depth].array = array;
    o->open[o->depth].compact = compact;
    o->open[o->depth].filled = false;
    o->next_compact = false;
}

enum lk_status lk_json_out_begin(struct lk_writer *w, struct lk_json_out **out)
{
    struct lk_json_out *o;

    LK_PASS(lk_alloc(&o, 1, sizeof *o));
    o->w = w;
    *out = o;
    return LK_OK;
}

void lk_json_out_object(struct lk_json_out *o, const char *key)
{
    open_container(o, key, false);
}

void lk_json_out_array(struct lk_json_out *o, const char *key)
{
    open_container(o, key, true);
}

void lk_json_out_close(struct lk_json_out *o)
{
    bool array = o->open[o->depth].array;
    bool newline_first = o->open[o->depth].filled && !o->open[o->depth].compact;

    if (o->depth == 0) {
        stick(o, lk_fail(LK_EINTERNAL, "nothing to close in JSON"));
        return;
    }
    o->depth--;
    if (newline_first)
        newline(o);
    put(o, array ? "]" : "}", 1);
}

void lk_json_out_text(struct lk_json_out *o, const char *key, const char *v)
{
    before(o, key);
    put_quoted(o, v);
}

void lk_json_out_raw(struct lk_json_out *o, const char *key, const char *fmt, ...)
{
    char text[64];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    before(o, key);
    if (n < 0 || (size_t)n >= sizeof text)
        stick(o, lk_fail(LK_EINTERNAL, "JSON number of %d characters", n));
    else
        put(o, text, (size_t)n);
}

void lk_json_out_number(struct lk_json_out *o, const char *key, double v)
{
    char text[40], shorter[40];

    if (!isfinite(v)) {
        lk_json_out_null(o, key);
        return;
    }
    /* Most numbers that were computed need 16 or 17 digits: those are tried first. */
    snprintf(text, sizeof text, "%.16g", v);
    if (strtod(text, NULL) != v)
        snprintf(text, sizeof text, "%.17g", v);
    else if (snprintf(shorter, sizeof shorter, "%.15g", v) > 0 && strtod(shorter, NULL) == v)
        memcpy(text, shorter, sizeof text);
    lk_json_out_raw(o, key, "%s", text);
}

void lk_json_out_int(struct lk_json_out *o, const char *key, int64_t v)
{
    lk_json_out_raw(o, key, "%lld", (long long)v);
}

void lk_json_out_uint(struct lk_json_out *o, const char *key, uint64_t v)
{
    lk_json_out_raw(o, key, "%llu", (unsigned long long)v);
}

void lk_json_out_bool(struct lk_json_out *o, const char *key, bool v)
{
    lk_json_out_raw(o, key, "%s", v ? "true" : "false");
}

void lk_json_out_null(struct lk_json_out *o, const char *key)
{
    lk_json_out_raw(o, key, "null");
}

void lk_json_out_compact(struct lk_json_out *o)
{
    o->next_compact = true;
}

enum lk_status lk_json_out_end(struct lk_json_out *o)
{
    enum lk_status st;

    if (o->depth != 0)
        stick(o, lk_fail(LK_EINTERNAL, "JSON ends with %d open values", o->depth));
    put(o, "\n", 1);
    flush(o);
    st = o->st == LK_OK ? LK_OK : lk_fail(o->st, "%s", o->error);
    free(o);
    return st;
}

/* Write the document and end the writer, also after a failure. */
static enum lk_status write_to(struct lk_writer *w,
                               void (*write)(struct lk_json_out *o, const void *ctx),
                               const void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_json_out *o;

    LK_TRY(lk_json_out_begin(w, &o));
    write(o, ctx);
    LK_TRY(lk_json_out_end(o));
    return lk_writer_commit(w);
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_json_write(const char *path,
                             void (*write)(struct lk_json_out *o, const void *ctx), const void *ctx)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open(path, false, &w);

    return st == LK_OK ? write_to(w, write, ctx) : st;
}

enum lk_status lk_json_write_text(void (*write)(struct lk_json_out *o, const void *ctx),
                                  const void *ctx, char **text, size_t *size)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open_memory(text, size, &w);

    return st == LK_OK ? write_to(w, write, ctx) : st;
}
