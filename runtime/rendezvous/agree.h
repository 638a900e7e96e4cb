/*
 * All ranks of a run must have the same options, shapes of tensors, and values. Each rank
 * lists facts; equal lists cost one round trip to the store, with 16 bytes of a rank. Only where
 * they differ the lists themselves are compared, and the run ends with the fact, its values and the
 * ranks and hosts that have them.
 *
 *     struct lk_facts f = {0};
 *     LK_TRY(lk_facts_add(&f, "--seed", "%s", seed));
 *     LK_TRY(lk_facts_agree(&f, store, rank, world_size, "options"));
 *     lk_facts_fini(&f);
 */
#ifndef LK_RUNTIME_AGREE_H
#define LK_RUNTIME_AGREE_H

#include "base/status.h"
#include "runtime/rendezvous/store.h"

#include <stddef.h>

/* All zero: empty. */
struct lk_facts {
    char *text; /* name, NUL, value, NUL, ... */
    size_t n, cap;
};
void lk_facts_fini(struct lk_facts *f);
enum lk_status lk_facts_add(struct lk_facts *f, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Compare the facts of all ranks, each of which makes this call; what: names them, once a run. The
 * first fact that differs becomes the run's verdict: its values with their ranks, the fewest ranks
 * first. store NULL, or one rank: nothing to compare.
 */
enum lk_status lk_facts_agree(const struct lk_facts *f, struct lk_store *store, int rank,
                              int world_size, const char *what);

/*
 * Name the first fact in which two lists or more of n differ: "--seed is 5 on rank 1 (host b), 1 on
 * ranks 0 and 2 (host a)". A list is what lk_facts_add made, behind the rank's host as a fact of
 * its own. Return false if all are equal.
 */
bool lk_facts_compare(const struct lk_facts *lists, int n, char *buf, size_t size);

#endif
