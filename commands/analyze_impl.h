/* The parts of `lockstep analyze`, private to commands/analyze*.c and to the report of runs. */
#ifndef LK_COMMANDS_ANALYZE_IMPL_H
#define LK_COMMANDS_ANALYZE_IMPL_H

#include "base/page.h"
#include "base/status.h"
#include "commands/action.h"
#include "facts/cluster.h"
#include "profiler/analysis/analysis_pool.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/import.h"
#include "sim/collective/coll_cost.h"

#include <stddef.h>
#include <stdint.h>

/* A cluster tells how long collectives take alone. */
struct alone {
    struct lk_cluster cluster;
    struct lk_cost_model *cost; /* NULL: no cluster was asked for */
};

/* An action that some finding advises, and what it gains on the job. */
struct trial {
    uint64_t of;        /* findings that it mends; a bit a finding */
    bool beside;        /* it leaves their cause: their own advice stands where it gains nothing */
    char text[320];     /* what to do */
    const char *option; /* whatif's; static storage */
    char word[32];      /* of the option */
    struct action_gain gain;
};
enum { ANALYZE_TRIALS = 7 };
struct trials {
    struct trial at[ANALYZE_TRIALS];
    size_t n;
    char why_not[256]; /* empty: all were tried */
    bool want_cluster; /* there are some to try, and no cluster to try them on */
};

/* Runs that are analysed: those of one configuration are neighbours, and a pool. */
struct analyzed {
    struct lk_analysis *runs; /* n of them */
    size_t n;
    struct lk_pool *pools; /* by GPUs, local batch, accumulation; the last one is the answer's */
    size_t n_pools;
    struct alone alone; /* its cluster's name is in the analyses */
    struct trials trials;
};

/*
 * Analyse a set of runs and pool those of one configuration, in *a, which holds no runs yet and is
 * freed by analyzed_fini, whatever is returned. Runs of `references` give the ideal; reference
 * names them where a user chose them, else NULL.
 */
enum lk_status analyze_pools(const struct lk_run_set *set, const struct lk_run_set *references,
                             const char *reference, struct analyzed *a);
void analyzed_fini(struct analyzed *a);

/* Fill the page of runs, as without options; trials and what is alone on a cluster are there where
 * *a has them. */
enum lk_status analyze_page(const struct analyzed *a, struct lk_page *page);

/* Read traces of other programs as one run; set->n 0: it has no complete step. */
enum lk_status analyze_import_read(const char *const *paths, size_t n, struct lk_import *import,
                                   struct lk_run_set *set);
/* Fill the page of an import; a NULL: it has no complete step. */
enum lk_status analyze_import_page(struct lk_import *import, const struct analyzed *a,
                                   struct lk_page *page);

/* Read the cluster of a file or preset; NULL: none. *a is freed by analyze_alone_fini, whatever is
 * returned. */
enum lk_status analyze_alone_init(struct alone *a, const char *cluster);
void analyze_alone_fini(struct alone *a);
/* Compare a run's all-reduces of gradients with those of the cluster. LK_EEVIDENCE: it has no cost
 * for them. */
enum lk_status analyze_alone_compare(const struct alone *alone, struct lk_analysis *a);

/* Try the actions that findings of the last configuration advise, where a cluster was given. set:
 * of the runs. What cannot be forecast is not tried, and a->trials says why. */
enum lk_status analyze_try(const struct lk_run_set *set, struct analyzed *a);
/* Return the action for a finding that gains most; NULL: none surely gains. *tried: some were
 * tried. */
const struct trial *analyze_best_trial(const struct trials *t, enum lk_finding_id id, bool *tried);
/* Make the table of actions that gain. */
enum lk_status analyze_trials_table(const struct analyzed *a, struct lk_table **out);
/* Make the table of a run's collectives by size, each beside the same one alone on the cluster;
 * NULL: no cluster was asked for. */
enum lk_status analyze_alone_table(const struct alone *alone, const struct lk_analysis *a,
                                   struct lk_table **out);

/* Say what the last configuration reaches, where most of its time goes and what to do; add its
 * numbers, and the efficiency and step of the others, as values. */
enum lk_status analyze_answer(const struct analyzed *a, struct lk_page *page);
/* Make the table of configurations, a row each. */
enum lk_status analyze_configurations(const struct analyzed *a, struct lk_table **out);

#endif
