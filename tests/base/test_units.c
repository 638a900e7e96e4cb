/* Quantities with units: accepted texts, refused ones, and that writing and reading agree. */
#include "base/array.h"
#include "base/rng.h"
#include "base/units.h"
#include "tests/rigs/suite.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum lk_dimension dim;
    const char *text;
    double value;
} good[] = {
    {LK_DIM_NONE, "0.5", 0.5},
    {LK_DIM_NONE, "-3", -3},
    {LK_DIM_NONE, "12.5%", 0.125},
    {LK_DIM_NONE, "1e-3", 1e-3},
    {LK_DIM_NONE, ".5", 0.5},
    {LK_DIM_NONE, "5.", 5},
    {LK_DIM_NONE, "1E+2", 100},
    {LK_DIM_BYTES, "0", 0},
    {LK_DIM_BYTES, "7bytes", 7},
    {LK_DIM_BYTES, "25M", 26214400}, /* as in nccl-tests and fio */
    {LK_DIM_BYTES, "25m", 26214400},
    {LK_DIM_BYTES, "1K", 1024},
    {LK_DIM_BYTES, "1KB", 1000},
    {LK_DIM_BYTES, "25mib", 26214400},
    {LK_DIM_BYTES, "25MIB", 26214400},
    {LK_DIM_BYTES, "7B", 7},
    {LK_DIM_BYTES, "1kB", 1000},
    {LK_DIM_BYTES, "1KiB", 1024},
    {LK_DIM_BYTES, "2.5MB", 2500000},
    {LK_DIM_BYTES, "25MiB", 26214400},
    {LK_DIM_BYTES, "25 MiB", 26214400},
    {LK_DIM_BYTES, "1GB", 1e9},
    {LK_DIM_BYTES, "1GiB", 1073741824},
    {LK_DIM_BYTES, "1TB", 1e12},
    {LK_DIM_BYTES, "1TiB", 1099511627776},
    {LK_DIM_BYTES, "0.5KiB", 512},
    {LK_DIM_TIME, "0", 0},
    {LK_DIM_TIME, "3 Seconds", 3},
    {LK_DIM_TIME, "3\xC2\xB5s", 3e-6},
    {LK_DIM_TIME, "1d", 86400},
    {LK_DIM_TIME, "1S", 1},
    {LK_DIM_TIME, "3s", 3},
    {LK_DIM_TIME, "3ns", 3e-9},
    {LK_DIM_TIME, "3us", 3e-6},
    {LK_DIM_TIME, "3ms", 3e-3},
    {LK_DIM_TIME, "2min", 120},
    {LK_DIM_TIME, "1.5h", 5400},
    {LK_DIM_RATE, "0", 0},
    {LK_DIM_RATE, "100Gbps", 12.5e9},
    {LK_DIM_RATE, "100Gb/s", 12.5e9},
    {LK_DIM_RATE, "100gbit/s", 12.5e9},
    {LK_DIM_RATE, "100GBps", 100e9},
    {LK_DIM_LINK, "400G", 50e9},
    {LK_DIM_LINK, "400g", 50e9},
    {LK_DIM_LINK, "1.6T", 200e9},
    {LK_DIM_LINK, "100GB/s", 100e9},
    {LK_DIM_COUNT, "124M", 124e6},
    {LK_DIM_COUNT, "7B", 7e9},
    {LK_DIM_COUNT, "64k", 64e3},
    {LK_DIM_RATE, "1kB/s", 1e3},
    {LK_DIM_RATE, "1MB/s", 1e6},
    {LK_DIM_RATE, "25GB/s", 25e9},
    {LK_DIM_RATE, "3.35TB/s", 3.35e12},
    {LK_DIM_RATE, "8bit/s", 1},
    {LK_DIM_RATE, "8kbit/s", 1e3},
    {LK_DIM_RATE, "8Mbit/s", 1e6},
    {LK_DIM_RATE, "100Gbit/s", 12.5e9},
    {LK_DIM_RATE, "1.6Tbit/s", 200e9},
    {LK_DIM_FLOPS, "989Tflop/s", 989e12},
    {LK_DIM_FLOPS, "1Gflop/s", 1e9},
    {LK_DIM_FLOPS, "2kflop/s", 2e3},
    {LK_DIM_FLOP, "4Mflop", 4e6},
    {LK_DIM_FLOP, "1Pflop", 1e15},
    {LK_DIM_POWER, "700W", 700},
    {LK_DIM_POWER, "10.2kW", 10200},
    {LK_DIM_PRICE, "2.5", 2.5},
    {LK_DIM_PRICE, "31/h", 31}, /* the number is 31, not 3 in units of "1/h" */
    {LK_DIM_PRICE, "2.5 /h", 2.5},
};

