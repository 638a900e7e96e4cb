/* Jobs: a job file, or a run directory that holds one. */
#include "commands/find_job.h"

#include "base/file.h"
#include "profiler/job_build.h"
#include "profiler/run_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool is_directory(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

enum lk_status find_job(const char *path, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    char *file = NULL;

    if (!is_directory(path))
        return lk_job_read(path, out);
    LK_TRY(lk_path_join(&file, path, "job.json"));
    LK_TRY(lk_job_read(file, out));
out:
    free(file);
    return st;
}

enum lk_status find_job_of_runs(const char *const *paths, size_t n, struct lk_job *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_set set = {0};

    if (n == 1)
        return find_job(paths[0], out);
    LK_TRY(lk_run_set_read(paths, n, &set));
    LK_TRY(lk_job_build(&set, out));
out:
    lk_run_set_fini(&set);
    return st;
}
