#include "tests/rigs/cupti_rig.h"

#include "tests/rigs/waits.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void find(void *library, const char *name, void *out)
{
    void *symbol = dlsym(library, name);

    ck_assert_msg(symbol != NULL, "%s", dlerror());
    memcpy(out, &symbol, sizeof symbol);
}

void cupti_rig_open(struct cupti_rig *r, const char *file)
{
    fake_cupti_state *state;
    char path[4096];
    void *library;

    snprintf(path, sizeof path, LK_BUILD_DIR "/cupti/%s", file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    find(library, "fake_state", &state);
    find(library, "fake_kernel", &r->kernel);
    find(library, "fake_copy", &r->copy);
    find(library, "fake_memset", &r->memset);
    find(library, "fake_wait", &r->wait);
    find(library, "fake_deliver", &r->deliver);
    find(library, "cuptiActivityEnable", &r->enable);
    r->fake = state();
}

void cupti_rig_inject(const char *path, const char *delay_s, const char *for_s)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*injection)(void);

    ck_assert_msg(library != NULL, "%s", dlerror());
    ck_assert_int_eq(setenv("LOCKSTEP_PROFILE_DELAY_S", delay_s, 1), 0);
    ck_assert_int_eq(setenv("LOCKSTEP_PROFILE_FOR_S", for_s, 1), 0);
    find(library, "InitializeInjection", &injection);
    ck_assert_int_eq(injection(), 1);
}

void cupti_rig_await(const _Atomic int *counter, int value)
{
    const struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);

    while (*counter != value) {
        ck_assert_uint_gt(lk_deadline_left_ns(deadline), 0);
        usleep(1000);
    }
}

void cupti_rig_launch_first(const struct cupti_rig *r)
{
    const struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);

    while (!r->fake->watched) {
        ck_assert_uint_gt(lk_deadline_left_ns(deadline), 0);
        usleep(1000);
    }
    r->kernel("the first", 7, 1, 2);
}

void cupti_rig_await_window(const struct cupti_rig *r)
{
    enum { KINDS = 6 };

    cupti_rig_launch_first(r);
    cupti_rig_await(&r->fake->enabled, KINDS);
}
