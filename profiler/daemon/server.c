/*
 * The daemon. Divisions: its folder, the processes, what they are told, messages.
 */
#include "profiler/daemon/server.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "profiler/daemon/process.h"
#include "profiler/daemon/protocol.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME "dynolog"
#define CONFIG_NAME "/kineto.conf"
/* Without it PyTorch 2.2 to 2.4 for CUDA fail as torch is imported (pytorch/pytorch issues 112389
 * and 131020; dynolog/docs/pytorch_profiler.md recommends 3 s); newer ones ignore it. */
#define DELAY_NAME    "KINETO_DAEMON_INIT_DELAY_S"
#define SYSTEM_CONFIG "/etc/libkineto.conf" /* libkineto/src/ConfigLoader.cpp */

enum {
    VARIABLES_MAX = 5,
    PROCESSES_MAX = 4096,
    MESSAGES_A_TURN = 256,
    /* A missed start is moved to the next multiple of this many iterations: the ranks, which learn
     * of it within a second of each other, then mostly begin at the same one. */
    MULTIPLE = 500,
    LEAD_MS = 8000, /* until a start by time: a process asks every 5 s, and warms up for 2 s */
    LATE_MS = 4000, /* a process that asks less than this before a start gets another one */
    SLACK_S = 60    /* a process that did not record by time is told again after this much more */
};

struct lk_daemon {
    struct lk_daemon_request request;
    char *traces;                   /* request.folder */
    char folder[64];                /* of the socket; "": none yet */
    char *variables[VARIABLES_MAX]; /* of the job's environment */
    size_t n_variables;
    int fd;
    struct lk_daemon_process *processes;
    size_t n, capacity;
    int64_t start_ms; /* of the last recording by time */
    uint64_t ignored;
};

/* ---- Its folder ---- */

static enum lk_status fail_at(const char *what, const char *path)
{
    return lk_fail(LK_EIO, "%s %s: %s", what, path, strerror(errno));
}

/* A socket's path has 107 characters, of which libkineto's own names take 53. */
static enum lk_status make_folder(struct lk_daemon *d)
{
    char folder[sizeof d->folder] = "/tmp/lockstep.XXXXXX";

    if (!mkdtemp(folder))
        return fail_at("cannot make", folder);
    memcpy(d->folder, folder, sizeof folder);
    return LK_OK;
}

static enum lk_status bind_socket(struct lk_daemon *d)
{
    const int yes = 1;
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof address.sun_path, "%s/" SOCKET_NAME, d->folder);
    d->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0 || bind(d->fd, (const struct sockaddr *)&address, sizeof address) ||
        setsockopt(d->fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes))
        return fail_at("cannot listen at", address.sun_path);
    return LK_OK;
}

__attribute__((format(printf, 2, 3))) static enum lk_status add_variable(struct lk_daemon *d,
                                                                         const char *format, ...)
{
    enum lk_status st;
    va_list ap;

    va_start(ap, format);
    st = lk_vasprintf(&d->variables[d->n_variables], format, ap);
    va_end(ap);
    d->n_variables += st == LK_OK;
    return st;
}

/* Write a configuration by which processes ask every second, unless there is one already. */
static enum lk_status write_config(struct lk_daemon *d)
{
    struct lk_writer *w = NULL;
    char path[sizeof d->folder + sizeof CONFIG_NAME];
    enum lk_status st = LK_OK;

