/* Cluster files by path, presets by name. */
#ifndef LK_COMMANDS_FIND_CLUSTER_H
#define LK_COMMANDS_FIND_CLUSTER_H

#include "base/cluster.h"
#include "base/status.h"

#include <stddef.h>

/*
 * Reads a cluster: a path (it has a slash or ends in .json), or the name of a preset, looked for in
 * ./clusters, beside the program's build folder, and in the installed share/lockstep/clusters.
 * LK_EUSAGE lists the presets that there are.
 */
enum lk_status find_cluster(const char *name, struct lk_cluster *out);

/*
 * The operands JOB CLUSTER of a command, of which the second may come by --cluster (NULL: not
 * given): sets operands[1]. LK_EUSAGE for none and for two. pre: room for two.
 */
enum lk_status job_and_cluster(const char *command, const char **operands, int n,
                               const char *cluster);

/* The names of all presets, each once; freed by the caller with lk_names_free. */
enum lk_status find_presets(char ***out, size_t *out_n);

#endif
