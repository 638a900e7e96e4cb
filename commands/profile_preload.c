/* The way of lockstep profile by the preload library: MPI, NCCL and NVTX are recorded in every
 * process that uses them. */
#include "commands/profile_ops.h"

#include "base/array.h"
#include "base/file.h"
#include "base/library.h"
#include "profiler/import/preload.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "liblockstep_profile.so"
#define SUFFIX  ".probe"
/* These separate the names in LD_PRELOAD (ld.so(8)), which takes other white space for a blank. */
#define SEPARATORS " :\t\n"

enum { VARIABLES_MAX = 10 };

struct preload_way {
    const char *traces; /* borrowed */
    char *library;      /* NULL: it is not there */
    char *link_folder;  /* temporary, with a link to the library; NULL: none */
    char *variables[VARIABLES_MAX];
    size_t n_variables;
    size_t n_empty; /* files for which there was no room */
    bool kernels;   /* they were to be recorded; another profiler has CUPTI's place: */
    bool is_other;
    const char *no_kernels; /* why a process has none; NULL: all have */
};

static void remove_link(const struct preload_way *w)
{
    if (!w->link_folder)
        return;
    (void)unlink(w->library);
    (void)rmdir(w->link_folder);
    free(w->link_folder);
}

static void close_way(void *way)
{
    struct preload_way *w = way;

    if (!w)
        return;
    for (size_t i = 0; i < w->n_variables; i++)
        free(w->variables[i]);
    remove_link(w);
    free(w->library);
    free(w);
}

/* Find the library beside the program, or in the lib of an installation. *out NULL: it is in
 * neither. */
static enum lk_status find_library(char **out)
{
    static const char *const places[] = {"", "../lib/"};
    char program[PATH_MAX], *path = NULL;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    enum lk_status st = LK_OK;

    if (n <= 0)
        return LK_OK;
    program[n] = '\0';
    if (strrchr(program, '/'))
        strrchr(program, '/')[1] = '\0';
    for (size_t i = 0; i < LK_COUNT(places) && !*out; i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_asprintf(&path, "%s%s" LIBRARY, program, places[i]));
        *out = realpath(path, NULL);
    }
out:
    free(path);
    return st;
}

/*
 * Let w->library be a link in a temporary folder where its path has a blank or a colon: the loader
 * takes both in LD_PRELOAD for the end of a name, and nothing can quote them.
 */
static enum lk_status avoid_separators(struct preload_way *w)
{
    enum lk_status st = LK_OK;
    const char *folder = getenv("TMPDIR");
    char *made = NULL, *link = NULL;

    if (!strpbrk(w->library, SEPARATORS))
        return LK_OK;
    LK_TRY(lk_asprintf(&made, "%s/lockstep-profile-XXXXXX",
                       folder && *folder == '/' && !strpbrk(folder, SEPARATORS) ? folder : "/tmp"));
    LK_TRY(lk_asprintf(&link, "%s/" LIBRARY, made));
    if (!mkdtemp(made))
        LK_TRY(lk_fail(LK_EIO, "%s: cannot make the folder: %s", made, strerror(errno)));
    memcpy(link, made, strlen(made)); /* mkdtemp has named it */
    if (symlink(w->library, link)) {
        st = lk_fail(LK_EIO, "%s: cannot link %s: %s", link, w->library, strerror(errno));
        (void)rmdir(made);
        goto out;
    }
    w->link_folder = made;
    made = NULL;
    free(w->library);
    w->library = link;
    link = NULL;
out:
    free(made);
    free(link);
    return st;
}

/* Add NAME=value to the job's environment; before: what a list that is there already continues
 * with. */
static enum lk_status set(struct preload_way *w, const char *name, const char *value,
                          const char *before)
{
    LK_PASS(lk_asprintf(&w->variables[w->n_variables], "%s=%s%s%s", name, value,
                        before && *before ? ":" : "", before ? before : ""));
    w->n_variables++;
    return LK_OK;
}

/* Each of these has room for one profiler: another one is left alone. */
static enum lk_status set_place(struct preload_way *w, const char *name, bool *is_other)
{
    *is_other = getenv(name) != NULL;
    return *is_other ? LK_OK : set(w, name, w->library, NULL);
}

static enum lk_status set_seconds(struct preload_way *w, const char *name, double s)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", s);
    return s > 0 ? set(w, name, text, NULL) : LK_OK;
}

/* The runtime of AddressSanitizer ends a program in which another library comes before it, unless
 * it is told not to look. */
static enum lk_status allow_sanitizer(struct preload_way *w)
{
    const char *options = getenv("ASAN_OPTIONS");

    if (options && strstr(options, "verify_asan_link_order"))
        return LK_OK;
    return set(w, "ASAN_OPTIONS", "verify_asan_link_order=0", options);
}

/* Pass on the files of CUPTI that lockstep itself would find (base/library.h): the folders of
 * LOCKSTEP_LIBRARY_PATH and of PyTorch are none of the loader's. Which of them fits the driver only
 * the process can tell. */
