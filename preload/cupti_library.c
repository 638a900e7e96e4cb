#include "preload/cupti_library.h"

#include "base/array.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lk_cupti_files[] = {CUPTI_FILES, NULL};
/* The toolkit puts it there, and the loader does not search there. */
static const char *const folders[] = {"", "/usr/local/cuda/lib64/",
                                      "/usr/local/cuda/extras/CUPTI/lib64/"};
enum { FILES = LK_COUNT(lk_cupti_files) - 1, FOLDERS = LK_COUNT(folders) };
/* Files that `lockstep profile` found where this library does not look, separated by ':'. */
#define GIVEN "LOCKSTEP_PROFILE_CUPTI"

enum { PATH_BYTES = 4096 };

static bool find_functions(void *handle, struct lk_cupti_library *out)
{
    bool all = true;

#define FIND(name, parameters)                                                                     \
    do {                                                                                           \
        void *symbol = dlsym(handle, "cupti" #name);                                               \
        memcpy(&out->name, &symbol, sizeof symbol);                                                \
    } while (0);
#define NEED(name, parameters) FIND(name, parameters) all = all && out->name;
    CUPTI_FUNCTION_LIST(NEED)
    CUPTI_NEWER_LIST(FIND)
#undef NEED
#undef FIND
    return all;
}

/* Copy the i-th of the given files; false: there are fewer, and i is less by their number. */
static bool take_given(int *i, char path[PATH_BYTES])
{
    const char *at = secure_getenv(GIVEN);

    for (; at && *at; --*i) {
        const int n = (int)strcspn(at, ":");

        if (*i == 0)
            return snprintf(path, PATH_BYTES, "%.*s", n, at) >= 0;
        at += n + (at[n] == ':');
    }
    return false;
}

bool lk_cupti_library(int i, struct lk_cupti_library *out, bool *found, enum lk_foreign_cupti *why)
{
    const int mode = RTLD_LAZY | RTLD_LOCAL | (i < FILES ? RTLD_NOLOAD : 0);
    char path[PATH_BYTES] = "";
    void *handle;
    bool given;

    if (i < FILES) {
        snprintf(path, sizeof path, "%s", lk_cupti_files[i]);
    } else {
        i -= FILES;
        given = take_given(&i, path);
        if (!given && i >= FILES * FOLDERS)
            return false;
        if (!given)
            snprintf(path, sizeof path, "%s%s", folders[i / FILES], lk_cupti_files[i % FILES]);
    }
    handle = dlopen(path, mode);
    *why = LK_FOREIGN_CUPTI_ABSENT;
    *found = handle && find_functions(handle, out);
    if (!*found)
        return true;
    *why = LK_FOREIGN_CUPTI_OFF;
    if (out->GetVersion(&out->version) != CUPTI_OK || !cupti_version_is_known(out->version))
        *why = LK_FOREIGN_CUPTI_UNKNOWN;
    else if (out->version == CUPTI_VERSION_HANGS)
        *why = LK_FOREIGN_CUPTI_HANGS;
    return true;
}
