/* The what-if of a page: its place and its inputs. See html_impl.h. */
#include "reports/html_impl.h"

#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

/* Return whether a character must not stand in a page as it is: it could end the script, or turn
 * the direction of text. Both occur in strings of JSON alone. */
static bool is_escaped(const unsigned char *s, size_t bytes)
{
    if (bytes == 1)
        return *s == '<' || *s == '>' || *s == '&' || *s == 0x7f ||
               (*s < 0x20 && *s != '\n' && *s != '\r' && *s != '\t');
    /* U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
    return bytes == 3 && *s == 0xe2 &&
           ((s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
            (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

static unsigned code_of(const unsigned char *s, size_t bytes)
{
    return bytes == 1 ? *s : (*s & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

enum lk_status html_json(struct lk_writer *w, const char *id, const char *text)
{
    const char *from = text, *p = text;

    LK_PASS(lk_writer_printf(w, "<script type=\"application/json\" id=\"%s\">", id));
    while (*p) {
        size_t bytes = lk_utf8_bytes(p), step = bytes ? bytes : 1;

        if (!bytes || is_escaped((const unsigned char *)p, bytes)) {
            LK_PASS(lk_writer_put(w, from, (size_t)(p - from)));
            LK_PASS(lk_writer_printf(w, "\\u%04x",
                                     bytes ? code_of((const unsigned char *)p, bytes) : 0xfffd));
            from = p + step;
        }
        p += step;
    }
    LK_PASS(lk_writer_put(w, from, (size_t)(p - from)));
    return lk_writer_printf(w, "</script>\n");
}

enum lk_status lk_html_whatif(struct lk_writer *w, const struct lk_html *page)
{
    if (!page->job && !page->cluster && !page->forecast)
        return LK_OK;
    LK_PASS(lk_writer_printf(
        w,
        "<section id=\"whatif-section\">\n<h2>What if</h2>\n<div id=\"whatif\">\n<p>%s</p>\n"
        "</div>\n",
        page->job && page->cluster
            ? "This lockstep has no forecast for pages: ask <code>lockstep whatif</code>."
            : "Give <code>lockstep report</code> the job and the cluster as well to ask for other "
              "settings here."));
    if (page->job)
        LK_PASS(html_json(w, "lk-job", page->job));
    if (page->cluster)
        LK_PASS(html_json(w, "lk-cluster", page->cluster));
    if (page->forecast)
        LK_PASS(html_json(w, "lk-forecast", page->forecast));
    return lk_writer_printf(w, "</section>\n");
}
