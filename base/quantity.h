/*
 * A quantity is a number in a job or cluster file with its interval and its source. In JSON:
 * {"value": 3.2, "unit": "us", "lo": 3.0, "hi": 3.5, "n": 40, "source": "calibrate.csv"}.
 */
#ifndef LK_BASE_QUANTITY_H
#define LK_BASE_QUANTITY_H

#include "base/json.h"
#include "base/status.h"
#include "base/units.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_quantity {
    double value;  /* in the base unit of its dimension; NaN: absent */
    double lo, hi; /* 90 % interval; NaN when unknown */
    uint64_t n;    /* samples behind it; 0: from paper, datasheet or assumption */
    char *source;  /* owned; never NULL once read or set */
};

/* Return an absent quantity: value, lo and hi NaN, source NULL. */
struct lk_quantity lk_quantity_none(void);
/* Return true if the value is not NaN and a source is set. */
bool lk_quantity_known(const struct lk_quantity *q);
/* Set all fields; source is a printf format, whose text is kept and replaces (frees) the old one.
 * lo and hi may be NaN. On LK_ENOMEM nothing is changed. pre: *q is absent, zeroed or set. */
enum lk_status lk_quantity_set(struct lk_quantity *q, double value, double lo, double hi,
                               uint64_t n, const char *source, ...)
    __attribute__((format(printf, 6, 7)));
/* Free the source and make the quantity absent. */
void lk_quantity_fini(struct lk_quantity *q);

/*
 * Read the object, whose unit must be of dimension dim, into base units. lo and hi are both given
 * or both left out (NaN). LK_EPARSE unless all are finite, not negative, and lo <= value <= hi.
 */
enum lk_status lk_quantity_read(struct lk_json *v, enum lk_dimension dim, struct lk_quantity *out);
/* Write the member in the base unit; an absent quantity writes nothing. */
void lk_quantity_write(struct lk_json_out *o, const char *key, enum lk_dimension dim,
                       const struct lk_quantity *q);

#endif
