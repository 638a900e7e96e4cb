/* Read Nsight Systems' data bases. Divisions: the library, rows, tables, the file. */
#include "profiler/import/nsys.h"

#include "base/array.h"
#include "base/gz.h"
#include "base/library.h"
#include "profiler/import/devices.h"
#include "profiler/import/event_kind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The library ---- */

/* From sqlite3.h; the numbers and types are part of its interface. */
struct sqlite3;
struct sqlite3_stmt;
enum { SQLITE_OK = 0, SQLITE_ROW = 100, SQLITE_DONE = 101 };
enum { SQLITE_OPEN_READONLY = 1, SQLITE_OPEN_URI = 0x40 };
enum { SQLITE_INTEGER = 1, SQLITE_NULL = 5 };
enum {
    SQLITE_DBCONFIG_ENABLE_TRIGGER = 1003,
    SQLITE_DBCONFIG_DEFENSIVE = 1010,
    SQLITE_DBCONFIG_ENABLE_VIEW = 1015,
    SQLITE_DBCONFIG_TRUSTED_SCHEMA = 1017,
};
enum { SQLITE_LIMIT_LENGTH = 0, SQLITE_LIMIT_ATTACHED = 7 };

/* X(name, result, parameters): functions of libsqlite3. */
#define CALLS(X)                                                                                   \
    X(open_v2, int, (const char *path, struct sqlite3 **db, int flags, const char *vfs))           \
    X(close, int, (struct sqlite3 * db))                                                           \
    X(db_config, int, (struct sqlite3 * db, int what, ...))                                        \
    X(limit, int, (struct sqlite3 * db, int what, int value))                                      \
    X(progress_handler, void,                                                                      \
      (struct sqlite3 * db, int every, int (*handler)(void *ctx), void *ctx))                      \
    X(errmsg, const char *, (struct sqlite3 * db))                                                 \
    X(prepare_v2, int,                                                                             \
      (struct sqlite3 * db, const char *sql, int n, struct sqlite3_stmt **s, const char **tail))   \
    X(step, int, (struct sqlite3_stmt * s))                                                        \
    X(finalize, int, (struct sqlite3_stmt * s))                                                    \
    X(column_type, int, (struct sqlite3_stmt * s, int i))                                          \
    X(column_int64, int64_t, (struct sqlite3_stmt * s, int i))                                     \
    X(column_bytes, int, (struct sqlite3_stmt * s, int i))                                         \
    X(column_blob, const void *, (struct sqlite3_stmt * s, int i))                                 \
    X(column_text, const unsigned char *, (struct sqlite3_stmt * s, int i))

struct calls {
#define MEMBER(name, result, parameters) result(*name) parameters;
    CALLS(MEMBER)
#undef MEMBER
};

static const char *const files[] = {"libsqlite3.so.0", NULL};
static const struct lk_library_symbol symbols[] = {
#define SYMBOL(name, result, parameters) {"sqlite3_" #name, offsetof(struct calls, name)},
    CALLS(SYMBOL)
#undef SYMBOL
};
static const struct lk_library_spec spec = {
    .name = "SQLite", .files = files, .symbols = symbols, .n_symbols = LK_COUNT(symbols)};

/* The place of an NCCL message's size in the payload of a range. */
struct schema {
    int64_t id;
    size_t offset;
};

struct reader {
    struct calls call;
    struct lk_library *library;
    const char *path;
    struct sqlite3 *db;
    struct lk_events *out;
    struct schema *schemas;
    size_t n_schemas, schemas_capacity;
    double work, most_work; /* instructions of SQLite's machine, about */
};

static enum lk_status failed(const struct reader *r, const char *what)
{
    if (r->work > r->most_work)
        return lk_fail(LK_EPARSE,
                       "%s: %s: reading it goes on for longer than its size accounts for: its rows "
                       "are made by its schema",
                       r->path, what);
    return lk_fail(LK_EPARSE, "%s: %s: %s", r->path, what, r->call.errmsg(r->db));
}

/* ---- Rows ---- */

static bool is_null(const struct reader *r, struct sqlite3_stmt *s, int i)
{
    return r->call.column_type(s, i) == SQLITE_NULL;
}

