#include "commands/job_inputs.h"

#include "base/file.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"

#include <stdlib.h>

static enum lk_status job_of_runs(const char *const *paths, size_t n, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};

    LK_TRY(lk_run_set_read(paths, n, &set));
    LK_TRY(lk_job_build(&set, out));
out:
    lk_run_set_fini(&set);
    return st;
}

enum lk_status find_job(const char *path, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    char *file = NULL;

    if (!lk_is_folder(path))
        return lk_job_read(path, out);
    LK_TRY(lk_path_join(&file, path, "job.json"));
    LK_TRY(lk_file_exists(file) ? lk_job_read(file, out) : job_of_runs(&path, 1, out));
out:
    free(file);
    return st;
}

enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out)
{
    return n == 1 ? find_job(paths[0], out) : job_of_runs(paths, n, out);
}
