#include "base/json_scan.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 20 };

/* ---- The window ---- */

/* Bytes outside of texts are of these classes. */
enum { BARE, BLANK, OPEN, CLOSE, QUOTE, LINE, MARK, SLASH };
#define BRACKETS ['{'] = OPEN, ['['] = OPEN, ['}'] = CLOSE, [']'] = CLOSE, ['"'] = QUOTE

static const unsigned char lenient[256] = {
    BRACKETS,       [' '] = BLANK, ['\t'] = BLANK, ['\n'] = BLANK,
    ['\r'] = BLANK, [','] = BLANK, [':'] = BLANK,  [0] = BLANK,
};
static const unsigned char strict[256] = {
    BRACKETS,       [' '] = BLANK,  ['\t'] = BLANK, ['\n'] = LINE, ['\r'] = BLANK,
    ['\v'] = BLANK, ['\f'] = BLANK, [','] = MARK,   [':'] = MARK,  ['/'] = SLASH,
};

/* Forget what lies before the pin, or before the last token. */
static void compact(struct lk_scan *s, size_t keep)
{
    memmove(s->buf, s->buf + keep, s->end - keep);
    s->at -= keep;
    s->end -= keep;
    s->pin -= s->pinned ? keep : 0;
}

/* Make room behind the window's end. What is pinned beyond the limit is given up. */
static bool make_room(struct lk_scan *s, size_t token)
{
    size_t keep = s->pinned && s->pin < token ? s->pin : token;
    unsigned char *grown;

    if (keep > 0)
        compact(s, keep);
    if (s->end < s->size)
        return true;
    if (s->size < LK_SCAN_PINNED_MAX) {
        grown = realloc(s->buf, 2 * s->size);
        if (!grown) {
            s->status = lk_fail(LK_ENOMEM, "%s: no memory for a window of the file", s->path);
            return false;
        }
        s->buf = grown;
        s->size *= 2;
        return true;
    }
    /* The object, or one text, is larger than that: its start is lost. */
    s->overflown = true;
    s->n_lost++;
    s->at = s->end = s->pin = 0;
    return true;
}

/* Read on. token: the start of what has to stay in the window. Return false at the end. */
static bool refill(struct lk_scan *s, size_t token)
{
    int n;

    if (s->eof || s->status != LK_OK || !make_room(s, token))
        return false;
    n = s->source->read(s, s->buf + s->end, s->size - s->end);
    s->eof = n <= 0;
    if (n <= 0)
        return false;
    s->end += (size_t)n;
    s->bytes += (uint64_t)n;
    return true;
}

/* ---- Files and texts ---- */

enum lk_status lk_scan_begin(struct lk_scan *s, const char *path,
                             const struct lk_scan_source *source)
{
    *s = (struct lk_scan){
        .path = path, .source = source, .size = WINDOW, .classes = lenient, .line = 1};
    return lk_alloc(&s->buf, s->size, 1);
}

void lk_scan_memory(struct lk_scan *s, const char *text, size_t n)
{
    *s = (struct lk_scan){.buf = (unsigned char *)text,
                          .size = n,
                          .end = n,
                          .eof = true,
                          .classes = lenient,
                          .line = 1};
}

void lk_scan_strict(struct lk_scan *s)
{
    static const unsigned char mark[] = {0xEF, 0xBB, 0xBF};

    s->classes = strict;
    if (s->end == 0)
        (void)refill(s, 0);
    if (s->end >= sizeof mark && !memcmp(s->buf, mark, sizeof mark))
        s->at = sizeof mark;
}

void lk_scan_close(struct lk_scan *s)
{
    if (s->file)
        s->source->close(s);
    if (s->path)
        free(s->buf);
    *s = (struct lk_scan){0};
}

enum lk_status lk_scan_status(const struct lk_scan *s)
{
    return s->status;
}

const char *lk_scan_damage(const struct lk_scan *s)
{
    return s->file ? s->source->damage(s) : NULL;
}

/* ---- Tokens ---- */

static size_t base_of(const struct lk_scan *s)
{
    return s->pinned ? s->pin : 0;
}

static bool is_escaped(const struct lk_scan *s, size_t quote, size_t first)
{
    size_t n = 0;

    while (quote - n > first && s->buf[quote - n - 1] == '\\')
        n++;
    return n % 2 == 1;
}

/* Return where a token that begins at s->at has to be scanned on after a refill, `n` bytes of it
 * being scanned; its start may be lost. */
static size_t scanned_to(const struct lk_scan *s, size_t n, size_t lost)
{
    return s->n_lost != lost ? s->at : s->at + n;
}

