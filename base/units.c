/* Reads quantities with units; see base/units.h. */
#include "base/clock.h"
#include "base/unit_table.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

struct lk_locales lk_c_locale_enter(void)
{
    struct lk_locales l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};

    if (l.c)
        l.old = uselocale(l.c);
    return l;
}

void lk_c_locale_leave(struct lk_locales l)
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
    struct lk_locales l;
    char *stop;
    double v;

    *out_end = text;
    if (end == text)
        return 0;
    l = lk_c_locale_enter();
    errno = 0;
    v = strtod(text, &stop);
    lk_c_locale_leave(l);
    if (stop != end || errno == ERANGE || !isfinite(v))
        return 0;
    *out_end = end;
    return v;
}

/* ---- Units ---- */

/* Return true if the blank-separated list has the word; fold ignores case. */
static bool has_word(const char *list, const char *word, bool fold)
{
    size_t n = strlen(word);

    for (; *list; list += strspn(list, " ")) {
        size_t m = strcspn(list, " ");

        if (m == n && !(fold ? strncasecmp(list, word, n) : strncmp(list, word, n)))
            return true;
        list += m;
    }
    return false;
}

static bool is_spelled(const struct lk_unit *u, const char *name, bool fold)
{
    bool refused = u->mul == 0; /* its name is what may be meant */

    return (!refused && !(fold ? strcasecmp(u->name, name) : strcmp(u->name, name))) ||
           has_word(u->also, name, fold);
}

enum { MEANT_SIZE = 32 };

/*
 * Find a unit by one of its spellings, then ignoring case. NULL: there is none, or several may be
 * meant, which are then written to meant[MEANT_SIZE], separated by blanks.
 */
static const struct lk_unit *find_unit(enum lk_dimension dim, const char *name, char *meant)
{
    const struct lk_unit *units = lk_unit_dimensions[dim].units, *found = NULL;
    size_t n = 0;

    *meant = '\0';
    for (int fold = 0; fold < 2 && !n; fold++)
        for (const struct lk_unit *u = units; u->name; u++) {
            if (!is_spelled(u, name, fold))
                continue;
            if (u->mul == 0) {
                snprintf(meant, MEANT_SIZE, "%s", u->name);
                return NULL;
            }
            snprintf(meant + strlen(meant), MEANT_SIZE - strlen(meant), "%s%s", n ? " " : "",
                     u->name);
            found = u;
            n++;
        }
    if (n < 2)
        *meant = '\0';
    return n == 1 ? found : NULL;
}

/* List the dimension's units, the smallest last, with commas. Returns buf. */
static const char *list_units(enum lk_dimension dim, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (const struct lk_unit *u = lk_unit_dimensions[dim].units; u->name; u++) {
        int n =
            u->mul == 0 ? 0 : snprintf(buf + used, size - used, "%s%s", used ? ", " : "", u->name);

        if (n < 0 || (size_t)n >= size - used)
            break;
        used += (size_t)n;
    }
    return buf;
}

static enum lk_status fail_parse(enum lk_dimension dim, const char *text, const char *why)
{
    const struct lk_unit_dimension *d = &lk_unit_dimensions[dim];
    char units[256];

    list_units(dim, units, sizeof units);
    if (d->needs_unit)
        return lk_fail(LK_EUSAGE, "'%s' is not %s%s (a number with one of: %s)", text, d->expected,
                       why, units);
    return lk_fail(LK_EUSAGE, "'%s' is not %s%s (a number%s%s, or without a unit: %s)", text,
                   d->expected, why,
                   dim == LK_DIM_NONE ? ", or with one of: " : " with one of: ", units, d->base);
}

/* Fail for a number without the unit that it needs; n is its text. */
static enum lk_status fail_bare(enum lk_dimension dim, const char *n, double v)
{
    char rate[40];

