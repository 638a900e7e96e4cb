/* Texts and words of JSON files of our own, which are read strictly. */
#include "base/json_node.h"
#include "base/utf8.h"

#include <string.h>

/* ---- Words ---- */

static size_t digits(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && text[i] >= '0' && text[i] <= '9')
        i++;
    return i;
}

/* Return true for -1.5e+3: no plus sign in front, no zero before another digit, digits on both
 * sides of a point. */
static bool is_number(const char *text, size_t n)
{
    size_t i = n > 0 && text[0] == '-' ? 1 : 0, whole = digits(text + i, n - i), part;

    if (!whole || (whole > 1 && text[i] == '0'))
        return false;
    i += whole;
    if (i < n && text[i] == '.') {
        part = digits(text + i + 1, n - i - 1);
        i += 1 + part;
        if (!part)
            return false;
    }
    if (i < n && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        if (i < n && (text[i] == '+' || text[i] == '-'))
            i++;
        part = digits(text + i, n - i);
        i += part;
        if (!part)
            return false;
    }
    return i == n;
}

bool lk_json_word(const char *text, size_t n, enum lk_json_type *type)
{
    static const struct {
        const char *word;
        enum lk_json_type type;
    } words[] = {{"null", LK_JSON_NULL}, {"true", LK_JSON_BOOL}, {"false", LK_JSON_BOOL}};

    *type = LK_JSON_NUMBER;
    if (n > 0 && text[0] <= '9')
        return is_number(text, n);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (n == strlen(words[i].word) && !memcmp(text, words[i].word, n)) {
            *type = words[i].type;
            return true;
        }
    return false;
}

/* ---- Texts ---- */

/* Write a character as UTF-8; return its bytes. */
static size_t put_utf8(unsigned long c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Read the four digits of "\u00e9" at text; false: there are none. */
static bool read_unit(const char *text, size_t n, unsigned long *out)
{
    *out = 0;
    if (n < 6 || text[0] != '\\' || text[1] != 'u')
        return false;
    for (size_t i = 2; i < 6; i++) {
        const char *hex = "0123456789abcdef", *at = strchr(hex, text[i] | 0x20);

        if (text[i] == '\0' || !at || !((text[i] >= '0' && text[i] <= '9') || text[i] >= 'A'))
            return false;
        *out = *out << 4 | (unsigned long)(at - hex);
    }
    return true;
}

/* Read "\u00e9", or a pair of surrogates, whose halves mean nothing alone: U+FFFD. Return the bytes
 * read, 0: there is none. */
static size_t read_unicode(const char *text, size_t n, unsigned long *out)
{
    unsigned long low;

    if (!read_unit(text, n, out))
        return 0;
    if (*out < 0xd800 || *out > 0xdfff)
        return 6;
    if (*out < 0xdc00 && read_unit(text + 6, n - 6, &low) && low >= 0xdc00 && low <= 0xdfff) {
        *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
        return 12;
    }
    *out = 0xfffd;
    return 6;
}

/* Read an escape; return the bytes read and those written, 0: it is none. */
static size_t read_escape(const char *text, size_t n, char *out, size_t *written)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = n > 1 && text[1] ? strchr(from, text[1]) : NULL;
    unsigned long c;
    size_t read;

    if (at) {
        *out = to[at - from];
        *written = 1;
        return 2;
    }
    read = read_unicode(text, n, &c);
    *written = read ? put_utf8(c, out) : 0;
    return read;
}

/* Return how many bytes of ASCII without escapes are at text. */
static size_t plain(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && (signed char)text[i] >= ' ' && text[i] != '\\') /* others are negative */
        i++;
    return i;
}

const char *lk_json_decode(const char *text, size_t n, char *out)
{
    size_t i = 0, written = 0, step, more;

    for (;;) {
        step = plain(text + i, n - i);
        memcpy(out + written, text + i, step);
        i += step;
        written += step;
        if (i == n)
            break;
        if (text[i] == '\\') {
            step = read_escape(text + i, n - i, out + written, &more);
            if (!step)
                return "a string has an escape that JSON does not know";
            if (!out[written])
                return "a string contains a NUL character";
        } else if ((unsigned char)text[i] < ' ') {
            return "a string has a control character or a line's end in it";
        } else {
            step = more = lk_utf8_bytes(text + i);
            if (!step)
                return "a string has bytes that are no UTF-8";
            memcpy(out + written, text + i, step);
        }
        i += step;
        written += more;
    }
    out[written] = '\0';
    return NULL;
}
