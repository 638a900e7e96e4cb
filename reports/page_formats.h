/* Printers of pages in formats that take a file of their own; for reports/page.c. */
#ifndef LK_REPORTS_PAGE_FORMATS_H
#define LK_REPORTS_PAGE_FORMATS_H

#include "base/file.h"
#include "base/page.h"
#include "base/status.h"

#include <stdbool.h>

/* Write a page as GitHub-flavoured Markdown. table: the only table to write, without all else;
 * NULL: the page. verbose: all tables, whole, with their notes. */
enum lk_status lk_page_markdown(struct lk_writer *w, const struct lk_page *p, const char *table,
                                bool verbose);
/* Write the values in Prometheus' text format, version 0.0.4, as gauges lockstep_NAME with the
 * label command. LK_EUSAGE for a page without values. */
enum lk_status lk_page_prometheus(struct lk_writer *w, const struct lk_page *p,
                                  const char *command);

#endif
