/* Plots by gnuplot: the files, and the child process. */
#include "reports/chart/gnuplot.h"

#include "base/array.h"
#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ; /* NOLINT(cppcoreguidelines-avoid-non-const-global-variables): POSIX */

/* A plot takes well under a second; a gnuplot that takes longer than this hangs. */
#define GNUPLOT_TIMEOUT_NS (60 * LK_NS_PER_S)
/* Period at which the child process is polled. */
#define POLL_NS (2 * LK_NS_PER_MS)

static const struct {
    const char *suffix, *terminal, *options;
} terminals[] = {
    {"svg", "svg", "noenhanced dynamic background rgb 'white' font 'DejaVu Sans,13'"},
    {"png", "pngcairo", "noenhanced background rgb 'white' font 'DejaVu Sans,10'"},
};

static enum lk_status open_file(const struct lk_gnuplot *g, const char *suffix,
                                struct lk_writer **out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s/%s.%s", g->dir, g->name, suffix));
    LK_TRY(lk_writer_open(path, false, out));
out:
    free(path);
    return st;
}

enum lk_status lk_gnuplot_init(struct lk_gnuplot *out, const char *dir, const char *name,
                               double width, double height)
{
    enum lk_status st = LK_OK;
    struct lk_gnuplot g = {.width = width, .height = height};

    LK_TRY(lk_mkdirs(dir));
    LK_TRY(lk_strdup(&g.dir, dir));
    LK_TRY(lk_strdup(&g.name, name));
    LK_TRY(open_file(&g, "csv", &g.data));
    LK_TRY(open_file(&g, "gp", &g.script));
    *out = g;
    return LK_OK;
out:
    lk_gnuplot_fini(&g);
    return st;
}

void lk_gnuplot_fini(struct lk_gnuplot *g)
{
    lk_writer_abandon(g->data);
    lk_writer_abandon(g->script);
    free(g->dir);
    free(g->name);
    *g = (struct lk_gnuplot){0};
}

enum lk_status lk_gnuplot_quote(struct lk_writer *w, const char *text)
{
    LK_PASS(lk_writer_put(w, "'", 1));
    for (; *text; text++)
        if (*text == '\'')
            LK_PASS(lk_writer_put(w, "''", 2));
        else if (*text == '\n')
            LK_PASS(lk_writer_put(w, "'.\"\\n\".'", 8));
        else
            LK_PASS(lk_writer_put(w, text, 1));
    return lk_writer_put(w, "'", 1);
}

/* Wait for the child until the deadline, then kill it. */
static enum lk_status wait_for(pid_t pid, const char *what)
{
    struct lk_deadline deadline = lk_deadline_in(GNUPLOT_TIMEOUT_NS);
    int status;
    pid_t got;

    for (;;) {
        got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            break;
        if (got < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "waiting for gnuplot: %s", strerror(errno));
        if (!lk_deadline_left_ns(deadline)) {
            kill(pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                continue;
            return lk_fail(LK_ETIMEOUT, "%s: gnuplot did not end within 60 s", what);
        }
        lk_sleep_until_ns(lk_monotonic_ns() + POLL_NS);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return lk_fail(LK_EIO, "%s: gnuplot failed (its own message is above)", what);
    return LK_OK;
}

/* Rename the complete picture to its final name. */
static enum lk_status put_in_place(const struct lk_gnuplot *g, const char *suffix)
{
    enum lk_status st = LK_OK;
    char *from = NULL, *to = NULL;

    LK_TRY(lk_asprintf(&to, "%s/%s.%s", g->dir, g->name, suffix));
    LK_TRY(lk_asprintf(&from, "%s.tmp", to));
    if (rename(from, to))
        st = lk_fail(LK_EIO, "%s: %s", to, strerror(errno));
out:
    free(from);
    free(to);
    return st;
}

/* Run gnuplot in dir, so that the script can name its data file without a path. */
static enum lk_status run(const struct lk_gnuplot *g, size_t terminal)
{
    enum lk_status st = LK_OK;
    char *set = NULL, *script = NULL;
    posix_spawn_file_actions_t actions;
    bool have_actions = false;
    pid_t pid;
    int err;

    LK_TRY(lk_asprintf(&script, "%s.gp", g->name));
    LK_TRY(lk_asprintf(&set, "set terminal %s size %.0f,%.0f %s; set output '%s.%s.tmp'",
                       terminals[terminal].terminal, g->width, g->height,
                       terminals[terminal].options, g->name, terminals[terminal].suffix));
    err = posix_spawn_file_actions_init(&actions);
    if (err)
        LK_TRY(lk_fail(LK_ENOMEM, "starting gnuplot: %s", strerror(err)));
    have_actions = true;
    err = posix_spawn_file_actions_addchdir_np(&actions, g->dir);
    if (!err) {
        char *argv[] = {(char[]){"gnuplot"}, (char[]){"-e"}, set, script, NULL};

        err = posix_spawnp(&pid, "gnuplot", &actions, NULL, argv, environ);
    }
    if (err == ENOENT)
        LK_TRY(lk_fail(LK_EUNSUPPORTED,
                       "gnuplot was not found; %s/%s is written, plot it elsewhere", g->dir,
                       script));
    if (err)
        LK_TRY(lk_fail(LK_EIO, "starting gnuplot: %s", strerror(err)));
    LK_TRY(wait_for(pid, script));
    LK_TRY(put_in_place(g, terminals[terminal].suffix));
out:
    if (have_actions)
        posix_spawn_file_actions_destroy(&actions);
    free(set);
    free(script);
    return st;
}

enum lk_status lk_gnuplot_finish(struct lk_gnuplot *g)
{
    struct lk_writer *w;

    w = g->data;
    g->data = NULL;
    LK_PASS(lk_writer_commit(w));
    w = g->script;
    g->script = NULL;
    LK_PASS(lk_writer_commit(w));
    for (size_t i = 0; i < LK_COUNT(terminals); i++)
        LK_PASS(run(g, i));
    return LK_OK;
}
