/*
 * A ledger (forecasts.jsonl) keeps the forecasts that were made of jobs, and what was measured of
 * them since. It has one JSON object a line, which is never changed: a forecast, or the score of an
 * earlier one. Lines are appended by lk_file_extend, so processes may share a ledger, and what two
 * of them would append at once is in it once.
 *
 *     LK_TRY(lk_ledger_read(path, &ledger));
 *     f = lk_ledger_newest(&ledger, &asked);
 *     if (f && !lk_ledger_score_of(&ledger, f->id))
 *         LK_TRY(lk_ledger_append(path, &line, 1));
 *
 * A line that cannot be read, since it is damaged or of a newer program, is named in the log and
 * left out.
 */
#ifndef LK_FACTS_LEDGER_H
#define LK_FACTS_LEDGER_H

#include "base/member.h"
#include "base/status.h"
#include "base/table.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "facts/score.h"

#include <stddef.h>
#include <stdint.h>

#define LK_LEDGER_SCHEMA  "lockstep-ledger"
#define LK_LEDGER_VERSION 1
#define LK_LEDGER_FILE    "forecasts.jsonl"

/* The forecast of a configuration, as it was shown. Texts are owned. */
struct lk_ledger_forecast {
    char *id;      /* unique in the ledger; NULL: the line has no forecast */
    char *date;    /* ISO 8601, UTC */
    char *program; /* version and commit of the program that made it */
    char *question;
    char *job;               /* its name; of a table of throughputs the table's */
    uint64_t gradient_bytes; /* of the job; 0: not known */
    char *job_file, *job_sha256, *cluster, *cluster_sha256;
    char *device; /* the cluster's GPU; NULL: not known */
    struct lk_config config;
    double step_s, lo_s, hi_s, level;
    double site_factor; /* what the site's errors multiplied the interval by; 1: nothing */
    enum lk_evidence evidence;
};

/* A score says what runs of a forecast's configuration brought. */
struct lk_ledger_score {
    char *forecast; /* id; NULL: the line has no score */
    char *date, *program;
    char *run; /* the folder or file that was measured */
    int n_runs;
    double measured_s; /* mean step of these runs */
};

struct lk_ledger_line {
    struct lk_ledger_forecast forecast;
    struct lk_ledger_score score;
};
extern const struct lk_record lk_ledger_record; /* of a line */

struct lk_ledger {
    struct lk_ledger_line *lines; /* in the order of the file */
    size_t n, capacity;
    size_t n_damaged; /* lines that are left out */
};

/* Read a ledger; one that is not there is empty. LK_EIO. *out is freed by lk_ledger_fini. */
enum lk_status lk_ledger_read(const char *path, struct lk_ledger *out);
void lk_ledger_fini(struct lk_ledger *l); /* zeroes it; safe on a zeroed one */
/*
 * Return true if the ledger has a line already: a score of the same forecast; or, as the newest
 * forecast of its configuration, the same estimate of the same program, job, cluster, level and
 * site's factor, whose draws alone may differ, or of another program the same interval, too.
 */
bool lk_ledger_has(const struct lk_ledger *l, const struct lk_ledger_line *line);
/* Append those of n lines that the ledger does not have, all or none. */
enum lk_status lk_ledger_append(const char *path, const struct lk_ledger_line *lines, size_t n);

/* Return true if both are of one job on machines that nothing tells apart: the bytes of its
 * gradients agree, of tables without gradients the names, and the devices as far as both are known.
 * A replay has the gradients of its job, and another name. */
bool lk_ledger_same_job(const struct lk_ledger_forecast *a, const struct lk_ledger_forecast *b);
/* Return the newest forecast of a job and its configuration; NULL: there is none. Nodes and bucket
 * limits of 0 are not known, and agree with any. */
const struct lk_ledger_forecast *lk_ledger_newest(const struct lk_ledger *l,
                                                  const struct lk_ledger_forecast *of);
/* Return the first score of a forecast; NULL: it has none. */
const struct lk_ledger_score *lk_ledger_score_of(const struct lk_ledger *l, const char *id);

/* A forecast with its score; both are the ledger's. */
struct lk_ledger_pair {
    const struct lk_ledger_forecast *forecast;
    const struct lk_ledger_score *score;
};
/* List the forecasts that were scored, in the order of the file; the caller frees *out. */
enum lk_status lk_ledger_pairs(const struct lk_ledger *l, struct lk_ledger_pair **out, size_t *n);
/* Tabulate them. */
enum lk_status lk_ledger_table(const struct lk_ledger_pair *v, size_t n, struct lk_table **out);

#endif
