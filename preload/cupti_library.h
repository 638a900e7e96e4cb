/* CUPTI's library in a foreign process: found at run time, never linked. */
#ifndef LK_PRELOAD_CUPTI_LIBRARY_H
#define LK_PRELOAD_CUPTI_LIBRARY_H

#include "facts/cupti_abi.h"
#include "facts/foreign_file.h"

#include <stdbool.h>

struct lk_cupti_library {
#define LK_CUPTI_MEMBER_(name, parameters) int(*name) parameters;
    CUPTI_FUNCTION_LIST(LK_CUPTI_MEMBER_)
    CUPTI_NEWER_LIST(LK_CUPTI_MEMBER_) /* NULL: this version lacks it */
#undef LK_CUPTI_MEMBER_
    uint32_t version;
};

/* CUPTI's sonames, ending with NULL. */
extern const char *const lk_cupti_files[];

/* Load the i-th library that may be there, from 0: those that the process has loaded come first,
 * then those that `lockstep profile` found (LOCKSTEP_PROFILE_CUPTI, in whose search are folders
 * that the loader does not know), then what the loader finds, and the toolkit's. False: there are
 * no more. *found: it is there, and has the functions; *why: else, or where its version is one that
 * nothing is recorded with, what is wrong. It stays loaded. */
bool lk_cupti_library(int i, struct lk_cupti_library *out, bool *found, enum lk_foreign_cupti *why);

#endif
