/* NVML without a driver: a table of functions whose answers tests choose. One GPU a process, which
 * several threads may ask. */
#ifndef LK_TESTS_FAKE_NVML_H
#define LK_TESTS_FAKE_NVML_H

#include "profiler/nvml_calls.h"

#include <stdatomic.h>

#define FAKE_NVML_GPU  "GPU-00000000-0000-0000-0000-000000000001"
#define FAKE_NVML_PART "GPU-00000000-0000-0000-0000-000000000002" /* in truth MIG-... */

struct fake_nvml {
    atomic_int init_code;
    atomic_int initialised; /* init less shutdown */
    atomic_int lost_after;  /* this many reads of the clock, then the GPU is lost; -1: never */
    atomic_int hang;        /* reads of the clock do not come back until it is 0 */
    atomic_int hanging;     /* one is in it */
    atomic_int sm_clock_mhz, clock_reads;
    atomic_int power_mw, power_code, power_reads;
    atomic_int links_code; /* of NVLink's state and PCIe's generation */
    atomic_ullong reasons, energy_mj, energy_a_read_mj;
};
extern struct fake_nvml fake_nvml;

/* A GPU at 1755 MHz and 640 W, of 1980 MHz and 700 W, not throttled. */
void fake_nvml_reset(void);
/* All functions. */
extern const struct lk_nvml_calls fake_nvml_calls;

/* Waits until the clock was read so often. */
void fake_nvml_wait_total(int reads);
/* ...so often from now on: of a sampler that goes on. */
void fake_nvml_wait_reads(int more);

#endif
