/* Traces of other programs through the commands, as a user does it. */
#include "base/array.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define GPU   "tests/fuzz/corpus/kineto/gpu.json"
#define ALONE "tests/fuzz/corpus/kineto/alone.json"
#define CPU   "tests/fuzz/corpus/kineto/cpu.json"
#define DUMPS "tests/fuzz/corpus/flight_recorder"

/* One after the other; %s stands for the directory. */
static const struct {
    const char *words;
    int code;
    const char *says, *says_too; /* on standard output, or on stderr when code is not 0 */
} rows[] = {
    {"import " GPU " --local-batch 4 --out %s/run", 0, "1 of 2 ranks", "exposed"},
    {"analyze %s/run", 0, "launch", "ranks: 1 of 2 are"},
    {"analyze " GPU " --verbose", 0, "Imported: what the GPUs did", "exposed"},
    {"predict %s/run dgx-h100 --gpus 1,8", 0, "Forecast of imported", "8"},
    {"import " GPU " --out %s/run", 2, "run: is not empty", "--out names a new folder"},
    {"import %s/run/rank0.trace.json.gz", 1, "looks like lockstep's own trace", "analyze DIR"},
    {"import " GPU " --local-batch 4 --out %s/more/a", 0, "1 of 2 ranks", "exposed"},
    {"import " GPU " --local-batch 8 --out %s/more/b", 0, "1 of 2 ranks", "exposed"},
    {"predict %s/more dgx-h100 --gpus 8 --local-batch 6", 0, "Forecast of imported", "6"},
    {"import " CPU " --out %s/cpu", 0, "no job.json: ", "1 of 1 ranks"},
    {"import " ALONE " --local-batch 4 --out %s/alone", 0, "1 of 1 ranks", "run directory"},
    {"predict %s/alone dgx-h100 --gpus 1,8", 0, "Forecast of imported", "8"},
    {"analyze %s/cpu --verbose", 0, "Buckets", "optimizer"},
    {"analyze " DUMPS, 0, "Rank 1 has not joined all_reduce number 7 of group default_pg (2049000",
     "No file of rank 3 is here"},
    {"analyze " DUMPS "/nccl_trace_rank_0 " GPU " --verbose", 0, "Sequences of collectives",
     "exposed"},
    {"analyze README.md", 1, "README.md: is no trace that is known", "Flight Recorder"},
    {"import %s/run --out again", 1, "is a run directory of lockstep's own", "run"},
    {"import %s/run/job.json", 1, "looks like a job, cluster or forecast of lockstep's own", "JOB"},
    {"export %s/run/job.json --out chakra", 1, "is a file; name the run directory", "job.json"},
    {"import docs", 1, "docs: there is no trace in this directory", "read"},
    {"import %s/nothing", 1, "nothing: ", "cannot "},
    {"import " GPU " " GPU " --out %s/twice", 1, "are both of rank 0", "gpu.json"},
    {"import --local-batch 0 " GPU, 2, "local-batch", "1"},
};

START_TEST(says)
{
    char *dir = scratch_create();

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        const char *at = strstr(rows[i].words, "%s"), *said;
        struct program p;
        char *words = NULL;

        ck_assert_int_eq(lk_asprintf(&words, "%.*s%s%s",
                                     (int)(at ? at - rows[i].words : (int)strlen(rows[i].words)),
                                     rows[i].words, at ? dir : "", at ? at + 2 : ""),
                         LK_OK);
        program_run(&p, dir, rows[i].code, "%s", words);
        said = rows[i].code ? p.err : p.out;
        ck_assert_msg(strstr(said, rows[i].says) != NULL, "%s: no '%s' in: %s", words, rows[i].says,
                      said);
        ck_assert_msg(strstr(said, rows[i].says_too) != NULL, "%s: no '%s' in: %s", words,
                      rows[i].says_too, said);
        program_fini(&p);
        free(words);
    }
    scratch_remove(dir);
}
END_TEST

SUITE(import_run, t)
{
    tcase_add_test(t, says);
}
