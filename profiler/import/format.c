#include "profiler/import/format.h"

#include "base/array.h"
#include "base/file.h"
#include "base/gz.h"
#include "facts/foreign_file.h"
#include "profiler/import/chakra.h"
#include "profiler/import/flight_recorder.h"
#include "profiler/import/kineto.h"
#include "profiler/import/nccl_inspector.h"
#include "profiler/import/nsys.h"
#include "profiler/import/preload.h"
#include "profiler/import/torch_et.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Content ---- */

static bool has(const struct lk_head *h, const char *what)
{
    return memmem(h->bytes, h->n, what, strlen(what)) != NULL;
}

static bool begins(const struct lk_head *h, const char *what, size_t n)
{
    return h->n >= n && !memcmp(h->bytes, what, n);
}

static char first_of(const struct lk_head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (!strchr(" \t\r\n", h->bytes[i]))
            return (char)h->bytes[i];
    return '\0';
}

static bool is_own(const struct lk_head *h)
{
    return first_of(h) == '{' && has(h, "\"lockstep-trace\"");
}

static bool is_torch_et(const struct lk_head *h)
{
    return first_of(h) == '{' && has(h, "\"nodes\"") && has(h, "\"schema\"") &&
           (has(h, "\"rf_id\"") || has(h, "\"ctrl_deps\""));
}

static bool is_flight_json(const struct lk_head *h)
{
    return first_of(h) == '{' && has(h, "\"entries\"") && has(h, "\"collective_seq_id\"");
}

static bool is_horovod(const struct lk_head *h)
{
    return first_of(h) == '[' && has(h, "start_time_since_epoch_in_micros");
}

static bool is_nccl_inspector(const struct lk_head *h)
{
    return first_of(h) == '{' &&
           (has(h, "\"coll_perf\"") || has(h, "\"inspector_output_format_version\""));
}

/* Its other outputs, for Prometheus and for OpenTelemetry. */
static bool is_inspector_metrics(const struct lk_head *h)
{
    return has(h, "nccl_bus_bandwidth_gbs") || has(h, "nccl_p2p_bus_bandwidth_gbs");
}

static bool is_chrome(const struct lk_head *h)
{
    char first = first_of(h);

    return (first == '{' && (has(h, "\"traceEvents\"") || has(h, "\"deviceProperties\"") ||
                             has(h, "\"baseTimeNanoseconds\""))) ||
           ((first == '[' || first == '{') && has(h, "\"ph\"") && has(h, "\"ts\""));
}

static bool is_sqlite(const struct lk_head *h)
{
    return begins(h, "SQLite format 3", 16);
}

static bool is_rocpd(const struct lk_head *h)
{
    return is_sqlite(h) && has(h, "rocpd_");
}

static bool is_nsys_report(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".nsys-rep") || lk_ends_with(h->path, ".qdrep");
}

static bool is_pickle(const struct lk_head *h)
{
    return h->n > 2 && h->bytes[0] == 0x80 && h->bytes[1] >= 2 && h->bytes[1] <= 5;
}

static bool is_flight_pickle(const struct lk_head *h)
{
    return is_pickle(h) &&
           (has(h, "pg_config") || (has(h, "entries") && has(h, "collective_seq_id")));
}

static bool is_perfetto(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".pftrace") || lk_ends_with(h->path, ".perfetto-trace");
}

static bool is_xplane(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".xplane.pb");
}

static bool is_parquet(const struct lk_head *h)
{
    return begins(h, "PAR1", 4);
}

/* zip and tar, which has its mark behind the name and numbers of the first file. */
static bool is_archive(const struct lk_head *h)
{
    enum { TAR_MARK = 257 };

    return begins(h, "PK\3\4", 4) ||
           (h->n >= TAR_MARK + 5 && !memcmp(h->bytes + TAR_MARK, "ustar", 5));
}

static bool is_chakra(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".et") || lk_ends_with(h->path, ".et.gz") ||
           lk_chakra_is(h->bytes, h->n);
}

static bool is_chakra_json(const struct lk_head *h)
{
    return first_of(h) == '{' && has(h, "\"workload_graph\"");
}

static bool is_preload(const struct lk_head *h)
{
    return begins(h, LK_FOREIGN_FILE_MAGIC, sizeof LK_FOREIGN_FILE_MAGIC - 1);
}

/* The process died while it made the file, or had no room for it. */
static bool is_unfinished(const struct lk_head *h)
{
    return lk_ends_with(h->path, LK_FOREIGN_FILE_SUFFIX);
}

static bool is_run_file(const struct lk_head *h)
{
    return first_of(h) == '{' &&
           (has(h, "\"schema\": \"lockstep-run\"") || has(h, "\"schema\": \"lockstep-result\""));
}

static bool is_artefact(const struct lk_head *h)
{
    return first_of(h) == '{' && has(h, "\"schema\": \"lockstep-");
}

/* ---- The table ---- */