/* Processes and threads are packed: 24 bits each from bit 24 and from bit 0. */
static int64_t pid_of(int64_t global)
{
    return global / 0x1000000 % 0x1000000;
}

static int64_t tid_of(int64_t global)
{
    return global % 0x1000000;
}

/* Correlation ids are a process's own. */
static uint64_t link_of(int64_t global, int64_t correlation)
{
    return correlation > 0 ? (uint64_t)pid_of(global) << 32 | (uint64_t)(uint32_t)correlation : 0;
}

static enum lk_status text_of(const struct reader *r, struct sqlite3_stmt *s, int i, uint32_t *out)
{
    const unsigned char *text = r->call.column_text(s, i);

    return lk_events_name(r->out, text ? (const char *)text : "",
                          text ? (size_t)r->call.column_bytes(s, i) : 0, out);
}

/* Take the columns start, end; false for an event that makes no sense. */
static bool take_times(const struct reader *r, struct sqlite3_stmt *s, struct lk_import_event *e)
{
    bool good;

    e->start_ns = r->call.column_int64(s, 0);
    e->end_ns = r->call.column_int64(s, 1);
    good = !is_null(r, s, 0) && !is_null(r, s, 1) && e->start_ns >= 0 && e->end_ns >= e->start_ns;
    r->out->source.n_read++;
    r->out->source.n_skipped += !good;
    return good;
}

/* Columns: start, end, globalPid, deviceId, streamId, correlationId, name or bytes; of a copy, its
 * direction. */
static enum lk_status take_work(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind)
{
    struct lk_import_event e = {.kind = (uint8_t)kind};
    int64_t process = r->call.column_int64(s, 2);

    if (!take_times(r, s, &e))
        return LK_OK;
    e.link = link_of(process, r->call.column_int64(s, 5));
    /* Two processes on a GPU number their streams alike: their lanes are told apart until all are
     * known (lk_devices_settle). */
    LK_PASS(lk_events_lane(
        r->out, r->call.column_int64(s, 3) % LK_SHARED_DEVICE + pid_of(process) * LK_SHARED_DEVICE,
        r->call.column_int64(s, 4), true, &e.lane));
    r->out->lanes[e.lane].owner = pid_of(process);
    if (kind == LK_EVENT_KERNEL)
        LK_PASS(text_of(r, s, 6, &e.name));
    else
        e.bytes = (uint64_t)r->call.column_int64(s, 6);
    if (kind == LK_EVENT_COPY)
        LK_PASS(text_of(r, s, 7, &e.name));
    return lk_events_add(r->out, &e);
}

/* Columns: start, end, globalTid, correlationId, name. */
static enum lk_status take_call(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind)
{
    struct lk_import_event e = {0};
    int64_t thread = r->call.column_int64(s, 2);
    const char *name = (const char *)r->call.column_text(s, 4);

    if (!name || !lk_event_kind_of_call(name, strlen(name), &kind) || !take_times(r, s, &e))
        return LK_OK;
    e.kind = (uint8_t)kind;
    e.link = link_of(thread, r->call.column_int64(s, 3));
    if (kind != LK_EVENT_LAUNCH)
        LK_PASS(text_of(r, s, 4, &e.name));
    LK_PASS(lk_events_lane(r->out, pid_of(thread), tid_of(thread), false, &e.lane));
    return lk_events_add(r->out, &e);
}

/* Columns: schemaId, offset in the payload, which is NULL for 0. */
static enum lk_status take_schema(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind)
{
    int64_t offset = r->call.column_int64(s, 1);

    (void)kind;
    if (offset < 0 || offset > 1 << 16)
        return LK_OK;
    LK_PASS(lk_array_grow(&r->schemas, &r->schemas_capacity, r->n_schemas + 1, sizeof *r->schemas));
    r->schemas[r->n_schemas++] = (struct schema){r->call.column_int64(s, 0), (size_t)offset};
    return LK_OK;
}