START_TEST(reads)
{
    double v = -1;

    ck_assert_msg(lk_units_parse(good[_i].dim, good[_i].text, &v) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(v == good[_i].value, "%s read as %.17g", good[_i].text, v);
}
END_TEST

static const struct {
    enum lk_dimension dim;
    const char *text;
} bad[] = {
    {LK_DIM_NONE, ""},         {LK_DIM_NONE, " "},      {LK_DIM_NONE, "-"},
    {LK_DIM_NONE, "."},        {LK_DIM_NONE, "+1"},     {LK_DIM_NONE, "e5"},
    {LK_DIM_NONE, "1e"},       {LK_DIM_NONE, "1e+"},    {LK_DIM_NONE, "nan"},
    {LK_DIM_NONE, "NaN"},      {LK_DIM_NONE, "inf"},    {LK_DIM_NONE, "-inf"},
    {LK_DIM_NONE, "infinity"}, {LK_DIM_NONE, "0x10"},   {LK_DIM_NONE, "0x1p3"},
    {LK_DIM_NONE, "1e999"},    {LK_DIM_NONE, "-1e999"}, {LK_DIM_NONE, "1e-999"},
    {LK_DIM_NONE, "1,5"},      {LK_DIM_NONE, "1 "},     {LK_DIM_NONE, " 1"},
    {LK_DIM_NONE, "1.2.3"},    {LK_DIM_NONE, "5 1"},    {LK_DIM_NONE, "1%%"},
    {LK_DIM_NONE, "1B"},       {LK_DIM_BYTES, "B"},     {LK_DIM_BYTES, "MiB"},
    {LK_DIM_BYTES, "1MiBx"},   {LK_DIM_BYTES, "1MiB "}, {LK_DIM_BYTES, "1GB/s"},
    {LK_DIM_BYTES, "1s"},      {LK_DIM_BYTES, "1P"},    {LK_DIM_TIME, "1week"},
    {LK_DIM_COUNT, "1MiB"},    {LK_DIM_LINK, "1P"},     {LK_DIM_BYTES, "1e308TB"},
    {LK_DIM_BYTES, "1_B"},     {LK_DIM_BYTES, "--1"},   {LK_DIM_TIME, "1 0s"},
    {LK_DIM_RATE, "1GiB/s"},   {LK_DIM_RATE, "1GB"},    {LK_DIM_FLOPS, "1Tflop"},
    {LK_DIM_FLOP, "1Tflop/s"}, {LK_DIM_PRICE, "3 1/h"}, {LK_DIM_PRICE, "3/d"},
};

/* Numbers that may be of several units: the message has them all. */
static const struct {
    enum lk_dimension dim;
    const char *text, *says;
} unclear[] = {
    {LK_DIM_BYTES, "25",
     "25MiB (1024-based, as bucket_cap_mb of PyTorch), 25MB (1000-based) or 25B"},
    {LK_DIM_BYTES, "25mb", "25MiB or 25MB"},
    {LK_DIM_BYTES, "25Mb", "25MiB or 25MB"},
    {LK_DIM_BYTES, "25Gbit", "25GiB or 25GB"},
    {LK_DIM_BYTES, "25b", "25B"},
    {LK_DIM_TIME, "60", "60s, 60ms or 60us"},
    {LK_DIM_TIME, "5m", "5min or 5ms"},
    {LK_DIM_TIME, "5M", "5min or 5ms"},
    {LK_DIM_RATE, "100", "100Gbit/s or 12.5GB/s"},
    {LK_DIM_LINK, "100", "100Gbit/s or 12.5GB/s"},
    {LK_DIM_RATE, "100G", "100GB/s or 100Gbit/s"},
    {LK_DIM_RATE, "100gbps", "100GB/s or 100Gbit/s"},
    {LK_DIM_LINK, "100GBPS", "100GB/s or 100Gbit/s"},
    {LK_DIM_RATE, "1.5 mb/s", "1.5MB/s or 1.5Mbit/s"},
    {LK_DIM_POWER, "700mW", "700W or 700MW"},
};

START_TEST(asks_which_unit)
{
    double v = 42;
    char expected[160];

    snprintf(expected, sizeof expected, "'%s': which unit? %s", unclear[_i].text, unclear[_i].says);
    ck_assert_int_eq(lk_units_parse(unclear[_i].dim, unclear[_i].text, &v), LK_EUSAGE);
    ck_assert_double_eq(v, 42);
    ck_assert_str_eq(lk_error_text(), expected);
}
END_TEST

START_TEST(refuses)
{
    double v = 42;

    ck_assert_int_eq(lk_units_parse(bad[_i].dim, bad[_i].text, &v), LK_EUSAGE);
    ck_assert_double_eq(v, 42);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), bad[_i].text));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), lk_units_base(bad[_i].dim)));
}
END_TEST

