/* The parts of `lockstep doctor`, private to commands/doctor*.c: its options, and what it is told.
 */
#ifndef LK_COMMANDS_DOCTOR_IMPL_H
#define LK_COMMANDS_DOCTOR_IMPL_H

#include "commands/common_rows.h"
#include "facts/known_models.h"
#include "sim/throughput/doctor.h"
#include "sim/throughput/throughput.h"

#include <stddef.h>
#include <stdint.h>

enum { DOCTOR_ROWS_MAX = 64, DOCTOR_OPERANDS_MAX = 64 };

struct doctor_options {
    struct lk_ints gpus;
    const char *throughput, *model, *parameters, *gpu, *cluster, *result;
    double flops;
    int dtype;
    int64_t local_batch, accumulation, gpus_per_node, seed;
    struct lk_page_options page;
    struct lk_gate_options gate;
    const char *log;
};

struct doctor_inputs {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_throughput_table table;
    struct lk_doctor_row rows[DOCTOR_ROWS_MAX];
    struct lk_doctor_question question;
    const struct lk_known_model *model; /* NULL: not named */
    size_t n_told;                      /* runs beyond plain rates: results, profiles */
};

/* Read options and operands. doctor_inputs_fini frees *in, whatever is returned. */
enum lk_status doctor_inputs_read(const struct doctor_options *o, const char **operands, int n,
                                  struct doctor_inputs *in);
void doctor_inputs_fini(struct doctor_inputs *in);

#endif
