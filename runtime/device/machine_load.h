/* Read how busy this host's processors are, who keeps them busy, and how long this process's
 * threads wait for them. */
#ifndef LK_RUNTIME_MACHINE_LOAD_H
#define LK_RUNTIME_MACHINE_LOAD_H

#include "base/status.h"
#include "facts/host_load.h"

enum { LK_MACHINE_BOOT_TEXT = 64 };

/* Read the load until now. Waits are of the threads that live. root: "" for this machine, else a
 * folder with its "proc". LK_EIO: it does not tell. */
enum lk_status lk_machine_load_now(const char *root, struct lk_host_load *out);

/* Return the load between two readings. */
struct lk_host_load lk_machine_load_between(const struct lk_host_load *from,
                                            const struct lk_host_load *to);

/* Write which boot of which machine this is, which all of its containers share; else the host's
 * name. root as above. */
void lk_machine_boot(const char *root, char out[static LK_MACHINE_BOOT_TEXT]);

#endif
