/* Checks of the files that a command's words name. */
#include "commands/paths.h"

#include "base/array.h"
#include "base/file.h"
#include "base/words.h"
#include "facts/foreign_file.h"
#include "facts/ledger.h"
#include "facts/preset.h"
#include "profiler/import/import_files.h"

#include <errno.h>
#include <fnmatch.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Inputs and outputs ---- */

/* A file or folder that a word names; a file to be made is found by its folder and name. */
struct place {
    const char *option; /* NULL: an operand */
    const char *word;   /* as the user wrote it */
    bool is_written, is_there;
    struct stat s; /* of the place, or of the folder that it would be made in */
    char *path;    /* of a place that is there, all links resolved */
    char *name;    /* of a place that is not there */
};

struct places {
    struct place *v;
    size_t n, capacity;
};

static void places_fini(struct places *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->v[i].path);
        free(p->v[i].name);
    }
    free(p->v);
}

/* Fill a place for a file to be made; a folder that is missing as well leaves its name NULL. */
static enum lk_status locate_new(struct place *p, const char *path)
{
    enum lk_status st = LK_OK;
    char *folder = NULL, *name = NULL;

    LK_TRY(lk_strdup(&folder, path));
    LK_TRY(lk_strdup(&name, path));
    if (!stat(dirname(folder), &p->s))
        LK_TRY(lk_strdup(&p->name, basename(name)));
out:
    free(folder);
    free(name);
    return st;
}

static enum lk_status add_place(struct places *list, struct place place, const char *path)
{
    LK_PASS(lk_array_grow(&list->v, &list->capacity, list->n + 1, sizeof *list->v));
    place.is_there = !stat(path, &place.s);
    if (place.is_there)
        place.path = realpath(path, NULL);
    list->v[list->n] = place;
    list->n++;
    return place.is_there ? LK_OK : locate_new(&list->v[list->n - 1], path);
}

/* Add a cluster: a preset is found by its name. */
static enum lk_status add_cluster(struct places *list, struct place place)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    if (lk_file_exists(place.word) || lk_preset_find(NULL, place.word, &path) != LK_OK)
        return add_place(list, place, place.word); /* the command will say what is wrong */
    st = add_place(list, place, path);
    free(path);
    return st;
}

/* Add the places of an option's value; copy, which the places keep pointing into, is cut up. */
static enum lk_status add_option(struct places *list, const struct lk_option *row, const char *word,
                                 char *copy)
{
    struct place p = {.option = row->name, .word = word};

    if (row->role != LK_ROLE_CLUSTER) {
        p.is_written = row->role == LK_ROLE_OUTPUT || row->role == LK_ROLE_FOLDER;
        return p.is_written && !strcmp(word, "-") ? LK_OK : add_place(list, p, word);
    }
    for (char *rest = copy; (p.word = lk_list_next(&rest));)
        LK_PASS(add_cluster(list, p));
    return LK_OK;
}

/* Return true for a file of the kinds that are read when a command is given its folder. */
static bool is_read_from_folders(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return !strcmp(name, "job.json") || !strcmp(name, "run.json") || !strcmp(name, "result.json") ||
           lk_ends_with(name, ".trace.json.gz") || (lk_is_file(path) && lk_import_reads(path));
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return !strncmp(path, folder, n) && path[n] == '/';
}

static bool is_same(const struct place *a, const struct place *b)
{
    bool at_one_place = a->s.st_dev == b->s.st_dev && a->s.st_ino == b->s.st_ino;

    if (a->is_there != b->is_there)
        return false;
    if (a->is_there)
        return at_one_place && (S_ISREG(a->s.st_mode) || S_ISDIR(a->s.st_mode));
    return a->is_written && b->is_written && a->name && b->name && at_one_place &&
           !strcmp(a->name, b->name);
}

static enum lk_status check_pair(const struct place *out, const struct place *other)
{
    const char *dashes = other->option ? "--" : "", *equals = other->option ? "=" : "";
    const char *option = other->option ? other->option : "";

    if (is_same(out, other))
        return lk_fail(LK_EUSAGE, "--%s=%s would write over %s%s%s%s%s; give another name",
                       out->option, out->word, other->is_written ? "the output of " : "the input ",
                       dashes, option, equals, other->word);
    if (!other->is_written && other->is_there && out->path && other->path &&
        S_ISDIR(other->s.st_mode) && S_ISREG(out->s.st_mode) && is_below(out->path, other->path) &&
        is_read_from_folders(out->path))
        return lk_fail(LK_EUSAGE,
                       "--%s=%s would write over a file of the input %s%s%s%s; give another name",
                       out->option, out->word, dashes, option, equals, other->word);
    return LK_OK;
}

