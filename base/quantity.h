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
#include <stddef.h>
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

/*
 * The quantities of a struct as rows: one table serves reading, writing and freeing. A table ends
 * with a row without key. `base` is the struct that the offsets are in.
 */
enum lk_quantity_need {
    LK_QUANTITY_REQUIRED,
    LK_QUANTITY_OPTIONAL, /* absent: not known */
    LK_QUANTITY_ZERO      /* absent: 0, with a source that says "assumed" */
};
struct lk_quantity_row {
    const char *key;
    enum lk_dimension dim;
    enum lk_quantity_need need;
    size_t offset;
};
/* One row: LK_QUANTITY_ROW(struct lk_cluster, power_W, "power", LK_DIM_POWER, OPTIONAL). */
#define LK_QUANTITY_ROW(type, field, key, dim, need)                                               \
    {                                                                                              \
        key, dim, LK_QUANTITY_##need, offsetof(type, field)                                        \
    }
#define LK_QUANTITY_END                                                                            \
    {                                                                                              \
        .key = NULL                                                                                \
    }
void lk_quantity_rows_clear(const struct lk_quantity_row *rows, void *base); /* all unknown */
enum lk_status lk_quantity_rows_read(struct lk_json *obj, const struct lk_quantity_row *rows,
                                     void *base);
void lk_quantity_rows_write(struct lk_json_out *o, const struct lk_quantity_row *rows,
                            const void *base);
void lk_quantity_rows_fini(const struct lk_quantity_row *rows, void *base);

#endif
