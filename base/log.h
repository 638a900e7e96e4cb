/*
 * Log lines on stderr (stdout is for results only).
 *
 *     lk_log(LK_LOG_COMM, LK_INFO, "connected to rank %d", peer);
 *
 * A line is "lockstep[rank 2] comm: text"; it is written whole by one write(2), so lines of several
 * ranks do not mix. --log sets the level of each subsystem once.
 */
#ifndef LK_BASE_LOG_H
#define LK_BASE_LOG_H

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>

/* X(name, key, help) */
#define LK_LOG_LIST(X)                                                                             \
    X(LK_LOG_MAIN, "main", "commands and the launcher")                                            \
    X(LK_LOG_DEVICE, "device", "streams, events and memory")                                       \
    X(LK_LOG_COMM, "comm", "collectives, rendezvous and clocks")                                   \
    X(LK_LOG_DDP, "ddp", "reducer, buckets and verification")                                      \
    X(LK_LOG_DATA, "data", "sampler and loaders")                                                  \
    X(LK_LOG_TRAIN, "train", "trainer, models and optimizers")                                     \
    X(LK_LOG_PROFILE, "profile", "recorder, traces and analysis")                                  \
    X(LK_LOG_SIM, "sim", "collective cost, step engine and forecast")

enum lk_log_subsystem { LK_LOG_LIST(LK_WORD_VALUE) LK_LOG_COUNT };

/* X(level, name): a subsystem writes the lines of its level and of those before it. */
#define LK_LOG_LEVEL_LIST(X)                                                                       \
    X(LK_ERROR, "error")                                                                           \
    X(LK_WARN, "warn")                                                                             \
    X(LK_INFO, "info")                                                                             \
    X(LK_DEBUG, "debug")

enum lk_log_level { LK_LOG_LEVEL_LIST(LK_WORD_VALUE) };

/* Write one line if the subsystem logs at this level; errno is preserved. Any thread. */
void lk_log(enum lk_log_subsystem sub, enum lk_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Set levels from text: "info", "comm=debug", or a comma-separated list of both. The default is
 * "warn". LK_EUSAGE names the word that is wrong, and then nothing is changed. Call before threads
 * start.
 */
enum lk_status lk_log_configure(const char *text);

/* Put "[rank r]" into all lines from now on; -1 removes it. Call before threads start. */
void lk_log_set_rank(int rank);

/* Return true if a line of this subsystem and level would be written: guards costly arguments. */
bool lk_log_enabled(enum lk_log_subsystem sub, enum lk_log_level level);

#endif
