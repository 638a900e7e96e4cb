#include "profiler/import/point_files.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/import/format.h"

#include <stdlib.h>

struct names {
    char **at;
    size_t n, capacity;
};

static enum lk_status add_name(struct names *out, const char *path)
{
    LK_PASS(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof *out->at));
    LK_PASS(lk_strdup(&out->at[out->n], path));
    out->n++;
    return LK_OK;
}

static enum lk_status add_folder(struct names *out, const char *folder)
{
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL;
    size_t n = 0, before = out->n;

    LK_TRY(lk_dir_list(folder, "", &names, &n));
    for (size_t i = 0; i < n; i++) {
        const struct lk_format *format = NULL;

        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, folder, names[i]));
        if (!lk_is_file(path))
            continue;
        LK_TRY(lk_format_of(path, &format));
        if (format && format->points)
            LK_TRY(add_name(out, path));
    }
    if (out->n == before)
        st = lk_fail(LK_EPARSE, "%s: no file of NCCL Inspector is in this directory", folder);
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

enum lk_status lk_point_files(const char *const *paths, size_t n, char ***out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct names names = {0};

    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_is_folder(paths[i]) ? add_folder(&names, paths[i]) : add_name(&names, paths[i]));
    *out = names.at;
    *out_n = names.n;
    names = (struct names){0};
out:
    lk_names_free(names.at, names.n);
    return st;
}
