/* Forecast the job of a report on its clusters, where the operands have no forecast. */
#ifndef LK_COMMANDS_REPORT_FORECAST_H
#define LK_COMMANDS_REPORT_FORECAST_H

#include "base/status.h"
#include "commands/report_input.h"

/* Add to the forecasts of what was read, and say in r->refused which clusters have none. */
enum lk_status report_forecast(struct report_input *r);

#endif
