/* Known truths. */
#include "bench/lib/truth.h"

#include "base/array.h"
#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void truth_run_fini(struct truth_run *r)
{
    lk_analysis_fini(&r->a);
    lk_run_set_fini(&r->set);
}

enum lk_status truth_run(const char *program, const char *dir, const char *name, const char *words,
                         struct lk_run_set *out)
{
    enum lk_status st = LK_OK;
    char *command = NULL, *path = NULL;

    LK_TRY(lk_path_join(&path, dir, name));
    LK_TRY(
        lk_asprintf(&command, "%s run %s --out '%s' > '%s.log' 2>&1", program, words, path, path));
    if (system(command))
        LK_TRY(lk_fail(LK_EIO, "failed: %s", command));
    LK_TRY(lk_run_set_read((const char *const *)&path, 1, out));
out:
    free(command);
    free(path);
    return st;
}

int truth_compare(const char *name, double step_s, const double *found_s, const double *truth_s)
{
    double sum_s = 0;
    int wrong = 0;

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        sum_s += truth_s[i];
    printf("\n# %s: step %.3f ms, truth %.3f ms\n# %-12s %10s %10s %8s\n", name, 1e3 * step_s,
           1e3 * sum_s, "row", "truth ms", "found ms", "error");
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        double error = (found_s[i] - truth_s[i]) / step_s;
        bool right = fabs(error) <= TRUTH_ALLOWED;

        printf("  %-12s %10.3f %10.3f %7.2f%%%s\n", lk_loss_key((enum lk_loss)i), 1e3 * truth_s[i],
               1e3 * found_s[i], 100 * error, right ? "" : "  WRONG");
        wrong += !right;
    }
    return wrong;
}

enum lk_status truth_verdict(int wrong)
{
    return wrong ? lk_fail(LK_EVERIFY, "%d rows are off by more than %g %% of the step", wrong,
                           100 * TRUTH_ALLOWED)
                 : LK_OK;
}

int truth_main(const char *who, enum lk_status (*check)(const char *dir, char **argv), char **argv)
{
    char dir[] = "/tmp/lockstep-truth-XXXXXX";
    char *command = NULL;
    enum lk_status st;

    if (!mkdtemp(dir)) {
        perror("mkdtemp");
        return 1;
    }
    st = check(dir, argv);
    if (st != LK_OK)
        fprintf(stderr, "%s: %s\n", who, lk_error_text());
    if (lk_asprintf(&command, "rm -rf '%s'", dir) == LK_OK && system(command))
        fprintf(stderr, "%s: %s stays behind\n", who, dir);
    free(command);
    return lk_status_exit_code(st);
}
