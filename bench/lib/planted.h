/*
 * Score the verdicts on collectives (sim/judged.h, suspects.h) by public tables, nested
 * by source: the tables as they are, those that their source calls degraded, and the same tables
 * with faults planted in them by arithmetic on their own times.
 */
#ifndef LK_BENCH_LIB_PLANTED_H
#define LK_BENCH_LIB_PLANTED_H

#include "base/status.h"
#include "base/words.h"

#include <stddef.h>

/* X(fault, name, the first suspect that it must give; "": any) */
#define PLANTED_LIST(X)                                                                            \
    X(PLANTED_NONE, "sound", "")                                                                   \
    X(PLANTED_STATED, "stated by its source", "other_network")                                     \
    X(PLANTED_QUARTER, "a quarter of the rate in one band", "")                                    \
    X(PLANTED_ONE_RAIL, "one network card", "one_rail")                                            \
    X(PLANTED_LL, "LL to 16 MiB", "protocol_cliff")                                                \
    X(PLANTED_LATENCY, "10 times the latency", "latency")                                          \
    X(PLANTED_SLOW_NODE, "a node with a third of the rate", "slow_node")                           \
    X(PLANTED_NO_GPUDIRECT, "copies as long as the wire takes", "no_gpudirect")

enum planted { PLANTED_LIST(LK_WORD_VALUE) PLANTED_COUNT };

struct planted_score {
    size_t n, flagged;    /* tables, those with a slow band */
    size_t stated, right; /* those of a known cause that are flagged; whose first suspect is that */
};

extern const char *const planted_names[PLANTED_COUNT];

/* Judge every table of a known machine in nccl_tables.csv. clusters_dir as in public_tables.h. */
enum lk_status planted_score_all(const char *tables, const char *clusters_dir,
                                 struct planted_score score[PLANTED_COUNT]);

#endif
