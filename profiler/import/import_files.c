#include "profiler/import/import_files.h"

#include "base/array.h"
#include "base/file.h"
#include "profiler/import/format.h"

#include <stdlib.h>

struct names {
    char **at;
    size_t n, capacity;
};

/* The files that are listed. */
struct wanted {
    bool points;      /* those with measured collectives, else traces */
    const char *none; /* continues "FOLDER: " where there is none */
};

static const struct wanted traces = {false, "there is no trace in this directory that can be read"};
static const struct wanted points = {true, "no file of NCCL Inspector is in this directory"};

static enum lk_status add_folder(const char *folder, const struct wanted *w, struct names *out)
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
        if (!lk_is_file(path)) /* a folder, a link to nothing, a pipe */
            continue;
        LK_TRY(lk_format_of(path, &format));
        if (format && format->role == LK_FORMAT_OWN && !w->points)
            LK_TRY(lk_fail(LK_EPARSE,
                           "%s: is a run directory of lockstep's own, which lockstep analyze reads",
                           folder));
        if (format && (w->points ? format->points != NULL : format->read != NULL))
            LK_TRY(lk_names_add(&out->at, &out->n, &out->capacity, path));
    }
    if (out->n == before)
        st = lk_fail(LK_EPARSE, "%s: %s", folder, w->none);
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

static enum lk_status list(const char *const *paths, size_t n, const struct wanted *w, char ***out,
                           size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct names names = {0};

    for (size_t i = 0; i < n; i++)
        LK_TRY(lk_is_folder(paths[i])
                   ? add_folder(paths[i], w, &names)
                   : lk_names_add(&names.at, &names.n, &names.capacity, paths[i]));
    *out = names.at;
    *out_n = names.n;
    names = (struct names){0};
out:
    lk_names_free(names.at, names.n);
    return st;
}

enum lk_status lk_import_files(const char *const *paths, size_t n, char ***out, size_t *out_n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lk_format *format = NULL;

        if (lk_is_folder(paths[i]))
            continue;
        LK_PASS(lk_format_of(paths[i], &format));
        if (!format || !format->read)
            return lk_format_refuse(paths[i], format);
    }
    return list(paths, n, &traces, out, out_n);
}

enum lk_status lk_point_files(const char *const *paths, size_t n, char ***out, size_t *out_n)
{
    return list(paths, n, &points, out, out_n);
}

bool lk_import_is(const char *path)
{
    const struct lk_format *format = NULL;
    char **files = NULL;
    size_t n = 0;
    bool found;

    if (!lk_is_folder(path))
        return lk_format_of(path, &format) == LK_OK && format && format->role != LK_FORMAT_POINTS;
    found = lk_import_files(&path, 1, &files, &n) == LK_OK;
    lk_names_free(files, n);
    return found;
}

bool lk_import_reads(const char *path)
{
    const struct lk_format *format = NULL;

    return lk_format_of(path, &format) == LK_OK && format && format->read;
}
