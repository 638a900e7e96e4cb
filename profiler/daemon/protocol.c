/* Read and write the messages of libkineto's daemon. */
#include "profiler/daemon/protocol.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    TYPE_BYTES = 32,
    CONTEXT_BYTES = 16,
    REQUEST_BYTES = 16, /* without its list */
    ACTIVITIES = 2,     /* bit of a request's kinds */
    WARMUP_STEPS = 2,   /* recorded and thrown away: CUPTI's first moments are slow */
    WARMUP_S = 2,       /* the same, by time */
    /* A recording begins and ends within an optimizer's step: so many more give whole steps. */
    EDGE_STEPS = 2
};

/* By enum lk_kineto_type. */
static const char *const type_names[] = {"ctxt", "req"};

/* ---- Messages ---- */

static int32_t int32_at(const char *p)
{
    int32_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static int64_t int64_at(const char *p)
{
    int64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

static enum lk_status parse_context(const char *payload, size_t size, struct lk_kineto_message *m)
{
    if (size != CONTEXT_BYTES)
        return lk_fail(LK_EPARSE, "a context has %d bytes, not %zu", CONTEXT_BYTES, size);
    m->pid = int32_at(payload + 4);
    m->job = int64_at(payload + 8);
    return LK_OK;
}

static enum lk_status parse_request(const char *payload, size_t size, struct lk_kineto_message *m)
{
    int32_t n;

    if (size < REQUEST_BYTES)
        return lk_fail(LK_EPARSE, "a request has at least %d bytes, not %zu", REQUEST_BYTES, size);
    n = int32_at(payload + 4);
    if (n < 1 || n > LK_KINETO_PIDS_MAX)
        return lk_fail(LK_EPARSE, "a request of %d processes", (int)n);
    if (size != REQUEST_BYTES + 4 * (size_t)n)
        return lk_fail(LK_EPARSE, "a request of %d processes has %zu bytes", (int)n, size);
    m->ready = (int32_at(payload) & ACTIVITIES) != 0;
    m->job = int64_at(payload + 8);
    m->pid = int32_at(payload + REQUEST_BYTES);
    return LK_OK;
}

enum lk_status lk_kineto_parse(const void *data, size_t size, struct lk_kineto_message *out)
{
    struct lk_kineto_message m = {0};
    const char *bytes = data, *type = bytes + sizeof(uint64_t);
    uint64_t payload = 0;
    size_t i = 0;

    if (size < LK_KINETO_HEADER_BYTES)
        return lk_fail(LK_EPARSE, "a message of %zu bytes is shorter than its header", size);
    memcpy(&payload, bytes, sizeof payload);
    if (payload != size - LK_KINETO_HEADER_BYTES)
        return lk_fail(LK_EPARSE, "a message says that it has %llu bytes, and has %zu",
                       (unsigned long long)payload, size - LK_KINETO_HEADER_BYTES);
    while (i < LK_COUNT(type_names) && strncmp(type, type_names[i], TYPE_BYTES) != 0)
        i++;
    if (i == LK_COUNT(type_names))
        return lk_fail(LK_EPARSE, "a message of unknown type");
    m.type = (enum lk_kineto_type)i;
    LK_PASS((m.type == LK_KINETO_CONTEXT ? parse_context : parse_request)(
        bytes + LK_KINETO_HEADER_BYTES, size - LK_KINETO_HEADER_BYTES, &m));
    if (m.pid < 1)
        return lk_fail(LK_EPARSE, "process %d does not exist", (int)m.pid);
    *out = m;
    return LK_OK;
}

enum lk_status lk_kineto_answer(enum lk_kineto_type type, int32_t processes, const char *text,
                                char **out, size_t *size)
{
    const bool context = type == LK_KINETO_CONTEXT;
    uint64_t payload = context ? sizeof processes : strlen(text);
    char *bytes = NULL;

    LK_PASS(lk_alloc(&bytes, LK_KINETO_HEADER_BYTES + payload, 1));
    memcpy(bytes, &payload, sizeof payload);
    memcpy(bytes + sizeof payload, type_names[type], strlen(type_names[type]));
    memcpy(bytes + LK_KINETO_HEADER_BYTES, context ? (const void *)&processes : text, payload);
    *out = bytes;
    *size = LK_KINETO_HEADER_BYTES + payload;
    return LK_OK;
}

/* ---- What to record ---- */

enum lk_status lk_kineto_check_path(const char *folder)
{
    static const char *const refused[] = {"#", "=", "..", ".json", "\n", "\t"};
    size_t n = strlen(folder);

    for (size_t i = 0; i < LK_COUNT(refused); i++)
        if (strstr(folder, refused[i]))
            return lk_fail(LK_EUSAGE,
                           "%s: PyTorch's recorder cannot write to a path with '#', '=', '..', "
                           "'.json' or control characters in it",
                           folder);
    if (n == 0 || folder[0] == ' ' || folder[n - 1] == ' ')
        return lk_fail(LK_EUSAGE,
                       "'%s': PyTorch's recorder cannot write to a path with a blank at its end",
                       folder);
    return LK_OK;
}

/*
 * ACTIVITIES_DURATION_MSECS=0 matters: without it versions of 2025-09 and newer record by time, at
 * once, where no optimizer has stepped yet, that is, while the job still imports (libkineto/src/
 * AsyncActivityProfilerHandler.cpp, scheduleTrace).
 */
enum lk_status lk_kineto_recording_text(const struct lk_kineto_recording *r, char **out)
{
    static const char shapes[] = "PROFILE_REPORT_INPUT_SHAPES=true\n";
    const char *name = strrchr(r->file, '/');
    char *folder = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_strndup(&folder, r->file, name ? (size_t)(name - r->file) : 0));
    LK_TRY(lk_kineto_check_path(folder));
    if (r->iterations)
        LK_TRY(lk_asprintf(out,
                           "ACTIVITIES_LOG_FILE=%s\nPROFILE_START_ITERATION=%lld\n"
                           "PROFILE_START_ITERATION_ROUNDUP=%lld\nACTIVITIES_ITERATIONS=%lld\n"
                           "ACTIVITIES_WARMUP_ITERATIONS=%d\nACTIVITIES_DURATION_MSECS=0\n%s",
                           r->file, (long long)r->after, (long long)r->multiple,
                           (long long)r->iterations + EDGE_STEPS, WARMUP_STEPS, shapes));
    else
        LK_TRY(lk_asprintf(out,
                           "ACTIVITIES_LOG_FILE=%s\nPROFILE_START_TIME=%lld\n"
                           "ACTIVITIES_DURATION_MSECS=%lld\nACTIVITIES_WARMUP_PERIOD_SECS=%d\n%s",
                           r->file, (long long)r->start_ms, (long long)r->length_ms, WARMUP_S,
                           shapes));
out:
    free(folder);
    return st;
}
