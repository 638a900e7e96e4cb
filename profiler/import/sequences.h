/*
 * Compare the ranks' sequences of collectives, and find who holds them up. That is the question
 * that a hang asks, and dumps of Flight Recorder answer.
 *
 * Collectives are matched by group and number, not by their place in the file: a dump is a ring
 * whose oldest entries are lost. Several with one number were coalesced; they are matched in order,
 * and the last one has the state of all. A number is complete on a rank if a later one of the group
 * is; the first that is not, and was enqueued, is its open one. A rank has not joined a number if
 * its file ends before it, in that group, and others wait there: where others have completed it,
 * the files were only written at different moments.
 *
 * A collective completes nowhere before all of its ranks have started it. So
 *
 *   1. where a rank's open number is complete on another one, which waits in a later one, all have
 *      joined it: the rank itself is stuck, its GPU or the thread that watches it;
 *   2. where a rank has not joined a number in which others wait, these wait for it. To blame are
 *      the ranks that others wait for and that wait for nobody, over all groups. One that waits
 *      in a group of which a member's file is missing may wait for that member;
 *   3. a number that all have enqueued and that is complete on none is a symptom: it is behind
 *      another group's, or a receive, and names nobody.
 */
#ifndef LK_PROFILER_IMPORT_SEQUENCES_H
#define LK_PROFILER_IMPORT_SEQUENCES_H

#include "base/status.h"
#include "base/table.h"
#include "profiler/analysis/rank_list.h"
#include "profiler/import/event.h"

/* A collective of a rank. */
struct lk_sequence_item {
    uint64_t number, elements;
    int64_t at_ns;            /* the host enqueued it */
    uint32_t group, function; /* names of the texts */
    int rank;
    uint32_t place; /* in the rank's file */
    uint8_t dtype;  /* plus one; 0: not known */
    uint8_t state;  /* enum lk_collective_state */
};

struct lk_sequences {
    struct lk_events texts; /* only its names */
    struct lk_sequence_item *items;
    size_t n_items, items_capacity;
    struct lk_rank_list *members; /* of groups, by name of the texts; empty: not known */
    size_t n_members, members_capacity;
    struct lk_rank_list ranks; /* whose files are here */
    struct lk_rank_list lossy; /* those whose oldest collectives are lost */
};

enum lk_sequence_kind {                      /* in the order in which they are told */
                        LK_SEQUENCE_DIFFERS, /* ranks: those that do not what most do; others: these
                                              */
                        LK_SEQUENCE_STUCK,   /* ranks: on which it is open; others: on which it is
                                                complete */
                        LK_SEQUENCE_NOT_JOINED,   /* ranks: those that have not; others: those that
                                                     wait */
                        LK_SEQUENCE_NOT_COMPLETED /* ranks: on which it has not; others: on which it
                                                     has */
};

/* The first thing that is wrong in a group. */
struct lk_sequence_finding {
    enum lk_sequence_kind kind;
    uint32_t group;
    uint64_t number;
    int64_t at_ns;        /* its first enqueue */
    size_t item, differs; /* indices of items: what most do; of LK_SEQUENCE_DIFFERS, what else is */
    struct lk_rank_list ranks, others;
    struct lk_rank_list roots; /* of NOT_JOINED: those of the ranks that wait for nobody */
};

struct lk_sequence_findings {
    struct lk_sequence_finding *at; /* by kind, those with roots first, then by time */
    size_t n, capacity;
    size_t n_groups; /* that were compared */
};

/* Add the collectives of a rank's events that have a number in their group. Events without any
 * leave s as it is. LK_EPARSE: the rank is no member of a group in which it has some. */
enum lk_status lk_sequences_add(struct lk_sequences *s, int rank, const struct lk_events *e);
/* Find what is wrong; sorts the items. */
enum lk_status lk_sequences_find(struct lk_sequences *s, struct lk_sequence_findings *out);
void lk_sequence_findings_fini(struct lk_sequence_findings *f); /* safe on a zeroed one */
/* Make a table of the findings; *out NULL: there are no items. */
enum lk_status lk_sequences_table(struct lk_sequences *s, struct lk_table **out);
void lk_sequences_fini(struct lk_sequences *s); /* zeroes it; safe on a zeroed one */

#endif
