/* A fake NVML without a driver: a table of functions whose results tests choose. One GPU a process,
 * which several threads may query. */
#ifndef LK_TESTS_FAKE_NVML_H
#define LK_TESTS_FAKE_NVML_H

#include "profiler/record/nvml_calls.h"

#include <stdatomic.h>

#define FAKE_NVML_GPU  "GPU-00000000-0000-0000-0000-000000000001"
#define FAKE_NVML_PART "GPU-00000000-0000-0000-0000-000000000002" /* in truth a MIG-... UUID */

struct fake_nvml {
    atomic_int init_code;
    atomic_int initialised; /* init calls minus shutdown calls */
    atomic_int lost_after;  /* reads of the clock after which the GPU is lost; -1: never */
    atomic_int hang;        /* while not 0, reads of the clock do not return */
    atomic_int hanging;     /* a read is hanging */
    atomic_int sm_clock_mhz, clock_reads;
    atomic_int power_mw, power_code, power_reads;
    atomic_int links_code; /* result of NVLink's state and PCIe's generation */
    atomic_ullong reasons, energy_mj, energy_a_read_mj;
};
extern struct fake_nvml fake_nvml;

/* Reset to a GPU at 1755 MHz and 640 W, with limits 1980 MHz and 700 W, not throttled. */
void fake_nvml_reset(void);
/* The table, with all functions. */
extern const struct lk_nvml_calls fake_nvml_calls;

/* Wait until the clock has been read so often in total. */
void fake_nvml_wait_total(int reads);
/* Wait for so many further reads, by a running sampler. */
void fake_nvml_wait_reads(int more);

#endif
