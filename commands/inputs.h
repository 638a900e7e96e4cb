/* Inputs that a command's words name: clusters, presets, and ranks known to be slow. */
#ifndef LK_COMMANDS_INPUTS_H
#define LK_COMMANDS_INPUTS_H

#include "base/status.h"
#include "facts/cluster.h"

#include <stddef.h>

/* Read a cluster: a path, or the name of a preset (facts/preset.h). Its points that contradict each
 * other are warned of. LK_EIO: it is neither, or cannot be read; LK_EPARSE. *out is freed by
 * lk_cluster_fini. */
enum lk_status find_cluster(const char *name, struct lk_cluster *out);
/*
 * Warn of points of one collective, size, count of GPUs and way of timing whose times differ by
 * more than 1.5 times: one line for each collective and count, with both places, the size and the
 * ratio. Pairs of the first `known` points are left out. Also warn of the point that is faster than
 * the links of c by most.
 */
enum lk_status warn_of_contradictions(const struct lk_cluster *c, size_t known);

/* A command's word names one of these. A word that no file has and that looks like no path names a
 * preset.
 */
enum operand { OPERAND_FOLDER, OPERAND_PRESET, OPERAND_FILE };
enum operand operand_of(const char *name);
/* Find which of n schemas a JSON file names. LK_EPARSE says the file's, and `expected`, which is a
 * sentence without its end. */
enum lk_status find_schema(const char *path, const char *const *schemas, size_t n,
                           const char *expected, size_t *out);

/*
 * Check the operands JOB CLUSTER of a command. --cluster (NULL: not given) may replace the second:
 * then operands[1] is set to it. LK_EUSAGE for no cluster and for two. pre: room for two operands.
 */
enum lk_status job_and_cluster(const char *command, const char **operands, int n,
                               const char *cluster);

/*
 * Add entries to stragglers.known of a cluster. ranks and links are lists "3:1.25,7:1.1": how many
 * times longer a rank computes, or a node's link takes. NULL adds nothing. LK_EUSAGE names the
 * option whose value is not such a list, repeats what is known, or names a rank or node that no
 * forecast on most_gpus GPUs has (0: any).
 */
enum lk_status known_slow_add(struct lk_cluster *c, int most_gpus, const char *ranks,
                              const char *links);

#endif
