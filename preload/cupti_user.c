/*
 * Notice another user of CUPTI: who registers buffers gets all records from then on, and CUPTI says
 * it to nobody. A library that is linked with libcupti, as PyTorch's profiler (Kineto) is in its
 * wheels, calls the function here, which stands before CUPTI's; who looks it up in libcupti itself
 * (dlsym), or is linked with it statically, is not seen.
 */
#include "preload/cupti_user.h"

#include "preload/cupti_library.h"
#include "preload/record.h"

#include "base/array.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char function[] = "cuptiActivityRegisterCallbacks";

LK_FOREIGN_EXPORT int cuptiActivityRegisterCallbacks(cupti_request *request,
                                                     cupti_complete *complete);

/* Return a library's function, if it is loaded already, and keeps it by another user. */
static void *loaded(const char *file)
{
    void *library = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    void *found = library ? dlsym(library, function) : NULL;

    if (library)
        dlclose(library);
    return found;
}

/* Return the function that the caller would have got: of the libraries behind this one; or, where
 * the caller was loaded with RTLD_LOCAL, as Python loads extensions, of those that it needs. */
static void *next_of(const void *caller)
{
    int (*own)(cupti_request *, cupti_complete *) = cuptiActivityRegisterCallbacks;
    void *next = dlsym(RTLD_NEXT, function), *ours;
    Dl_info info;

    memcpy(&ours, &own, sizeof ours);
    if (!next && dladdr(caller, &info) && info.dli_fname)
        next = loaded(info.dli_fname);
    for (size_t i = 0; lk_cupti_files[i] && (!next || next == ours); i++)
        next = loaded(lk_cupti_files[i]);
    return next == ours ? NULL : next;
}

int cuptiActivityRegisterCallbacks(cupti_request *request, cupti_complete *complete)
{
    void *next = next_of(__builtin_return_address(0));
    int (*call)(cupti_request *, cupti_complete *);

    memcpy(&call, &next, sizeof call);
    if (!next)
        return CUPTI_NOT_INITIALIZED;
    lk_cupti_give_way();
    return call(request, complete);
}
