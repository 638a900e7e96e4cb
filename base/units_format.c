/* Print quantities with units; see base/units.h. */
#include "base/unit_table.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A double in decimal: sign, point, 17 digits, exponent. */
enum { NUMBER_SIZE = 32 };

static const struct lk_unit *base_unit(enum lk_dimension dim)
{
    const struct lk_unit *u = lk_unit_dimensions[dim].units;

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
static const struct lk_unit *unit_for(enum lk_dimension dim, double v)
{
    const struct lk_unit *best = NULL;

    for (const struct lk_unit *u = lk_unit_dimensions[dim].units; u->name; u++) {
        if (u->use != LK_UNIT_SHOWN)
            continue;
        best = u;
        if (v * u->div / u->mul >= 0.9995)
            break;
    }
    return best;
}

static const struct lk_unit *unit_like(enum lk_dimension dim, double like)
{
    return isfinite(like) && like != 0 ? unit_for(dim, fabs(like)) : base_unit(dim);
}

double lk_units_shown(enum lk_dimension dim, double like)
{
    const struct lk_unit *u = unit_like(dim, like);

    return u->mul / u->div;
}

const char *lk_units_round(enum lk_dimension dim, double value, double like, char *buf, size_t size)
{
    const struct lk_unit *u = unit_like(dim, like);
    const char *unit = u->name[0] == '1' || value == 0 ? "" : u->name;
    struct lk_locales l = lk_c_locale_enter();

    snprintf(buf, size, "%.9g%s%s", value * u->div / u->mul, *unit && *unit != '/' ? " " : "",
             unit);
    lk_c_locale_leave(l);
    return buf;
}

const char *lk_units_format(enum lk_dimension dim, double value, char *buf, size_t size)
{
    const struct lk_unit *u;
    struct lk_locales l;
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
    u = unit_like(dim, value);
    unit = u->name[0] == '1' ? "" : u->name;
    gap = *unit && *unit != '/' ? " " : "";
    shown = value * u->div / u->mul;
    magnitude = fabs(shown);
    decimals = dim == LK_DIM_BYTES && u->mul == 1 ? 0 : decimals_of(magnitude);
    l = lk_c_locale_enter();
    if (value == 0 || !isfinite(value))
        snprintf(buf, size, "%g%s%s", value, gap, unit);
    else if ((magnitude < 0.0995 && dim != LK_DIM_BYTES) || magnitude >= 1e6)
        snprintf(buf, size, "%.3g%s%s", shown, gap, unit);
    else
        snprintf(buf, size, "%.*f%s%s", decimals, shown, gap, unit);
    lk_c_locale_leave(l);
    return buf;
}

const char *lk_units_bounds(const char *value, const char *lo, const char *hi, char *buf,
                            size_t size)
{
    const char *unit = value + strcspn(value, " ");
    size_t n_lo = strcspn(lo, " "), n_hi = strcspn(hi, " ");
    bool same = !strcmp(unit, lo + n_lo) && !strcmp(unit, hi + n_hi);

    snprintf(buf, size, "%.*s to %.*s", (int)(same ? n_lo : strlen(lo)), lo,
             (int)(same ? n_hi : strlen(hi)), hi);
    return buf;
}

const char *lk_units_interval(enum lk_dimension dim, double value, double lo, double hi, char *buf,
                              size_t size)
{
    char text[3][32];

    return lk_units_bounds(lk_units_format(dim, value, text[0], sizeof text[0]),
                           lk_units_format(dim, lo, text[1], sizeof text[1]),
                           lk_units_format(dim, hi, text[2], sizeof text[2]), buf, size);
}

/* Format the shortest text that reads back as v, "60" not "6e+01". buf has NUMBER_SIZE bytes. */
static void shortest_number(double v, char *buf)
{
    struct lk_locales l = lk_c_locale_enter();

    buf[0] = '\0';
    for (int digits = 1; digits <= 17; digits++) {
        char text[NUMBER_SIZE];

        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v && (!*buf || strlen(text) < strlen(buf)))
            memcpy(buf, text, sizeof text);
    }
    lk_c_locale_leave(l);
}

const char *lk_units_exact(enum lk_dimension dim, double value, char *buf, size_t size)
{
    char best[64] = "";

    if (!size)
        return buf;
    for (const struct lk_unit *u = lk_unit_dimensions[dim].units; u->name; u++) {
        double shown = value * u->div / u->mul;
        char number[NUMBER_SIZE];
        char text[sizeof best];

        if (value == 0 && u->mul != u->div)
            continue;
        if (u->use == LK_UNIT_READ || !isfinite(shown) || shown * u->mul / u->div != value)
            continue;
        shortest_number(shown, number);
        snprintf(text, sizeof text, "%s%s", number, u->name[0] == '1' ? "" : u->name);
        if (!*best || strlen(text) < strlen(best))
            memcpy(best, text, sizeof best);
    }
    snprintf(buf, size, "%s", best);
    return buf;
}
