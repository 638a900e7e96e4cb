/* Watch runs; see the header. Divisions: looks, a line, a folder. */
#include "commands/watch.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/terminal.h"
#include "base/units.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/run_live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Looks are so far apart that they take no more of the time. */
static const double COST_MOST = 0.02;
/* A finding below this share of the step is not worth the line's place. */
static const double LEAST_SHARE = 0.01;

/* ---- Looks ---- */

static double cpu_s(void)
{
    struct timespec t;

    return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t)
               ? 0
               : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void watch_begin(struct watch *w, double every_s)
{
    *w = (struct watch){.every_s = every_s,
                        .columns = lk_terminal_columns(STDERR_FILENO),
                        .began_ns = lk_monotonic_ns(),
                        .cpu_began_s = cpu_s()};
    w->next_ns = w->began_ns;
}

static void erase(const struct watch *w)
{
    if (w->columns && w->line)
        fprintf(stderr, "\r%*s\r", (int)w->columns - 1, "");
}

/* Write what watching took so far; nothing where it is too early to tell. */
static void cost_text(const struct watch *w, char *out, size_t size)
{
    double wall_s = (double)(lk_monotonic_ns() - w->began_ns) / (double)LK_NS_PER_S;

    *out = '\0';
    if (wall_s >= 1)
        snprintf(out, size, "; watching takes %.1f %% of a processor",
                 100 * (cpu_s() - w->cpu_began_s) / wall_s);
}

void watch_end(struct watch *w)
{
    char cost[64];

    erase(w);
    cost_text(w, cost, sizeof cost);
    if (w->columns && w->line)
        fprintf(stderr, "lockstep watch: %s%s\n", w->line, cost);
    free(w->line);
    w->line = NULL;
}

bool watch_due(struct watch *w)
{
    w->look_began_s = cpu_s();
    return lk_monotonic_ns() >= w->next_ns;
}

double watch_left_s(const struct watch *w)
{
    uint64_t now = lk_monotonic_ns();

    return now >= w->next_ns ? 0 : (double)(w->next_ns - now) / (double)LK_NS_PER_S;
}

/* ---- A line ---- */

/* Return the first finding about a rank or a host that costs time; NULL: there is none. */
static const struct lk_finding *blamed(const struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++) {
        const struct lk_finding *f = &a->findings[i];

        if ((f->rank >= 0 || f->host) && f->cost_s >= LEAST_SHARE * a->step_s)
            return f;
    }
    return NULL;
}

static enum lk_status add_share(const struct lk_analysis *a, enum lk_loss loss, char **line)
{
    double share = a->losses_s[loss] / a->step_s;

    return share >= LEAST_SHARE ? lk_text_add(line, ", %.0f %% %s", 100 * share, lk_loss_name(loss))
                                : LK_OK;
}

static enum lk_status make_line(const struct lk_run *run, const struct lk_analysis *a, char **line)
{
    const struct lk_finding *f = blamed(a);
    char step[32];

    (void)lk_units_format(LK_DIM_TIME, a->step_s, step, sizeof step);
    LK_PASS(lk_text_add(line, "step %u: %s", (unsigned)run->steps[run->n_steps - 1], step));
    if (run->n > 1) {
        LK_PASS(add_share(a, LK_LOSS_STRAGGLER, line));
        LK_PASS(add_share(a, LK_LOSS_WIRE, line));
    }
    return lk_text_add(line, "; %s", f ? f->text : "no rank is to blame");
}

/* Print a line, which becomes the watch's. */
static void print_line(struct watch *w, char *line)
{
    char cost[64];

    cost_text(w, cost, sizeof cost);
    erase(w);
    free(w->line);
    w->line = line;
    if (w->columns)
        fprintf(stderr, "\r%.*s", (int)w->columns - 1, line);
    else
        fprintf(stderr, "lockstep watch: %s%s\n", line, cost);
    fflush(stderr);
}

enum lk_status watch_show(struct watch *w, const struct lk_run *run, const char *why)
{
    enum lk_status st = LK_OK;
    struct lk_analysis a = {0};
    char *line = NULL;
    double took_s;

    if (run)
        st = lk_analyze(run, NULL, 0, &a);
    if (st == LK_EEVIDENCE || (st == LK_OK && !run)) {
        LK_TRY(lk_asprintf(&line, "waiting: %s", run ? lk_error_text() : why));
        if (w->line && !strcmp(w->line, line)) { /* it is said already */
            free(line);
            line = NULL;
        }
    } else {
        LK_TRY(st);
        LK_TRY(make_line(run, &a, &line));
    }
    if (line)
        print_line(w, line);
    line = NULL;
    took_s = cpu_s() - w->look_began_s;
    w->next_ns =
        lk_monotonic_ns() + (uint64_t)(fmax(w->every_s, took_s / COST_MOST) * (double)LK_NS_PER_S);
    st = LK_OK;
out:
    free(line);
    lk_analysis_fini(&a);
    return st;
}

/* ---- A folder ---- */

/* Look once; *goes_on is false where nobody writes any more. */
static enum lk_status look(struct watch *w, const char *folder, bool *goes_on)
{
    enum lk_status st = LK_OK;
    struct lk_run run = {0};
    char *dir = NULL;

    *goes_on = false;
    LK_TRY(lk_run_live_folder(folder, &dir));
    if (!dir)
        LK_TRY(watch_show(w, NULL, "no rank writes"));
    if (!dir)
        goto out;
    st = lk_run_live_read(dir, WATCH_STEPS, &run, goes_on);
    if (st == LK_EEVIDENCE) {
        *goes_on = true;
        st = watch_show(w, NULL, lk_error_text());
        goto out;
    }
    LK_TRY(st);
    st = watch_show(w, &run, NULL);
out:
    lk_run_fini(&run);
    free(dir);
    return st;
}

/* Return true if a folder has an index of its runs, which is written when all have ended. */
static bool has_index(const char *folder)
{
    char *path = NULL;
    bool has = lk_path_join(&path, folder, "run.json") == LK_OK && lk_is_file(path);

    free(path);
    return has;
}

enum lk_status watch_folder(const char *folder, double every_s, double deadline_s, bool *ended,
                            struct lk_page *page)
{
    enum {
        QUIET_LOOKS = 3 /* without a writer, until a run counts as ended: another part may begin */
    };
    enum lk_status st = LK_OK;
    const struct lk_deadline end =
        deadline_s > 0 ? lk_deadline_in((uint64_t)(deadline_s * (double)LK_NS_PER_S))
                       : (struct lk_deadline){UINT64_MAX};
    struct watch w;
    bool goes_on, begun = false;
    int quiet = 0;

    *ended = false;
    watch_begin(&w, every_s);
    while (!*ended && lk_deadline_left_ns(end)) {
        if (!watch_due(&w)) {
            double left_s = fmin(watch_left_s(&w), 0.2);

            lk_nap_ns((uint64_t)(left_s * (double)LK_NS_PER_S) + 1);
            continue;
        }
        LK_TRY(look(&w, folder, &goes_on));
        begun |= goes_on;
        quiet = goes_on ? 0 : quiet + 1;
        *ended = !goes_on && (has_index(folder) || (begun && quiet >= QUIET_LOOKS));
    }
    if (!*ended)
        LK_TRY(
            lk_page_say(page, "The run goes on: %s.", w.line ? w.line : "nothing was seen of it"));
out:
    watch_end(&w);
    return st;
}
