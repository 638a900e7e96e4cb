/* CUPTI's functions: their errors, and the library that has them. */
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "base/library.h"
#include "facts/cupti_abi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* ---- Errors ---- */

/* Remedies that a user can apply. */
static const struct {
    CUptiResult error;
    const char *hint;
} hints[] = {
    {CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
     "; the driver lets only administrators profile: the module option "
     "NVreg_RestrictProfilingToAdminUsers=0 of nvidia, or CAP_SYS_ADMIN, allows it"},
    {CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
     "; another profiler or debugger is attached (Nsight Systems, Nsight Compute, cuda-gdb)"},
    {CUPTI_ERROR_DISABLED, "; another profiler is attached"},
    {CUPTI_ERROR_NOT_INITIALIZED,
     "; the CUDA driver is older than this library (LOCKSTEP_LIBRARY_PATH names the folder of "
     "another), or there is none"},
    {CUPTI_ERROR_UNKNOWN, "; perhaps there is no CUDA driver, or one older than the library"},
    {CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "; this virtual GPU cannot be profiled"},
};

enum lk_status lk_cupti_check(const struct lk_cupti_calls *call, CUptiResult e, const char *what)
{
    const char *text = NULL, *hint = "";

    if (e == CUPTI_SUCCESS)
        return LK_OK;
    for (size_t i = 0; i < LK_COUNT(hints); i++)
        if (hints[i].error == e)
            hint = hints[i].hint;
    if (call->GetResultString(e, &text) != CUPTI_SUCCESS || !text)
        text = "an error without a text";
    return lk_fail(LK_EUNSUPPORTED, "CUPTI: %s: %s (%d)%s", what, text, (int)e, hint);
}

/* ---- The library ---- */

#define SYMBOL(call) {"cupti" #call, offsetof(struct lk_cupti_calls, call)},
static const struct lk_library_symbol symbols[] = {LK_CUPTI_CALL_LIST(SYMBOL)};
#undef SYMBOL

static const char *const files[] = {CUPTI_FILES, NULL};

static bool is_loaded(const char *file)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);

    if (handle)
        dlclose(handle);
    return handle;
}

/* Return the file to try as number `which`, or NULL: those that the process has loaded come first.
 * A file keeps its number when it is loaded as that. */
static const char *candidate(int which)
{
    for (int loaded = 1; loaded >= 0; loaded--)
        for (size_t i = 0; files[i]; i++)
            if (is_loaded(files[i]) == loaded && which-- == 0)
                return files[i];
    return NULL;
}

enum lk_status lk_cupti_library(int *which, struct lk_cupti_calls *out, char *path, size_t size)
{
    struct lk_library_spec spec = {.name = "CUPTI",
                                   .files = files,
                                   .symbols = symbols,
                                   .n_symbols = LK_COUNT(symbols),
                                   .stays = true};
    struct lk_library *l = NULL;
    const char *one[] = {NULL, NULL};
    enum lk_status st = LK_EUNSUPPORTED;
    bool first = *which == 0;

    spec.files = one;
    while (st == LK_EUNSUPPORTED && (one[0] = candidate((*which)++)))
        st = lk_library_open(&spec, out, &l);
    spec.files = files;
    if (!one[0]) /* the message names all */
        st = first ? lk_library_open(&spec, out, &l)
                   : lk_fail(LK_EUNSUPPORTED, "CUPTI: no other library was found");
    if (st != LK_OK)
        return st;
#define FIND(call, parameters) lk_library_function(l, "cupti" #call, &out->call);
    LK_CUPTI_NEWER_LIST(FIND)
#undef FIND
    snprintf(path, size, "%s", lk_library_path(l));
    lk_library_close(l); /* it stays loaded: CUPTI's thread may run it as long as the process */
    return LK_OK;
}

enum lk_status lk_cupti_version(const struct lk_cupti_calls *call, const char *path, uint32_t *out)
{
    uint32_t version = 0;

    LK_PASS(lk_cupti_check(call, call->GetVersion(&version), "its version"));
    if (!cupti_version_is_known(version))
        return lk_fail(LK_EUNSUPPORTED,
                       "CUPTI: the records of API version %" PRIu32 " are not known (%s): up to "
                       "CUDA 13",
                       version, path);
    *out = version;
    return LK_OK;
}

#endif
