/*
 * A number in a job or cluster file: value, interval, and where it came from. In JSON:
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

/* An absent quantity: value, lo and hi NaN, source NULL. */
struct lk_quantity lk_quantity_none(void);
bool lk_quantity_known(const struct lk_quantity *q);
/* Sets all fields, copying source (printf style) and freeing an old one. lo, hi may be NaN. */
enum lk_status lk_quantity_set(struct lk_quantity *q, double value, double lo, double hi,
                               uint64_t n, const char *source, ...)
    __attribute__((format(printf, 6, 7)));
enum lk_status lk_quantity_copy(struct lk_quantity *to, const struct lk_quantity *from);
void lk_quantity_fini(struct lk_quantity *q);

/*
 * Required member `key` of obj. The unit must be of dimension dim; value, lo and hi must be finite,
 * lo <= value <= hi, and not negative.
 */
enum lk_status lk_quantity_read(struct lk_json *obj, const char *key, enum lk_dimension dim,
                                struct lk_quantity *out);
/* The same; absent leaves lk_quantity_none(). */
enum lk_status lk_quantity_read_optional(struct lk_json *obj, const char *key,
                                         enum lk_dimension dim, struct lk_quantity *out);
/* Writes the member in the base unit; an absent quantity writes nothing. */
void lk_quantity_write(struct lk_json_out *o, const char *key, enum lk_dimension dim,
                       const struct lk_quantity *q);

#endif