static uint64_t little_endian(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

/*
 * Return the size of an NCCL message in a range's payload; 0: it has none. The payload lies behind
 * a header of 32 bytes, whose third word is the schema's number, all little-endian: NVTX_EVENTS of
 * Nsight Systems 2026, as nsys-ai (nccl_payload_breakdown.py) reads it.
 */
static uint64_t message_bytes(const struct reader *r, struct sqlite3_stmt *s, int column)
{
    enum { HEADER = 32, SCHEMA = 8, SIZE = 8 };
    const unsigned char *bytes = r->call.column_blob(s, column);
    int n = r->call.column_bytes(s, column);

    for (size_t i = 0; bytes && n >= HEADER && i < r->n_schemas; i++)
        if ((uint64_t)r->schemas[i].id == little_endian(bytes + SCHEMA, 4) &&
            HEADER + r->schemas[i].offset + SIZE <= (size_t)n)
            return little_endian(bytes + HEADER + r->schemas[i].offset, SIZE);
    return 0;
}

/* Columns: start, end, globalTid, text, payload. NCCL's own range of a collective has its size. */
static enum lk_status take_nccl(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind)
{
    struct lk_import_event e = {.kind = LK_EVENT_COLLECTIVE};
    struct lk_event_detail c = {.elements = message_bytes(r, s, 4), .dtype = LK_U8};
    const char *name = (const char *)r->call.column_text(s, 3), *function;
    int64_t thread = r->call.column_int64(s, 2);

    (void)kind;
    function = name && !strncmp(name, "nccl", 4) ? lk_event_function_of_nccl(name) : "";
    if (!*function || !c.elements || !take_times(r, s, &e))
        return LK_OK;
    c.dtype_known = true;
    LK_PASS(lk_events_name(r->out, function, strlen(function), &c.function));
    LK_PASS(lk_events_detail(r->out, &c, &e.detail));
    LK_PASS(text_of(r, s, 3, &e.name));
    LK_PASS(lk_events_lane(r->out, pid_of(thread), tid_of(thread), false, &e.lane));
    return lk_events_add(r->out, &e);
}

/* Columns: start, end, globalTid, text. */
static enum lk_status take_range(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind)
{
    struct lk_import_event e = {0};
    int64_t thread = r->call.column_int64(s, 2);
    const char *name = (const char *)r->call.column_text(s, 3);

    if (!name || !lk_event_kind_of_range(r->out, name, strlen(name), &kind) ||
        kind == LK_EVENT_COLLECTIVE || !take_times(r, s, &e))
        return LK_OK;
    e.kind = (uint8_t)kind;
    if (kind == LK_EVENT_STEP)
        e.detail = lk_event_step_number(name, strlen(name));
    LK_PASS(lk_events_lane(r->out, pid_of(thread), tid_of(thread), false, &e.lane));
    if (kind == LK_EVENT_BACKWARD)
        r->out->lanes[e.lane].autograd = true;
    return lk_events_add(r->out, &e);
}

/* ---- Tables ---- */

/* A query, and what its rows are. `columns` must be there; a table that is not there has nothing.
 */
static const struct query {
    const char *table, *columns; /* apart by blanks */
    const char *sql;
    enum lk_event_kind kind;
    enum lk_status (*take)(struct reader *r, struct sqlite3_stmt *s, enum lk_event_kind kind);
    bool instead; /* for older files: not if the row before is used */
} queries[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     "start end globalPid deviceId streamId correlationId demangledName",
     "SELECT k.start, k.end, k.globalPid, k.deviceId, k.streamId, k.correlationId, s.value "
     "FROM CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.demangledName",
     LK_EVENT_KERNEL, take_work, false},
    {"CUPTI_ACTIVITY_KIND_MEMCPY",
     "start end globalPid deviceId streamId correlationId bytes copyKind",
     "SELECT start, end, globalPid, deviceId, streamId, correlationId, bytes, "
     "CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' WHEN 8 THEN 'DtoD' WHEN 10 THEN 'PtoP' "
     "END FROM CUPTI_ACTIVITY_KIND_MEMCPY", /* CUpti_ActivityMemcpyKind */
     LK_EVENT_COPY, take_work, false},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "start end globalPid deviceId streamId correlationId bytes",
     "SELECT start, end, globalPid, deviceId, streamId, correlationId, bytes, NULL "
     "FROM CUPTI_ACTIVITY_KIND_MEMCPY",
     LK_EVENT_COPY, take_work, true},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "start end globalPid deviceId streamId correlationId bytes",
     "SELECT start, end, globalPid, deviceId, streamId, correlationId, bytes "
     "FROM CUPTI_ACTIVITY_KIND_MEMSET",
     LK_EVENT_MEMSET, take_work, false},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId",
     "SELECT r.start, r.end, r.globalTid, r.correlationId, s.value "
     "FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId",
     LK_EVENT_LAUNCH, take_call, false},
    {"NVTX_EVENTS", "start end globalTid text textId",
     "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value) "
     "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId WHERE e.end IS NOT NULL",
     LK_EVENT_STEP, take_range, false},
    {"NVTX_EVENTS", "start end globalTid text",
     "SELECT start, end, globalTid, text FROM NVTX_EVENTS WHERE end IS NOT NULL", LK_EVENT_STEP,
     take_range, true},
    {"NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId name offset",
     "SELECT DISTINCT schemaId, offset FROM NVTX_PAYLOAD_SCHEMA_ENTRIES "
     "WHERE name = 'Message size [bytes]'",
     LK_EVENT_COLLECTIVE, take_schema, false},
    {"NVTX_EVENTS", "start end globalTid text textId binaryData",
     "SELECT e.start, e.end, e.globalTid, coalesce(e.text, s.value), e.binaryData "
     "FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId "
     "WHERE e.end IS NOT NULL AND e.binaryData IS NOT NULL",
     LK_EVENT_COLLECTIVE, take_nccl, false},
};

