/*
 * What is measured scores the forecasts that were kept of it (commands/ledger.h). It looks for
 * ledgers where $LOCKSTEP_LEDGER says, else in its own folder, in the one that this lies in, in the
 * folders beside it, and beside the job that it replays.
 */
#ifndef LK_COMMANDS_LEDGER_SCORE_H
#define LK_COMMANDS_LEDGER_SCORE_H

#include "base/page.h"
#include "base/status.h"
#include "facts/job.h"
#include "profiler/analysis/run_set.h"

/*
 * Score the newest forecast of each configuration that a job's runs measured since, say how it came
 * out, and append that to its ledger. folder: where the runs are; set (optional): the runs, which
 * say when they began; replayed (optional): the file of the job whose replay they are.
 */
enum lk_status ledger_score(const char *folder, const struct lk_job *job,
                            const struct lk_run_set *set, const char *replayed,
                            struct lk_page *page);

/* Do the same for runs that are in memory, of which a job is made only if some ledger is there, and
 * for those in a folder (set NULL). Runs that make no job score nothing. */
enum lk_status ledger_score_runs(const char *folder, const struct lk_run_set *set,
                                 struct lk_page *page);

/* Fill the page of `validate --ledger`: the scores so far, and what they make of intervals. */
enum lk_status ledger_page(const char *path, struct lk_page *page);

#endif
