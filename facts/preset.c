/* Files of clusters by name. */
#include "facts/preset.h"

#include "base/array.h"
#include "base/file.h"
#include "base/words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SUFFIX[] = ".json";

/* Folders of presets relative to a program in build/, in build/VARIANT/ and in PREFIX/bin. */
static const char *const beside_program[] = {"../clusters", "../../clusters",
                                             "../share/lockstep/clusters"};
/* Folders of published tables, likewise. */
static const char *const tables_beside_program[] = {"../bench/data", "../../bench/data",
                                                    "../share/lockstep"};

static bool is_path(const char *name)
{
    size_t n = strlen(name), m = strlen(SUFFIX);

    return strchr(name, '/') || (n > m && !strcmp(name + n - m, SUFFIX));
}

/* Write the folder of this program, without a slash at its end. */
static enum lk_status program_dir(char *buf, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", buf, size - 1);
    char *slash;

    if (n < 0)
        return lk_fail(LK_EIO, "/proc/self/exe: %s", strerror(errno));
    buf[n] = 0;
    slash = strrchr(buf, '/');
    if (slash)
        *slash = 0;
    return LK_OK;
}

/* Return the i-th folder that may hold presets, freed by the caller; NULL after the last. */
static enum lk_status folder(size_t i, char **out)
{
    char program[4096];

    *out = NULL;
    if (i == 0)
        return lk_strdup(out, "clusters");
    if (i > LK_COUNT(beside_program))
        return LK_OK;
    LK_PASS(program_dir(program, sizeof program));
    return lk_path_join(out, program, beside_program[i - 1]);
}

enum lk_status lk_preset_table_find(const char *file, char **out)
{
    enum lk_status st = LK_OK;
    char program[4096], *dir = NULL, *path = NULL;

    LK_TRY(program_dir(program, sizeof program));
    LK_TRY(lk_path_join(&path, "bench/data", file));
    for (size_t i = 0; i < LK_COUNT(tables_beside_program) && !lk_file_exists(path); i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&dir, program, tables_beside_program[i]));
        LK_TRY(lk_path_join(&path, dir, file));
        free(dir);
        dir = NULL;
    }
    *out = NULL;
    if (lk_file_exists(path)) {
        *out = path;
        path = NULL;
    }
out:
    free(dir);
    free(path);
    return st;
}

static bool has_name(char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum lk_status lk_preset_names(char ***out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    char *dir = NULL, **found = NULL, **all = NULL;
    size_t n_found = 0, n = 0, capacity = 0;

    for (size_t i = 0;; i++) {
        LK_TRY(folder(i, &dir));
        if (!dir)
            break;
        if (lk_dir_list(dir, SUFFIX, &found, &n_found) != LK_OK)
            n_found = 0; /* no such folder: its presets are elsewhere */
        for (size_t k = 0; k < n_found; k++) {
            found[k][strlen(found[k]) - strlen(SUFFIX)] = '\0';
            if (has_name(all, n, found[k]))
                continue;
            LK_TRY(lk_names_add(&all, &n, &capacity, found[k]));
        }
        lk_names_free(found, n_found);
        found = NULL;
        n_found = 0;
        free(dir);
        dir = NULL;
    }
    if (n) /* by name: with ".json" at their ends the order was another */
        qsort(all, n, sizeof *all, compare_names);
    *out = all;
    *out_n = n;
    all = NULL;
    n = 0;
out:
    free(dir);
    lk_names_free(found, n_found);
    lk_names_free(all, n);
    return st;
}

/* Fail with "no preset 'x'; did you mean 'y'? presets: a, b". */
static enum lk_status unknown_preset(const char *name)
{
    enum lk_status st = LK_OK;
    char known[1024] = "", **names = NULL;
    const char *near;
    size_t at = 0, n = 0;

    LK_TRY(lk_preset_names(&names, &n));
    for (size_t k = 0; k < n && at < sizeof known; k++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", names[k]);
    near = lk_words_nearest(name, (const char *const *)names, n);
    st = lk_fail(LK_EIO, "no cluster file and no preset '%s'%s%s%s%s%s", name,
                 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                 at ? "; presets: " : "; no presets were found", known);
out:
    lk_names_free(names, n);
    return st;
}

/* Join the folder of the file `of` and a name; without a folder the name alone. */
static enum lk_status beside(const char *of, const char *name, char **out)
{
    const char *slash = of ? strrchr(of, '/') : NULL;

    if (!slash || name[0] == '/')
        return lk_strdup(out, name);
    return lk_asprintf(out, "%.*s/%s", (int)(slash - of), of, name);
}

enum lk_status lk_preset_find(const char *of, const char *name, char **out)
{
    enum lk_status st = LK_OK;
    char *dir = NULL, *file = NULL, *path = NULL;

    LK_TRY(beside(of, name, &path));
    if (is_path(name) || lk_file_exists(path))
        goto found;
    LK_TRY(lk_asprintf(&file, "%s%s", name, SUFFIX));
    for (size_t i = 0;; i++) {
        free(path);
        path = NULL;
        LK_TRY(folder(i, &dir));
        if (!dir)
            break;
        LK_TRY(lk_path_join(&path, dir, file));
        free(dir);
        dir = NULL;
        if (lk_file_exists(path))
            goto found;
    }
    st = unknown_preset(name);
    goto out;
found:
    LK_HAND_OVER(out, path);
out:
    free(dir);
    free(file);
    free(path);
    return st;
}
