/*
 * Inputs that a command's options and operands name: clusters, presets, jobs, tables of
 * throughputs, and ranks known to be slow.
 */
#ifndef LK_COMMANDS_INPUTS_H
#define LK_COMMANDS_INPUTS_H

#include "base/cluster.h"
#include "base/job.h"
#include "base/status.h"
#include "commands/common_rows.h"
#include "sim/throughput/throughput.h"

#include <stddef.h>

/*
 * Read a cluster: a path (it has a slash or ends in .json), or the name of a preset, looked for in
 * ./clusters, beside the program's build folder, and in the installed share/lockstep/clusters.
 * LK_EUSAGE lists the known presets.
 */
enum lk_status find_cluster(const char *name, struct lk_cluster *out);

/* List the names of all presets, each once; freed by the caller with lk_names_free. */
enum lk_status find_presets(char ***out, size_t *out_n);

/*
 * Check the operands JOB CLUSTER of a command. --cluster (NULL: not given) may replace the second:
 * then operands[1] is set to it. LK_EUSAGE for no cluster and for two. pre: room for two operands.
 */
enum lk_status job_and_cluster(const char *command, const char **operands, int n,
                               const char *cluster);

/* Read the job file `path`, or path/job.json when `path` is a directory. */
enum lk_status find_job(const char *path, struct lk_job *out);
/* Build one job from the traces of several run directories (profiler/run_set.h). With one operand
 * this is find_job. */
enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out);

/*
 * Add entries to stragglers.known of a cluster. ranks and links are lists "3:1.25,7:1.1": how many
 * times longer a rank computes, or a node's link takes. NULL adds nothing. LK_EUSAGE names the
 * option whose value is not such a list, or repeats what is known.
 */
enum lk_status known_slow_add(struct lk_cluster *c, const char *ranks, const char *links);

/* The table of throughputs, and the job and cluster that it was measured with where they are given.
 * It owns all of them; model and request borrow from its other members, so it must not be moved. */
struct throughput_inputs {
    struct lk_throughput_table table;
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_throughput_model model;
    struct lk_throughput_request request; /* request.model NULL: no job and cluster are given */
};
/*
 * Read the inputs that options and operands name. cluster: the file of --cluster, or NULL.
 * operands: n of [JOB] [CLUSTER], JOB left out with --parameters or --gradients, CLUSTER with
 * --cluster. pre: the caller has set out->request.grid (the configurations to forecast), and the
 * rest of *out is zero. LK_EUSAGE: a job without cluster or a cluster without job, or one of them
 * given twice. Call throughput_inputs_fini after a failure, too.
 */
enum lk_status throughput_inputs_read(const struct throughput_options *o, const char *cluster,
                                      const char *const *operands, int n,
                                      struct throughput_inputs *out);
void throughput_inputs_fini(struct throughput_inputs *in);

#endif
