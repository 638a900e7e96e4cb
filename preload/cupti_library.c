#include "preload/cupti_library.h"

#include "base/array.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Sonames: up to CUDA 11 they have the minor version, too. */
static const char *const files[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                    "libcupti.so"};
/* The toolkit puts it there, and the loader does not search there. */
static const char *const folders[] = {"", "/usr/local/cuda/lib64/",
                                      "/usr/local/cuda/extras/CUPTI/lib64/"};
enum { FILES = sizeof files / sizeof *files, FOLDERS = sizeof folders / sizeof *folders };

/* CUPTI's version of CUDA 13.0 before Update 1 (CUPTI, release notes of 13.0 Update 1). */
enum { VERSION_HANGS = 130000 };

/* Return true for versions whose records are known. CUDA 10's is 12; from CUDA 13 on the number is
 * the toolkit's. */
static bool is_known(uint32_t version)
{
    return (version >= 12 && version < 130000) || version / 10000 == 13;
}

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

bool lk_cupti_library(int i, struct lk_cupti_library *out, bool *found, enum lk_probe_cupti *why)
{
    const int mode = RTLD_LAZY | RTLD_LOCAL | (i < FILES ? RTLD_NOLOAD : 0);
    const int place = i < FILES ? i : i - FILES;
    char path[128];
    void *handle;

    if (place >= FILES * FOLDERS)
        return false;
    snprintf(path, sizeof path, "%s%s", folders[place / FILES], files[place % FILES]);
    handle = dlopen(path, mode);
    *why = LK_PROBE_CUPTI_ABSENT;
    *found = handle && find_functions(handle, out);
    if (!*found)
        return true;
    *why = LK_PROBE_CUPTI_OFF;
    if (out->GetVersion(&out->version) != CUPTI_OK || !is_known(out->version))
        *why = LK_PROBE_CUPTI_UNKNOWN;
    else if (out->version == VERSION_HANGS)
        *why = LK_PROBE_CUPTI_HANGS;
    return true;
}
