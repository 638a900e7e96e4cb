/* Kinds of GPU in a replay: `--gpu` as `predict` and `whatif` have it. */
#ifndef LK_COMMANDS_RUN_KINDS_H
#define LK_COMMANDS_RUN_KINDS_H

#include "base/status.h"
#include "commands/run_options.h"

/*
 * Set how many times as long as the job's times a rank computes, on the GPU that --gpu gives it in
 * place of --cluster's, which the times are of; 1 without --gpu. The optimizer, too, takes the
 * ratio of the compute. LK_EUSAGE: --cluster is missing, several values, or the mix is not of so
 * many ranks. LK_EEVIDENCE: the job does not say what it computes.
 */
enum lk_status run_kind_slowdown(const struct run_options *o, int rank, int ranks, double *out);

#endif
