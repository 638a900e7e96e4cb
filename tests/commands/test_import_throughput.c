/* Logs of training programs become a table of throughputs, as a user does it. */
#include "base/array.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define LOGS     "tests/fuzz/corpus/training_log/"
#define TITAN    LOGS "torchtitan.log"
#define MEGATRON LOGS "megatron.log"
#define DEEP     LOGS "deepspeed.log"

/* A row gives the words, the exit code, what is said (on stderr when the code is not 0), and the
 * table that is written. */
static const struct {
    const char *words;
    int code;
    const char *says, *table;
} rows[] = {
    /* Of 16 lines 12 count; their median is 5,050.5 tokens a second of a GPU. */
    {"import " TITAN " --gpus 8 --nodes 1", 0, "8 GPUs make 40404 tokens/s",
     "gpus,nodes,throughput\n8,1,40404\n"},
    {"import " TITAN " " TITAN " --gpus 8,16 --local-batch 4", 0, "TorchTitan",
     "gpus,throughput,local_batch\n8,40404,4\n16,80808,4\n"},
    /* 64 samples in 2 and in 1.6 s, on the 16 GPUs of which the log tells. */
    {"import " MEGATRON, 0, "Megatron-LM", "gpus,throughput\n16,36\n"},
    {"import " DEEP " --gpus 4", 0, "4 GPUs make 80.125 samples/s", "gpus,throughput\n4,80.125\n"},
    {"import " DEEP, 2, "deepspeed.log: does not say on how many GPUs it ran: --gpus", NULL},
    {"import " TITAN " " MEGATRON " --gpus 16", 2, "counts samples", NULL},
    {"import " MEGATRON " --gpus 8", 2, "megatron.log: says that it ran on 16 GPUs", NULL},
    {"import " TITAN " " DEEP " --gpus 8,16,32", 2, "--gpus has 3 items for 2 logs", NULL},
    {"import " TITAN " README.md --gpus 8", 1, "README.md: has no line of a step", NULL},
};

START_TEST(says)
{
    char *dir = scratch_create();
    struct program p;

    program_run(&p, dir, rows[_i].code, "%s --out %s/t.csv", rows[_i].words, dir);
    ck_assert_msg(strstr(rows[_i].code ? p.err : p.out, rows[_i].says) != NULL, "no '%s' in: %s%s",
                  rows[_i].says, p.out, p.err);
    program_fini(&p);
    if (rows[_i].table) {
        char *table = scratch_read(dir, "t.csv");

        ck_assert_str_eq(table, rows[_i].table);
        free(table);
        program_run(&p, dir, 0, "predict --throughput %s/t.csv --gpus 64 --gpus-per-node 64", dir);
        ck_assert_ptr_nonnull(strstr(p.out, "64"));
        program_fini(&p);
    }
    scratch_remove(dir);
}
END_TEST

SUITE(import_throughput, t)
{
    tcase_add_loop_test(t, says, 0, (int)LK_COUNT(rows));
}