/* Read a text; s->at is behind its opening quote. False: the file ends in it. */
static bool read_text(struct lk_scan *s, bool *escaped)
{
    size_t first = s->at, from = s->at, lost = s->n_lost;

    for (;;) {
        const unsigned char *quote = memchr(s->buf + from, '"', s->end - from);
        size_t left = s->end - first;

        if (quote && !is_escaped(s, (size_t)(quote - s->buf), first)) {
            size_t end = (size_t)(quote - s->buf);

            *escaped = memchr(s->buf + first, '\\', end - first) != NULL;
            s->slice = (struct lk_slice){first - base_of(s), end - first, LK_SCAN_TEXT, *escaped};
            s->at = end + 1;
            return true;
        }
        if (quote) {
            from = (size_t)(quote - s->buf) + 1;
            continue;
        }
        s->at = first;
        if (!refill(s, first))
            return false;
        from = scanned_to(s, left, lost);
        first = s->at;
        lost = s->n_lost;
    }
}

static bool read_word(struct lk_scan *s)
{
    size_t first = s->at, scanned, lost;

    for (;;) {
        while (s->at < s->end && s->classes[s->buf[s->at]] == BARE)
            s->at++;
        if (s->at < s->end || s->eof)
            break;
        scanned = s->at - first;
        lost = s->n_lost;
        s->at = first;
        if (!refill(s, first)) {
            first = s->at; /* the window may have moved */
            s->at = s->end;
            break;
        }
        first = s->at;
        s->at = scanned_to(s, scanned, lost);
    }
    s->slice = (struct lk_slice){first - base_of(s), s->at - first, LK_SCAN_WORD, false};
    return s->at > first;
}

static enum lk_scan_token at_end(struct lk_scan *s)
{
    s->cut = s->cut || s->depth > 0;
    return LK_SCAN_END;
}

/* Pass over a comment; s->at is at its slash. False: it is none, or has no end. */
static bool skip_comment(struct lk_scan *s)
{
    unsigned char last = 0, kind;

    if (s->end - s->at < 2 && !refill(s, s->at))
        return false;
    kind = s->buf[s->at + 1];
    if (kind != '/' && kind != '*')
        return false;
    s->at += 2;
    for (; s->at < s->end || refill(s, s->at); s->at++) {
        const unsigned char c = s->buf[s->at];

        if (kind == '/' && c == '\n') /* which counts outside */
            return true;
        s->line += c == '\n';
        if (kind == '*' && last == '*' && c == '/') {
            s->at++;
            return true;
        }
        last = c;
    }
    s->cut = s->cut || kind == '*';
    return true;
}

/* Take the byte at s->at, which is the token. */
static enum lk_scan_token take_byte(struct lk_scan *s, enum lk_scan_token token)
{
    s->slice = (struct lk_slice){s->at - base_of(s), 1, token, false};
    s->at++;
    return token;
}

/* Pass over blanks, comments and lines; false: the file ends. */
static bool skip_blanks(struct lk_scan *s)
{
    for (;;) {
        while (s->at < s->end && s->classes[s->buf[s->at]] == BLANK)
            s->at++;
        if (s->at == s->end) {
            if (!refill(s, s->at))
                return false;
        } else if (s->classes[s->buf[s->at]] == LINE) {
            s->line++;
            s->at++;
        } else if (s->classes[s->buf[s->at]] != SLASH || !skip_comment(s)) {
            return true;
        }
    }
}

enum lk_scan_token lk_scan_next(struct lk_scan *s)
{
    bool escaped;
    unsigned char c;

    if (!skip_blanks(s))
        return at_end(s);
    c = s->buf[s->at];
    switch (s->classes[c]) {
    case OPEN:
        s->depth++;
        return take_byte(s, c == '{' ? LK_SCAN_OBJECT : LK_SCAN_ARRAY);
    case CLOSE:
        s->depth -= s->depth > 0;
        return take_byte(s, LK_SCAN_CLOSE);
    case MARK:
        return take_byte(s, c == ',' ? LK_SCAN_COMMA : LK_SCAN_COLON);
    case SLASH: /* alone */
        return take_byte(s, LK_SCAN_WORD);
    case QUOTE:
        s->at++;
        if (read_text(s, &escaped))
            return LK_SCAN_TEXT;
        s->cut = true;
        return LK_SCAN_END;
    default:
        return read_word(s) ? LK_SCAN_WORD : at_end(s);
    }
}

/* Skip texts and brackets until the depth is `depth`, without making slices. */
static bool skip_to(struct lk_scan *s, int64_t depth)
{
    bool escaped;

    while (s->depth > depth) {
        while (s->at < s->end && lenient[s->buf[s->at]] <= BLANK)
            s->at++;
        if (s->at == s->end) {
            if (!refill(s, s->at)) {
                (void)at_end(s);
                return false;
            }
            continue;
        }
        switch (lenient[s->buf[s->at++]]) {
        case OPEN:
            s->depth++;
            break;
        case CLOSE:
            s->depth--;
            break;
        default:
            if (!read_text(s, &escaped)) {
                (void)at_end(s);
                return false;
            }
        }
    }
    return true;
}

