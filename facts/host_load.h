/*
 * Tell what the processors of a host do while ranks work on it: other programs' load, processors
 * that other guests of the machine take, and how long ranks' threads wait, ready to run. Each rank
 * reads it (runtime/device/machine_load.h) and records it, as counters on a track of its own.
 */
#ifndef LK_FACTS_HOST_LOAD_H
#define LK_FACTS_HOST_LOAD_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * X(time, name of its counter): seconds since some moment, of all processors of the machine
 * together: in all, of them in programs, and taken by other guests of the machine. Then those in
 * this process, and what its threads waited, ready to run. Interrupts are no work: they are mostly
 * the network's.
 */
#define LK_HOST_TIME_LIST(X)                                                                       \
    X(LK_HOST_AVAILABLE, "processors, s")                                                          \
    X(LK_HOST_BUSY, "processors in programs, s")                                                   \
    X(LK_HOST_STOLEN, "processors stolen, s")                                                      \
    X(LK_HOST_OWN, "processors of the rank, s")                                                    \
    X(LK_HOST_WAITED, "waited for a processor, s")

enum lk_host_time { LK_HOST_TIME_LIST(LK_WORD_VALUE) LK_HOST_TIMES };
LK_WORDS_DECLARE(lk_host_time, enum lk_host_time);

struct lk_host_load {
    double s[LK_HOST_TIMES]; /* NaN: the system does not tell */
};

/* The track of the counters. */
#define LK_HOST_TRACK_NAME   "processors"
#define LK_HOST_TRACK_STREAM 2
/* Keys of a run's configuration: which boot of which machine a rank is on, since hosts by name may
 * be containers of one machine; and why a rank records no load. */
#define LK_BOOT_CONFIG_KEY    "boot_id"
#define LK_NO_LOAD_CONFIG_KEY "host_load"

/* A rank saw this in some time. */
struct lk_host_seen {
    const char *machine; /* equal texts: the same processors */
    double window_s;
    struct lk_host_load load; /* the difference between its two readings */
};

/* This happened meanwhile on a machine. */
struct lk_host_use {
    size_t n_ranks;
    double window_s;   /* mean over them */
    double processors; /* that the machine has */
    double others;     /* of them, how many other programs took */
    double stolen;     /* and other guests */
    double waited_s;   /* the ranks' threads together; NaN: not known */
};

/* Sum up what the n ranks saw of a machine. pre: they are all of the job's that are on it, and one
 * at least is. */
struct lk_host_use lk_host_use_sum(const struct lk_host_seen *ranks, size_t n, const char *machine);

/*
 * Return true if others slowed the ranks: these waited for processors while other work ran, or
 * other guests took them, for a tenth of the time. Waits of more ranks than processors for each
 * other do not count.
 */
bool lk_host_is_busy(const struct lk_host_use *u);

/* Write "other work took 1.9 of 2 processors, and the threads of 2 ranks waited 2.7 s of 10 s for
 * one". */
void lk_host_use_text(const struct lk_host_use *u, char *out, size_t size);

#endif
