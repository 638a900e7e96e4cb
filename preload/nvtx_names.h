/*
 * Names of NVTX ranges: which ones are recorded, and as what. A job may emit thousands a step, of
 * which importers use a few: those of facts/range_names.h, and steps, whose names start with
 * LOCKSTEP_PROFILE_STEP_RANGE. LOCKSTEP_PROFILE_NVTX=all records all of them.
 *
 * The file has little room for names, so a number that differs each time is taken out of them:
 * "ProfilerStep#12" becomes "ProfilerStep#" and 12, and autograd's ", seq = ..." goes. A domain is
 * put before its names: "NCCL/ncclAllReduce".
 *
 * Domains and registered strings are numbers in NVTX's pointers: nothing is read through them.
 */
#ifndef LK_PRELOAD_NVTX_NAMES_H
#define LK_PRELOAD_NVTX_NAMES_H

#include "preload/nvtx_abi.h"

#include <stdbool.h>

enum { LK_NVTX_DOMAINS = 64 };

struct lk_nvtx_name {
    uint32_t id;     /* lk_foreign_name; 0: not recorded */
    uint32_t number; /* at its end; 0: none */
};

/* Read the environment, once. */
void lk_nvtx_names_begin(void);
/* Return a domain by its name; all beyond LK_NVTX_DOMAINS share one, "other". */
void *lk_nvtx_domain_of(const char *name);
/* Return the number of a domain, below LK_NVTX_DOMAINS; NULL is the one without a name. */
uint32_t lk_nvtx_domain_number(const void *domain);

struct lk_nvtx_name lk_nvtx_name_of(const void *domain, const char *text);
struct lk_nvtx_name lk_nvtx_name_of_wide(const void *domain, const wchar_t *text);
struct lk_nvtx_name lk_nvtx_name_of_event(const void *domain, const struct nvtx_attributes *a);
/* Return what stands for a name in a program that registers it. */
void *lk_nvtx_register(struct lk_nvtx_name name);

/* Put a wide text into out as UTF-8, as far as it fits. */
void lk_nvtx_from_wide(const wchar_t *text, char *out, size_t size);

#endif