START_TEST(messages_list_the_units)
{
    double v;

    ck_assert_int_eq(lk_units_parse(LK_DIM_BYTES, "12XB", &v), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "'12XB' is not a size (a number with one of: TiB, TB, GiB, "
                                      "GB, MiB, MB, KiB, kB, B)");
    ck_assert_int_eq(lk_units_factor(LK_DIM_TIME, "week", &v), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(),
                     "'week' is not a unit of a time (units: d, h, min, s, ms, us, ns)");
}
END_TEST

START_TEST(factors)
{
    double v;

    ck_assert_int_eq(lk_units_factor(LK_DIM_NONE, "1", &v), LK_OK);
    ck_assert_double_eq(v, 1);
    ck_assert_int_eq(lk_units_factor(LK_DIM_PRICE, "1/h", &v), LK_OK);
    ck_assert_double_eq(v, 1);
    ck_assert_int_eq(lk_units_factor(LK_DIM_RATE, "Gbit/s", &v), LK_OK);
    ck_assert_double_eq(v, 1.25e8);
    ck_assert_int_eq(lk_units_factor(LK_DIM_TIME, "us", &v), LK_OK);
    ck_assert_double_eq(v, 1e-6);
    ck_assert_int_eq(lk_units_factor(LK_DIM_BYTES, "", &v), LK_EPARSE);
    for (int dim = LK_DIM_NONE; dim <= LK_DIM_PRICE; dim++) {
        ck_assert_int_eq(
            lk_units_factor((enum lk_dimension)dim, lk_units_base((enum lk_dimension)dim), &v),
            LK_OK);
        ck_assert_double_eq(v, 1);
    }
}
END_TEST

static const struct {
    enum lk_dimension dim;
    double value;
    const char *text;
} shown[] = {
    {LK_DIM_BYTES, 26214400, "25.0 MiB"},
    {LK_DIM_BYTES, 0, "0 B"},
    {LK_DIM_BYTES, 512, "512 B"},
    {LK_DIM_BYTES, 1023, "1023 B"},
    {LK_DIM_BYTES, 1024, "1.00 KiB"},
    {LK_DIM_BYTES, 1048575, "1.00 MiB"},
    {LK_DIM_BYTES, -1024, "-1.00 KiB"},
    {LK_DIM_TIME, 3.2e-6, "3.20 us"},
    {LK_DIM_TIME, 0.9999e-3, "1.00 ms"},
    {LK_DIM_TIME, 0.99949e-3, "999 us"},
    {LK_DIM_TIME, 12.34, "12.3 s"},
    {LK_DIM_TIME, 123.4, "123 s"},
    {LK_DIM_TIME, 9.996, "10.0 s"},
    {LK_DIM_TIME, 0.25e-9, "0.250 ns"},
    {LK_DIM_RATE, 12.5e9, "12.5 GB/s"},
    {LK_DIM_FLOPS, 989e12, "989 Tflop/s"},
    {LK_DIM_NONE, 0.5, "0.500"},
    {LK_DIM_NONE, 2, "2.00"},
    {LK_DIM_NONE, 0, "0"},
    {LK_DIM_NONE, 1e9, "1e+09"},
    {LK_DIM_NONE, 1.5e-4, "0.00015"},
    {LK_DIM_POWER, 700, "700 W"},
    {LK_DIM_PRICE, 2.5, "2.50/h"},
    {LK_DIM_RATE, 1.8e-5, "1.8e-05 B/s"},
    {LK_DIM_TIME, NAN, "-"},
    {LK_DIM_TIME, INFINITY, "inf s"},
};

START_TEST(formats_for_people)
{
    char buf[32];

    ck_assert_str_eq(lk_units_format(shown[_i].dim, shown[_i].value, buf, sizeof buf),
                     shown[_i].text);
}
END_TEST

START_TEST(format_respects_the_buffer)
{
    char buf[4] = "xxx";

    lk_units_format(LK_DIM_BYTES, 26214400, buf, sizeof buf);
    ck_assert_str_eq(buf, "25.");
    lk_units_format(LK_DIM_BYTES, 1, buf, 0);
    ck_assert_str_eq(buf, "25.");
    lk_units_exact(LK_DIM_BYTES, 26214400, buf, sizeof buf);
    ck_assert_str_eq(buf, "25M");
}
END_TEST

