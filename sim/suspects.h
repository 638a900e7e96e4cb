/*
 * Suspects: what may make measured collectives slow, by the signature that each leaves in the
 * slowdowns of a table's bands (judged.h). A signature is a reason to look, not a proof: each
 * suspect says what would tell.
 */
#ifndef LK_SIM_SUSPECTS_H
#define LK_SIM_SUSPECTS_H

#include "sim/judged.h"

#include <stddef.h>

struct lk_suspect {
    const char *name;     /* one word for programs */
    const char *sentence; /* what it is, without subject: "traffic goes over one network card" */
    const char *tell;     /* what would tell */
};

enum { LK_SUSPECTS_MAX = 3 };

/*
 * List what may explain the slow bands of a set, the likeliest first; none where no band is slow.
 * `all` has the sets of the machine's other counts of nodes. *out_n: at most LK_SUSPECTS_MAX.
 */
void lk_suspects_of(const struct lk_expectation *e, const struct lk_verdicts *all,
                    const struct lk_judged_set *s, const struct lk_suspect **out, size_t *out_n);

#endif
