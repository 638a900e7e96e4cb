/* The way of lockstep profile by Kineto's daemon protocol: PyTorch records itself. */
#include "commands/profile_ops.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/daemon/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct daemon_way {
    struct profile_request request;
    struct lk_daemon *daemon;
    bool is_other; /* a dynolog daemon was on this machine when the job began */
};

static void close_way(void *way)
{
    struct daemon_way *w = way;

    if (w)
        lk_daemon_close(w->daemon);
    free(w);
}

static enum lk_status open_way(const struct profile_request *r, void **out)
{
    const struct lk_daemon_request request = {.folder = r->traces,
                                              .iterations = r->steps,
                                              .after = r->after,
                                              .delay_ns = (uint64_t)(r->delay_s * 1e9),
                                              .length_ns = (uint64_t)(r->length_s * 1e9)};
    struct daemon_way *w = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    w->request = *r;
    w->is_other = lk_daemon_other();
    LK_TRY(lk_daemon_open(&request, &w->daemon));
    LK_HAND_OVER(out, w);
out:
    close_way(w);
    return st;
}

static const char *const *environment(const void *way, size_t *n)
{
    return lk_daemon_environment(((const struct daemon_way *)way)->daemon, n);
}

static int descriptor(const void *way)
{
    return lk_daemon_descriptor(((const struct daemon_way *)way)->daemon);
}

static void serve(void *way)
{
    lk_daemon_serve(((struct daemon_way *)way)->daemon);
}

/* Return true if an earlier process of this rank wrote a trace: its helpers, as of a data loader,
 * inherit its environment and import torch, too. */
static bool is_helper(const struct lk_daemon_process *all, const struct lk_daemon_process *p,
                      const bool *has_trace)
{
    for (const struct lk_daemon_process *q = all; q < p && p->rank >= 0; q++)
        if (q->rank == p->rank && has_trace[q - all])
            return true;
    return false;
}

/* Return the path of a process's trace in *out, whole or as far as the process came: NULL for one
 * that has none. The caller frees it. */
static enum lk_status find_trace(const struct lk_daemon_process *p, char **out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    if (lk_file_exists(p->trace))
        return lk_strdup(out, p->trace);
    LK_TRY(lk_asprintf(&path, "%s.tmp", p->trace));
    if (lk_file_exists(path)) {
        LK_HAND_OVER(out, path);
    }
out:
    free(path);
    return st;
}

/* Give a trace the name by which `lockstep import` knows its rank, and list it. */
static enum lk_status take_trace(const struct daemon_way *w, const struct lk_daemon_process *p,
                                 const char *path, struct profile_found *out)
{
    enum lk_status st = LK_OK;
    char *name = NULL;

    if (p->rank >= 0)
        LK_TRY(lk_asprintf(&name, "%s/rank%d.json", w->request.traces, p->rank));
    else
        LK_TRY(lk_strdup(&name, p->trace));
    if (strcmp(name, path) != 0 && rename(path, name))
        st = lk_fail(LK_EIO, "cannot rename %s to %s: %s", path, name, strerror(errno));
    else
        LK_TRY(lk_names_add(&out->files, &out->n, &out->capacity, name));
out:
    free(name);
    return st;
}

static enum lk_status collect(void *way, struct profile_found *out)
{
    struct daemon_way *w = way;
    const struct lk_daemon_process *all;
    enum lk_status st = LK_OK;
    bool *has_trace = NULL;
    char *path = NULL;
    size_t n;

    all = lk_daemon_processes(w->daemon, &n);
    LK_TRY(lk_alloc(&has_trace, n, sizeof *has_trace));
    for (size_t i = 0; i < n; i++) {
        free(path);
        path = NULL;
        LK_TRY(find_trace(&all[i], &path));
        if (!path || is_helper(all, &all[i], has_trace))
            continue;
        has_trace[i] = true;
        LK_TRY(take_trace(w, &all[i], path, out));
        if (all[i].world_size > out->world_size)
            out->world_size = all[i].world_size;
    }
out:
    free(path);
    free(has_trace);
    return st;
}

static void explain(const void *way, size_t n_recorded)
{
    const struct daemon_way *w = way;
    size_t n, n_told = 0;
    const struct lk_daemon_process *all = lk_daemon_processes(w->daemon, &n);
    uint64_t n_ignored = lk_daemon_ignored(w->daemon);

    for (size_t i = 0; i < n; i++)
        n_told += all[i].told > 0;
    if (w->is_other)
        profile_say("a dynolog daemon is on this machine; it was left alone, and did not see this "
                    "job");
    if (n_ignored)
        profile_say("%llu messages to the recorder made no sense and were left out",
                    (unsigned long long)n_ignored);
    if (n_recorded)
        return;
    if (!n)
        profile_say("no process asked to be recorded: that takes PyTorch 2.0 or newer, built with "
                    "Kineto (its wheels are, Debian's python3-torch is not), on this machine");
    else if (!n_told)
        profile_say("%zu processes asked to be recorded; the job ended before --delay", n);
    else if (w->request.steps)
        profile_say("%zu processes asked to be recorded, and none wrote %lld iterations behind the "
                    "first %lld: the job was too short (--after, --steps), or has no optimizer of "
                    "torch.optim (--for)",
                    n, (long long)w->request.steps, (long long)w->request.after);
    else
        profile_say("%zu processes asked to be recorded; the job ended before any had written its "
                    "trace",
                    n);
}

const struct profile_ops profile_daemon = {
    .name = "daemon",
    .text = "Kineto's daemon protocol",
    .apart = "give a larger --after",
    .overhead = "unknown, since steps outside the recorded ones are not seen",
    .open = open_way,
    .environment = environment,
    .descriptor = descriptor,
    .serve = serve,
    .collect = collect,
    .explain = explain,
    .close = close_way,
};
