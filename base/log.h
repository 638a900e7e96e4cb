/*
 * Log lines on stderr (stdout is for results only).
 *
 *     lk_log(LK_LOG_COMM, LK_INFO, "connected to rank %d", peer);
 *
 * A line is "lockstep[rank 2] comm: text"; it is written whole by one write(2), so lines of
 * several ranks do not mix. Which subsystems speak at which level is set once, by --log.
 */
#ifndef LK_BASE_LOG_H
#define LK_BASE_LOG_H

#include "base/status.h"

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

enum lk_log_subsystem {
#define LK_LOG_ENUM_(name, key, help) name,
    LK_LOG_LIST(LK_LOG_ENUM_)
#undef LK_LOG_ENUM_
        LK_LOG_COUNT
};

enum lk_log_level { LK_ERROR, LK_WARN, LK_INFO, LK_DEBUG };

/* Writes one line when the subsystem speaks at this level; leaves errno alone. Any thread. */
void lk_log(enum lk_log_subsystem sub, enum lk_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Sets levels from text: "info", "comm=debug", or a comma-separated list of both. The default is
 * "warn". LK_EUSAGE names the word that is wrong, and then nothing is changed. Call before threads
 * start.
 */
enum lk_status lk_log_configure(const char *text);

/* From now on lines carry "[rank r]"; -1 takes it away. Call before threads start. */
void lk_log_set_rank(int rank);

/* Whether a line of this subsystem and level would be written: for costly arguments. */
bool lk_log_enabled(enum lk_log_subsystem sub, enum lk_log_level level);

#endif
