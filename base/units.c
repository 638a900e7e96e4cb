/* Quantities with units; see the header. One table of units serves parser, messages and output. */
#include "base/units.h"

#include "base/clock.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* value in base units = number * mul / div: with two factors 3 ns is exactly 3e-9. */
struct unit {
    const char *name;
    double mul, div;
    bool shown; /* lk_units_format may choose it */
};

#define KIBI 1024.0
#define MEBI (1024.0 * KIBI)
#define GIBI (1024.0 * MEBI)
#define TEBI (1024.0 * GIBI)

/* The largest first; the row with mul == div is the base unit. A NULL name ends a list. */
static const struct unit none_units[] = {{"1", 1, 1, true}, {"%", 1, 100, false}, {0}};
static const struct unit bytes_units[] = {{"TiB", TEBI, 1, true}, {"TB", 1e12, 1, false},
                                          {"GiB", GIBI, 1, true}, {"GB", 1e9, 1, false},
                                          {"MiB", MEBI, 1, true}, {"MB", 1e6, 1, false},
                                          {"KiB", KIBI, 1, true}, {"kB", 1e3, 1, false},
                                          {"B", 1, 1, true},      {0}};
static const struct unit time_units[] = {{"h", 3600, 1, false},
                                         {"min", 60, 1, false},
                                         {"s", 1, 1, true},
                                         {"ms", 1, 1e3, true},
                                         {"us", 1, 1e6, true},
                                         {"ns", 1, 1e9, true},
                                         {0}};
static const struct unit rate_units[] = {{"TB/s", 1e12, 1, true},
                                         {"Tbit/s", 1e12, 8, false},
                                         {"GB/s", 1e9, 1, true},
                                         {"Gbit/s", 1e9, 8, false},
                                         {"MB/s", 1e6, 1, true},
                                         {"Mbit/s", 1e6, 8, false},
                                         {"kB/s", 1e3, 1, true},
                                         {"kbit/s", 1e3, 8, false},
                                         {"B/s", 1, 1, true},
                                         {"bit/s", 1, 8, false},
                                         {0}};
static const struct unit flops_units[] = {{"Pflop/s", 1e15, 1, true},
                                          {"Tflop/s", 1e12, 1, true},
                                          {"Gflop/s", 1e9, 1, true},
                                          {"Mflop/s", 1e6, 1, true},
                                          {"kflop/s", 1e3, 1, true},
                                          {"flop/s", 1, 1, true},
                                          {0}};
static const struct unit flop_units[] = {{"Pflop", 1e15, 1, true},
                                         {"Tflop", 1e12, 1, true},
                                         {"Gflop", 1e9, 1, true},
                                         {"Mflop", 1e6, 1, true},
                                         {"kflop", 1e3, 1, true},
                                         {"flop", 1, 1, true},
                                         {0}};
static const struct unit power_units[] = {
    {"MW", 1e6, 1, true}, {"kW", 1e3, 1, true}, {"W", 1, 1, true}, {0}};
static const struct unit price_units[] = {{"/h", 1, 1, true}, {"1/h", 1, 1, false}, {0}};

static const struct {
    const struct unit *units;
    const char *base;
    const char *expected; /* for messages */
} dimensions[] = {
    [LK_DIM_NONE] = {none_units, "1", "a number or a percentage"},
    [LK_DIM_BYTES] = {bytes_units, "B", "a size"},
    [LK_DIM_TIME] = {time_units, "s", "a time"},
    [LK_DIM_RATE] = {rate_units, "B/s", "a rate"},
    [LK_DIM_FLOPS] = {flops_units, "flop/s", "a rate of operations"},
    [LK_DIM_FLOP] = {flop_units, "flop", "a count of operations"},
    [LK_DIM_POWER] = {power_units, "W", "a power"},
    [LK_DIM_PRICE] = {price_units, "1/h", "a price per hour"},
};

/* A double in decimal: sign, point, 17 digits, exponent. */
enum { NUMBER_SIZE = 32 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Return the end of the decimal number at the start of text, or text:
 * -?(d+(.d*)?|.d+)([eE][+-]?d+)?. strtod alone would also accept blanks, hex, inf and nan.
 */
static const char *number_end(const char *text)
{
    const char *p = text;
    const char *digits;
    bool any;

    if (*p == '-')
        p++;
    for (digits = p; is_digit(*p); p++)
        continue;
    any = p > digits;
    if (*p == '.') {
        for (digits = ++p; is_digit(*p); p++)
            continue;
        any = any || p > digits;
    }
    if (!any)
        return text;
    if (*p == 'e' || *p == 'E') {
        const char *e = p + 1;

        if (*e == '+' || *e == '-')
            e++;
        for (digits = e; is_digit(*e); e++)
            continue;
        if (e > digits)
            p = e;
    }
    return p;
}

/*
 * This thread's switch to the C locale, so that a decimal point is a point in any host process; c
 * is 0 if it could not be allocated, and then the locale stays as it is.
 */
struct locales {
    locale_t c, old;
};

static struct locales enter_c_locale(void)
{
    struct locales l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};

