/* How many random cases a test tries: LOCKSTEP_CASES, else a number that is quick. */
#ifndef LK_TESTS_RIGS_CASES_H
#define LK_TESTS_RIGS_CASES_H

#include <stddef.h>
#include <stdlib.h>

static inline size_t cases_or(size_t quick)
{
    const char *wanted = getenv("LOCKSTEP_CASES");

    return wanted ? (size_t)strtoull(wanted, NULL, 10) : quick;
}

#endif
