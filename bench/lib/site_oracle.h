/*
 * How much narrower intervals could be if errors were known: oracles, which choose factors on
 * widths by the errors themselves. What they do not reach no rule reaches.
 */
#ifndef LK_BENCH_LIB_SITE_ORACLE_H
#define LK_BENCH_LIB_SITE_ORACLE_H

#include "base/status.h"

#include <stddef.h>

/* A forecast whose outcome is known. */
struct oracle_case {
    size_t group; /* those of one group have one factor, and lie together */
    double needs; /* the factor by which its interval just contains the outcome */
    double width; /* of its interval, ln(hi / lo) */
};

struct oracle {
    size_t groups, inside;
    double width; /* the sum of what the factors leave of the widths */
};

/* Choose for each group the least factor that leaves at least `share` of it inside. */
enum lk_status oracle_each(const struct oracle_case *v, size_t n, double share, struct oracle *out);
/* Choose the factors that leave at least `share` of all inside and whose widths sum to the least,
 * by dynamic programming: whole groups may be given up. */
enum lk_status oracle_all(const struct oracle_case *v, size_t n, double share, struct oracle *out);

#endif