static enum lk_status set_cupti(struct preload_way *w)
{
    static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12"};
    enum lk_status st = LK_OK;
    char *list = NULL;

    for (size_t i = 0; i < LK_COUNT(sonames); i++) {
        const char *const files[] = {sonames[i], NULL};
        const struct lk_library_spec spec = {.name = "CUPTI", .files = files, .stays = true};
        struct lk_library *l = NULL;

        if (lk_library_open(&spec, NULL, &l) != LK_OK)
            continue;
        st = lk_text_add(&list, "%s%s", list ? ":" : "", lk_library_path(l));
        lk_library_close(l);
        LK_TRY(st);
    }
    if (list)
        LK_TRY(set(w, "LOCKSTEP_PROFILE_CUPTI", list, NULL));
out:
    free(list);
    return st;
}

/* Kernels are recorded where PyTorch is not asked to do it: a process has one user of CUPTI. */
static enum lk_status set_variables(struct preload_way *w, const struct profile_request *r)
{
    bool is_other;

    LK_PASS(set(w, "LD_PRELOAD", w->library, getenv("LD_PRELOAD")));
    LK_PASS(set(w, "LOCKSTEP_PROFILE_DIR", r->traces, NULL));
    LK_PASS(allow_sanitizer(w));
    LK_PASS(set_place(w, "NCCL_PROFILER_PLUGIN", &is_other));
    LK_PASS(set_place(w, "NVTX_INJECTION64_PATH", &is_other));
    if (r->step_range)
        LK_PASS(set(w, "LOCKSTEP_PROFILE_STEP_RANGE", r->step_range, NULL));
    w->kernels = r->asked && r->alone;
    if (!w->kernels)
        return LK_OK;
    LK_PASS(set_place(w, "CUDA_INJECTION64_PATH", &w->is_other));
    if (!w->is_other)
        LK_PASS(set_cupti(w));
    LK_PASS(set_seconds(w, "LOCKSTEP_PROFILE_DELAY_S", r->delay_s));
    return set_seconds(w, "LOCKSTEP_PROFILE_FOR_S", r->length_s);
}

static enum lk_status open_way(const struct profile_request *r, void **out)
{
    struct preload_way *w = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&w, 1, sizeof *w));
    w->traces = r->traces;
    LK_TRY(find_library(&w->library));
    if (!w->library && r->asked)
        LK_TRY(lk_fail(LK_EUNSUPPORTED,
                       "--with=preload: " LIBRARY " is neither beside lockstep nor in ../lib"));
    if (w->library) {
        LK_TRY(avoid_separators(w));
        LK_TRY(set_variables(w, r));
    }
    LK_HAND_OVER(out, w);
out:
    close_way(w);
    return st;
}

static const char *const *environment(const void *way, size_t *n)
{
    const struct preload_way *w = way;

    *n = w->n_variables;
    return (const char *const *)w->variables;
}

static int descriptor(const void *way)
{
    (void)way;
    return -1;
}

static enum lk_status collect(void *way, struct profile_found *out)
{
    struct preload_way *w = way;
    enum lk_status st = LK_OK;
    char **names = NULL, *path = NULL;
    size_t n = 0;

    LK_TRY(lk_dir_list(w->traces, SUFFIX, &names, &n));
    for (size_t i = 0; i < n; i++) {
        struct stat info;

        free(path);
        path = NULL;
        LK_TRY(lk_path_join(&path, w->traces, names[i]));
        if (stat(path, &info) == 0 && info.st_size == 0)
            w->n_empty++;
        else if (lk_preload_is_of_rank(path))
            LK_TRY(lk_names_add(&out->files, &out->n, &out->capacity, path));
        if (*lk_preload_no_kernels(path))
            w->no_kernels = lk_preload_no_kernels(path);
    }
out:
    free(path);
    lk_names_free(names, n);
    return st;
}

static void explain(const void *way, size_t n_recorded)
{
    const struct preload_way *w = way;

    if (w->n_empty)
        profile_say("%zu processes found no room for their records in %s", w->n_empty, w->traces);
    if (w->is_other)
        profile_say("CUDA_INJECTION64_PATH was set already: kernels were left to that profiler");
    if (w->no_kernels)
        profile_say("no kernels of some processes: %s", w->no_kernels);
    if (n_recorded)
        return;
    if (!w->library)
        profile_say(LIBRARY " is not beside lockstep, so MPI and NCCL were not recorded");
    else
        profile_say("no process called a collective of MPI, or of an NCCL that takes profiler "
                    "plugins (2.27 and newer)%s",
                    w->kernels ? ", or launched a kernel in the seconds that were recorded" : "");
}

const struct profile_ops profile_preload = {
    .name = "preload",
    .text = "the preload library",
    .overhead = "not known: the traces do not tell",
    .open = open_way,
    .environment = environment,
    .descriptor = descriptor,
    .collect = collect,
    .explain = explain,
    .close = close_way,
};
