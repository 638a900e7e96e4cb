/*
 * Judge measured collectives: each point stands beside what its machine should take, and each band
 * of sizes gets a verdict.
 *
 * The expectation is a preset's or datasheet's (coll_cost.h): what was measured on the machine is
 * taken out of it first, since no table is evidence of itself. Public tables of the same machine,
 * ranks and collective stand beside it as a rank among them.
 *
 * A band is slow for one of three reasons:
 *
 *     its time is beyond an interval that has the times of sound machines 39 of 40 times: a table
 *     has four bands, so about one sound table in twenty has one above
 *     its slowdown is 3.1 times that of the table's other bands: labs and versions of NCCL differ,
 *     but in all bands alike (of the sound tables in bench/data 3.1 is the most)
 *     above 1 MiB a size takes twice as long as a larger one, which no link does (1.7 is the most
 *     there; below 1 MiB sound tables have cliffs of 7)
 *
 *     LK_TRY(lk_expectation_create(&preset, NULL, tables.s, tables.n, NULL, &e));
 *     LK_TRY(lk_verdicts_of(e, cluster.points, cluster.n_points, &v));
 */
#ifndef LK_SIM_JUDGED_H
#define LK_SIM_JUDGED_H

#include "sim/collective/coll_cost.h"
#include "sim/collective/coll_points.h"
#include "sim/collective/public_tables.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* X(band, name, largest size in bytes): what dominates a time differs between bands. */
#define LK_BAND_LIST(X)                                                                            \
    X(LK_BAND_LATENCY, "to 32 KiB", 32768.0)                                                       \
    X(LK_BAND_SMALL, "to 1 MiB", 1048576.0)                                                        \
    X(LK_BAND_MIDDLE, "to 32 MiB", 33554432.0)                                                     \
    X(LK_BAND_LARGE, "above 32 MiB", INFINITY)

enum lk_band { LK_BAND_LIST(LK_WORD_VALUE) LK_BAND_COUNT };

/* X(verdict, name) */
#define LK_JUDGEMENT_LIST(X)                                                                       \
    X(LK_JUDGEMENT_UNKNOWN, "no expectation")                                                      \
    X(LK_JUDGEMENT_EXPECTED, "as expected")                                                        \
    X(LK_JUDGEMENT_SLOW, "slow")                                                                   \
    X(LK_JUDGEMENT_FAST, "faster")

enum lk_judgement { LK_JUDGEMENT_LIST(LK_WORD_VALUE) LK_JUDGEMENT_COUNT };

LK_WORDS_DECLARE(lk_band, enum lk_band);
LK_WORDS_DECLARE(lk_judgement, enum lk_judgement);

struct lk_expectation {
    struct lk_cluster machine; /* without what was measured on it; borrows its members */
    struct lk_cost_model *model;
    const struct lk_public_table *tables; /* borrowed */
    size_t n_tables;
    const char *without; /* the source whose tables do not count; borrowed */
};

/*
 * Make the expectation of a machine: `c` without points, fits and measured numbers of links. prior:
 * rows as in coll_cost.h, NULL for the built-in ones. c, tables and `without` must outlive it.
 */
enum lk_status lk_expectation_create(const struct lk_cluster *c,
                                     const struct lk_nccl_factors *prior,
                                     const struct lk_public_table *tables, size_t n_tables,
                                     const char *without, struct lk_expectation *out);
void lk_expectation_fini(struct lk_expectation *e); /* safe on a zeroed one */

struct lk_judged {
    const struct lk_cluster_point *measured; /* borrowed */
    double expected_s, lo_s, hi_s;           /* NaN: nothing is expected */
    double slowdown;                         /* measured over expected time */
    /* NCCL would choose these there; "" where its model does not apply. */
    const char *algorithm, *protocol;
    size_t n_public, n_public_slower; /* public tables that have the size; those that took longer */
    double public_s;                  /* their median; NaN: there is none */
};

struct lk_judged_band {
    size_t first, n; /* the set's points in it */
    size_t at;       /* the one of median slowdown, which stands for the band */
    enum lk_judgement verdict;
    /* Time of the size `fall_from` over that of the larger one `fall_to`, the most of the band; 0:
     * no size is larger. */
    double fall;
    size_t fall_from, fall_to;
    bool beside, falls; /* slow for the second or the third reason */
};

/* Points of one collective, algorithm, ranks and nodes. */
struct lk_judged_set {
    struct lk_coll_key at;
    struct lk_judged *points; /* by rising bytes */
    size_t n;
    struct lk_judged_band bands[LK_BAND_COUNT];
};

struct lk_verdicts {
    struct lk_judged_set *sets; /* by collective, algorithm, nodes, ranks */
    size_t n;
};

/* Judge points, which must outlive *out; those of one rank, or without bytes, are left out. */
enum lk_status lk_verdicts_of(const struct lk_expectation *e, const struct lk_cluster_point *points,
                              size_t n, struct lk_verdicts *out);
void lk_verdicts_fini(struct lk_verdicts *v); /* safe on a zeroed one */

/* Return the slowdown of a band; NaN where it has no points or nothing is expected. */
double lk_judged_slowdown(const struct lk_judged_set *s, enum lk_band band);
/* Return bytes over seconds, times nccl-tests' factor of the collective: its bus bandwidth. */
double lk_judged_busbw(const struct lk_coll_key *at, double bytes, double seconds);

#endif
