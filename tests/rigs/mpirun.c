#include "tests/rigs/mpirun.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *mpirun(int i, int n)
{
    static const struct {
        const char *name, *debian, *says, *options;
    } rows[] = {
#define ROW(name, debian, says, options) {name, debian, says, options},
        MPIRUN_LIST(ROW)
#undef ROW
    };
    const char *const programs[] = {rows[i].debian, "mpirun"};
    char *words = NULL, job[64];

    /* Hydra tells its ranks no job's name, and another test may run one at this time. */
    snprintf(job, sizeof job, "test %ld", (long)getpid());
    setenv("LOCKSTEP_JOB", job, 1);
    /* Open MPI refuses root otherwise. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    /* What MPI's libraries do not free is not ours to report, where a sanitizer watches the ranks.
     */
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
    for (size_t p = 0; p < LK_COUNT(programs); p++)
        if (shell_run("%s --version 2>&1 | grep -q '%s'", programs[p], rows[i].says).code == 0) {
            must(lk_asprintf(&words, "%s -n %d %s", programs[p], n, rows[i].options));
            return words;
        }
    skip("no mpirun of %s", rows[i].name);
    return NULL;
}
