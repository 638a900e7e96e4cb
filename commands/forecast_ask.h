/*
 * The one place where a question becomes a forecast that a command answers with. The errors of the
 * site's earlier forecasts widen or narrow it, and it is kept for later runs to score
 * (commands/ledger.h), or a note says why it is not. A command that shows a forecast has no other
 * way to one, so that none is lost; what a piece of advice gains (commands/action.h) is no forecast
 * of a step that somebody asked for, and is not kept.
 *
 *     const struct forecast_question q = {.command = &lk_command_predict, .options = o, ...};
 *
 *     LK_TRY(evidence_open_job(operands, 1, operands[1], &facts, &in));
 *     LK_TRY(forecast_ask(&q, &in, &f, NULL, page));
 */
#ifndef LK_COMMANDS_FORECAST_ASK_H
#define LK_COMMANDS_FORECAST_ASK_H

#include "base/page.h"
#include "base/status.h"
#include "facts/forecast.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/evidence.h"
#include "sim/forecast/forecast.h"

#include <stdbool.h>
#include <stddef.h>

struct evidence_inputs;
struct lk_command;

/* A user's question; all is borrowed. */
struct forecast_question {
    const struct lk_command *command;
    const void *options; /* of the command */
    const char *const *operands;
    int n_operands;
    const char *ledger;  /* of --ledger; NULL: not given */
    const char *table;   /* the file of a table of throughputs; NULL: of a job */
    const char *job;     /* its file or folder; NULL: the first operand, without a table */
    const char *cluster; /* a file or a preset; NULL: the operand behind the job, or none */
    /* All clusters, where each of several machines has its own forecast; else NULL. */
    const char *const *clusters;
    size_t n_clusters;
};

/* The question of a command's run. o: its options, with the members ledger, table and cluster. */
#define FORECAST_QUESTION(of, o, words, n_words)                                                   \
    {                                                                                              \
        .command = &(of), .options = (o), .operands = (words), .n_operands = (n_words),            \
        .ledger = (o)->ledger, .table = (o)->table.file, .cluster = (o)->cluster                   \
    }

/* Return the job's file or folder, or the table; and the cluster's name, NULL: none was given. */
const char *forecast_question_job(const struct forecast_question *q);
const char *forecast_question_cluster(const struct forecast_question *q);

/*
 * Forecast in->request.grid, whose site factor is set here, and keep what answers the question: all
 * points, of a what-if the best ones, of a goal those that are named. in: opened. gains (optional):
 * as lk_forecast_run has it. page: gets notes.
 */
enum lk_status forecast_ask(const struct forecast_question *q, struct evidence_inputs *in,
                            struct lk_forecast *out, struct lk_gains *gains, struct lk_page *page);

/* Do the same for a prediction of in->source that was made without a forecast: spread it by the
 * site's factor, which *out_factor becomes, and keep it. */
enum lk_status forecast_ask_predicted(const struct forecast_question *q,
                                      const struct evidence_inputs *in, struct lk_prediction *p,
                                      double *out_factor, struct lk_page *page);

/* The forecasts that are made here have the draws and the seed of `predict`. */
enum { FORECAST_JOB_DRAWS = 200, FORECAST_JOB_SEED = 1 };

/*
 * Forecast the question's job on its cluster, which are both given, for the texts of the axes
 * (NULL: not given). whatif: compare with the current configuration. drawn gets the draws, paired
 * with those of other clusters (sim/forecast/paired.h), and lk_gains_fini frees it; NULL: the draws
 * are those of `predict`.
 */
enum lk_status forecast_job(const struct forecast_question *q,
                            const char *const axes[LK_AXIS_COUNT], bool whatif,
                            struct lk_forecast *out, struct lk_gains *drawn, struct lk_page *page);

#endif
