/* Forecast the job of a report on its clusters, where the operands have no forecast. */
#ifndef LK_COMMANDS_REPORT_FORECAST_H
#define LK_COMMANDS_REPORT_FORECAST_H

#include "base/page.h"
#include "base/status.h"
#include "commands/report_input.h"

struct forecast_question;

/* Add to the forecasts of what was read, and say in r->refused which clusters have none. q: the
 * question, whose job and clusters are set here; page: gets what there is to note. */
enum lk_status report_forecast(const struct forecast_question *q, struct report_input *r,
                               struct lk_page *page);

#endif
