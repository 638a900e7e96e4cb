/* The stand-in for CUPTI (tests/cupti) in this process, and the preload library beside it. */
#ifndef LK_TESTS_RIGS_CUPTI_RIG_H
#define LK_TESTS_RIGS_CUPTI_RIG_H

#include "tests/cupti/cupti.h"

struct cupti_rig {
    struct fake_cupti *fake;
    fake_cupti_kernel *kernel;
    fake_cupti_copy *copy;
    fake_cupti_memset *memset;
    fake_cupti_wait *wait;
    fake_cupti_deliver *deliver;
    fake_cupti_enable *enable;
};

/* Load a stand-in, as a program that uses CUPTI does. */
#define CUPTI_RIG_13 "libcupti.so.13"
#define CUPTI_RIG_12 "libcupti.so.12" /* it cannot choose which calls are recorded */
void cupti_rig_open(struct cupti_rig *r, const char *file);
/* Set the window's delay and length, in seconds, and call the injection of the preload library at a
 * path, as the driver does in cuInit. */
void cupti_rig_inject(const char *path, const char *delay_s, const char *for_s);
/* Wait until a counter of the stand-in has a value. */
void cupti_rig_await(const _Atomic int *counter, int value);
/* Wait until launches are watched, and launch the kernel that the window begins with, which is not
 * in it; then until all kinds are recorded. */
void cupti_rig_launch_first(const struct cupti_rig *r);
void cupti_rig_await_window(const struct cupti_rig *r);

#endif
