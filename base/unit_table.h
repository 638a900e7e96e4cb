/*
 * The units of each dimension and their spellings, which base/units.c reads and base/units_format.c
 * prints. Only these two files include this header.
 */
#ifndef LK_BASE_UNIT_TABLE_H
#define LK_BASE_UNIT_TABLE_H

#include "base/units.h"

#include <locale.h>
#include <stdbool.h>

/* The places where a unit may be printed. */
enum lk_unit_use {
    LK_UNIT_READ,  /* nowhere: it is only read */
    LK_UNIT_EXACT, /* by lk_units_exact */
    LK_UNIT_SHOWN  /* by lk_units_format, too */
};

/*
 * A unit: value in base units = number * mul / div; with two factors 3 ns is exactly 3e-9. A row
 * whose mul is 0 holds spellings that are refused, and as its name the units that may be meant.
 * Lists of spellings are separated by blanks.
 */
struct lk_unit {
    const char *name; /* NULL ends a list */
    const char *also; /* other spellings */
    double mul, div;
    enum lk_unit_use use;
};

struct lk_unit_dimension {
    const struct lk_unit *units; /* the largest first; mul == div is the base unit */
    const char *base;            /* name of the base unit, in files */
    const char *expected;        /* for messages */
    bool needs_unit;             /* a number but 0 has to have a unit */
};

/* By enum lk_dimension. */
extern const struct lk_unit_dimension lk_unit_dimensions[];

/*
 * This thread's switch to the C locale, so that a decimal point is a point in any host process; c
 * is 0 if it could not be allocated, and then the locale stays as it is.
 */
struct lk_locales {
    locale_t c, old;
};
struct lk_locales lk_c_locale_enter(void);
void lk_c_locale_leave(struct lk_locales l);

#endif
