/*
 * The links between a run's ranks, from what TCP or NCCL's proxy told of each hop (facts/hops.h),
 * and which of them are slow. Hops that carry less than LK_HOP_MINOR of the bytes of the one with
 * most are left out.
 *
 * A hop's rate is acknowledged bytes over the time in which it was busy and its receiver had room.
 * Ends of a hop are hosts, by name where the run's hosts have several names, else ranks. An end
 * whose hops, in and out, are all below LK_HOP_SLOW of the median of the other hops is slow itself,
 * unless its processors are busy, or all its hops are to and from other such ends. What a late rank
 * receives is slow, too, since its acknowledgements are late: it is judged by the hops that no
 * other slow end explains. A single such hop is a slow pair, unless an end is busy or its receiver
 * late. Both also have to be below that median in more steps than equal hops would be, with a
 * probability of LK_HOP_CHANCE over all ends or hops; so few steps accuse nobody.
 */
#ifndef LK_PROFILER_ANALYSIS_HOPS_H
#define LK_PROFILER_ANALYSIS_HOPS_H

#include "base/status.h"
#include "facts/hops.h"
#include "profiler/analysis/run_set.h"

#include <stdbool.h>
#include <stddef.h>

#define LK_HOP_SLOW   0.85
#define LK_HOP_CHANCE 0.01
#define LK_HOP_MINOR  0.1

struct lk_run_hop {
    size_t from, to;           /* indices of ranks */
    size_t from_end, to_end;   /* the first rank of the same host */
    double sum[LK_HOP_VALUES]; /* over the run's steps */
};

struct lk_run_hops {
    struct lk_run_hop *hops; /* by sender */
    size_t n;
    double *rates; /* bytes/s of hop h in step i: [i * n + h]; only steps in which all hops sent */
    size_t n_steps;
};

/* Read the hops of a run's timed steps. n 0: none were recorded, as of hosts without a network. */
enum lk_status lk_run_hops_read(const struct lk_run *run, struct lk_run_hops *out);
void lk_run_hops_fini(struct lk_run_hops *h);
/* Return a hop's rate over all steps, bytes/s. */
double lk_run_hop_rate(const struct lk_run_hop *h);

struct lk_slow_link {
    bool pair;         /* one hop; else an end with all its hops */
    size_t at;         /* a pair: index of the hop; else of the end, a rank */
    double rate_Bps;   /* of its slowest hop */
    double others_Bps; /* median of the hops that it is compared with */
    size_t n_below;    /* steps in which it was below their median */
};

/* These may make the hops of a rank slow, too. */
struct lk_hop_excuse {
    bool late; /* by its own work */
    bool busy; /* its host is, and others' are not */
};

/* Find the slow ends and pairs, by rate. excuses: one a rank of the run. out has room for 2 * h->n;
 * *n: how many there are. LK_ENOMEM. */
enum lk_status lk_run_hops_slow(const struct lk_run_hops *h, const struct lk_hop_excuse *excuses,
                                struct lk_slow_link *out, size_t *n);

/* Return true if there are hops and steps enough to accuse a single hop: below the others' median
 * in all steps. */
bool lk_run_hops_suffice(const struct lk_run_hops *h);

#endif
