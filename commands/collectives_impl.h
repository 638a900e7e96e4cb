/* lockstep collectives: its sides and tables, private to commands/collectives*.c. */
#ifndef LK_COMMANDS_COLLECTIVES_IMPL_H
#define LK_COMMANDS_COLLECTIVES_IMPL_H

#include "commands/expected.h"
#include "reports/chart/chart.h"

enum { COLLECTIVES_SIDES_MAX = 8 };

/* One operand: what it has measured, and what that is held against. */
struct collectives_side {
    const char *name;
    struct lk_cluster measured;
    struct expected x;
};

/* Add the tables of n sides: verdicts by band, suspects, sizes, and with several sides their common
 * sizes. */
enum lk_status collectives_tables(const struct collectives_side *sides, int n,
                                  struct lk_page *page);
/* Add the values of n sides: `share` (expected over measured time) of each band, slow_bands. */
enum lk_status collectives_values(const struct collectives_side *sides, int n,
                                  struct lk_page *page);

/* Fill the page and the chart of n operands, as without options. LK_EEVIDENCE: there is nothing to
 * draw, or nothing was measured. */
enum lk_status collectives_page(const char **names, int n, struct lk_page *page,
                                struct lk_chart *chart);

#endif