    if (getenv("KINETO_CONFIG") || access(SYSTEM_CONFIG, F_OK) == 0)
        return LK_OK;
    snprintf(path, sizeof path, "%s" CONFIG_NAME, d->folder);
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_writer_printf(w, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n"));
    st = lk_writer_commit(w);
    w = NULL;
    LK_TRY(st);
    LK_TRY(add_variable(d, "KINETO_CONFIG=%s", path));
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_daemon_open(const struct lk_daemon_request *r, struct lk_daemon **out)
{
    enum lk_status st = LK_OK;
    struct lk_daemon *d = NULL;

    LK_TRY(lk_alloc(&d, 1, sizeof *d));
    d->fd = -1;
    d->request = *r;
    LK_TRY(lk_kineto_check_path(r->folder));
    LK_TRY(lk_strdup(&d->traces, r->folder));
    d->request.folder = d->traces;
    LK_TRY(make_folder(d));
    LK_TRY(bind_socket(d));
    LK_TRY(add_variable(d, "KINETO_USE_DAEMON=1"));
    LK_TRY(add_variable(d, "KINETO_IPC_SOCKET_DIR=%s", d->folder));
    LK_TRY(add_variable(d, "KINETO_ONDEMAND_TRACE_DIR=%s", d->traces));
    if (!getenv(DELAY_NAME))
        LK_TRY(add_variable(d, DELAY_NAME "=3"));
    LK_TRY(write_config(d));
    LK_HAND_OVER(out, d);
out:
    lk_daemon_close(d);
    return st;
}

const char *const *lk_daemon_environment(const struct lk_daemon *d, size_t *n)
{
    *n = d->n_variables;
    return (const char *const *)d->variables;
}

int lk_daemon_descriptor(const struct lk_daemon *d)
{
    return d->fd;
}

/* Remove the folder with its sockets: libkineto's processes leave theirs behind. */
static void remove_folder(const char *folder)
{
    char **names = NULL, *path = NULL;
    size_t n = 0;

    if (lk_dir_list(folder, "", &names, &n) == LK_OK)
        for (size_t i = 0; i < n; i++) {
            if (lk_path_join(&path, folder, names[i]) == LK_OK)
                (void)unlink(path);
            free(path);
            path = NULL;
        }
    lk_names_free(names, n);
    (void)rmdir(folder);
}

void lk_daemon_close(struct lk_daemon *d)
{
    if (!d)
        return;
    if (d->fd >= 0)
        close(d->fd);
    if (d->folder[0])
        remove_folder(d->folder);
    for (size_t i = 0; i < d->n_variables; i++)
        free(d->variables[i]);
    for (size_t i = 0; i < d->n; i++)
        free(d->processes[i].trace);
    free(d->processes);
    free(d->traces);
    free(d);
}

/* ---- The processes ---- */

const struct lk_daemon_process *lk_daemon_processes(const struct lk_daemon *d, size_t *n)
{
    *n = d->n;
    return d->processes;
}

uint64_t lk_daemon_ignored(const struct lk_daemon *d)
{
    return d->ignored;
}

/* Find the process with an address, or add it; NULL: there are too many. */
static struct lk_daemon_process *process_at(struct lk_daemon *d, const char *address, pid_t pid,
                                            const struct lk_kineto_message *m)
{
    struct lk_process_rank rank;
    struct lk_daemon_process *p;

    for (size_t i = 0; i < d->n; i++)
        if (!strcmp(d->processes[i].address, address))
            return &d->processes[i];
    if (d->n == PROCESSES_MAX ||
        lk_array_grow(&d->processes, &d->capacity, d->n + 1, sizeof *d->processes) != LK_OK)
        return NULL;
    p = &d->processes[d->n];
    rank = lk_process_rank_of(pid);
    *p = (struct lk_daemon_process){.pid = m->pid,
                                    .job = m->job,
                                    .rank = rank.rank,
                                    .world_size = rank.world_size,
                                    .asked_ns = lk_monotonic_ns()};
    snprintf(p->address, sizeof p->address, "%s", address);
    if (lk_asprintf(&p->trace, "%s/p%zu_%d.json", d->traces, d->n, (int)m->pid) != LK_OK)
        return NULL;
    d->n++;
    lk_log(LK_LOG_PROFILE, LK_DEBUG, "process %d (rank %d of %d) asks", (int)m->pid, p->rank,
           p->world_size);
    return p;
}

/* ---- What they are told ---- */

/* Return true if a process has begun to write its trace, or has written it. */
static bool has_begun(const struct lk_daemon_process *p)
{
    char *path = NULL;
    bool found = access(p->trace, F_OK) == 0;

    if (!found && lk_asprintf(&path, "%s.tmp", p->trace) == LK_OK)
        found = access(path, F_OK) == 0;
    free(path);
    return found;
}

/* Return when a recording by time begins, ms since the epoch: for all that ask in time the same. */
static int64_t start_of(struct lk_daemon *d)
{
    int64_t now = (int64_t)(lk_epoch_ns() / LK_NS_PER_MS);

    if (d->start_ms < now + LATE_MS)
        d->start_ms = now + LEAD_MS;
    return d->start_ms;
}

/* Make the text that a process that is ready is told now: "" to wait. */
static enum lk_status text_for(struct lk_daemon *d, struct lk_daemon_process *p, char **out)
{
    const struct lk_daemon_request *r = &d->request;
    struct lk_kineto_recording recording = {.iterations = r->iterations,
                                            .after = r->after,
                                            .multiple = MULTIPLE,
                                            .length_ms = (int64_t)(r->length_ns / LK_NS_PER_MS)};
    uint64_t now = lk_monotonic_ns();
    enum lk_status st = LK_OK;
    char *file = NULL;

    if (now < p->asked_ns + r->delay_ns || now < p->quiet_ns || has_begun(p))
        return lk_strdup(out, "");
    if (!r->iterations) {
        recording.start_ms = start_of(d);
        p->quiet_ns = now + r->length_ns + (LEAD_MS / 1000 + SLACK_S) * LK_NS_PER_S;
    }
    LK_TRY(lk_asprintf(&file, "%s/p%zu.json", d->traces, (size_t)(p - d->processes)));
    recording.file = file;
    LK_TRY(lk_kineto_recording_text(&recording, out));
    p->told++;
out:
    free(file);
    return st;
}

/* ---- Messages ---- */

static enum lk_status answer(struct lk_daemon *d, const struct sockaddr_un *to, socklen_t length,
                             pid_t pid, const struct lk_kineto_message *m)
{
    enum lk_status st = LK_OK;
    struct lk_daemon_process *p = process_at(d, to->sun_path, pid, m);
    char *text = NULL, *bytes = NULL;
    size_t size = 0;

    if (!p)
        LK_TRY(lk_fail(LK_ENOMEM, "too many processes"));
    if (m->type == LK_KINETO_REQUEST && m->ready)
        LK_TRY(text_for(d, p, &text));
    LK_TRY(lk_kineto_answer(m->type, (int32_t)d->n, text ? text : "", &bytes, &size));
    if (sendto(d->fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to,
               length) < 0)
        st = lk_fail(LK_EIO, "cannot answer %s: %s", to->sun_path, strerror(errno));
out:
    free(bytes);
    free(text);
    return st;
}

/* Return the sender's process as this one's PID namespace has it, or 0. */
static pid_t sender_of(struct msghdr *message)
{
    struct ucred who = {0};

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS)
            memcpy(&who, CMSG_DATA(c), sizeof who);
    return who.pid;
}

/* Handle one message; false: there is none. */
static bool serve_one(struct lk_daemon *d)
{
    char data[LK_KINETO_MESSAGE_BYTES];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct sockaddr_un from = {0};
    struct iovec part = {data, sizeof data};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof from - 1, /* so that its path ends */
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct lk_kineto_message m;
    ssize_t n = recvmsg(d->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EINTR;
    if ((message.msg_flags & MSG_TRUNC) || from.sun_path[0] != '/' ||
        lk_kineto_parse(data, (size_t)n, &m) != LK_OK ||
        answer(d, &from, message.msg_namelen, sender_of(&message), &m) != LK_OK) {
        d->ignored++;
        lk_log(LK_LOG_PROFILE, LK_DEBUG, "left out a message of %zd bytes: %s", n, lk_error_text());
    }
    return true;
}

void lk_daemon_serve(struct lk_daemon *d)
{
    for (int i = 0; i < MESSAGES_A_TURN && serve_one(d); i++)
        continue;
}

/* ---- Others ---- */

/* Return true if a socket with this address takes messages. */
static bool is_taken(const struct sockaddr_un *address, size_t length)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool taken = fd >= 0 && connect(fd, (const struct sockaddr *)address, (socklen_t)length) == 0;

    if (fd >= 0)
        close(fd);
    return taken;
}

bool lk_daemon_other(void)
{
    const char *folder = getenv("KINETO_IPC_SOCKET_DIR");
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0" SOCKET_NAME};
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    int n = folder && *folder
                ? snprintf(path.sun_path, sizeof path.sun_path, "%s/" SOCKET_NAME, folder)
                : 0;

    /* libkineto's abstract names end with a NUL that counts. */
    if (is_taken(&name, offsetof(struct sockaddr_un, sun_path) + sizeof SOCKET_NAME + 1))
        return true;
    return n > 0 && (size_t)n < sizeof path.sun_path && is_taken(&path, sizeof path);
}
