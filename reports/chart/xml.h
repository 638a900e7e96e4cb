/* Write text as XML and HTML character data, and measure it as a page shows it. */
#ifndef LK_REPORTS_CHART_XML_H
#define LK_REPORTS_CHART_XML_H

#include "base/file.h"
#include "base/status.h"

#include <stddef.h>

/*
 * Write n bytes of a text as character data, which may also stand between double quotes. Nothing in
 * it is markup: a name may hold anything. Line breaks, tabs and control characters become blanks;
 * what is not UTF-8 or XML, and characters that turn the direction of text (U+202E), become U+FFFD.
 */
enum lk_status lk_xml_put(struct lk_writer *w, const char *text, size_t n);
enum lk_status lk_xml_text(struct lk_writer *w, const char *text); /* up to its NUL */

/* Return about how wide n bytes of a text are in a sans-serif font of a size; rather too wide. */
double lk_xml_width(const char *text, size_t n, double size);
/* Return how many bytes of a text fit within a width, of whole characters. */
size_t lk_xml_fit(const char *text, double size, double width);
/* Return how many bytes of a text are its first line within a width, and set *skip to where the
 * next one starts (base/utf8.h). */
size_t lk_xml_line(const char *text, double size, double width, size_t *skip);

#endif
