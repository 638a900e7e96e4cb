/* Find and open shared libraries: the folders, then the functions. */
#include "base/library.h"

#include "base/array.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lk_library {
    void *handle;
    char path[1024];
};

/* A folder is DIR, or the value of ENV with DIR behind it; '*' is a glob. */
static const struct {
    const char *env, *dir;
} places[] = {
    {"CUDA_HOME", "/lib64"},
    {"CUDA_HOME", "/extras/CUPTI/lib64"},
    {"CUDA_PATH", "/lib64"},
#ifdef LK_CUDA_HOME
    {NULL, LK_CUDA_HOME "/lib64"},
    {NULL, LK_CUDA_HOME "/extras/CUPTI/lib64"},
#endif
    {NULL, "/usr/local/cuda/lib64"},
    {NULL, "/usr/local/cuda/extras/CUPTI/lib64"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/nvidia/*/lib"},
    {"VIRTUAL_ENV", "/lib/python3*/site-packages/torch/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib"},
    {"CONDA_PREFIX", "/lib/python3*/site-packages/torch/lib"},
    {"HOME", "/.local/lib/python3*/site-packages/nvidia/*/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib"},
    {NULL, "/usr/local/lib/python3*/*-packages/torch/lib"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/*/lib"},
    {NULL, "/opt/conda/lib/python3*/site-packages/nvidia/*/lib"},
};

/* State of a search: the library, once it is found, and why the last file that opened was rejected.
 */
struct search {
    const struct lk_library_spec *spec;
    struct lk_library *out; /* owned by whoever searches */
    char why[256];
};

/* Store a symbol's address through memcpy: ISO C cannot convert object to function pointers. */
static void find(void *handle, const char *name, void *out)
{
    void *p = dlsym(handle, name);

    memcpy(out, &p, sizeof p);
}

static void fill_table(const struct lk_library_spec *spec, void *handle, void *table)
{
    for (size_t i = 0; i < spec->n_symbols; i++)
        find(handle, spec->symbols[i].name, (char *)table + spec->symbols[i].offset);
}

static const char *lacking(const struct lk_library_spec *spec, void *handle)
{
    for (size_t i = 0; i < spec->n_symbols; i++)
        if (!dlsym(handle, spec->symbols[i].name))
            return spec->symbols[i].name;
    return NULL;
}

/* Return true if the file is the library. */
static bool try_file(struct search *s, const char *path)
{
    struct link_map *map = NULL;
    const char *lacks;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | (s->spec->stays ? RTLD_NODELETE : 0));

    if (!handle)
        return false;
    lacks = lacking(s->spec, handle);
    if (lacks) {
        snprintf(s->why, sizeof s->why, "; %s lacks %s", path, lacks);
        dlclose(handle);
        return false;
    }
    s->out->handle = handle;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
        path = map->l_name;
    snprintf(s->out->path, sizeof s->out->path, "%s", path);
    return true;
}

static bool try_folder(struct search *s, const char *folder)
{
    char path[2048];

    for (size_t i = 0; s->spec->files[i]; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, s->spec->files[i]) < sizeof path &&
            try_file(s, path))
            return true;
    return false;
}

/* Try the files of a pattern from the last one back: glob sorts, so the newest version is first. */
static bool try_pattern(struct search *s, const char *pattern)
{
    bool found = false;
    glob_t g = {0};

    if (glob(pattern, 0, NULL, &g) == 0)
        for (size_t i = g.gl_pathc; i > 0 && !found; i--)
            found = try_folder(s, g.gl_pathv[i - 1]);
    globfree(&g);
    return found;
}

static bool try_user(struct search *s)
{
    const char *at = getenv("LOCKSTEP_LIBRARY_PATH");
    char folder[1024];

    while (at && *at) {
        size_t n = strcspn(at, ":");

        snprintf(folder, sizeof folder, "%.*s", (int)n, at);
        if (n > 0 && try_folder(s, folder))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static bool try_loader(struct search *s)
{
    for (size_t i = 0; s->spec->files[i]; i++)
        if (try_file(s, s->spec->files[i]))
            return true;
    return false;
}

/* Try PyTorch's packages under a prefix with bin/python3: a virtual environment's or conda's. */
static bool try_prefix(struct search *s, const char *prefix)
{
    static const char *const below[] = {"lib/python3*/*-packages/nvidia/*/lib",
                                        "lib/python3*/*-packages/torch/lib"};
    char pattern[1200];

    for (size_t i = 0; i < LK_COUNT(below); i++)
        if ((size_t)snprintf(pattern, sizeof pattern, "%s/%s", prefix, below[i]) < sizeof pattern &&
            try_pattern(s, pattern))
            return true;
    return false;
}

/* Replace path by the file it links to; false if it is no link. */
static bool follow(char *path, size_t size)
{
    char target[1024];
    ssize_t n = readlink(path, target, sizeof target);
    size_t dir;

    if (n <= 0 || (size_t)n == sizeof target)
        return false;
    dir = target[0] == '/' ? 0 : (size_t)(strrchr(path, '/') - path) + 1;
    if (dir + (size_t)n >= size)
        return false;
    memcpy(path + dir, target, (size_t)n);
    path[dir + (size_t)n] = '\0';
    return true;
}

/*
 * Try the prefixes of the python3 that a shell would start. A virtual environment's python3 links
 * to the system's, and PATH may link to it without activating it: each file along the links is
 * tried, its folder being PREFIX/bin.
 */
static bool try_python(struct search *s)
{
    enum { LINKS = 8 };
    const char *at = getenv("PATH");
    char path[1024] = "", prefix[1100];

    while (at && *at && !*path) {
        size_t n = strcspn(at, ":");

        snprintf(path, sizeof path, "%.*s/python3", (int)n, at);
        if (access(path, X_OK) != 0)
            *path = '\0';
        at += n + (at[n] == ':');
    }
    for (int i = 0; i < LINKS && *path; i++) {
        snprintf(prefix, sizeof prefix, "%.*s/..", (int)(strrchr(path, '/') - path), path);
        if (try_prefix(s, prefix))
            return true;
        if (!follow(path, sizeof path))
            break;
    }
    return false;
}

static bool try_places(struct search *s)
{
    char pattern[1024];

    for (size_t i = 0; i < LK_COUNT(places); i++) {
        const char *root = places[i].env ? getenv(places[i].env) : "";

        if (!root || (places[i].env && !*root))
            continue;
        if ((size_t)snprintf(pattern, sizeof pattern, "%s%s", root, places[i].dir) <
                sizeof pattern &&
            try_pattern(s, pattern))
            return true;
    }
    return false;
}

enum lk_status lk_library_open(const struct lk_library_spec *spec, void *table,
                               struct lk_library **out)
{
    struct search s = {.spec = spec};

    LK_PASS(lk_alloc(&s.out, 1, sizeof *s.out));
    if (!try_user(&s) && !try_loader(&s) && !try_places(&s) && !try_python(&s)) {
        free(s.out);
        return lk_fail(LK_EUNSUPPORTED,
                       "%s (%s) was not found: not by the loader, not in CUDA_HOME, not among "
                       "Python's packages%s; name its folder in LOCKSTEP_LIBRARY_PATH",
                       spec->name, spec->files[0], s.why);
    }
    fill_table(spec, s.out->handle, table);
    *out = s.out;
    return LK_OK;
}

void lk_library_function(const struct lk_library *l, const char *name, void *out)
{
    find(l->handle, name, out);
}

void lk_library_close(struct lk_library *l)
{
    if (!l)
        return;
    dlclose(l->handle);
    free(l);
}

const char *lk_library_path(const struct lk_library *l)
{
    return l->path;
}
