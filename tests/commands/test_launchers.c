/*
 * The commands of docs/launchers.md, as they are there, on small models: by a script in ssh's place
 * everywhere, by Slurm, Open MPI, MPICH and torchrun where they are; and a Slurm step whose
 * variables and scontrol are made up, everywhere.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/far_ssh.h"
#include "tests/rigs/mpirun.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RANKS = 4, SKIPPED = 77 };

/* Write an executable file of the scratch folder. */
static void put_program(const char *name, const char *text)
{
    char *path = scratch_put(name, text, strlen(text));

    ck_assert_int_eq(chmod(path, 0700), 0);
    free(path);
}

/* Put `lockstep` into the scratch folder, which PATH begins with: the program, on a small model. */
static void set_up(void)
{
    char *text, *search, *program = realpath(LK_BUILD_DIR "/lockstep", NULL);

    scratch_set_up();
    ck_assert_ptr_nonnull(program);
    must(lk_asprintf(&text,
                     "#!/bin/sh\nexec '%s' \"$@\" --model=mlp -b2 --steps=4 --warmup=1 "
                     "--timeout=100s\n",
                     program));
    put_program("lockstep", text);
    must(lk_asprintf(&search, "%s:%s", scratch_dir, getenv("PATH")));
    ck_assert_int_eq(setenv("PATH", search, 1), 0);
    ck_assert_int_eq(setenv("HOME", scratch_dir, 1), 0);
    /* This test may run as root, on fewer processors than ranks. */
    ck_assert_int_eq(setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1), 0);
    ck_assert_int_eq(setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1), 0);
    ck_assert_int_eq(setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1), 0);
    free(text);
    free(search);
    free(program);
}

/* Write the section's commands as scratch_dir/script, with the scratch folder for /shared. */
static void put_script(const char *section)
{
    char *page, *out = NULL, heading[64];
    const char *at, *end;
    size_t size = 0;
    FILE *f;

    must(lk_file_read("docs/launchers.md", &page, &size));
    snprintf(heading, sizeof heading, "\n## %s\n", section);
    at = strstr(page, heading);
    ck_assert_msg(at != NULL, "no section %s", section);
    end = strstr(at + 1, "\n## ");
    end = end ? end : page + size;
    f = open_memstream(&out, &size);
    ck_assert_ptr_nonnull(f);
    fprintf(f, "set -e\ncd '%s'\n", scratch_dir);
    while ((at = strstr(at, "```sh\n")) && at < end) {
        for (at += strlen("```sh\n"); strncmp(at, "```", 3) != 0; at++)
            if (!strncmp(at, "/shared", strlen("/shared"))) {
                fputs(scratch_dir, f);
                at += strlen("/shared") - 1;
            } else {
                fputc(*at, f);
            }
    }
    ck_assert_int_eq(fclose(f), 0);
    put_program("script", out);
    free(out);
    free(page);
}

/* Run the script, `before` it; each of the runs must have the traces of all ranks. */
static void run_script(const char *before, const char *const *runs)
{
    struct shell_result r = shell_run("%s sh %s/script 2>&1", before, scratch_dir);
    char name[64];

    if (r.code == SKIPPED) {
        skip("%.*s", (int)strcspn(r.text, "\n"), r.text);
        return;
    }
    ck_assert_msg(r.code == 0, "code %d: %s", r.code, r.text);
    for (; *runs; runs++)
        for (int rank = 0; rank < RANKS; rank++) {
            char *path;

            snprintf(name, sizeof name, *runs, rank);
            path = scratch_path(scratch_dir, name);
            ck_assert_msg(lk_file_exists(path), "no %s: %s", name, r.text);
            free(path);
        }
}

START_TEST(by_ssh)
{
    far_ssh_put();
    far_ssh_set_up(NULL);
    put_script("ssh");
    run_script("", (const char *const[]){"run/k4-b2-a1-r0/rank%d.trace.json.gz", NULL});
}
END_TEST

