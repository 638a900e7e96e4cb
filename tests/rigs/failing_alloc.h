/*
 * Make an allocation fail, and count what is not released. The test program is linked with
 * --wrap=calloc and the like (Makefile), so that calls of its objects and of ours, not those of the
 * C library or of zlib, come here; the program itself is linked without.
 *
 *     failing_alloc_begin(k, false);
 *     st = read(path);
 *     end = failing_alloc_end();
 */
#ifndef LK_TESTS_RIGS_FAILING_ALLOC_H
#define LK_TESTS_RIGS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

struct failing_alloc {
    size_t calls; /* that would allocate */
    size_t held;  /* blocks that were allocated since the beginning and not released */
    bool failed;  /* a call has failed */
};

/* From now on the call number `at`, from 1, fails, and with for_good all behind it; 0: none. */
void failing_alloc_begin(size_t at, bool for_good);
struct failing_alloc failing_alloc_end(void);

#endif