static const struct {
    enum lk_dimension dim;
    double value;
    const char *text;
} exact[] = {
    {LK_DIM_BYTES, 26214400, "25MiB"}, {LK_DIM_BYTES, 26214401, "26214401B"},
    {LK_DIM_BYTES, 0, "0B"},           {LK_DIM_TIME, 3e-6, "3us"},
    {LK_DIM_TIME, 60, "60s"},          {LK_DIM_NONE, 0.1, "0.1"},
    {LK_DIM_RATE, 25e9, "25GB/s"},     {LK_DIM_PRICE, 2.5, "2.5/h"},
    {LK_DIM_TIME, 5e-10, "0.5ns"},     {LK_DIM_NONE, 1e15, "1e+15"},
    {LK_DIM_BYTES, -1024, "-1KiB"},
};

START_TEST(exact_is_short)
{
    char buf[40];

    ck_assert_str_eq(lk_units_exact(exact[_i].dim, exact[_i].value, buf, sizeof buf),
                     exact[_i].text);
}
END_TEST

/* Return a value with a magnitude from 1e-9 to 1e15, of either sign. */
static double draw_value(struct lk_rng *g)
{
    double v = exp(lk_rng_uniform(g) * 55 - 20);

    return lk_rng_below(g, 2) ? v : -v;
}

START_TEST(round_trips)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("units", (uint64_t)_i));
    enum lk_dimension dim = (enum lk_dimension)_i;

    for (int i = 0; i < 2000; i++) {
        double v = draw_value(&g);
        double back;
        char buf[40];

        lk_units_exact(dim, v, buf, sizeof buf);
        ck_assert_msg(lk_units_parse(dim, buf, &back) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(back == v, "%.17g -> %s -> %.17g", v, buf, back);
        if (dim == LK_DIM_BYTES && fabs(v) < 100)
            continue; /* shown whole: fewer than three digits */
        lk_units_format(dim, v, buf, sizeof buf);
        ck_assert_msg(lk_units_parse(dim, buf, &back) == LK_OK, "%s", lk_error_text());
        ck_assert_double_le(fabs(back - v), 0.00501 * fabs(v)); /* half of the third digit */
    }
}
END_TEST

/* Every accepted text matches a strict grammar, here a second implementation of it. */
START_TEST(random_text_is_no_number)
{
    static const char alphabet[] = "0123456789.-+eExXpinfaINFA %BkKMiGs/, \t";
    struct lk_rng g = lk_rng_init(2, 0);
    int accepted = 0;

    for (int i = 0; i < 200000; i++) {
        char text[8];
        size_t n = (size_t)lk_rng_below(&g, sizeof text);
        double v = 0;

        for (size_t j = 0; j < n; j++)
            text[j] = alphabet[lk_rng_below(&g, sizeof alphabet - 1)];
        text[n] = '\0';
        if (lk_units_parse(LK_DIM_BYTES, text, &v) != LK_OK)
            continue;
        accepted++;
        ck_assert_msg(isfinite(v), "'%s'", text);
        ck_assert_msg(!strpbrk(text, "+xXpnfaNFA%,\t/") || strchr(text, 'e') || strchr(text, 'E'),
                      "'%s' read as %g", text, v);
        ck_assert_msg(strpbrk(text, "0123456789") != NULL, "'%s'", text);
    }
    ck_assert_int_gt(accepted, 100);
}
END_TEST

START_TEST(whole_numbers)
{
    static const char *const junk[] = {"",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "1e3",
                                       "0x1",
                                       "1,000",
                                       "abc",
                                       "--1",
                                       "1-",
                                       "9223372036854775808"};
    int64_t v = 42;

    for (size_t i = 0; i < LK_COUNT(junk); i++)
        ck_assert_msg(lk_parse_int64(junk[i], INT64_MIN, INT64_MAX, &v) == LK_EUSAGE, "'%s'",
                      junk[i]);
    ck_assert_int_eq(v, 42);
    ck_assert_int_eq(lk_parse_int64("9223372036854775807", INT64_MIN, INT64_MAX, &v), LK_OK);
    ck_assert(v == INT64_MAX);
    ck_assert_int_eq(lk_parse_int64("-9223372036854775808", INT64_MIN, INT64_MAX, &v), LK_OK);
    ck_assert(v == INT64_MIN);
    ck_assert_int_eq(lk_parse_int64("007", 0, 10, &v), LK_OK);
    ck_assert_int_eq(v, 7);
    ck_assert_int_eq(lk_parse_int64("11", 0, 10, &v), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "11 is not from 0 to 10");
    ck_assert_int_eq(lk_parse_int64("-1", 0, 10, &v), LK_EUSAGE);
}
END_TEST