/* The first row that fits. */
static const struct lk_format formats[] = {
    {.name = "lockstep's own trace",
     .is = is_own,
     .role = LK_FORMAT_OWN,
     .instead = "lockstep analyze DIR reads the folder that it is in"},
    {.name = "a file of lockstep's own run",
     .is = is_run_file,
     .role = LK_FORMAT_OWN,
     .instead = "lockstep analyze DIR reads the folder that it is in"},
    {.name = "a job, cluster or forecast of lockstep's own",
     .is = is_artefact,
     .instead = "it is no trace; lockstep predict and lockstep whatif read JOB CLUSTER, lockstep "
                "report a forecast"},
    {.name = "PyTorch's execution traces",
     .is = is_torch_et,
     .role = LK_FORMAT_SIZES,
     .read = lk_torch_et_read},
    {.name = "Flight Recorder",
     .is = is_flight_json,
     .role = LK_FORMAT_ORDER,
     .read = lk_flight_json_read},
    {.name = "Flight Recorder",
     .is = is_flight_pickle,
     .role = LK_FORMAT_ORDER,
     .read = lk_flight_pickle_read},
    {.name = "a Horovod timeline",
     .is = is_horovod,
     .instead = "lockstep profile records the collectives of a job over MPI or NCCL; traces of "
                "torch.profiler are read, too"},
    {.name = "NCCL Inspector's output",
     .is = is_nccl_inspector,
     .role = LK_FORMAT_POINTS,
     .points = lk_nccl_inspector_read,
     .instead = "lockstep import makes a cluster file of it; it is no trace of a run"},
    {.name = "metrics of NCCL Inspector",
     .is = is_inspector_metrics,
     .instead = "they are means over ranges of sizes; without NCCL_INSPECTOR_PROM_DUMP and "
                "NCCL_INSPECTOR_OTEL_EXPORT it writes each collective, of which lockstep import "
                "makes a cluster file"},
    {.name = "Chakra (JSON)",
     .is = is_chakra_json,
     .role = LK_FORMAT_TRACE,
     .read = lk_chakra_json_read},
    {.name = "torch.profiler (Kineto)",
     .is = is_chrome,
     .role = LK_FORMAT_TRACE,
     .read = lk_kineto_read},
    {.name = "lockstep profile",
     .is = is_preload,
     .role = LK_FORMAT_TRACE,
     .read = lk_preload_read},
    {.name = "an empty file of lockstep's preload library",
     .is = is_unfinished,
     .instead = "there was no room for it, or its process died while it was made"},
    {.name = "a rocpd data base",
     .is = is_rocpd,
     .instead = "rocpd convert -f pftrace, or torch.profiler's trace"},
    {.name = "Nsight Systems (SQLite)",
     .is = is_sqlite,
     .role = LK_FORMAT_TRACE,
     .read = lk_nsys_read},
    {.name = "a report of Nsight Systems",
     .is = is_nsys_report,
     .instead = "nsys export --type sqlite FILE makes a data base of it, which can be read"},
    {.name = "a Python pickle",
     .is = is_pickle,
     .instead = "of pickles only dumps of Flight Recorder are read; torch.profiler's "
                "export_chrome_trace writes a trace"},
    {.name = "a Perfetto trace",
     .is = is_perfetto,
     .instead = "traceconv json FILE makes JSON of it"},
    {.name = "an XPlane of JAX",
     .is = is_xplane,
     .instead = "JAX writes perfetto_trace.json.gz beside it"},
    {.name = "a Parquet file",
     .is = is_parquet,
     .instead = "of tables CSV is read: pandas.read_parquet(FILE).to_csv(\"table.csv\", "
                "index=False)"},
    {.name = "an archive", .is = is_archive, .instead = "unpack it, and give the files in it"},
    {.name = "Chakra", .is = is_chakra, .role = LK_FORMAT_TRACE, .read = lk_chakra_read},
};

static enum lk_status read_head(const char *path, struct lk_head *h)
{
    gzFile gz;
    int n, code;

    LK_PASS(lk_gz_open(path, &gz));
    n = gzread(gz, h->bytes, sizeof h->bytes);
    if (n < 0) {
        (void)lk_fail(LK_EIO, "%s: cannot read: %s", path, gzerror(gz, &code));
        (void)gzclose_r(gz);
        return LK_EIO;
    }
    (void)gzclose_r(gz);
    h->n = (size_t)n;
    h->path = path;
    return LK_OK;
}

enum lk_status lk_format_of(const char *path, const struct lk_format **out)
{
    struct lk_head *h = NULL;
    enum lk_status st = LK_OK;

    *out = NULL;
    LK_TRY(lk_alloc(&h, 1, sizeof *h));
    LK_TRY(read_head(path, h));
    for (size_t i = 0; i < LK_COUNT(formats) && !*out; i++)
        if (formats[i].is(h))
            *out = &formats[i];
out:
    free(h);
    return st;
}

/* Write the names of the formats that are read to buf, " a, b", and return it. */
static const char *list_read(char *buf, size_t size)
{
    size_t n = 0;

    *buf = '\0';
    for (size_t i = 0; i < LK_COUNT(formats) && n < size; i++)
        if (formats[i].read && strcmp(formats[i].name, formats[i ? i - 1 : i + 1].name) != 0)
            n += (size_t)snprintf(buf + n, size - n, "%s %s", n ? "," : "", formats[i].name);
    return buf;
}

enum lk_status lk_format_refuse(const char *path, const struct lk_format *format)
{
    char known[256];

    if (!format)
        return lk_fail(LK_EPARSE, "%s: is no trace that is known; read are%s", path,
                       list_read(known, sizeof known));
    return lk_fail(LK_EUNSUPPORTED, "%s: looks like %s: %s", path, format->name, format->instead);
}
