/* Text in a pipe begins with the answer and keeps to 80 columns, whatever the command. */
#include "base/array.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define CORPUS "tests/fuzz/corpus/"
#define TINY   "--model gpt --layers 1 --heads 1 --channels 16 --context 8 --vocab 256"

/* One after the other in one folder, which %s stands for, once or twice; a line longer than 80 has
 * to be a path, which cannot be broken. */
static const struct {
    const char *words, *begins;
} rows[] = {
    {"run -n 2 -b 2 --steps 8 " TINY " --out %s/run", "2 ranks: "},
    {"run -n 1 -b 2 --steps 1 --warmup 0 " TINY " --out %s/one", "1 rank: "},
    {"analyze %s/one", "1 rank: "},
    {"predict %s/run/job.json ethernet-25g --gpus 2,8,64", "64 GPUs reach "},
    {"whatif %s/run/job.json ethernet-25g --gpus 8 --accumulation 1,4 --sharding ddp,zero3",
     "At 8 GPUs no setting asked for is better than the current configuration by"},
    {"compare dgx-a100 dgx-h100", "bandwidth of a node to the others: B has "},
    {"replay %s/run/job.json -n 2 --steps 8 --out %s/replay", "2 ranks: "},
    {"compare %s/run %s/replay", "2 GPUs, batch 2: B "},
    {"analyze %s/run", "2 ranks: "},
    {"export %s/run --out %s/chakra", "Step "},
    {"calibrate -n 2 --sizes 4KiB,64KiB --algorithms auto --repetitions 3 --budget 1s --out "
     "%s/c.json",
     "All-reduce of 64.0 KiB on 2 ranks: "},
    {"import " CORPUS "kineto/gpu.json --out %s/import", "Read 1 of 2 ranks, 2 complete steps: "},
    {"import " CORPUS "nccl_tests/plain.log --base dgx-h100 --out %s/i.json",
     "All-reduce of 256 MiB on 4 GPUs of 2 nodes: "},
    {"import " CORPUS "training_log/torchtitan.log --gpus 8 --out %s/t.csv", "Read 1 log: 8 GPUs"},
    {"analyze " CORPUS "kineto/gpu.json", "2 GPUs: "},
    {"analyze " CORPUS "flight_recorder", "Rank 1 has not joined "},
    {"analyze " CORPUS "step_times/three.csv", "3 ranks in 2 steps: the slowest of a step works"},
};

static void check_width(const char *text, const char *words)
{
    for (const char *line = text; *line;
         line += strcspn(line, "\n") + (strchr(line, '\n') != NULL)) {
        size_t n = strcspn(line, "\n"), lead = strspn(line, " ");

        ck_assert_msg(n <= 80 || strcspn(line + lead, " \n") > 40, "%s: too wide: %.*s", words,
                      (int)n, line);
    }
}

START_TEST(answer_first)
{
    char *dir = scratch_create();

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const char *at = strstr(rows[i].words, "%s"), *more = at ? strstr(at + 2, "%s") : NULL;
        struct program p;
        char *words = NULL;

        ck_assert_int_eq(lk_asprintf(&words, "%.*s%s%.*s%s%s",
                                     (int)(at ? at - rows[i].words : (int)strlen(rows[i].words)),
                                     rows[i].words, at ? dir : "",
                                     at ? (int)((more ? more : at + strlen(at)) - at - 2) : 0,
                                     at ? at + 2 : "", more ? dir : "", more ? more + 2 : ""),
                         LK_OK);
        program_run(&p, dir, 0, "%s", words);
        ck_assert_msg(!strncmp(p.out, rows[i].begins, strlen(rows[i].begins)), "%s: %s", words,
                      p.out);
        check_width(p.out, words);
        program_fini(&p);
        free(words);
    }
    scratch_remove(dir);
}
END_TEST

SUITE(answers, t)
{
    tcase_add_test(t, answer_first);
}