    if (l.c)
        l.old = uselocale(l.c);
    return l;
}

static void leave_c_locale(struct locales l)
{
    if (!l.c)
        return;
    uselocale(l.old);
    freelocale(l.c);
}

/* Read the number at the start of text; *out_end is text if there is none or it is out of range. */
static double read_number(const char *text, const char **out_end)
{
    const char *end = number_end(text);
    struct locales l;
    char *stop;
    double v;

    *out_end = text;
    if (end == text)
        return 0;
    l = enter_c_locale();
    errno = 0;
    v = strtod(text, &stop);
    leave_c_locale(l);
    if (stop != end || errno == ERANGE || !isfinite(v))
        return 0;
    *out_end = end;
    return v;
}

static const struct unit *find_unit(enum lk_dimension dim, const char *name)
{
    for (const struct unit *u = dimensions[dim].units; u->name; u++)
        if (!strcmp(u->name, name))
            return u;
    return NULL;
}

/* List the dimension's units, the smallest last, with commas. Returns buf. */
static const char *list_units(enum lk_dimension dim, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (const struct unit *u = dimensions[dim].units; u->name; u++) {
        int n = snprintf(buf + used, size - used, "%s%s", used ? ", " : "", u->name);

        if (n < 0 || (size_t)n >= size - used)
            break;
        used += (size_t)n;
    }
    return buf;
}

static enum lk_status fail_parse(enum lk_dimension dim, const char *text, const char *why)
{
    char units[256];

    return lk_fail(LK_EUSAGE, "'%s' is not %s%s (a number%s%s, or without a unit: %s)", text,
                   dimensions[dim].expected, why,
                   dim == LK_DIM_NONE ? ", or with one of: " : " with one of: ",
                   list_units(dim, units, sizeof units), dimensions[dim].base);
}

enum lk_status lk_units_parse(enum lk_dimension dim, const char *text, double *out)
{
    const char *p;
    const struct unit *u;
    double v = read_number(text, &p);

    if (p == text)
        return fail_parse(dim, text,
                          number_end(text) == text ? "" : ": the number is out of range");
    if (!*p) {
        *out = v;
        return LK_OK;
    }
    while (*p == ' ')
        p++;
    /* The names "1" and "1/h" are for files: behind a number they would read as its digits. */
    u = is_digit(*p) ? NULL : find_unit(dim, p);
    if (!u)
        return fail_parse(dim, text, "");
    v = v * u->mul / u->div;
    if (!isfinite(v))
        return fail_parse(dim, text, ": the number is out of range");
    *out = v;
    return LK_OK;
}

enum lk_status lk_units_factor(enum lk_dimension dim, const char *unit, double *out)
{
    const struct unit *u = find_unit(dim, unit);
    char units[256];

    if (!u)
        return lk_fail(LK_EPARSE, "'%s' is not a unit of %s (units: %s)", unit,
                       dimensions[dim].expected, list_units(dim, units, sizeof units));
    *out = u->mul / u->div;
    return LK_OK;
}

const char *lk_units_base(enum lk_dimension dim)
{
    return dimensions[dim].base;
}

static const struct unit *base_unit(enum lk_dimension dim)
{
    const struct unit *u = dimensions[dim].units;

    while (u->mul != u->div)
        u++;
    return u;
}

