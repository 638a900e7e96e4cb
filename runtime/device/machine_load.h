/* How busy this host's processors are, and who keeps them busy. */
#ifndef LK_RUNTIME_MACHINE_LOAD_H
#define LK_RUNTIME_MACHINE_LOAD_H

#include "base/status.h"

/* Time since some moment, s. Interrupts do not count: they are mostly the network's. */
struct lk_machine_load {
    double available_s; /* of all processors together */
    double busy_s;      /* of them, in programs, and taken by other guests of the machine */
    double own_s;       /* in this process and its children that have ended */
};

/* Read the load until now. root: "" for this machine, else a folder with its "proc". LK_EIO: it
 * does not say it. */
enum lk_status lk_machine_load_now(const char *root, struct lk_machine_load *out);

/* Return the share of the processors' time between two readings that others took, 0 to 1. */
double lk_machine_load_of_others(const struct lk_machine_load *from,
                                 const struct lk_machine_load *to);

#endif
