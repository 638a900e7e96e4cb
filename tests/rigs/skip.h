/* Tests that cannot run on this machine say so, and are counted in the runner's closing line. */
#ifndef LK_TESTS_RIGS_SKIP_H
#define LK_TESTS_RIGS_SKIP_H

#include <stdatomic.h>

/* Say why the rest of a test is left out, in printf style, and count it: one call a test. The
 * caller then returns. */
void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Let skip count in *counter, which outlives the tests and is shared with the processes that run
 * them; NULL: it only says why. */
void skip_count_in(atomic_int *counter);

#endif