/* Count the columns of `names` that a table has; *wanted: how many there are. */
static enum lk_status count_columns(struct reader *r, const char *table, const char *names,
                                    size_t *found, size_t *wanted)
{
    struct sqlite3_stmt *s = NULL;
    char sql[128];

    *found = *wanted = 0;
    for (const char *p = names; *p; p += strcspn(p, " "), p += *p == ' ')
        ++*wanted;
    snprintf(sql, sizeof sql, "PRAGMA table_info(%s)", table);
    if (r->call.prepare_v2(r->db, sql, -1, &s, NULL) != SQLITE_OK)
        return failed(r, table);
    while (r->call.step(s) == SQLITE_ROW) {
        const char *name = (const char *)r->call.column_text(s, 1);

        for (const char *p = names; name && *p; p += strcspn(p, " "), p += *p == ' ')
            *found += strcspn(p, " ") == strlen(name) && !strncmp(p, name, strlen(name));
    }
    (void)r->call.finalize(s);
    return LK_OK;
}

static enum lk_status run_query(struct reader *r, const struct query *q)
{
    struct sqlite3_stmt *s = NULL;
    enum lk_status st = LK_OK;
    int code = SQLITE_DONE;

    if (r->call.prepare_v2(r->db, q->sql, -1, &s, NULL) != SQLITE_OK)
        return failed(r, q->table);
    while (st == LK_OK && (code = r->call.step(s)) == SQLITE_ROW)
        st = q->take(r, s, q->kind);
    if (st == LK_OK && code != SQLITE_DONE)
        st = failed(r, q->table);
    (void)r->call.finalize(s);
    return st;
}

static enum lk_status read_tables(struct reader *r)
{
    bool any = false, used = false;

    for (size_t i = 0; i < LK_COUNT(queries); i++) {
        const struct query *q = &queries[i];
        size_t found, wanted;

        if (q->instead && used)
            continue;
        LK_PASS(count_columns(r, q->table, q->columns, &found, &wanted));
        used = found == wanted;
        any = any || used;
        if (used)
            LK_PASS(run_query(r, q));
    }
    if (!any)
        return lk_fail(LK_EPARSE,
                       "%s: no table of Nsight Systems in this SQLite data base (an export of "
                       "nsys profile --trace=cuda,nvtx has CUPTI_ACTIVITY_KIND_KERNEL)",
                       r->path);
    return LK_OK;
}

/* ---- The file ---- */

/* SQLite reads files at any place: unpack a gzipped one into a temporary file, whose name the
 * caller frees after it has removed the file. *out NULL: the file is plain. */
static enum lk_status unpack(const char *path, char **out)
{
    enum { PIECE = 1 << 20 };
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    enum lk_status st = LK_OK;
    char *piece = NULL;
    int n, code, fd = -1;
    gzFile gz = NULL;

