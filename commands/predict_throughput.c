/* Forecast and validation from a table of throughputs. */
#include "commands/predict_throughput.h"

#include "base/forecast.h"
#include "reports/print.h"

enum lk_status predict_throughput(const char *path, const struct lk_throughput_request *request,
                                  const struct throughput_output *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {0};
    struct lk_forecast f = {0};
    struct lk_table *text = NULL, *csv = NULL;

    LK_TRY(lk_throughput_read(path, &t));
    LK_TRY(lk_throughput_predict(&t, request, &f));
    if (out->json)
        LK_TRY(lk_forecast_write(out->json, &f));
    LK_TRY(lk_forecast_table(&f, &text));
    if (out->csv) {
        LK_TRY(lk_forecast_csv_table(&f, &csv));
        LK_TRY(lk_report_table(csv, LK_FORMAT_CSV, out->csv));
    }
    LK_TRY(lk_report_table(text, (enum lk_format)out->format, "-"));
out:
    lk_table_destroy(text);
    lk_table_destroy(csv);
    lk_forecast_fini(&f);
    lk_throughput_fini(&t);
    return st;
}

enum lk_status validate_throughput(const char *path, double level,
                                   const struct throughput_output *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {0};
    struct lk_table *table = NULL;

    LK_TRY(lk_throughput_read(path, &t));
    LK_TRY(lk_throughput_validate(&t, level, &table));
    if (out->csv)
        LK_TRY(lk_report_table(table, LK_FORMAT_CSV, out->csv));
    LK_TRY(lk_report_table(table, (enum lk_format)out->format, "-"));
out:
    lk_table_destroy(table);
    lk_throughput_fini(&t);
    return st;
}
