/* Logs of training programs become a table of throughputs, as a user does it. */
#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define LOGS     "tests/fuzz/corpus/training_log/"
#define TITAN    LOGS "torchtitan.log"
#define MEGATRON LOGS "megatron.log"
#define DEEP     LOGS "deepspeed.log"
#define CUT      LOGS "torchtitan_cut.log"
#define ROWS     "gpus,throughput,local_batch,accumulation\n"

/* A row gives the words, the exit code, what is said (on stderr when the code is not 0), and the
 * table that is written. */
static const struct {
    const char *words;
    int code;
    const char *says, *table;
} rows[] = {
    /* 12 of 16 lines count; their median is 5,050.5 tokens a second of a GPU, and a sample has
     * 2,048. */
    {"import " TITAN " --gpus 8 --nodes 1", 0, "8 GPUs make 19.7285 samples/s",
     "gpus,nodes,throughput,local_batch,accumulation\n8,1,19.7285,4,1\n"},
    {"import " TITAN " " TITAN " --gpus 8", 0, "TorchTitan", ROWS "8,19.7285,4,1\n8,19.7285,4,1\n"},
    {"import " LOGS "torchtitan_accumulation.log --gpus 8", 0, "8 GPUs make 20 samples/s",
     ROWS "8,20,4,2\n"},
    /* Without the line of the settings, samples are tokens. */
    {"import " CUT " " CUT " --gpus 8,16 --local-batch 8192", 0,
     "micro-batches a step has: one is taken", ROWS "8,40400,8192,1\n16,80800,8192,1\n"},
    /* 64 samples in 2 and in 1.6 s, on the 16 GPUs of which the log tells, in 2 micro-batches. */
    {"import " MEGATRON, 0, "Megatron-LM", ROWS "16,36,2,2\n"},
    /* A global batch that grows: its last one counts. */
    {"import " LOGS "megatron_grows.log", 0, "Megatron-LM", ROWS "16,40,2,2\n"},
    {"import " DEEP " --gpus 4", 0, "4 GPUs make 80.125 samples/s", ROWS "4,80.125,4,2\n"},
    {"import " DEEP, 2, "deepspeed.log: does not say on how many GPUs it ran: --gpus", NULL},
    {"import " CUT " " MEGATRON " --gpus 16 --local-batch 2", 2, "counts samples", NULL},
    {"import " MEGATRON " --gpus 8", 2, "megatron.log: says 16 GPUs, --gpus says 8", NULL},
    {"import " MEGATRON " --local-batch 4", 2,
     "says 2 samples a micro-batch and rank, --local-batch says 4", NULL},
    {"import " LOGS "megatron_restart.log", 1,
     "megatron_restart.log:20: says 4 samples a micro-batch and rank, line 6 says 2", NULL},
    {"import " LOGS "megatron_parallel.log --local-batch 1", 2,
     "its 16 GPUs are 4 data-parallel ranks (tensor, pipeline or context parallelism)", NULL},
    {"import " LOGS "deepspeed_pipeline.log --gpus 4", 2, "its 4 GPUs are 2 data-parallel ranks",
     NULL},
    {"import " TITAN " --gpus 4", 2, "says 8 data-parallel ranks, which do not fit 4 GPUs", NULL},
    {"import " CUT " --gpus 8", 2,
     "does not say how many tokens a micro-batch has on a GPU: --local-batch", NULL},
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

/* ---- Lines that others published ---- */

static const struct {
    const char *lines, *options, *table;
} published[] = {
    /* github.com/pytorch/torchtitan/pull/1690: 1,874 x 8 tokens a second. */
    {"[rank7]:[titan] 2025-09-11 15:23:55,616 - root - INFO - step: 50  loss:  7.1291  grad_norm:  "
     "8.3760  memory: 81.85GiB(86.17%)  tps: 1,874  tflops: 389.87  mfu: 39.42%\n",
     "--gpus 8 --local-batch 8192", ROWS "8,14992,8192,1\n"},
    /* github.com/epfLLM/Megatron-LLM/issues/11: the median of the last three is 1024 / 89.0752 s.
     */
    {" iteration      122/  250000 | consumed samples:       124928 | elapsed time per iteration "
     "(ms): 86545.2 | learning rate: 9.150E-06 | global batch size:  1024 | lm loss: 2.504220E+00 "
     "|\n"
     " iteration      123/  250000 | consumed samples:       125952 | elapsed time per iteration "
     "(ms): 87871.6 | learning rate: 9.225E-06 | global batch size:  1024 | lm loss: 2.493043E+00 "
     "|\n"
     " iteration      124/  250000 | consumed samples:       126976 | elapsed time per iteration "
     "(ms): 89474.8 | learning rate: 9.300E-06 | global batch size:  1024 | lm loss: 2.559583E+00 "
     "|\n"
     " iteration      125/  250000 | consumed samples:       128000 | elapsed time per iteration "
     "(ms): 89075.2 | learning rate: 9.375E-06 | global batch size:  1024 | lm loss: 2.477393E+00 "
     "|\n",
     "--gpus 64 --local-batch 2", ROWS "64,11.4959,2,8\n"},
    /* github.com/deepspeedai/DeepSpeed/issues/3544 has the setting, issues/1825 the lines of steps.
     */
    {"[2023-04-24 13:26:47,821] [INFO] [config.py:957:print]   fp16_enabled ................. "
     "False\n"
     "[2023-04-24 13:26:47,822] [INFO] [config.py:957:print]   gradient_accumulation_steps .. 2\n"
     "[2023-04-24 13:26:47,823] [INFO] [config.py:957:print]   gradient_clipping ............ 0.0\n"
     "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48609168106144, "
     "MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n"
     "[2022-03-11 02:07:14,130] [INFO] [timer.py:189:stop] 0/50, SamplesPerSec=83.73838805358588, "
     "MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n",
     "--gpus 2 --local-batch 4", ROWS "2,83.7384,4,2\n"},
};

static void assert_table(const char *dir, const char *log, const char *options, const char *table)
{
    struct program p;
    char *got;

    program_run(&p, dir, 0, "import %s/%s %s --out %s/t.csv", dir, log, options, dir);
    program_fini(&p);
    got = scratch_read(dir, "t.csv");
    ck_assert_str_eq(got, table);
    free(got);
}

START_TEST(published_lines)
{
    char *path = scratch_put("run.log", published[_i].lines, strlen(published[_i].lines));

    assert_table(scratch_dir, "run.log", published[_i].options, published[_i].table);
    free(path);
}
END_TEST

/* ---- One job ---- */

/* One job in three programs' logs is one row, whatever its batch, also gzipped and with a prefix on
 * each line. */
START_TEST(one_job_three_programs)
{
    for (size_t i = 0; i < cases_or(6); i++) {
        struct lk_rng g = lk_rng_init(1, i);
        int gpus = 1 << (int)(7 * lk_rng_uniform(&g)), micro = 1 + (int)(9 * lk_rng_uniform(&g));
        int accumulation = 1 + (int)(9 * lk_rng_uniform(&g)), all = gpus * micro * accumulation;
        const char *prefix = i % 2 ? "node3: " : "", *name = i % 3 ? "run.log" : "run.log.gz";
        char *text[3], *table, *options;

        must(lk_asprintf(&text[0],
                         "%sINFO - Trainer is initialized with local batch size %d, global batch "
                         "size %d, gradient accumulation steps %d, sequence length 1024, total "
                         "steps 9\n%sINFO - step:  1  loss:  1.0  tps: %d  mfu: 1%%\n",
                         prefix, micro, all, accumulation, prefix, micro * accumulation * 1024));
        must(lk_asprintf(&text[1],
                         "%susing world size: %d, data-parallel size: %d, tensor-model-parallel "
                         "size: 1\n%s  micro_batch_size ................. %d\n%s iteration 1/ 9 | "
                         "elapsed time per iteration (ms): 1000.0 | global batch size: %5d |\n",
                         prefix, gpus, gpus, prefix, micro, prefix, all));
        must(lk_asprintf(&text[2],
                         "%s[config.py:9:print]   gradient_accumulation_steps .. %d\n"
                         "%s[config.py:9:print]   train_batch_size ............. %d\n"
                         "%s[config.py:9:print]   train_micro_batch_size_per_gpu  %d\n"
                         "%s[timer.py:9:stop] epoch=0, CurrSamplesPerSec=%d.0, MemAllocated=1GB\n",
                         prefix, accumulation, prefix, all, prefix, micro, prefix, all));
        must(lk_asprintf(&table, ROWS "%d,%.6g,%d,%d\n", gpus, (double)all, micro, accumulation));
        must(lk_asprintf(&options, "--gpus %d", gpus));
        for (int k = 0; k < 3; k++) {
            char *path = scratch_put(name, text[k], strlen(text[k]));

            assert_table(scratch_dir, name, options, table);
            free(path);
            free(text[k]);
        }
        free(table);
        free(options);
    }
}
END_TEST

SUITE(import_throughput, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, published_lines, 0, (int)LK_COUNT(published));
    tcase_add_test(t, one_job_three_programs);
    tcase_add_loop_test(t, says, 0, (int)LK_COUNT(rows));
}