    LK_TRY(lk_gz_open(path, &gz));
    LK_TRY(lk_alloc(&piece, PIECE, 1));
    n = gzread(gz, piece, PIECE);
    if (n > 0 && gzdirect(gz))
        goto out;
    LK_TRY(lk_asprintf(out, "%s/lockstep-import-XXXXXX", folder));
    fd = mkstemp(*out);
    if (fd < 0)
        LK_TRY(lk_fail(LK_EIO, "%s: cannot make a temporary file: %s", *out, strerror(errno)));
    for (; n > 0; n = gzread(gz, piece, PIECE)) {
        LK_TRY(lk_gz_check(gz, path));
        if (write(fd, piece, (size_t)n) != n)
            LK_TRY(lk_fail(LK_EIO, "%s: cannot unpack into %s: %s", path, *out, strerror(errno)));
    }
    if (n < 0)
        st = lk_fail(LK_EIO, "%s: cannot read: %s", path, gzerror(gz, &code));
out:
    if (fd >= 0)
        (void)close(fd);
    if (gz)
        (void)gzclose_r(gz);
    free(piece);
    return st;
}

enum {
    WORK_STEP = 100000, /* instructions between two looks at the work */
    VALUE_BYTES_MAX = 64 << 20,
};
/* Instructions that a file's queries may take, and that a byte of it may add: a row has 40 bytes
 * and more, and takes some tens of instructions. */
static const double WORK_FREE = 1e8, WORK_OF_BYTE = 100;

/* Stop queries that go on for longer than the file's size accounts for. */
static int count_work(void *ctx)
{
    struct reader *r = ctx;

    r->work += WORK_STEP;
    return r->work > r->most_work;
}

/* Return the path as a URI: SQLite then takes no locks, and makes no files beside this one. */
static enum lk_status uri_of(const char *path, char **out)
{
    LK_PASS(lk_text_add(out, "file:"));
    path += strspn(path, "/") > 1 ? strspn(path, "/") - 1 : 0; /* "//" would begin a host */
    for (; *path; path++)
        LK_PASS(lk_text_add(out, strchr("%?#", *path) ? "%%%02X" : "%c", (unsigned char)*path));
    return lk_text_add(out, "?immutable=1");
}

/*
 * Open a data base that may be made to do harm: nothing that its schema says is run (views,
 * triggers, functions), nothing is written, and work and sizes have bounds. A release of SQLite
 * that does not know one of the settings goes without it.
 */
static enum lk_status open_data_base(struct reader *r, const char *file)
{
    enum lk_status st = LK_OK;
    static const struct {
        int what, value;
    } settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0}};
    struct stat info;
    char *uri = NULL;

    LK_TRY(uri_of(file, &uri));
    if (r->call.open_v2(uri, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        st = r->db ? failed(r, "cannot open") : lk_fail(LK_ENOMEM, "%s: no memory", r->path);
        goto out;
    }
    r->most_work = WORK_FREE + (stat(file, &info) ? 0 : WORK_OF_BYTE * (double)info.st_size);
    r->call.progress_handler(r->db, WORK_STEP, count_work, r);
    (void)r->call.limit(r->db, SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX);
    (void)r->call.limit(r->db, SQLITE_LIMIT_ATTACHED, 0);
    for (size_t i = 0; i < LK_COUNT(settings); i++)
        (void)r->call.db_config(r->db, settings[i].what, settings[i].value, (int *)NULL);
out:
    free(uri);
    return st;
}

enum lk_status lk_nsys_read(const char *path, const char *step_range, struct lk_events *out)
{
    struct reader r = {.path = path, .out = out};
    enum lk_status st = LK_OK;
    char *unpacked = NULL;

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "Nsight Systems";
    LK_TRY(lk_library_open(&spec, &r.call, &r.library));
    LK_TRY(unpack(path, &unpacked));
    LK_TRY(open_data_base(&r, unpacked ? unpacked : path));
    LK_TRY(read_tables(&r));
    st = lk_devices_settle(out);
out:
    free(r.schemas);
    if (r.db)
        (void)r.call.close(r.db);
    lk_library_close(r.library);
    if (unpacked)
        (void)unlink(unpacked);
    free(unpacked);
    return st;
}
