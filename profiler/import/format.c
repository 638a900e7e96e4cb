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

/* The start of a file, gunzipped. */
struct head {
    const char *path;
    unsigned char bytes[1 << 16];
    size_t n;
};

static bool has(const struct head *h, const char *what)
{
    return memmem(h->bytes, h->n, what, strlen(what)) != NULL;
}

static bool begins(const struct head *h, const char *what, size_t n)
{
    return h->n >= n && !memcmp(h->bytes, what, n);
}

static char first_of(const struct head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (!strchr(" \t\r\n", h->bytes[i]))
            return (char)h->bytes[i];
    return '\0';
}

static bool is_chrome(const struct head *h)
{
    char first = first_of(h);

    return (first == '{' && (has(h, "\"traceEvents\"") || has(h, "\"deviceProperties\"") ||
                             has(h, "\"baseTimeNanoseconds\""))) ||
           ((first == '[' || first == '{') && has(h, "\"ph\"") && has(h, "\"ts\""));
}

static bool is_pickle(const struct head *h)
{
    return h->n > 2 && h->bytes[0] == 0x80 && h->bytes[1] >= 2 && h->bytes[1] <= 5;
}

static bool is_flight_pickle(const struct head *h)
{
    return is_pickle(h) &&
           (has(h, "pg_config") || (has(h, "entries") && has(h, "collective_seq_id")));
}

/* zip and tar, which has its mark behind the name and numbers of the first file. */
static bool is_archive(const struct head *h)
{
    enum { TAR_MARK = 257 };

    return begins(h, "PK\3\4", 4) ||
           (h->n >= TAR_MARK + 5 && !memcmp(h->bytes + TAR_MARK, "ustar", 5));
}

static bool is_chakra(const struct head *h)
{
    return lk_ends_with(h->path, ".et") || lk_ends_with(h->path, ".et.gz") ||
           lk_chakra_is(h->bytes, h->n);
}

/* ---- The table ---- */

/* These tell a format; what is left out says nothing. */
struct marks {
    char first; /* its first character but for blanks */
    struct {
        const char *bytes;
        size_t n;
    } begins;               /* its first bytes */
    const char *all[2];     /* texts in its start, each of them */
    const char *any[2];     /* texts in its start, one of them */
    const char *endings[2]; /* of its name, one of them */
    bool (*is)(const struct head *h);
};

