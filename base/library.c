/* Finding and opening shared libraries: the places, then the functions. */
#include "base/library.h"

#include "base/array.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lk_library {
    void *handle;
    char path[1024];
};

/* A folder is DIR, or the value of ENV with DIR behind it; '*' is a glob. */
static const struct {
    const char *env, *dir;
} places[] = {
    {"CUDA_HOME",    "/lib64"                                            },
    {"CUDA_HOME",    "/extras/CUPTI/lib64"                               },
    {"CUDA_PATH",    "/lib64"                                            },
#ifdef LK_CUDA_HOME
    {NULL,           LK_CUDA_HOME "/lib64"                               },
    {NULL,           LK_CUDA_HOME "/extras/CUPTI/lib64"                  },
#endif
    {NULL,           "/usr/local/cuda/lib64"                             },
    {NULL,           "/usr/local/cuda/extras/CUPTI/lib64"                },
    {"VIRTUAL_ENV",  "/lib/python3*/site-packages/nvidia/*/lib"          },
    {"VIRTUAL_ENV",  "/lib/python3*/site-packages/torch/lib"             },
    {"CONDA_PREFIX", "/lib/python3*/site-packages/nvidia/*/lib"          },
    {"CONDA_PREFIX", "/lib/python3*/site-packages/torch/lib"             },
    {"HOME",         "/.local/lib/python3*/site-packages/nvidia/*/lib"   },
    {NULL,           "/usr/local/lib/python3*/*-packages/nvidia/*/lib"   },
    {NULL,           "/usr/local/lib/python3*/*-packages/torch/lib"      },
    {NULL,           "/usr/lib/python3*/*-packages/nvidia/*/lib"         },
    {NULL,           "/opt/conda/lib/python3*/site-packages/nvidia/*/lib"},
};

/* The search: what it found, and why the last file that opened would not do. */
struct search {
    const struct lk_library_spec *spec;
    struct lk_library *found;
    char why[256];
};

/* ISO C has no conversion between pointers to objects and to functions; POSIX gives them one size.
 */
static void fill_table(const struct lk_library_spec *spec, void *handle, void *table)
{
    for (size_t i = 0; i < spec->n_symbols; i++) {
        void *p = dlsym(handle, spec->symbols[i].name);

        memcpy((char *)table + spec->symbols[i].offset, &p, sizeof p);
    }
}

static const char *lacking(const struct lk_library_spec *spec, void *handle)
{
    for (size_t i = 0; i < spec->n_symbols; i++)
        if (!dlsym(handle, spec->symbols[i].name))
            return spec->symbols[i].name;
    return NULL;
}

/* Whether the search can end: the library is there, or memory is not. */
static bool try_file(struct search *s, const char *path)
{
    struct link_map *map = NULL;
    const char *lacks;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | (s->spec->stays ? RTLD_NODELETE : 0));

    if (!handle)
        return false;
    lacks = lacking(s->spec, handle);
    if (lacks || lk_alloc(&s->found, 1, sizeof *s->found) != LK_OK) {
        snprintf(s->why, sizeof s->why, "; %s lacks %s", path, lacks ? lacks : "memory");
        dlclose(handle);
        return false;
    }
    s->found->handle = handle;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
        path = map->l_name;
    snprintf(s->found->path, sizeof s->found->path, "%s", path);
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

/* Newest first, where names hold versions: glob sorts, so from its end. */
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

    if (!try_user(&s) && !try_loader(&s) && !try_places(&s))
        return lk_fail(LK_EUNSUPPORTED,
                       "%s (%s) was not found: not by the loader, not in CUDA_HOME, not among "
                       "Python's packages%s; name its folder in LOCKSTEP_LIBRARY_PATH",
                       spec->name, spec->files[0], s.why);
    fill_table(spec, s.found->handle, table);
    *out = s.found;
    return LK_OK;
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
