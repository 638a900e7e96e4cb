/* The files that write HTML share these; see html.h. */
#ifndef LK_REPORTS_HTML_IMPL_H
#define LK_REPORTS_HTML_IMPL_H

#include "reports/html.h"

/* Write the style sheet and the script of every page, without their elements. */
enum lk_status html_style(struct lk_writer *w);
enum lk_status html_script(struct lk_writer *w);

/* Write a page's tables: those of the main place open, the others folded. command: see
 * lk_html_section. */
enum lk_status html_tables(struct lk_writer *w, const struct lk_page *p, const char *command);

/*
 * Write the what-if: the place of its panel, <div id="whatif">, and the inputs as JSON in
 * <script type="application/json"> with the identifiers lk-job, lk-cluster and lk-forecast. Where
 * it cannot be, it says why.
 */
enum lk_status lk_html_whatif(struct lk_writer *w, const struct lk_html *page);
/* Write JSON so that it cannot end its element, and nothing in it turns the direction of text. */
enum lk_status html_json(struct lk_writer *w, const char *id, const char *text);

#endif
