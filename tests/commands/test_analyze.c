/* Run lockstep analyze as a user does. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static char *dir;

static void write_run(const char *name, struct step_model change)
{
    const struct step_model m = step_model_default(change);
    char *where = scratch_path(dir, name);
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (int k = 0; k < m.ranks && !strcmp(name, "wire"); k++) /* a rank a node */
        traces[k].info.nodes = m.ranks;
    step_model_write(traces, m.ranks, where, -1);
    free(where);
}

/* Write runs of one and two ranks, the second of which is slow, and a run of another batch. */
static void set_up(void)
{
    dir = scratch_create();
    write_run("curve/k1", (struct step_model){.ranks = 1});
    write_run("curve/k2", (struct step_model){.ranks = 2, .slow = {0, 0.2}});
    write_run("wire", (struct step_model){.ranks = 2, .bandwidth_Bps = 1e8});
    write_run("reps/r0", (struct step_model){.ranks = 2, .seed = 1});
    write_run("reps/r1", (struct step_model){.ranks = 2, .seed = 2, .forward_s = 0.006});
    write_run("mixed/r0", (struct step_model){.ranks = 2});
    write_run("mixed/r1", (struct step_model){.ranks = 2, .local_batch = 16});
    write_run("other", (struct step_model){.ranks = 1, .local_batch = 16});
}

static void tear_down(void)
{
    scratch_remove(dir);
}

static const struct {
    const char *words; /* @ stands for the directory */
    int code;
    const char *says, *says_too; /* on standard output, or on stderr when code is not 0 */
} rows[] = {
    {"analyze @/curve", 0, "2 simulated ranks reach ", "of linear scaling against 1 (one run)"},
    {"analyze @/curve", 0, "Waterfall: ", "late rank: rank 1 is the last at 100 %"},
    {"analyze @/curve", 0, "\nMost is lost to slow ranks: ", "\nDo: rank 1: see what this rank"},
    {"analyze @/curve --verbose", 0, "curve/k1: 1 rank, local batch 4",
     "the first 5 steps are warm-up"},
    {"analyze @/curve/k2", 0, "the ideal, which is", "waiting for the last rank"},
    {"analyze @/curve/k2 --table stragglers", 0, "Stragglers", "waits for others"},
    {"analyze @/curve/k2 --reference @/curve/k1 --verbose", 0, "curve/k1: 1 rank", "Buckets"},
    {"analyze @/curve/k2 --cluster ethernet-10g-4gpu", 0, "collectives in this job take",
     "Waterfall: "},
    {"analyze @/wire --cluster ethernet-10g", 0, "Do: ", "by lockstep"},
    {"analyze @/wire", 0, "Do: ", "next: --cluster=FILE|PRESET tries what other buckets"},
    {"analyze @/wire --cluster ethernet-10g --table actions", 0, "throughput x",
     "actions gain, by lockstep whatif on "},
    {"analyze @/curve/k2 --cluster ethernet-10g-4gpu --table collectives --format csv", 0,
     "times_alone", "alone_busbw_Bps"},
    {"analyze @/curve/k2 --cluster nowhere", 1, "nowhere", "lockstep analyze: "},
    {"analyze @/curve/k1", 0, "1 simulated rank: ", " a step (one run)"},
    {"analyze @/reps", 0, "(mean of 2 runs, ", "Waterfall: mean of 2 runs of 2 ranks"},
    {"analyze @/reps --table ranks", 0, "reps/r0", "reps/r1"},
    {"analyze @/reps --table findings --format csv", 0, "runs,cost_s,share,points", ""},
    {"analyze @/mixed", 0, "Configurations", "(one run)"},
    {"analyze @/mixed --table configurations --format csv", 0,
     "accumulation,global_batch,buckets,sent_bytes,", "\n"},
    {"analyze @/mixed --format json", 0, "\"gpus\": \"2\", \"local_batch\": \"16\"",
     "exposed_comm_s"},
    {"analyze @/curve --format csv --table waterfall", 0, "mean_s", "straggler,"},
    {"analyze @/curve --format=json", 0, "\"straggler\"", "\"mean_s\""},
    {"analyze @/curve --step 7", 0, "Collectives of one step", "last"},
    {"analyze @/curve --step 2", 2, "step 2 is not there", "5 to 29"},
    {"analyze @/curve/k2 --reference @/other", 2, "can be the reference of", "other"},
    {"analyze", 2, "which run?", "lockstep analyze"},
    {"analyze @/nothing", 1, "nothing", "lockstep analyze: "},
    {"analyze @/curve --fromat csv", 2, "fromat", "format"},
};

START_TEST(says)
{
    struct program p;
    char *words = NULL, *more;
    const char *said;

    ck_assert_int_eq(lk_strdup(&words, rows[_i].words), LK_OK);
    for (char *at; (at = strchr(words, '@')); words = more) {
        ck_assert_int_eq(lk_asprintf(&more, "%.*s%s%s", (int)(at - words), words, dir, at + 1),
                         LK_OK);
        free(words);
    }
    program_run(&p, dir, rows[_i].code, "%s", words);
    said = rows[_i].code ? p.err : p.out;
    ck_assert_msg(strstr(said, rows[_i].says) != NULL, "no '%s' in: %s", rows[_i].says, said);
    ck_assert_msg(strstr(said, rows[_i].says_too) != NULL, "no '%s' in: %s", rows[_i].says_too,
                  said);
    ck_assert_msg(!*(rows[_i].code ? p.out : p.err), "also said: %s%s", p.out, p.err);
    program_fini(&p);
    free(words);
}
END_TEST

/* A run on processors beside a machine of GPUs: what training makes longer is not said, and the
 * table says why. */
START_TEST(a_cluster_of_other_devices_is_no_measure)
{
    struct program p;

    program_run(&p, dir, 0, "run -n 2 --steps 8 --warmup 2 --out %s/cpu", dir);
    program_fini(&p);
    program_run(&p, dir, 0, "analyze %s/cpu --cluster %s --verbose", dir,
                _i ? "dgx-h100" : "ethernet-10g-4gpu");
    ck_assert_msg((strstr(p.out, "collectives in this job take") == NULL) == (_i == 1), "%s",
                  p.out);
    ck_assert_msg((strstr(p.out, "of another machine (cpu)") != NULL) == (_i == 1), "%s", p.out);
    program_fini(&p);
}
END_TEST

/* Text in a pipe keeps to 80 columns, and its first line is the answer. */
START_TEST(fits)
{
    static const char *const all[] = {"curve", "curve/k1", "reps", "mixed"};
    struct program p;

    program_run(&p, dir, 0, "analyze %s/%s", dir, all[_i]);
    ck_assert_msg(strncmp(p.out + 1, " simulated rank", 15) == 0, "%s", p.out);
    for (const char *line = p.out; *line; line += strcspn(line, "\n") + 1)
        ck_assert_msg(strcspn(line, "\n") <= 80, "too wide: %s", line);
    program_fini(&p);
}
END_TEST

SUITE(analyze, t)
{
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, says, 0, (int)LK_COUNT(rows));
    tcase_add_loop_test(t, fits, 0, 4);
    tcase_add_loop_test(t, a_cluster_of_other_devices_is_no_measure, 0, 2);
}