bool lk_scan_value(struct lk_scan *s, struct lk_slice *out)
{
    enum lk_scan_token token = lk_scan_next(s);
    size_t first;

    if (token == LK_SCAN_TEXT || token == LK_SCAN_WORD) {
        *out = s->slice;
        return true;
    }
    if (token != LK_SCAN_OBJECT && token != LK_SCAN_ARRAY)
        return false;
    first = s->at - 1 - base_of(s);
    if (!skip_to(s, s->depth - 1))
        return false;
    *out = (struct lk_slice){first, s->at - base_of(s) - first, token, false};
    return true;
}

static void set_member(const struct lk_scan *s, const struct lk_scan_member *m,
                       const struct lk_slice *value, void *out)
{
    void *at = (char *)out + m->offset;
    struct lk_slice *slice = at;
    int64_t *number = at;

    if (m->as == LK_SCAN_INT) {
        if (!lk_scan_fixed(lk_scan_at(s, value), value->n, 0, number))
            *number = -1;
    } else if (m->as == LK_SCAN_SLICE || !slice->n) {
        *slice = *value;
    }
}

bool lk_scan_object(struct lk_scan *s, const struct lk_scan_member *table, size_t n, void *out)
{
    struct lk_slice key, value;
    enum lk_scan_token token;

    while ((token = lk_scan_next(s)) == LK_SCAN_TEXT) {
        key = s->slice;
        if (!lk_scan_value(s, &value))
            return false;
        for (size_t i = 0; i < n; i++)
            if (lk_scan_is(s, &key, table[i].key, table[i].n))
                set_member(s, &table[i], &value, out);
    }
    return token == LK_SCAN_CLOSE;
}

void lk_scan_leave(struct lk_scan *s, int64_t depth)
{
    (void)skip_to(s, depth - 1);
}

bool lk_scan_next_object(struct lk_scan *s)
{
    enum lk_scan_token token;

    while ((token = lk_scan_next(s)) != LK_SCAN_CLOSE && token != LK_SCAN_END) {
        if (token == LK_SCAN_OBJECT)
            return true;
        if (token == LK_SCAN_ARRAY)
            lk_scan_leave(s, s->depth);
    }
    return false;
}

/* ---- Slices ---- */

void lk_scan_pin(struct lk_scan *s)
{
    s->pinned = true;
    s->overflown = false;
    s->pin = s->at > 0 ? s->at - 1 : 0;
}

bool lk_scan_unpin(struct lk_scan *s)
{
    bool whole = !s->overflown;

    s->n_too_large += !whole;
    s->pinned = s->overflown = false;
    s->pin = 0;
    return whole;
}

const char *lk_scan_at(const struct lk_scan *s, const struct lk_slice *v)
{
    return (const char *)s->buf + base_of(s) + v->at;
}

bool lk_scan_is(const struct lk_scan *s, const struct lk_slice *v, const char *text, size_t n)
{
    return v->n == n && !memcmp(lk_scan_at(s, v), text, n);
}

/* ---- Numbers, texts ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Read an exponent, small enough for any time. */
static bool read_exponent(const char *text, size_t n, int *out)
{
    size_t i = n > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    int e = 0;

    if (i == n)
        return false;
    for (; i < n; i++) {
        if (!is_digit(text[i]) || e > 100)
            return false;
        e = 10 * e + (text[i] - '0');
    }
    *out = text[0] == '-' ? -e : e;
    return true;
}

bool lk_scan_fixed(const char *text, size_t n, int places, int64_t *out)
{
    size_t i = 0, first, point, end;
    bool negative = n > 0 && text[0] == '-';
    int exponent = 0, left;
    int64_t v = 0;

    i += negative;
    first = i;
    while (i < n && is_digit(text[i]))
        i++;
    point = i;
    if (i < n && text[i] == '.')
        for (i++; i < n && is_digit(text[i]); i++)
            continue;
    end = i;
    if (point == first || (i < n && text[i] != 'e' && text[i] != 'E') ||
        (i < n && !read_exponent(text + i + 1, n - i - 1, &exponent)))
        return false;
    /* The digits that count: those before the point, moved by exponent and places. */
    left = (int)(point - first > 1000 ? 1000 : point - first) + exponent + places;
    for (i = first; left > 0; left--) {
        int digit = 0;

        i += i == point;
        if (i < end)
            digit = text[i++] - '0';
        if (v > (INT64_MAX - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    i += i == point;
    if (left == 0 && i < end && text[i] >= '5' && v < INT64_MAX)
        v++;
    *out = negative ? -v : v;
    return true;
}

static char unescaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
    case 'b':
    case 'f':
        return ' ';
    case 'u': /* its digits stay: names with them are rare, and only shown */
        return '?';
    default:
        return c;
    }
}

void lk_scan_plain(const char *text, size_t n, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < n && used + 1 < size; i++) {
        char c = text[i];

        if (c == '\\' && i + 1 < n)
            c = unescaped(text[++i]);
        out[used++] = c;
    }
    out[used] = '\0';
}
