/*
 * Draw charts by gnuplot: the files, and the child process. The child knows no file to write: the
 * picture comes through a pipe, and is written as all files of this program are.
 */
#include "reports/chart/gnuplot.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */

/* A picture takes well under a second; a gnuplot that takes longer than this hangs. */
#define GNUPLOT_TIMEOUT_NS (60 * LK_NS_PER_S)
/* Points of type are 1/72 inch, pixels 1/96. */
#define POINTS_PER_PIXEL 0.75
#define PIXELS_PER_INCH  96.0
#define FONT             "DejaVu Sans"

static const struct {
    const char *suffix, *terminal;
    double px;   /* units of its type that are a pixel */
    double unit; /* pixels of a unit of its size */
    const char *unit_name;
} terminals[] = {
    {"svg", "svg dynamic", 1, 1, ""},
    {"png", "pngcairo", POINTS_PER_PIXEL, 1, ""},
    {"pdf", "pdfcairo", POINTS_PER_PIXEL, PIXELS_PER_INCH, "in"},
};

/* A picture on its way: what gnuplot does, and what it has written so far. */
struct picture {
    const char *dir, *name;
    pid_t pid; /* 0: none runs */
    int fd;    /* the pipe's end; -1: closed */
    int says;  /* a file in memory with its messages; -1: none */
    char *data;
    size_t size, capacity;
};

static enum lk_status spawn(struct picture *p, const char *set, const char *script, int to)
{
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char[]){"gnuplot"}, (char[]){"-d"}, (char[]){"-e"},
                    (char *)set,         (char *)script, NULL};
    int err = posix_spawn_file_actions_init(&actions);

    if (err)
        return lk_fail(LK_ENOMEM, "starting gnuplot: %s", strerror(err));
    /* In dir, so that the script can name its table without a path. */
    err = posix_spawn_file_actions_addchdir_np(&actions, p->dir);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!err)
        err = posix_spawn_file_actions_adddup2(&actions, p->says, STDERR_FILENO);
    if (!err)
        err = posix_spawnp(&p->pid, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!err)
        return LK_OK;
    p->pid = 0;
    if (err == ENOENT)
        return lk_fail(LK_EUNSUPPORTED,
                       "gnuplot was not found; %s/%s is written, plot it elsewhere", p->dir,
                       script);
    return lk_fail(LK_EIO, "starting gnuplot: %s", strerror(err));
}

static enum lk_status start(struct picture *p, size_t terminal, const struct lk_draw_options *o)
{
    enum lk_status st = LK_OK;
    char *set = NULL, *script = NULL;
    int ends[2] = {-1, -1};
    double px = terminals[terminal].px, unit = terminals[terminal].unit;
    const char *in = terminals[terminal].unit_name;

    LK_TRY(lk_asprintf(&script, "%s.gp", p->name));
    LK_TRY(lk_asprintf(&set,
                       "px = %g; set terminal %s noenhanced size %.9g%s,%.9g%s background rgb "
                       "'#%06x' font '" FONT ",%.9g'%s",
                       px, terminals[terminal].terminal, o->width / unit, in, o->height / unit, in,
                       lk_chart_rgb(LK_CHART_PAPER, o->theme), px * lk_draw_type(o),
                       *in ? " fontscale 1" : ""));
    p->says = memfd_create("gnuplot", MFD_CLOEXEC);
    if (p->says < 0)
        LK_TRY(lk_fail(LK_EIO, "a file for gnuplot's messages: %s", strerror(errno)));
    if (pipe2(ends, O_CLOEXEC))
        LK_TRY(lk_fail(LK_EIO, "a pipe for gnuplot: %s", strerror(errno)));
    LK_TRY(spawn(p, set, script, ends[1]));
    p->fd = ends[0];
    ends[0] = -1;
out:
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    free(set);
    free(script);
    return st;
}

/* Read what gnuplot writes until it ends. */
static enum lk_status read_picture(struct picture *p)
{
    enum { CHUNK = 64 << 10 };
    struct lk_deadline deadline = lk_deadline_in(GNUPLOT_TIMEOUT_NS);

    for (;;) {
        struct pollfd ready = {.fd = p->fd, .events = POLLIN};
        int got = poll(&ready, 1, (int)(lk_deadline_left_ns(deadline) / LK_NS_PER_MS));
        ssize_t n;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lk_fail(LK_EIO, "waiting for gnuplot: %s", strerror(errno));
        if (!got)
            return lk_fail(LK_ETIMEOUT, "%s: gnuplot did not end within 60 s", p->name);
        LK_PASS(lk_array_grow(&p->data, &p->capacity, p->size + CHUNK, 1));
        n = read(p->fd, p->data + p->size, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lk_fail(LK_EIO, "reading from gnuplot: %s", strerror(errno));
        if (!n)
            return LK_OK;
        p->size += (size_t)n;
    }
}

/* Wait for the child, which has closed its output; of one that failed nothing is kept. */
static enum lk_status reap(struct picture *p)
{
    int status;
    pid_t pid = p->pid;
    char said[512];
    ssize_t n;

    p->pid = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return lk_fail(LK_EIO, "waiting for gnuplot: %s", strerror(errno));
    n = pread(p->says, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return lk_fail(LK_EIO, "%s.gp: gnuplot failed: %s", p->name, said);
    if (!p->size)
        return lk_fail(LK_EIO, "%s.gp: gnuplot drew nothing", p->name);
    return LK_OK;
}

static void picture_fini(struct picture *p)
{
    if (p->fd >= 0)
        close(p->fd);
    if (p->says >= 0)
        close(p->says);
    if (p->pid) {
        kill(p->pid, SIGKILL);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(p->data);
}

static enum lk_status keep(const char *dir, const char *name, const char *suffix, const void *data,
                           size_t size)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    char *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s/%s.%s", dir, name, suffix));
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_writer_put(w, data, size));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    free(path);
    return st;
}

static enum lk_status draw(const struct lk_chart *c, const char *dir, size_t terminal,
                           const struct lk_draw_options *o)
{
    enum lk_status st = LK_OK;
    struct picture p = {.dir = dir, .name = c->name, .fd = -1, .says = -1};

    LK_TRY(start(&p, terminal, o));
    LK_TRY(read_picture(&p));
    LK_TRY(reap(&p));
    LK_TRY(keep(dir, c->name, terminals[terminal].suffix, p.data, p.size));
out:
    picture_fini(&p);
    return st;
}

/* Write the table, or with options the script. */
static enum lk_status write_text(const struct lk_chart *c, const char *dir,
                                 const struct lk_draw_options *o)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    char *text = NULL;
    size_t size = 0;

    LK_TRY(lk_writer_open_memory(&text, &size, &w));
    LK_TRY(o ? lk_gnuplot_script(w, c, o) : lk_gnuplot_data(w, c));
    st = lk_writer_commit(w);
    w = NULL;
    LK_TRY(st);
    LK_TRY(keep(dir, c->name, o ? "gp" : "csv", text, size));
out:
    lk_writer_abandon(w);
    free(text);
    return st;
}

enum lk_status lk_gnuplot_draw(const struct lk_chart *c, const char *dir,
                               const struct lk_draw_options *o)
{
    LK_PASS(lk_mkdirs(dir));
    LK_PASS(write_text(c, dir, NULL));
    LK_PASS(write_text(c, dir, o));
    for (size_t i = 0; i < LK_COUNT(terminals); i++)
        LK_PASS(draw(c, dir, i, o));
    return LK_OK;
}