START_TEST(by_slurm)
{
    char before[1100];

    snprintf(before, sizeof before, "tests/net/slurm %s/slurm", scratch_dir);
    put_script("Slurm");
    run_script(before, (const char *const[]){"step/rank%d.trace.json.gz",
                                             "batch/rank%d.trace.json.gz", NULL});
}
END_TEST

START_TEST(by_mpirun)
{
    char *words = mpirun(_i, RANKS), *text;

    if (!words)
        return;
    *strchr(words, ' ') = '\0';
    if (strcmp(words, "mpirun") != 0) { /* the page calls it so */
        must(lk_asprintf(&text, "#!/bin/sh\nexec %s \"$@\"\n", words));
        put_program("mpirun", text);
        free(text);
    }
    put_script("MPI");
    run_script("",
               (const char *const[]){"mpi/rank%d.trace.json.gz", "tcp/rank%d.trace.json.gz", NULL});
    free(words);
}
END_TEST

/* Slurm starts the ranks, and MPI moves their gradients. */
START_TEST(by_slurm_with_mpi)
{
    static const char *const kinds[] = {"pmix", "pmi2"};
    char *words = mpirun(_i, RANKS), *text, before[1100];

    if (!words)
        return;
    free(words);
    must(lk_asprintf(&text, "srun -n %d --mpi=%s lockstep run --comm=mpi --out %s/run\n", RANKS,
                     kinds[_i], scratch_dir));
    put_program("script", text);
    free(text);
    snprintf(before, sizeof before, "tests/net/slurm %s/slurm", scratch_dir);
    run_script(before, (const char *const[]){"run/rank%d.trace.json.gz", NULL});
}
END_TEST

START_TEST(by_torchrun)
{
    if (shell_run("torchrun --no_python --nproc_per_node 1 true").code != 0) {
        skip("no torchrun that starts anything (PyTorch 1.13's does not on Python 3.11)");
        return;
    }
    put_script("torchrun");
    run_script("", (const char *const[]){"run/rank%d.trace.json.gz", NULL});
}
END_TEST

/* A step of two nodes, neither of whose names has an address: Slurm's does. */
START_TEST(by_slurms_variables)
{
    static const char step[] =
        "set -e\n"
        "cd '%s'\n"
        "export SLURM_STEP_ID=0 SLURM_JOB_ID=$$ SLURM_NTASKS=4 SLURM_TASKS_PER_NODE='2(x2)' \\\n"
        "    SLURM_STEP_NUM_NODES=2 SLURM_JOB_NODELIST='gpu-c[1-2].invalid'\n"
        "for r in 3 2 1 0; do\n"
        "    SLURM_PROCID=$r SLURM_LOCALID=$((r %% 2)) SLURM_NODEID=$((r / 2)) \\\n"
        "        lockstep run --out run > out.$r 2>&1 &\n"
        "done\n"
        "wait $! || { cat out.?; exit 1; }\n"
        "wait\n";
    char *text;

    put_program("scontrol", "#!/bin/sh\n[ \"$*\" = '-o show node gpu-c1.invalid' ] || exit 1\n"
                            "echo NodeName=gpu-c1.invalid NodeAddr=127.0.0.1 State=ALLOCATED\n");
    must(lk_asprintf(&text, step, scratch_dir));
    put_program("script", text);
    free(text);
    run_script("", (const char *const[]){"run/rank%d.trace.json.gz", NULL});
}
END_TEST

SUITE(launchers, c)
{
    tcase_add_checked_fixture(c, set_up, scratch_tear_down);
    tcase_add_test(c, by_ssh);
    tcase_add_test(c, by_slurm);
    tcase_add_loop_test(c, by_mpirun, 0, 2);
    tcase_add_loop_test(c, by_slurm_with_mpi, 0, 2);
    tcase_add_test(c, by_torchrun);
    tcase_add_test(c, by_slurms_variables);
}
