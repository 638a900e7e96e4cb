/*
 * A program on one GPU, as strange to the preload library as any: it has the stand-in for CUPTI in
 * the place of CUDA's. It calls the injection as the driver does in cuInit, waits for the window,
 * trains STEPS steps, and ends with status 3.
 *
 *     program LIBCUPTI
 */
#include "tests/cupti/cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 30, LAYERS = 4, WAIT_MS = 100000 };
#define US INT64_C(1000)

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void *find(void *library, const char *name)
{
    void *symbol = library ? dlsym(library, name) : NULL;

    if (!symbol) {
        fprintf(stderr, "program: %s: %s\n", name, dlerror());
        exit(1);
    }
    return symbol;
}

/* Call the injection, if there is one, and wait until CUPTI is on, which a kernel is needed for. */
static void initialize(const struct fake_cupti *fake, fake_cupti_kernel *kernel)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    int (*injection)(void);

    printf("injection: %s\n", path ? strrchr(path, '/') ? strrchr(path, '/') + 1 : path : "none");
    if (!path || !strchr(path, '/'))
        return;
    *(void **)&injection = find(dlopen(path, RTLD_NOW | RTLD_LOCAL), "InitializeInjection");
    (void)injection();
    for (int i = 0; i < WAIT_MS && fake->enabled < 6; i++) {
        if (fake->watched)
            kernel("_Z5firstPf", 7, now(), now() + 1);
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    fake_cupti_state *state;
    fake_cupti_kernel *kernel;
    fake_cupti_copy *copy;

    *(void **)&state = find(library, "fake_state");
    *(void **)&kernel = find(library, "fake_kernel");
    *(void **)&copy = find(library, "fake_copy");
    initialize(state(), kernel);
    for (int s = 0; s < STEPS; s++) {
        int64_t at = now();

        copy(4096, at, at + 100 * US);
        for (int i = 0; i < LAYERS; i++)
            kernel(i % 2 ? "_Z4reluPf" : "_Z4gemmPf", 7, at + (200 + 700 * i) * US,
                   at + (800 + 700 * i) * US);
        kernel("_Z4adamPf", 7, at + 3100 * US, at + 3200 * US);
        usleep(4000);
    }
    return 3;
}
