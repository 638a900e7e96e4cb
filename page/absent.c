/*
 * The page's module has no terminal, no folders of runs and presets, and no traces. Each function
 * here stands for one of the program, and says so where a user asks for it.
 */
#include "base/array.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "commands/job_inputs.h"
#include "commands/ledger.h"
#include "commands/paths.h"
#include "facts/preset.h"
#include "sim/step/simulate.h"

/* ---- A terminal ---- */

size_t lk_terminal_columns(int fd)
{
    (void)fd;
    return 0;
}

void lk_progress_begin(double from, double to, const char *fmt, ...)
{
    (void)from;
    (void)to;
    (void)fmt;
}

void lk_progress(const char *unit, double done, double total)
{
    (void)unit;
    (void)done;
    (void)total;
}

void lk_progress_end(void)
{
}

void lk_progress_hide(void)
{
}

/* ---- Files that a command's words name ---- */

enum lk_status ledger_open(const char *option, const char *beside, struct ledger *out)
{
    (void)option;
    (void)beside;
    *out = (struct ledger){.factor = 1}; /* forecasts are gone with the page */
    return LK_OK;
}

void ledger_close(struct ledger *l)
{
    (void)l;
}

enum lk_status ledger_keep(const struct ledger *l, const struct ledger_question *q,
                           const struct ledger_answer *v, size_t n, struct lk_page *page)
{
    (void)l;
    (void)q;
    (void)v;
    (void)n;
    (void)page;
    return LK_OK;
}

enum lk_status check_paths(const struct lk_option *rows, const void *options,
                           const char *const *operands, int n_operands)
{
    (void)rows; /* what is written is gone with the page: there is nothing to protect */
    (void)options;
    (void)operands;
    (void)n_operands;
    return LK_OK;
}

enum lk_status lk_preset_find(const char *of, const char *name, char **out)
{
    (void)of;
    if (!lk_file_exists(name))
        return lk_fail(LK_EIO, "no cluster file '%s': the page has its own cluster alone", name);
    return lk_strdup(out, name);
}

enum lk_status lk_preset_names(char ***out, size_t *out_n)
{
    *out = NULL;
    *out_n = 0;
    return LK_OK;
}

enum lk_status find_job(const char *path, struct lk_job *out)
{
    return lk_job_read(path, out);
}

enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out)
{
    return n == 1 ? lk_job_read(paths[0], out)
                  : lk_fail(LK_EIO, "a page makes no job of several runs");
}

enum lk_status lk_simulate_trace(const struct lk_job *job, const struct lk_cluster *cluster,
                                 const struct lk_config *config,
                                 const struct lk_sim_request *request, const char *dir,
                                 struct lk_sim_result *out)
{
    (void)job;
    (void)cluster;
    (void)config;
    (void)request;
    (void)dir;
    (void)out;
    return lk_fail(LK_EIO, "--trace: a page writes no traces");
}
