/*
 * How commands keep the forecasts that they make (facts/ledger.h).
 *
 * A ledger lies beside the job or the table that was asked about, or where --ledger or
 * $LOCKSTEP_LEDGER says; "none": there is none. What is measured later scores them
 * (commands/ledger_score.h).
 */
#ifndef LK_COMMANDS_LEDGER_H
#define LK_COMMANDS_LEDGER_H

#include "base/page.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "facts/ledger.h"

#include <stdbool.h>
#include <stddef.h>

/* const char *ledger */
#define LEDGER_OPTION                                                                              \
    "ledger", ledger, FILE,                                                                        \
        .role = LK_ROLE_OUTPUT, .may_differ = true,                                                \
        .help = "file of forecasts that this one is kept in, and whose scores widen or narrow "    \
                "it, or none; default: $LOCKSTEP_LEDGER, or " LK_LEDGER_FILE " beside the job"

struct ledger {
    char *path; /* NULL: forecasts are not kept */
    struct lk_ledger past;
    double factor; /* what its scores multiply intervals by; 1: nothing */
    size_t jobs;   /* behind it */
};

/* Open the ledger of a job or a table: `beside` is its file or folder. One that cannot be read is
 * warned of, and not used. *out is freed by ledger_close. */
enum lk_status ledger_open(const char *option, const char *beside, struct ledger *out);
void ledger_close(struct ledger *l); /* zeroes it; safe on a zeroed one */

/* A forecast is kept with the question that it answers; all is borrowed. */
struct ledger_question {
    const char *text;         /* its command line */
    const char *file;         /* of the job, of its runs, or of a table of throughputs */
    bool is_table;            /* the file is a table */
    const struct lk_job *job; /* not read of a table */
    const struct lk_cluster *cluster;
    const char *cluster_file; /* or a preset's name; NULL: none was given */
    double level;             /* of the intervals */
    const char *unwanted;     /* why its answers are not kept; NULL: they are */
};

/* An answer: a step with its interval. */
struct ledger_answer {
    const struct lk_config *config;
    double step_s, lo_s, hi_s;
    double measured_s; /* mean of the runs that it has; NaN: none */
    enum lk_evidence evidence;
};
/*
 * Append those of n answers that were not measured, that a run could measure, and that the ledger
 * does not have. Notes of the page say why they are not wanted, that the ledger cannot be written,
 * and what the site's errors made of the intervals.
 */
enum lk_status ledger_keep(const struct ledger *l, const struct ledger_question *q,
                           const struct ledger_answer *v, size_t n, struct lk_page *page);

#endif
