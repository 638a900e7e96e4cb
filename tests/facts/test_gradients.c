/* Gradient lists: tables of tensors, and counts of parameters. */
#include "base/array.h"
#include "facts/gradients.h"
#include "tests/rigs/bad_file.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char good[] = "name,shape,dtype\n"
                           "stem,64x3x7x7,float32\n"
                           "\"norm\",\"[64]\",float16\n"
                           "scale,scalar,\n"
                           "head,\"(1000, 2048)\",float32\n";

static void load(const char *text, struct lk_job *out, bool *timed)
{
    char path[64];

    bad_file_write(text, strlen(text), path);
    ck_assert_msg(lk_gradients_read(path, LK_BF16, out, timed) == LK_OK, "%s", lk_error_text());
    unlink(path);
}

START_TEST(shapes)
{
    struct lk_job j;
    bool timed = true;

    load(good, &j, &timed);
    ck_assert(!timed);
    ck_assert_uint_eq(j.n_tensors, 4);
    ck_assert_uint_eq(j.tensors[0].elems, 64 * 3 * 7 * 7);
    ck_assert_int_eq(j.tensors[1].dtype, LK_F16);
    ck_assert_uint_eq(j.tensors[2].elems, 1);
    ck_assert_int_eq(j.tensors[2].dtype, LK_BF16);
    ck_assert_uint_eq(j.tensors[3].elems, 2048000);
    ck_assert_uint_eq(j.ready_order[0], 3);
    ck_assert_double_eq(j.tensors[3].ready, 0.25);
    ck_assert_double_eq(j.tensors[0].ready, 1);
    lk_job_fini(&j);
}
END_TEST

START_TEST(ready_times)
{
    struct lk_job j;
    bool timed = false;

    load("name,elements,ready\na,5,0.2\nb,6,1\nc,7,0.2\n", &j, &timed);
    ck_assert(timed);
    ck_assert_uint_eq(j.ready_order[0], 2);
    ck_assert_uint_eq(j.ready_order[1], 0);
    ck_assert_uint_eq(j.ready_order[2], 1);
    lk_job_fini(&j);
}
END_TEST

static enum lk_status read_and_drop(const char *path)
{
    enum lk_status st;
    struct lk_job j = {0};
    bool timed;

    st = lk_gradients_read(path, LK_F32, &j, &timed);
    lk_job_fini(&j);
    return st;
}

static const struct bad_file bad[] = {
    {"64x3x7x7", "64x0x7x7", "shape"},
    {"64x3x7x7", "64x-3x7x7", "negative"},
    {"64x3x7x7", "99999999999x99999999999", "2^48"},
    {"64x3x7x7", "999999999999999999999999", "2^48"},
    {"float16", "float17", "no dtype"},
    {"stem", "", "name"},
    {"64x3x7x7", "", "shape"},
};

START_TEST(refused)
{
    bad_file_check(good, &bad[_i], read_and_drop);
}
END_TEST

START_TEST(refused_whole)
{
    static const char *const texts[] = {"name,elements\n",
                                        "name,dtype\na,float32\n",
                                        "elements\n5\n",
                                        "name,elements,ready\na,5,1.5\n",
                                        "name,elements,ready\na,5,\n",
                                        "name,elements\na,0\n"};
    char path[64];

    for (size_t i = 0; i < LK_COUNT(texts); i++) {
        bad_file_write(texts[i], strlen(texts[i]), path);
        ck_assert_msg(read_and_drop(path) == LK_EPARSE, "%s", texts[i]);
        unlink(path);
    }
}
END_TEST

START_TEST(counts)
{
    static const struct {
        const char *text;
        double expect; /* NaN: refused */
    } rows[] = {
        {"124M", 124e6},  {"1.5B", 1.5e9}, {"7e9", 7e9}, {"25557032", 25557032},
        {"340 M", 340e6}, {"124m", 124e6}, {"7G", 7e9},  {"2k", 2000},
        {"7X", NAN},      {"0.1", NAN},    {"-5M", NAN}, {"M", NAN},
        {"", NAN},        {"1e20", NAN},
    };
    double v;

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        ck_assert_int_eq(lk_gradients_parse_count(rows[i].text, &v),
                         isnan(rows[i].expect) ? LK_EUSAGE : LK_OK);
        if (!isnan(rows[i].expect))
            ck_assert_double_eq_tol(v, rows[i].expect, 0.5);
    }
}
END_TEST

START_TEST(of_count)
{
    static const double counts_of[] = {1, 63, 64, 124e6 + 7};
    struct lk_job j;

    for (size_t i = 0; i < LK_COUNT(counts_of); i++) {
        ck_assert_int_eq(lk_gradients_of_count(counts_of[i], LK_F16, &j), LK_OK);
        ck_assert_double_eq((double)lk_job_gradient_bytes(&j), 2 * counts_of[i]);
        lk_job_fini(&j);
    }
    ck_assert_int_eq(lk_gradients_of_count(NAN, LK_F16, &j), LK_EUSAGE);
}
END_TEST

SUITE(gradients, t)
{
    tcase_add_test(t, shapes);
    tcase_add_test(t, ready_times);
    tcase_add_loop_test(t, refused, 0, (int)LK_COUNT(bad));
    tcase_add_test(t, refused_whole);
    tcase_add_test(t, counts);
    tcase_add_test(t, of_count);
}