START_TEST(plain_doubles)
{
    double v;

    ck_assert_int_eq(lk_parse_double("-1.5e3", &v), LK_OK);
    ck_assert_double_eq(v, -1500);
    ck_assert_int_eq(lk_parse_double("1%", &v), LK_EUSAGE);
    ck_assert_int_eq(lk_parse_double("nan", &v), LK_EUSAGE);
    ck_assert_int_eq(lk_parse_double("", &v), LK_EUSAGE);
    ck_assert_int_eq(lk_parse_double("1e400", &v), LK_EUSAGE);
}
END_TEST

START_TEST(nanoseconds)
{
    ck_assert_double_eq(lk_s_from_ns(1500000000), 1.5);
    ck_assert(lk_ns_from_s(1.5) == 1500000000);
    ck_assert(lk_ns_from_s(1.4e-9) == 1);
    ck_assert(lk_ns_from_s(0.5e-9) == 1);
    ck_assert(lk_ns_from_s(-1) == 0);
    ck_assert(lk_ns_from_s(NAN) == 0);
    ck_assert(lk_ns_from_s(-INFINITY) == 0);
    ck_assert(lk_ns_from_s(INFINITY) == UINT64_MAX);
    ck_assert(lk_ns_from_s(1e11) == UINT64_MAX);
    for (uint64_t ns = 1; ns < (1ULL << 52); ns = ns * 3 + 1)
        ck_assert(lk_ns_from_s(lk_s_from_ns(ns)) == ns);
}
END_TEST

/* A host process may have any locale; if none with a comma is installed, C must still work. */
START_TEST(any_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C.UTF-8"};
    char buf[40];
    double v = 0;

    for (size_t i = 0; i < LK_COUNT(names) && !setlocale(LC_ALL, names[i]); i++)
        continue;
    ck_assert_int_eq(lk_units_parse(LK_DIM_NONE, "1.5", &v), LK_OK);
    ck_assert_double_eq(v, 1.5);
    ck_assert_int_eq(lk_units_parse(LK_DIM_NONE, "1,5", &v), LK_EUSAGE);
    ck_assert_str_eq(lk_units_format(LK_DIM_TIME, 1.5, buf, sizeof buf), "1.50 s");
    ck_assert_str_eq(lk_units_exact(LK_DIM_TIME, 1.5, buf, sizeof buf), "1.5s");
    ck_assert_ptr_eq(uselocale((locale_t)0), LC_GLOBAL_LOCALE); /* the thread's is as it was */
}
END_TEST

START_TEST(intervals)
{
    char buf[64];

    ck_assert_str_eq(lk_units_interval(LK_DIM_TIME, 0.0144, 0.0142, 0.0146, buf, sizeof buf),
                     "14.2 to 14.6");
    ck_assert_str_eq(lk_units_interval(LK_DIM_TIME, 0.001, 0.00098, 0.00102, buf, sizeof buf),
                     "980 us to 1.02 ms");
    ck_assert_str_eq(lk_units_interval(LK_DIM_NONE, 2, 1, 3, buf, sizeof buf), "1.00 to 3.00");
}
END_TEST

SUITE(units, c)
{
    tcase_add_loop_test(c, reads, 0, (int)LK_COUNT(good));
    tcase_add_loop_test(c, refuses, 0, (int)LK_COUNT(bad));
    tcase_add_loop_test(c, asks_which_unit, 0, LK_COUNT(unclear));
    tcase_add_test(c, messages_list_the_units);
    tcase_add_test(c, factors);
    tcase_add_loop_test(c, formats_for_people, 0, (int)LK_COUNT(shown));
    tcase_add_test(c, format_respects_the_buffer);
    tcase_add_loop_test(c, exact_is_short, 0, (int)LK_COUNT(exact));
    tcase_add_loop_test(c, round_trips, LK_DIM_NONE, LK_DIM_PRICE + 1);
    tcase_add_test(c, random_text_is_no_number);
    tcase_add_test(c, whole_numbers);
    tcase_add_test(c, plain_doubles);
    tcase_add_test(c, nanoseconds);
    tcase_add_test(c, any_locale);
    tcase_add_test(c, intervals);
}
