/* Text in XML and HTML; see the header. */
#include "reports/chart/xml.h"

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* ---- Characters ---- */

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
        const char *instead = NULL;

        bytes = lk_utf8_next(text + i, &c);
        if (i + bytes > n || (bytes == 1 && c == 0xfffd)) { /* cut, or no UTF-8 */
            bytes = 1;
            instead = "\xef\xbf\xbd";
        } else if (!lk_utf8_is_shown(c))
            instead = c < 0xa0 ? " " : "\xef\xbf\xbd";
        else if (c < 0x80)
            instead = entity((char)c);
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

double lk_xml_width(const char *text, size_t n, double size)
{
    double width = 0;
    uint32_t c;

    for (size_t i = 0; i < n && text[i];) {
        i += lk_utf8_next(text + i, &c);
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
        size_t bytes = lk_utf8_next(text + i, &c);

        used += char_width(c) * size;
        if (used > width)
            break;
        i += bytes;
    }
    return i;
}

size_t lk_xml_line(const char *text, double size, double width, size_t *skip)
{
    return lk_utf8_line(text, lk_xml_fit(text, size, width), skip);
}
