/*
 * Open the source of evidence (sim/forecast/evidence.h) of `predict`, `validate` and `whatif`: the
 * runs of a job on a cluster, or a table of throughputs, alone or with a job and a cluster.
 */
#ifndef LK_COMMANDS_EVIDENCE_INPUTS_H
#define LK_COMMANDS_EVIDENCE_INPUTS_H

#include "base/status.h"
#include "commands/common_rows.h"
#include "sim/forecast/step_evidence.h"
#include "sim/throughput/throughput.h"

#include <stddef.h>

/* A source of evidence and all that it borrows, so it must not be moved. */
struct evidence_inputs {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_cluster measured_on; /* another one, where the table's rows were measured */
    struct lk_throughput_table table;
    struct lk_throughput_model model;     /* the table's job and cluster */
    struct lk_throughput_request request; /* its grid also sets how the source predicts */
    struct lk_evidence_source source;
};
/* What a user says of the machine; a member that is zero says nothing. */
struct machine_facts {
    int64_t gpus_per_node;
    const char *measured_on;             /* where the runs were: a cluster, or a word for a place */
    double overlap_slowdown;             /* compute takes as many times as long under collectives */
    const char *slow_ranks, *slow_links; /* lists, as known_slow_add has them */
};
/*
 * Both open a source; the caller has set in->request.grid, and the rest of *in is zero. Call
 * evidence_fini after a failure, too.
 *
 * evidence_open_job takes n run directories, or one job file, and a cluster, in which `facts` take
 * the place of what its file says; slow ranks and links are added.
 *
 * evidence_open_table takes the options' table. cluster: the file of --cluster, or NULL. operands:
 * n of [JOB] [CLUSTER], JOB left out with --parameters or --gradients, CLUSTER with --cluster.
 * LK_EUSAGE: a job without cluster or a cluster without job, or one of them given twice.
 */
enum lk_status evidence_open_job(const char *const *jobs, size_t n, const char *cluster,
                                 const struct machine_facts *facts, struct evidence_inputs *in);
enum lk_status evidence_open_table(const struct throughput_options *o, const char *cluster,
                                   const char *const *operands, int n, struct evidence_inputs *in);
void evidence_fini(struct evidence_inputs *in);

/* Refuse options that say what a table's job is where there is no table. */
enum lk_status check_no_table(const struct throughput_options *o);

#endif