static enum lk_status check_all(const struct places *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; p->v[i].is_written && k < p->n; k++)
            if (k < i || !p->v[k].is_written)
                LK_PASS(check_pair(&p->v[i], &p->v[k]));
    return LK_OK;
}

enum lk_status check_paths(const struct lk_option *rows, const void *options,
                           const char *const *operands, int n_operands)
{
    enum lk_status st = LK_OK;
    struct places places = {0};
    char **copies = NULL;
    size_t n = 0;

    while (rows[n].name)
        n++;
    LK_TRY(lk_alloc(&copies, n, sizeof *copies));
    for (size_t i = 0; i < n; i++) {
        const char *word = rows[i].role != LK_ROLE_NONE
                               ? *(const char *const *)((const char *)options + rows[i].offset)
                               : NULL;

        if (!word)
            continue;
        LK_TRY(lk_strdup(&copies[i], word));
        LK_TRY(add_option(&places, &rows[i], word, copies[i]));
    }
    for (int i = 0; i < n_operands; i++)
        LK_TRY(add_cluster(&places, (struct place){.word = operands[i]}));
    st = check_all(&places);
out:
    for (size_t i = 0; copies && i < n; i++)
        free(copies[i]);
    free(copies);
    places_fini(&places);
    return st;
}

/* ---- Folders of results ---- */

enum { DEPTH_MAX = 2 }; /* the folders in a run directory have none in them */

/* The names, as of fnmatch, that lockstep gives to what it writes in folders of results. */
static const char *const own_files[] = {
    "run.json",
    "job.json",
    "result.json",
    "rank[0-9]*.trace.json.gz",
    "rank[0-9]*.spans",
    "rank[0-9]*.spans.tmp.[0-9]*",
    "merged.trace.json.gz",
    "*.[0-9]*.et",
    "step-[0-9]*.safetensors",
    "*.tmp.[0-9]*",
};
static const char *const own_folders[] = {"k[0-9]*-b[0-9]*-a[0-9]*-r[0-9]*", "traces",
                                          "checkpoints"};
/* The names in a folder of traces, which recorders write for us. */
static const char *const recorded_files[] = {"rank[0-9]*.json", "rank[0-9]*.json.tmp",
                                             ("*" LK_FOREIGN_FILE_SUFFIX)};

static bool matches(const char *const *patterns, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!fnmatch(patterns[i], name, 0))
            return true;
    return false;
}

/* Check that all below a folder is lockstep's, or remove it. Its ledger stays: the forecasts in it
 * are of what is measured next. */
static enum lk_status sweep(const char *folder, int depth, bool in_traces, bool do_remove)
{
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL;
    size_t n = 0;

    LK_TRY(lk_dir_list(folder, "", &names, &n));
    for (size_t i = 0; i < n; i++) {
        struct stat s;
        bool own;

        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, folder, names[i]));
        if (!depth && !strcmp(names[i], LK_LEDGER_FILE))
            continue;
        if (lstat(path, &s))
            LK_TRY(lk_fail(LK_EIO, "%s: %s", path, strerror(errno)));
        own =
            S_ISDIR(s.st_mode)
                ? depth < DEPTH_MAX && matches(own_folders, LK_COUNT(own_folders), names[i])
                : S_ISREG(s.st_mode) &&
                      (matches(own_files, LK_COUNT(own_files), names[i]) ||
                       (in_traces && matches(recorded_files, LK_COUNT(recorded_files), names[i])));
        if (!own)
            LK_TRY(lk_fail(LK_EUSAGE, "%s: lockstep did not write this, so --force removed nothing",
                           path));
        if (S_ISDIR(s.st_mode))
            LK_TRY(sweep(path, depth + 1, !strcmp(names[i], "traces"), do_remove));
        if (do_remove && remove(path))
            LK_TRY(lk_fail(LK_EIO, "%s: cannot remove: %s", path, strerror(errno)));
    }
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

enum lk_status claim_folder(const char *folder, bool force)
{
    enum lk_status st = LK_OK;
    char **names = NULL;
    size_t n = 0;

    if (!lk_file_exists(folder))
        return LK_OK;
    LK_TRY(lk_dir_list(folder, "", &names, &n));
    if (n == 1 && !strcmp(names[0], LK_LEDGER_FILE))
        goto out;
    if (n && !force)
        LK_TRY(lk_fail(LK_EUSAGE,
                       "%s: is not empty; --out names a new folder, or --force removes what an "
                       "earlier run left there",
                       folder));
    if (n) {
        LK_TRY(sweep(folder, 0, false, false));
        LK_TRY(sweep(folder, 0, false, true));
    }
out:
    lk_names_free(names, n);
    return st;
}
