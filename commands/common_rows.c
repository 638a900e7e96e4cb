/* Output that several commands write alike; see the header. */
#include "commands/common_rows.h"

enum lk_status forecast_write(const struct lk_forecast *f, const char *out, const char *csv)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    if (out)
        LK_TRY(lk_forecast_write(out, f));
    if (csv) {
        LK_TRY(lk_forecast_csv_table(f, &t));
        LK_TRY(lk_report_table(t, LK_FORMAT_CSV, csv));
    }
out:
    lk_table_destroy(t);
    return st;
}
