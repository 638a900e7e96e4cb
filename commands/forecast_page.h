/* How predict and whatif fill their page from a forecast. */
#ifndef LK_COMMANDS_FORECAST_PAGE_H
#define LK_COMMANDS_FORECAST_PAGE_H

#include "base/page.h"
#include "base/status.h"
#include "facts/forecast.h"

#include <stdbool.h>

/* Fill the page's answer and notes, and the values of its points; whatif: of the best ones, with
 * their gains. */
enum lk_status forecast_page_answer(const struct lk_forecast *f, bool whatif, struct lk_page *page);

/* Fail with LK_ECONTRADICTED if a forecast says a contradiction; its page is printed all the same.
 */
enum lk_status forecast_verdict(const struct lk_forecast *f);

/* Kinds of tables of a forecast: three have a short view of their own, one shows all its columns
 * and has its notes among the page's, and the last is for --verbose. */
enum forecast_view {
    FORECAST_POINTS,
    FORECAST_BEST,
    FORECAST_PLAN,
    FORECAST_WHOLE,
    FORECAST_DETAIL
};

/* Append a table of a forecast, which the page then owns; *table NULL: nothing is appended. */
enum lk_status forecast_page_table(const struct lk_forecast *f, const char *name,
                                   enum lk_page_place place, enum forecast_view view,
                                   struct lk_table **table, struct lk_page *page);

/* Fill the page of a forecast that was read from its file: its answer, and the tables that the file
 * has the numbers for. */
enum lk_status forecast_page(const struct lk_forecast *f, struct lk_page *page);

/* Say which files of a forecast were written; NULL: none. */
enum lk_status forecast_page_files(const char *out, const char *csv, struct lk_page *page);

/* Return true if the time to a target is known at a point. */
bool forecast_has_target(const struct lk_forecast *f);

#endif
