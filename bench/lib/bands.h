/*
 * Score forecasts of collectives by bands of bytes: errors, intervals, and for comparison an
 * interval of one constant width, which scores best on the other sources.
 */
#ifndef LK_BENCH_LIB_BANDS_H
#define LK_BENCH_LIB_BANDS_H

#include "facts/score.h"
#include "sim/collective/public_tables.h"

#include <stdbool.h>
#include <stdio.h>

enum { BANDS = 4 };

struct band_point {
    struct lk_scored scored;
    const char *source; /* borrowed from the tables */
};

/* Forecasts of one band of sizes. */
struct band {
    struct band_point *v;
    size_t n, capacity;
    FILE *points; /* of the first band: the file that gets every point, too; may be NULL */
};

/*
 * Count a forecast of size k of a table in us. Each figure is kept twice: of all sizes (the first
 * BANDS of 2 x BANDS), and of the "even" ones, after which no larger size of their table was
 * faster.
 */
enum lk_status band_count(struct band *bands, const struct lk_public_table *s, size_t k, double us,
                          double lo, double hi);

/* Print the heading of band_print's lines. */
void band_heading(bool csv);
/* Print a line for each band with points, and empty them. */
enum lk_status band_print(const char *what, struct band *bands, bool csv);

#endif
