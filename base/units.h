/*
 * Parse and format quantities with units, and convert between ns and s. No other file turns text
 * into SI units.
 *
 * Sizes: B kB MB GB TB (1000) and KiB MiB GiB TiB (1024; also K M G T). Rates: B/s kB/s MB/s GB/s
 * TB/s and bit/s kbit/s Mbit/s Gbit/s Tbit/s (1000 always; also Gbps, Gb/s, GBps; of links also
 * 400G). Times: ns us ms s min h d. Counts: k M G (or B) T. Ratios: 1, %. Work: flop kflop Mflop
 * Gflop Tflop Pflop, and the same per s. Power: W kW MW. Price: 1/h in files, /h behind a number
 * ("2.5 /h"). The names "1" and "1/h" cannot stand behind a number. Case counts only where two
 * units differ by it: "25mib" is read, but "25mb" could be bits, and "100gbps" bytes; these are
 * errors that name both. base/unit_table.c has all spellings.
 *
 * A number is decimal with a point in every locale; blanks may stand before the unit. A size,
 * a time or a rate has to have its unit, unless it is 0; any other bare number is in the base unit
 * (1, flop/s, ...). Trailing junk, hex, NaN, infinity and numbers too large for a double are
 * errors. Any thread.
 */
#ifndef LK_BASE_UNITS_H
#define LK_BASE_UNITS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum lk_dimension {
    LK_DIM_NONE,  /* a ratio or a plain number */
    LK_DIM_COUNT, /* a number of things, 124M */
    LK_DIM_BYTES, /* base unit B */
    LK_DIM_TIME,  /* base unit s */
    LK_DIM_RATE,  /* base unit B/s */
    LK_DIM_LINK,  /* a rate of a network link, which 400G can name, too */
    LK_DIM_FLOPS, /* base unit flop/s */
    LK_DIM_FLOP,  /* base unit flop */
    LK_DIM_POWER, /* base unit W */
    LK_DIM_PRICE  /* base unit currency/h, written "1/h" */
};

/* Parse "64MiB", "3us", "25GB/s", "0.5" into the base unit. LK_EUSAGE says what was expected. */
enum lk_status lk_units_parse(enum lk_dimension dim, const char *text, double *out);

/* Set *out to the factor from a unit to the base unit. LK_EPARSE lists the dimension's units. */
enum lk_status lk_units_factor(enum lk_dimension dim, const char *unit, double *out);

/* Return the base unit's name: "B", "s", "B/s", "1", ... */
const char *lk_units_base(enum lk_dimension dim);

/*
 * Format a value for people with 3-4 significant digits: "25.0 MiB", "3.20 us"; NaN is "-". It
 * reads back within 0.5 %. Returns buf; 32 bytes are enough.
 */
const char *lk_units_format(enum lk_dimension dim, double value, char *buf, size_t size);

/* Return the unit in which people read values as large as `like`, as a factor on the base unit: 1e9
 * for 40e9 B/s. 0 is read in the base unit. */
double lk_units_shown(enum lk_dimension dim, double like);
/* Format a round value in that unit, without more digits than it has: "2 MiB", "100 GB/s", "0".
 * Returns buf; 40 bytes are enough. */
const char *lk_units_round(enum lk_dimension dim, double value, double like, char *buf,
                           size_t size);

/* Write the bounds of an interval, all formatted, to stand behind its value: "14.2 to 14.6" where
 * all three have one unit, else "980 us to 1.02 ms". Returns buf. */
const char *lk_units_bounds(const char *value, const char *lo, const char *hi, char *buf,
                            size_t size);
/* Format the interval of a value, to stand behind it: "14.2 to 14.6" where all three have one unit,
 * else "980 us to 1.02 ms". Returns buf; 64 bytes are enough. */
const char *lk_units_interval(enum lk_dimension dim, double value, double lo, double hi, char *buf,
                              size_t size);

/*
 * Format the shortest text that lk_units_parse reads back as the same double: "25MiB", "3us",
 * "0.1". pre: value is finite. Returns buf; 40 bytes are enough.
 */
const char *lk_units_exact(enum lk_dimension dim, double value, char *buf, size_t size);

/* Parse a decimal whole number, the whole text, within [min, max]. LK_EUSAGE otherwise. */
enum lk_status lk_parse_int64(const char *text, int64_t min, int64_t max, int64_t *out);
/*
 * Parse a count as a person writes it, "4096", "64k" or "1e6", within [min, max]; max INT64_MAX: no
 * bound. LK_EUSAGE otherwise.
 */
enum lk_status lk_parse_count(const char *text, int64_t min, int64_t max, int64_t *out);
/* Parse a finite number, the whole text. LK_EUSAGE otherwise. */
enum lk_status lk_parse_double(const char *text, double *out);
/* Parse "3:1.25": a number from 0 to max_at, and a factor in (0, 1000]. LK_EUSAGE otherwise. */
enum lk_status lk_parse_factor_at(const char *text, int64_t max_at, int64_t *out_at,
                                  double *out_factor);

/* Convert the ns of traces to the s of models. */
double lk_s_from_ns(uint64_t ns);
/* Convert s to the nearest ns; negative and NaN give 0, too large gives UINT64_MAX. */
uint64_t lk_ns_from_s(double s);

#endif
