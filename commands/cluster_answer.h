/* The answer of commands that write a cluster file. */
#ifndef LK_COMMANDS_CLUSTER_ANSWER_H
#define LK_COMMANDS_CLUSTER_ANSWER_H

#include "base/page.h"
#include "base/status.h"
#include "facts/cluster.h"

/* Say the bandwidth of the largest collective that was measured, what a launch costs, and how
 * compute and collectives slow each other; add these numbers as values. */
enum lk_status cluster_answer(const struct lk_cluster *c, struct lk_page *page);
/* Add the table of the answer's collective, by ranks and size; then those of the cluster's points
 * and fits; then that of how ranks slow each other, if it has rows. */
enum lk_status cluster_tables(const struct lk_cluster *c, struct lk_page *page);

#endif