    if (dim == LK_DIM_BYTES)
        return lk_fail(LK_EUSAGE,
                       "'%s': which unit? %sMiB (1024-based, as bucket_cap_mb of PyTorch), %sMB "
                       "(1000-based) or %sB",
                       n, n, n, n);
    if (dim == LK_DIM_TIME)
        return lk_fail(LK_EUSAGE, "'%s': which unit? %ss, %sms or %sus", n, n, n, n);
    return lk_fail(LK_EUSAGE, "'%s': which unit? %sGbit/s or %s", n, n,
                   lk_units_exact(LK_DIM_RATE, v * 1e9 / 8, rate, sizeof rate));
}

/* Fail for a number of `digits` bytes whose unit may mean one of several. */
static enum lk_status fail_meant(const char *text, int digits, const char *meant)
{
    const char *second = strchr(meant, ' ');
    int first = second ? (int)(second - meant) : (int)strlen(meant);

    if (!second)
        return lk_fail(LK_EUSAGE, "'%s': which unit? %.*s%s", text, digits, text, meant);
    return lk_fail(LK_EUSAGE, "'%s': which unit? %.*s%.*s or %.*s%s", text, digits, text, first,
                   meant, digits, text, second + 1);
}

enum lk_status lk_units_parse(enum lk_dimension dim, const char *text, double *out)
{
    const char *p;
    const struct lk_unit *u;
    char meant[MEANT_SIZE] = "";
    double v = read_number(text, &p);
    int digits = (int)(p - text);

    if (!digits)
        return fail_parse(dim, text,
                          number_end(text) == text ? "" : ": the number is out of range");
    if (!*p) {
        if (lk_unit_dimensions[dim].needs_unit && v != 0)
            return fail_bare(dim, text, v);
        *out = v;
        return LK_OK;
    }
    while (*p == ' ')
        p++;
    /* The names "1" and "1/h" are for files: behind a number they would read as its digits. */
    u = is_digit(*p) ? NULL : find_unit(dim, p, meant);
    if (!u)
        return *meant ? fail_meant(text, digits, meant) : fail_parse(dim, text, "");
    v = v * u->mul / u->div;
    if (!isfinite(v))
        return fail_parse(dim, text, ": the number is out of range");
    *out = v;
    return LK_OK;
}

enum lk_status lk_units_factor(enum lk_dimension dim, const char *unit, double *out)
{
    char meant[MEANT_SIZE];
    const struct lk_unit *u = find_unit(dim, unit, meant);
    char units[256];

    if (!u)
        return lk_fail(LK_EPARSE, "'%s' is not a unit of %s (units: %s)", unit,
                       lk_unit_dimensions[dim].expected,
                       *meant ? meant : list_units(dim, units, sizeof units));
    *out = u->mul / u->div;
    return LK_OK;
}

const char *lk_units_base(enum lk_dimension dim)
{
    return lk_unit_dimensions[dim].base;
}

/* ---- Numbers ---- */

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

enum lk_status lk_parse_count(const char *text, int64_t min, int64_t max, int64_t *out)
{
    static const double EXACT = 0x1p53; /* doubles hold every whole number up to here */
    int64_t n = 0;
    double v = 0;

    if (lk_parse_int64(text, INT64_MIN, INT64_MAX, &n) != LK_OK) {
        if (lk_units_parse(LK_DIM_COUNT, text, &v) != LK_OK || v != floor(v))
            return lk_fail(LK_EUSAGE, "'%s' is not a whole number", text);
        n = v > EXACT ? INT64_MAX : v < -EXACT ? INT64_MIN : (int64_t)v;
    }
    if (n >= min && n <= max && fabs(v) <= EXACT) {
        *out = n;
        return LK_OK;
    }
    if (max == INT64_MAX)
        return lk_fail(LK_EUSAGE, "must be at least %lld", (long long)min);
    return lk_fail(LK_EUSAGE, "must be from %lld to %lld", (long long)min, (long long)max);
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