/* The first row that fits. */
static const struct row {
    struct lk_format format;
    struct marks marks;
} rows[] = {
    {{.name = "lockstep's own trace",
      .role = LK_FORMAT_OWN,
      .instead = "lockstep analyze DIR reads the folder that it is in"},
     {.first = '{', .all = {"\"lockstep-trace\""}}},
    {{.name = "a file of lockstep's own run",
      .role = LK_FORMAT_OWN,
      .instead = "lockstep analyze DIR reads the folder that it is in"},
     {.first = '{', .any = {"\"schema\": \"lockstep-run\"", "\"schema\": \"lockstep-result\""}}},
    {{.name = "a job, cluster or forecast of lockstep's own",
      .instead = "it is no trace; lockstep predict and lockstep whatif read JOB CLUSTER, lockstep "
                 "report a forecast"},
     {.first = '{', .all = {"\"schema\": \"lockstep-"}}},
    {{.name = "PyTorch's execution traces", .role = LK_FORMAT_SIZES, .read = lk_torch_et_read},
     {.first = '{', .all = {"\"nodes\"", "\"schema\""}, .any = {"\"rf_id\"", "\"ctrl_deps\""}}},
    {{.name = "Flight Recorder", .role = LK_FORMAT_ORDER, .read = lk_flight_json_read},
     {.first = '{', .all = {"\"entries\"", "\"collective_seq_id\""}}},
    {{.name = "Flight Recorder", .role = LK_FORMAT_ORDER, .read = lk_flight_pickle_read},
     {.is = is_flight_pickle}},
    {{.name = "a Horovod timeline",
      .instead = "lockstep profile records the collectives of a job over MPI or NCCL; traces of "
                 "torch.profiler are read, too"},
     {.first = '[', .all = {"start_time_since_epoch_in_micros"}}},
    {{.name = "NCCL Inspector's output",
      .role = LK_FORMAT_POINTS,
      .points = lk_nccl_inspector_read,
      .instead = "lockstep import makes a cluster file of it; it is no trace of a run"},
     {.first = '{', .any = {"\"coll_perf\"", "\"inspector_output_format_version\""}}},
    /* Its other outputs, for Prometheus and for OpenTelemetry. */
    {{.name = "metrics of NCCL Inspector",
      .instead = "they are means over ranges of sizes; without NCCL_INSPECTOR_PROM_DUMP and "
                 "NCCL_INSPECTOR_OTEL_EXPORT it writes each collective, of which lockstep import "
                 "makes a cluster file"},
     {.any = {"nccl_bus_bandwidth_gbs", "nccl_p2p_bus_bandwidth_gbs"}}},
    {{.name = "Chakra (JSON)", .role = LK_FORMAT_TRACE, .read = lk_chakra_json_read},
     {.first = '{', .all = {"\"workload_graph\""}}},
    {{.name = "torch.profiler (Kineto)", .role = LK_FORMAT_TRACE, .read = lk_kineto_read},
     {.is = is_chrome}},
    {{.name = "lockstep profile", .role = LK_FORMAT_TRACE, .read = lk_preload_read},
     {.begins = {LK_FOREIGN_FILE_MAGIC, sizeof LK_FOREIGN_FILE_MAGIC - 1}}},
    /* The process died while it made the file, or had no room for it. */
    {{.name = "an empty file of lockstep's preload library",
      .instead = "there was no room for it, or its process died while it was made"},
     {.endings = {LK_FOREIGN_FILE_SUFFIX}}},
    {{.name = "a rocpd data base",
      .instead = "rocpd convert -f pftrace, or torch.profiler's trace"},
     {.begins = {"SQLite format 3", 16}, .all = {"rocpd_"}}},
    {{.name = "Nsight Systems (SQLite)", .role = LK_FORMAT_TRACE, .read = lk_nsys_read},
     {.begins = {"SQLite format 3", 16}}},
    {{.name = "a report of Nsight Systems",
      .instead = "nsys export --type sqlite FILE makes a data base of it, which can be read"},
     {.endings = {".nsys-rep", ".qdrep"}}},
    {{.name = "a Python pickle",
      .instead = "of pickles only dumps of Flight Recorder are read; torch.profiler's "
                 "export_chrome_trace writes a trace"},
     {.is = is_pickle}},
    {{.name = "a Perfetto trace", .instead = "traceconv json FILE makes JSON of it"},
     {.endings = {".pftrace", ".perfetto-trace"}}},
    {{.name = "an XPlane of JAX", .instead = "JAX writes perfetto_trace.json.gz beside it"},
     {.endings = {".xplane.pb"}}},
    {{.name = "a Parquet file",
      .instead = "of tables CSV is read: pandas.read_parquet(FILE).to_csv(\"table.csv\", "
                 "index=False)"},
     {.begins = {"PAR1", 4}}},
    {{.name = "an archive", .instead = "unpack it, and give the files in it"}, {.is = is_archive}},
    {{.name = "Chakra", .role = LK_FORMAT_TRACE, .read = lk_chakra_read}, {.is = is_chakra}},
};

static bool fits(const struct marks *m, const struct head *h)
{
    if ((m->first && m->first != first_of(h)) ||
        (m->begins.n && !begins(h, m->begins.bytes, m->begins.n)) || (m->is && !m->is(h)))
        return false;
    for (size_t i = 0; i < LK_COUNT(m->all); i++)
        if (m->all[i] && !has(h, m->all[i]))
            return false;
    for (size_t i = 0; i < LK_COUNT(m->any); i++)
        if (m->any[i] && has(h, m->any[i]))
            return true;
    for (size_t i = 0; i < LK_COUNT(m->endings); i++)
        if (m->endings[i] && lk_ends_with(h->path, m->endings[i]))
            return true;
    return !m->any[0] && !m->endings[0];
}

static enum lk_status read_head(const char *path, struct head *h)
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
    struct head *h = NULL;
    enum lk_status st = LK_OK;

    *out = NULL;
    LK_TRY(lk_alloc(&h, 1, sizeof *h));
    LK_TRY(read_head(path, h));
    for (size_t i = 0; i < LK_COUNT(rows) && !*out; i++)
        if (fits(&rows[i].marks, h))
            *out = &rows[i].format;
out:
    free(h);
    return st;
}

/* Write the names of the formats that are read to buf, " a, b", and return it. */
static const char *list_read(char *buf, size_t size)
{
    size_t n = 0;

    *buf = '\0';
    for (size_t i = 0; i < LK_COUNT(rows) && n < size; i++)
        if (rows[i].format.read &&
            strcmp(rows[i].format.name, rows[i ? i - 1 : i + 1].format.name) != 0)
            n += (size_t)snprintf(buf + n, size - n, "%s %s", n ? "," : "", rows[i].format.name);
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
