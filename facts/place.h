/*
 * A place is where something was measured: the runs of a job, the rows of a table. What was
 * measured on a cluster counts there more than any model does, and elsewhere it does not count; a
 * place says which of the two it is.
 *
 *     switch (lk_place_on(&job.place, &cluster, nodes)) { case LK_PLACE_ELSEWHERE: ... }
 *
 * What somebody said decides (--measured-on, a member of job.json, a column of the table). Else the
 * device and the node's shape must agree with the cluster's; where nothing is known of the device,
 * the place is unknown, and a forecast that takes it as the cluster says so.
 */
#ifndef LK_FACTS_PLACE_H
#define LK_FACTS_PLACE_H

#include "base/member.h"
#include "base/words.h"

#include <stdbool.h>

/* Every member may be unknown, NULL; GPUs and nodes are those of a run's configuration. All
 * texts are owned. */
struct lk_place {
    char *cluster; /* its cluster's name, as somebody said it, or one of the two words below */
    char *device;  /* the name that the GPU's software gives it, "cpu" */
    char *hosts;   /* names of its hosts, apart by commas */
    char *network; /* between nodes, by its name in cluster files */
};

/* In place of a cluster's name: the cluster that the forecast is asked for, and another one. */
#define LK_PLACE_HERE_WORD      "here"
#define LK_PLACE_ELSEWHERE_WORD "elsewhere"

/* X(where, name): what a place is to a cluster, and how that is known. */
#define LK_PLACE_LIST(X)                                                                           \
    X(LK_PLACE_SAID, "as was said")                                                                \
    X(LK_PLACE_AGREES, "device and shape agree")                                                   \
    X(LK_PLACE_UNKNOWN, "nothing says where")                                                      \
    X(LK_PLACE_ELSEWHERE, "on another machine")

enum lk_place_on { LK_PLACE_LIST(LK_WORD_VALUE) LK_PLACE_COUNT };

struct lk_cluster;

extern const struct lk_record lk_place_record; /* an object; not written where nothing is known */

/* Return true if some member is known. */
bool lk_place_known(const struct lk_place *p);
/* Set the name that somebody said, a copy. LK_ENOMEM changes nothing. */
enum lk_status lk_place_say(struct lk_place *p, const char *cluster);
/* Set the device, a copy, unless the name tells no device ("GPU", "timed", "unknown"). */
enum lk_status lk_place_set_device(struct lk_place *p, const char *device);

/* Compare what was measured on so many nodes with a cluster. */
enum lk_place_on lk_place_on(const struct lk_place *p, const struct lk_cluster *c, int nodes);
/*
 * Compare two names of devices, "NVIDIA H100 80GB HBM3" and "H100-SXM5-80GB": 1, they are of one
 * model; -1, of two; 0, not known. Sizes of memory do not count.
 */
int lk_device_same(const char *a, const char *b);

#endif
