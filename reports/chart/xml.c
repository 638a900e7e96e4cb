/* Text in XML and HTML; see the header. */
#include "reports/chart/xml.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Characters ---- */

/* Return the code point of a valid sequence of n bytes. */
static uint32_t code_point(const char *text, size_t n)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = (unsigned char)text[0] & first[n];

    for (size_t i = 1; i < n; i++)
        c = c << 6 | ((unsigned char)text[i] & 0x3f);
    return c;
}

/* Return whether a character is none of XML's, or turns the direction of the text around it. */
static bool is_refused(uint32_t c)
{
    return c == 0xfffe || c == 0xffff || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

enum lk_status lk_xml_put(struct lk_writer *w, const char *text, size_t n)
{
    size_t bytes, from = 0;

    for (size_t i = 0; i < n; i += bytes) {
        uint32_t c;
        const char *instead;

        bytes = lk_utf8_bytes(text + i);
        bytes = i + bytes <= n ? bytes : 0;
        c = bytes ? code_point(text + i, bytes) : 0xffff;
        bytes = bytes ? bytes : 1;
        if (c >= 0x80 && c < 0xa0)
            instead = " ";
        else
            instead = c < 0x20 || c == 0x7f ? " "
                      : is_refused(c)       ? "\xef\xbf\xbd"
                      : c < 0x80            ? entity((char)c)
                                            : NULL;
        if (!instead)
            continue;
        LK_PASS(lk_writer_put(w, text + from, i - from));
        LK_PASS(lk_writer_put(w, instead, strlen(instead)));
        from = i + bytes;
    }
    return lk_writer_put(w, text + from, n - from);
}

enum lk_status lk_xml_text(struct lk_writer *w, const char *text)
{
    return lk_xml_put(w, text, strlen(text));
}

/* ---- Widths ---- */

/* Return the width of a character in a font of size 1; of wide fonts, e.g. DejaVu Sans. */
static double char_width(uint32_t c)
{
    if (c >= 0x1100)
        return c >= 0x2000 && c < 0x2e80 ? 0.7 : 1;
    if (c >= 0x80)
        return 0.65;
    if (strchr("iljI.,:;'|!", (int)c))
        return 0.34;
    if (strchr("frt()[]{} -/\\\"`", (int)c))
        return 0.4;
    if (strchr("mwMW@%", (int)c))
        return 0.92;
    return c >= 'A' && c <= 'Z' ? 0.7 : 0.6;
}

/* Return the bytes of the character at text, 1 where it is none. */
static size_t step(const char *text, uint32_t *c)
{
    size_t bytes = lk_utf8_bytes(text);

    *c = bytes ? code_point(text, bytes) : 0xfffd;
    return bytes ? bytes : 1;
}

double lk_xml_width(const char *text, size_t n, double size)
{
    double width = 0;
    uint32_t c;

    for (size_t i = 0; i < n && text[i];) {
        i += step(text + i, &c);
        width += char_width(c);
    }
    return width * size;
}

size_t lk_xml_fit(const char *text, double size, double width)
{
    double used = 0;
    uint32_t c;
    size_t i = 0;

    while (text[i]) {
        size_t bytes = step(text + i, &c);

        used += char_width(c) * size;
        if (used > width)
            break;
        i += bytes;
    }
    return i;
}

size_t lk_xml_line(const char *text, double size, double width, size_t *skip)
{
    size_t n = lk_xml_fit(text, size, width), end = strcspn(text, "\n");
    uint32_t c;

    if (end <= n) {
        *skip = end + (text[end] == '\n');
        return end;
    }
    for (size_t i = n + 1; i > 1; i--)
        if (text[i - 1] == ' ') {
            *skip = i;
            return i - 1;
        }
    *skip = n ? n : step(text, &c); /* at least a character, so that there is an end */
    return *skip;
}
