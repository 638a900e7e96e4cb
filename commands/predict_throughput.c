/* Forecast and validation from a table of throughputs. */
#include "commands/predict_throughput.h"

#include "base/array.h"
#include "base/forecast.h"
#include "base/gradients.h"
#include "commands/find_cluster.h"
#include "commands/find_job.h"
#include "reports/print.h"

#include <string.h>

const char *const throughput_dtypes[] = {
#define DTYPE_NAME(type, name, bytes) name,
    LK_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
        NULL};

void throughput_job_fini(struct throughput_job *j)
{
    lk_job_fini(&j->job);
    lk_cluster_fini(&j->cluster);
    memset(j, 0, sizeof *j);
}

/* A job file's ready times are taken as measured where they are not the even default. */
static bool is_timed(const struct lk_job *j)
{
    for (size_t i = 0; i < j->n_tensors; i++)
        if (j->tensors[j->ready_order[i]].ready != (double)(i + 1) / (double)j->n_tensors)
            return true;
    return false;
}

static enum lk_status find_gradients(const struct throughput_options *o, const char *path,
                                     struct throughput_job *out)
{
    enum lk_status st = LK_OK;
    double n;

    if (o->parameters) {
        LK_TRY(lk_gradients_parse_count(o->parameters, &n));
        LK_TRY(lk_gradients_of_count(n, (enum lk_dtype)o->dtype, &out->job));
    } else if (o->gradients) {
        LK_TRY(
            lk_gradients_read(o->gradients, (enum lk_dtype)o->dtype, &out->job, &out->model.timed));
    } else {
        LK_TRY(find_job(path, &out->job));
        out->model.timed = is_timed(&out->job);
    }
out:
    return st;
}

enum lk_status throughput_job_find(const struct throughput_options *o, const char *cluster,
                                   const char *const *operands, int n, struct throughput_job *out)
{
    enum lk_status st = LK_OK;
    bool list = o->parameters || o->gradients;
    int jobs = list ? 0 : 1, clusters = cluster ? 0 : 1;

    memset(out, 0, sizeof *out);
    if (o->parameters && o->gradients)
        return lk_fail(LK_EUSAGE, "--parameters and --gradients: give one or the other");
    if (!n && !cluster && !list)
        return LK_OK;
    if (n != jobs + clusters)
        return lk_fail(LK_EUSAGE, "with --throughput give both or neither of what the job is (JOB, "
                                  "--parameters or --gradients) and its cluster (CLUSTER or "
                                  "--cluster), each once");
    LK_TRY(find_gradients(o, operands[0], out));
    LK_TRY(find_cluster(cluster ? cluster : operands[jobs], &out->cluster));
    out->model.job = &out->job;
    out->model.cluster = &out->cluster;
    out->known = true;
out:
    if (st != LK_OK)
        throughput_job_fini(out);
    return st;
}

enum lk_status predict_throughput(const char *path, const struct lk_throughput_request *request,
                                  const struct throughput_output *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {0};
    struct lk_forecast f = {0};
    struct lk_table *tables[2] = {NULL}, *csv = NULL;
    size_t n = 0;

    LK_TRY(lk_throughput_read(path, &t));
    LK_TRY(lk_throughput_predict(&t, request, &f));
    if (out->json)
        LK_TRY(lk_forecast_write(out->json, &f));
    LK_TRY(lk_forecast_table(&f, &tables[n++]));
    if (request->model)
        LK_TRY(lk_forecast_loss_table(&f, &tables[n++]));
    if (out->csv) {
        LK_TRY(lk_forecast_csv_table(&f, &csv));
        LK_TRY(lk_report_table(csv, LK_FORMAT_CSV, out->csv));
    }
    LK_TRY(lk_report_tables((const struct lk_table *const *)tables, n, (enum lk_format)out->format,
                            "-"));
out:
    for (size_t i = 0; i < LK_COUNT(tables); i++)
        lk_table_destroy(tables[i]);
    lk_table_destroy(csv);
    lk_forecast_fini(&f);
    lk_throughput_fini(&t);
    return st;
}

enum lk_status validate_throughput(const char *path, const struct lk_throughput_request *request,
                                   const struct throughput_output *out)
{
    enum lk_status st = LK_OK;
    struct lk_throughput_table t = {0};
    struct lk_table *table = NULL;

    LK_TRY(lk_throughput_read(path, &t));
    LK_TRY(lk_throughput_validate(&t, request, &table));
    if (out->csv)
        LK_TRY(lk_report_table(table, LK_FORMAT_CSV, out->csv));
    LK_TRY(lk_report_table(table, (enum lk_format)out->format, "-"));
out:
    lk_table_destroy(table);
    lk_throughput_fini(&t);
    return st;
}
