/* Forecast the job of a report; see the header. */
#include "commands/report_forecast.h"

#include "base/array.h"
#include "commands/forecast_ask.h"

#include <stdio.h>
#include <string.h>

/* The settings that are tried. */
#define REPORT_CAPS          "1MiB,4MiB,25MiB,100MiB"
#define REPORT_ACCUMULATIONS "1,2,4,8"

/* Write the counts of GPUs, powers of two up to 1,024, as a list. */
static void list_counts(char *out, size_t size)
{
    size_t used = 0;

    for (int n = 1; n <= REPORT_GPUS_MOST && used < size; n *= 2)
        used += (size_t)snprintf(out + used, size - used, "%s%d", n > 1 ? "," : "", n);
}

/* Return the status unless it is a refusal, which is said instead. */
static enum lk_status refuse(struct report_input *r, const char *cluster, enum lk_status st)
{
    if (st != LK_EEVIDENCE && st != LK_EUSAGE)
        return st;
    return lk_text_add(&r->refused, "%s%s: %s", r->refused ? "; " : "", cluster, lk_error_text());
}

/* Forecast the job on a cluster, and other settings of it on most of the GPUs. */
static enum lk_status forecast_on(const struct forecast_question *q, struct report_input *r,
                                  struct lk_page *page)
{
    const char *counts[LK_AXIS_COUNT] = {[LK_AXIS_GPUS] = r->counts};
    const char *most = strrchr(r->counts, ',') + 1;
    const char *settings[LK_AXIS_COUNT] = {[LK_AXIS_GPUS] = most,
                                           [LK_AXIS_BUCKET_CAP] = REPORT_CAPS,
                                           [LK_AXIS_ACCUMULATION] = REPORT_ACCUMULATIONS};
    size_t at = r->in.n_forecasts;
    enum lk_status st = forecast_job(q, counts, false, &r->forecasts[at], NULL, page);

    if (st != LK_OK)
        return refuse(r, q->cluster, st);
    r->made_on[at] = q->cluster;
    r->in.n_forecasts++;
    st = forecast_job(q, settings, true, &r->settings[at], NULL, page);
    return st == LK_OK ? LK_OK : refuse(r, q->cluster, st);
}

enum lk_status report_forecast(const struct forecast_question *q, struct report_input *r,
                               struct lk_page *page)
{
    struct forecast_question of = *q;
    const struct report_operands *job = &r->operands[REPORT_JOB];
    const struct report_operands *clusters = &r->operands[REPORT_CLUSTER];

    if (!job->n || r->in.n_forecasts)
        return LK_OK;
    list_counts(r->counts, sizeof r->counts);
    of.job = job->names[0];
    of.clusters = clusters->names;
    of.n_clusters = clusters->n;
    for (size_t i = 0; i < clusters->n; i++) {
        of.cluster = clusters->names[i];
        LK_PASS(forecast_on(&of, r, page));
    }
    return LK_OK;
}
