/*
 * A library of a program that emits NVTX ranges, in the place of NVTX's headers: it loads a tool
 * and gives it a table of functions, as nvtx3/nvtxDetail/nvtxInit.h does, and calls what the tool
 * has put there.
 */
#ifndef LK_TESTS_FAKE_NVTX_H
#define LK_TESTS_FAKE_NVTX_H

#include "preload/nvtx_abi.h"

#include <stdbool.h>

enum { FAKE_NVTX_FUNCTIONS = 16 }; /* of each of the two modules */

struct fake_nvtx {
    nvtx_function *core[FAKE_NVTX_FUNCTIONS], *core2[FAKE_NVTX_FUNCTIONS];
    nvtx_function **core_places[FAKE_NVTX_FUNCTIONS], **core2_places[FAKE_NVTX_FUNCTIONS];
};

/* Return whether the tool takes the calls. The test fails if it does not load. */
bool fake_nvtx_open(struct fake_nvtx *f, const char *tool);

int fake_nvtx_push(struct fake_nvtx *f, const char *text);
int fake_nvtx_push_wide(struct fake_nvtx *f, const wchar_t *text);
int fake_nvtx_pop(struct fake_nvtx *f);
uint64_t fake_nvtx_start(struct fake_nvtx *f, const char *text);
void fake_nvtx_end(struct fake_nvtx *f, uint64_t id);
void *fake_nvtx_domain(struct fake_nvtx *f, const char *name);
void *fake_nvtx_register(struct fake_nvtx *f, void *domain, const char *text);
/* Push a range of a domain with a text; type: enum nvtx_message. */
int fake_nvtx_domain_push(struct fake_nvtx *f, void *domain, int type, const void *text);
int fake_nvtx_domain_pop(struct fake_nvtx *f, void *domain);

#endif
