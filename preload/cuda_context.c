#include "preload/cuda_context.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* ISO C has no conversion from an object's address, which dlsym returns. */
static bool find(void *driver, const char *name, void *out)
{
    void *symbol = dlsym(driver, name);

    memcpy(out, &symbol, sizeof symbol);
    return symbol;
}

/* The process has loaded the driver: it calls the injection. */
bool lk_cuda_has_context(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*count)(int *n), (*get)(int *device, int i), (*state)(int device, unsigned *, int *active);
    int n = 0, device = 0, active = 0;
    unsigned flags = 0;
    bool has = true;

    if (driver && find(driver, "cuDeviceGetCount", &count) && find(driver, "cuDeviceGet", &get) &&
        find(driver, "cuDevicePrimaryCtxGetState", &state)) {
        has = false;
        if (count(&n) != 0) /* cuInit has not ended */
            n = 0;
        for (int i = 0; i < n && !has; i++)
            has = get(&device, i) == 0 && state(device, &flags, &active) == 0 && active;
    }
    if (driver)
        dlclose(driver);
    return has;
}
