/*
 * Write a report as one page of HTML that needs nothing besides: no request leaves it, and without
 * JavaScript it lacks nothing but sorting, the switch of the theme and the what-if.
 *
 * A page has sections, one for each thing that was asked about. Each begins with the answer that
 * the command of the same thing prints (base/page.h), so that page and terminal cannot differ; then
 * come the changes that bring most, the pictures, the tables and the notes. Behind them stands the
 * what-if, and how all of it was obtained.
 */
#ifndef LK_REPORTS_HTML_H
#define LK_REPORTS_HTML_H

#include "base/file.h"
#include "base/page.h"
#include "base/status.h"
#include "reports/chart/chart.h"

#include <stddef.h>

/* A table with more rows has the first ones and says where the others are. */
enum { LK_HTML_ROWS = 400 };
/* A job of more bytes has no what-if in the page, which would be larger for it. */
enum { LK_HTML_JOB_MAX = 1 << 20 };

struct lk_html_section {
    const char *heading;
    const char *command; /* that prints the same: under the tables; NULL: none */
    const struct lk_page *page;
    char *const *changes; /* sentences: what to change and what that brings, the best first */
    size_t n_changes;
    const struct lk_chart *charts; /* finished */
    size_t n_charts;
};

struct lk_html {
    const char *title;
    const char *version, *command_line; /* of the program */
    const struct lk_html_section *sections;
    size_t n_sections;
    const struct lk_page *obtained; /* how: its tables and notes; NULL: nothing is said */
    /* The what-if's inputs as JSON texts; NULL: there is none. */
    const char *job, *cluster, *forecast;
};

enum lk_status lk_html_write(struct lk_writer *w, const struct lk_html *page);

#endif
