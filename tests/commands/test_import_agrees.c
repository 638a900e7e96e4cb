/* `import` and `analyze` have the same steps of the same files, or both refuse them. */
#include "base/array.h"
#include "base/file.h"
#include "commands/import_impl.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CORPUS "tests/fuzz/corpus/kineto/"

/* Those of the second kind are no part of the project. */
static const struct {
    const char *name;
    bool recorded;
} files[] = {
    {CORPUS "gpu.json", false},
    {CORPUS "alone.json", false},
    {CORPUS "cpu.json", false},
    {"hta/ddp_resnet50_a100_ws2_rank0.nccl_data.json.gz", true},
    {"hta/v100_ws1_rank0.ns_resolution.json.gz", true},
    {"tracelens/ddp_resnet18_mi300x_ws8_rank0.json.gz", true},
};

static double step_of(const struct lk_run *run)
{
    struct lk_analysis a = {0};
    double step_s;

    must(lk_analyze(run, NULL, 0, &a));
    step_s = a.step_s;
    lk_analysis_fini(&a);
    return step_s;
}

/* The step of a trace as `analyze` has it; NaN: it refuses it. */
static double analyzed(char *path, const struct lk_import_options *o)
{
    struct lk_import i = {0};
    struct lk_run run = {0};
    double step_s = NAN;

    must(lk_import_run(&path, 1, o, &i));
    if (lk_import_take(&i, "run", &run) == LK_OK)
        step_s = step_of(&run);
    else
        ck_assert_msg(i.no_steps && strstr(i.no_steps, path), "%s", lk_error_text());
    lk_run_fini(&run);
    lk_import_fini(&i);
    return step_s;
}

/* Every option, on every file: the step that import says, that of its run directory, and that of
 * the analysed trace are one. A refused file leaves no traces. */
START_TEST(steps_are_the_same)
{
    const char *folder = getenv("LK_TRACES") ? getenv("LK_TRACES") : "../shared/data/traces";
    char *path = NULL, *out = NULL;

    must(lk_asprintf(&path, "%s%s%s", files[_i].recorded ? folder : "",
                     files[_i].recorded ? "/" : "", files[_i].name));
    for (int k = 0; k < 4 && access(path, R_OK) == 0; k++) {
        const struct lk_import_options o = {.drop_last = k & 1, .steps_by_gpu = k & 2};
        double step_s = analyzed(path, &o);
        struct import_made made = {0};
        struct lk_run_set set = {0};
        char *trace = NULL;

        must(lk_asprintf(&out, "%s/run%d", scratch_dir, k));
        if (isnan(step_s)) {
            ck_assert_int_eq(import_run(&o, out, (const char *const *)&path, 1, &made),
                             LK_EEVIDENCE);
            ck_assert_ptr_nonnull(strstr(lk_error_text(), path));
            must(lk_asprintf(&trace, "%s/rank0.trace.json.gz", out));
            ck_assert(!lk_file_exists(trace));
        } else {
            must(import_run(&o, out, (const char *const *)&path, 1, &made));
            must(lk_run_set_read((const char *const *)&out, 1, &set));
            ck_assert_double_eq_tol(made.step_s, step_s, 1e-9 * step_s);
            ck_assert_double_eq_tol(step_of(&set.runs[0]), step_s, 1e-9 * step_s);
        }
        import_made_fini(&made);
        lk_run_set_fini(&set);
        free(trace);
        free(out);
    }
    if (access(path, R_OK) != 0)
        skip("no recorded trace %s", path);
    free(path);
}
END_TEST

/* Two ranks that recorded other steps: the reason says which. */
START_TEST(ranks_of_other_steps)
{
    char *text = scratch_read(CORPUS, "gpu.json"), *paths[2], *out = scratch_path(scratch_dir, "o");
    struct import_made made = {0};

    paths[0] = scratch_put("r0.json", text, strlen(text));
    for (char *p = text; (p = strstr(p, "ProfilerStep#"));)
        *(p += strlen("ProfilerStep#")) += 5;
    *(strstr(text, "\"rank\":0") + strlen("\"rank\":")) = '1';
    paths[1] = scratch_put("r1.json", text, strlen(text));
    ck_assert_int_eq(import_run(&(struct lk_import_options){.nodes = 1}, out,
                                (const char *const *)paths, 2, &made),
                     LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "r0.json: no step is complete on all ranks"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "Rank 0 has steps 0 to 1, with 2 forwards, 2 "
                                                  "backwards and 2 collectives; rank 1 has steps "
                                                  "5 to 6, with 2 forwards"));
    ck_assert(!lk_file_exists(out));
    free(paths[0]);
    free(paths[1]);
    free(text);
    free(out);
}
END_TEST

SUITE(import_agrees, t)
{
    tcase_add_test(t, ranks_of_other_steps);
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, steps_are_the_same, 0, (int)LK_COUNT(files));
}
