/* Options by which a user says what is known to be slow, beside the cluster file. */
#ifndef LK_COMMANDS_KNOWN_SLOW_H
#define LK_COMMANDS_KNOWN_SLOW_H

#include "base/cluster.h"
#include "base/status.h"

/*
 * Adds to stragglers.known: ranks and links are lists "3:1.25,7:1.1" of ranks' compute and nodes'
 * links; NULL adds nothing. LK_EUSAGE names the option: what is no list, or is known already.
 */
enum lk_status known_slow_add(struct lk_cluster *c, const char *ranks, const char *links);

#endif
