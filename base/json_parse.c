/* Parsing JSON with yajl: chunks of a file, lines, errors. */
#include "base/json.h"

#include "base/array.h"
#include "base/json_node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

enum { CHUNK_BYTES = 1 << 16 };

/* Newlines are counted once, in steps. */
size_t lk_json_parser_line(struct lk_json_parser *p)
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

static enum lk_status parser_open(struct lk_json_parser *p)
{
    p->line = 1;
    p->yajl = yajl_alloc(p->callbacks, NULL, p);
    if (!p->yajl)
        return lk_fail(LK_ENOMEM, "%s: cannot start yajl", p->name);
    if (!yajl_config(p->yajl, yajl_allow_comments, 1))
        return lk_fail(LK_EINTERNAL, "yajl knows no comments");
    return LK_OK;
}

static void parser_close(struct lk_json_parser *p)
{
    if (p->yajl)
        yajl_free(p->yajl);
}

/* Turns yajl's answer into a status with file and line. */
static enum lk_status parser_status(struct lk_json_parser *p, yajl_status answer)
{
    unsigned char *text;
    size_t line;

    if (answer == yajl_status_ok)
        return LK_OK;
    line = lk_json_parser_line(p);
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
static enum lk_status parser_feed(struct lk_json_parser *p, const void *data, size_t size)
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
        (void)lk_json_parser_line(p);
    return st;
}

static enum lk_status parser_finish(struct lk_json_parser *p)
{
    p->chunk_size = 0;
    p->counted = 0;
    return parser_status(p, yajl_complete_parse(p->yajl));
}

enum lk_status lk_json_parser_text(struct lk_json_parser *p, const char *text, size_t size)
{
    enum lk_status st = LK_OK;

    LK_TRY(parser_open(p));
    LK_TRY(parser_feed(p, text, size));
    LK_TRY(parser_finish(p));
out:
    parser_close(p);
    return st;
}

/* The rest of an open file, chunk by chunk. */
static enum lk_status feed_all(struct lk_json_parser *p, gzFile f, char *chunk)
{
    enum lk_status st = LK_OK;
    int code;
    int n;

    while ((n = gzread(f, chunk, CHUNK_BYTES)) > 0)
        LK_TRY(parser_feed(p, chunk, (size_t)n));
    /* A gzip stream that ends too early gives what there is, and the error stays behind. */
    (void)gzerror(f, &code);
    if (code != Z_OK && code != Z_STREAM_END)
        return lk_fail(LK_EIO, "%s:%zu: %s", p->name, p->line,
                       code == Z_ERRNO       ? strerror(errno)
                       : code == Z_BUF_ERROR ? "the gzip data end too early"
                                             : "damaged gzip data");
    LK_TRY(parser_finish(p));
out:
    return st;
}

enum lk_status lk_json_parser_file(struct lk_json_parser *p)
{
    enum lk_status st = LK_OK;
    char *chunk = NULL;
    gzFile f = gzopen(p->name, "rbe");

    if (!f)
        return lk_fail(LK_EIO, "%s: %s", p->name, errno ? strerror(errno) : "cannot open");
    LK_TRY(lk_alloc(&chunk, CHUNK_BYTES, 1));
    (void)gzbuffer(f, 2 * CHUNK_BYTES);
    LK_TRY(parser_open(p));
    LK_TRY(feed_all(p, f, chunk));
out:
    parser_close(p);
    free(chunk);
    (void)gzclose_r(f);
    return st;
}
