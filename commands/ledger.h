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
#include "facts/forecast.h"
#include "facts/ledger.h"

#include <stdbool.h>
#include <stddef.h>

struct evidence_inputs;
struct lk_command;

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

/* A forecast is kept with the question that it answers. */
struct ledger_question {
    const struct lk_command *command;
    const void *options; /* of the command */
    const char *const *operands;
    int n_operands;
    const struct evidence_inputs *inputs; /* opened */
    const char *table;                    /* its file; NULL: operands[0] is the job */
};
/* Append the points that were not measured and that a run could measure: of a what-if the best ones
 * of the machine as it is. A ledger that cannot be written is a note of the page. */
enum lk_status ledger_keep(const struct ledger *l, const struct ledger_question *q,
                           const struct lk_forecast *f, struct lk_page *page);

#endif