/* Return the decimals that show three significant digits of v >= 0 after rounding. */
static int decimals_of(double v)
{
    return v < 0.9995 ? 3 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

/* Return the largest shown unit in which v, rounded as it will be printed, is at least 1. */
static const struct unit *unit_for(enum lk_dimension dim, double v)
{
    const struct unit *best = NULL;

    for (const struct unit *u = dimensions[dim].units; u->name; u++) {
        if (!u->shown)
            continue;
        best = u;
        if (v * u->div / u->mul >= 0.9995)
            break;
    }
    return best;
}

const char *lk_units_format(enum lk_dimension dim, double value, char *buf, size_t size)
{
    const struct unit *u;
    struct locales l;
    double shown;
    double magnitude;
    int decimals;
    const char *unit;
    const char *gap;

    if (!size)
        return buf;
    if (isnan(value)) {
        snprintf(buf, size, "-");
        return buf;
    }
    u = isfinite(value) && value != 0 ? unit_for(dim, fabs(value)) : base_unit(dim);
    unit = dim == LK_DIM_NONE ? "" : u->name;
    gap = *unit && *unit != '/' ? " " : "";
    shown = value * u->div / u->mul;
    magnitude = fabs(shown);
    decimals = dim == LK_DIM_BYTES && u->mul == 1 ? 0 : decimals_of(magnitude);
    l = enter_c_locale();
    if (value == 0 || !isfinite(value))
        snprintf(buf, size, "%g%s%s", value, gap, unit);
    else if ((magnitude < 0.0995 && dim != LK_DIM_BYTES) || magnitude >= 1e6)
        snprintf(buf, size, "%.3g%s%s", shown, gap, unit);
    else
        snprintf(buf, size, "%.*f%s%s", decimals, shown, gap, unit);
    leave_c_locale(l);
    return buf;
}

/* Format the shortest text that reads back as v, "60" not "6e+01". buf has NUMBER_SIZE bytes. */
static void shortest_number(double v, char *buf)
{
    struct locales l = enter_c_locale();

    buf[0] = '\0';
    for (int digits = 1; digits <= 17; digits++) {
        char text[NUMBER_SIZE];

        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v && (!*buf || strlen(text) < strlen(buf)))
            memcpy(buf, text, sizeof text);
    }
    leave_c_locale(l);
}

const char *lk_units_exact(enum lk_dimension dim, double value, char *buf, size_t size)
{
    char best[64] = "";

    if (!size)
        return buf;
    for (const struct unit *u = dimensions[dim].units; u->name; u++) {
        double shown = value * u->div / u->mul;
        char number[NUMBER_SIZE];
        char text[sizeof best];

        if (!u->shown || !isfinite(shown) || shown * u->mul / u->div != value)
            continue;
        shortest_number(shown, number);
        snprintf(text, sizeof text, "%s%s", number, is_digit(u->name[0]) ? "" : u->name);
        if (!*best || strlen(text) < strlen(best))
            memcpy(best, text, sizeof best);
    }
    snprintf(buf, size, "%s", best);
    return buf;
}

enum lk_status lk_parse_int64(const char *text, int64_t min, int64_t max, int64_t *out)
{
    const char *p = text;
    char *end;
    long long v;

    if (*p == '-')
        p++;
    if (!is_digit(*p))
        return lk_fail(LK_EUSAGE, "'%s' is not a whole number", text);
    errno = 0;
    v = strtoll(text, &end, 10);
    if (*end)
        return lk_fail(LK_EUSAGE, "'%s' is not a whole number", text);
    if (errno == ERANGE || v < min || v > max)
        return lk_fail(LK_EUSAGE, "%s is not from %lld to %lld", text, (long long)min,
                       (long long)max);
    *out = v;
    return LK_OK;
}

enum lk_status lk_parse_double(const char *text, double *out)
{
    const char *end;
    double v = read_number(text, &end);

    if (end == text || *end)
        return lk_fail(LK_EUSAGE, "'%s' is not a finite decimal number", text);
    *out = v;
    return LK_OK;
}

enum lk_status lk_parse_factor_at(const char *text, int64_t max_at, int64_t *out_at,
                                  double *out_factor)
{
    static const double FACTOR_MAX = 1000;
    const char *colon = strchr(text, ':');
    char head[24];
    double factor;

    if (!colon || (size_t)(colon - text) >= sizeof head)
        return lk_fail(LK_EUSAGE, "'%s': expected NUMBER:FACTOR, e.g. 3:1.25", text);
    snprintf(head, sizeof head, "%.*s", (int)(colon - text), text);
    LK_PASS(lk_parse_double(colon + 1, &factor));
    if (!(factor > 0 && factor <= FACTOR_MAX))
        return lk_fail(LK_EUSAGE, "the factor must be above 0, and at most %g", FACTOR_MAX);
    LK_PASS(lk_parse_int64(head, 0, max_at, out_at));
    *out_factor = factor;
    return LK_OK;
}

double lk_s_from_ns(uint64_t ns)
{
    return (double)ns / (double)LK_NS_PER_S;
}

uint64_t lk_ns_from_s(double s)
{
    double ns = round(s * (double)LK_NS_PER_S);

    if (!(ns > 0))
        return 0;
    return ns >= 0x1p64 ? UINT64_MAX : (uint64_t)ns;
}
