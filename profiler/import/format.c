#include "profiler/import/format.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/import/kineto.h"
#include "profiler/import/nsys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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
    return first_of(h) == '{' && has(h, "\"coll_perf\"");
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

static bool is_perfetto(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".pftrace") || lk_ends_with(h->path, ".perfetto-trace");
}

static bool is_xplane(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".xplane.pb");
}

static bool is_chakra(const struct lk_head *h)
{
    return lk_ends_with(h->path, ".et") || lk_ends_with(h->path, ".chakra");
}

/* ---- The table ---- */

/* The first row that fits. */
static const struct lk_format formats[] = {
    {"lockstep's own trace", is_own, NULL, "lockstep analyze DIR reads the folder that it is in"},
    {"a PyTorch execution trace", is_torch_et, NULL,
     "it has no times; give torch.profiler's trace of the run (export_chrome_trace)"},
    {"a Flight Recorder dump", is_flight_json, NULL,
     "it is not read yet; give torch.profiler's trace of the run (export_chrome_trace)"},
    {"a Horovod timeline", is_horovod, NULL,
     "it is not read yet; give torch.profiler's trace of the run"},
    {"NCCL Inspector's output", is_nccl_inspector, NULL,
     "it is not read yet; give nccl-tests' output for a cluster file, or torch.profiler's trace"},
    {"Kineto", is_chrome, lk_kineto_read, NULL},
    {"a rocpd data base", is_rocpd, NULL, "rocpd convert -f pftrace, or torch.profiler's trace"},
    {"Nsight Systems", is_sqlite, lk_nsys_read, NULL},
    {"a report of Nsight Systems", is_nsys_report, NULL,
     "nsys export --type sqlite FILE makes a data base of it, which can be read"},
    {"a Python pickle", is_pickle, NULL,
     "Flight Recorder dumps are not read yet; give torch.profiler's trace of the run"},
    {"a Perfetto trace", is_perfetto, NULL, "traceconv json FILE makes JSON of it"},
    {"an XPlane of JAX", is_xplane, NULL, "JAX writes perfetto_trace.json.gz beside it"},
    {"a Chakra execution trace", is_chakra, NULL, "it is not read yet"},
};

static enum lk_status read_head(const char *path, struct lk_head *h)
{
    gzFile gz = gzopen(path, "rbe");
    int n, code;

    if (!gz)
        return lk_fail(LK_EIO, "%s: cannot open: %s", path, strerror(errno));
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

enum lk_status lk_format_refuse(const char *path, const struct lk_format *format)
{
    if (!format)
        return lk_fail(LK_EPARSE,
                       "%s: is no trace that is known: neither JSON of torch.profiler, nor the "
                       "output of nccl-tests",
                       path);
    return lk_fail(LK_EUNSUPPORTED, "%s: looks like %s: %s", path, format->name, format->instead);
}
