/* The scale of the loss: its rule, and how options say it. (In training: test_precision.c.) */
#include "runtime/train/scaler.h"

#include "base/array.h"
#include "tests/rigs/suite.h"

#include <string.h>

/* Worked out by hand from grad_scaler.py of PyTorch 1.13 and its _amp_update_scale_, whose kernel
 * is for GPUs alone: '+' is a finite step, '-' one that overflowed. */
static const struct {
    const char *steps;
    double start;
    int interval;
    double scale;
    int64_t good, skipped;
} rules[] = {
    {"", 65536, 2000, 65536, 0, 0},
    {"+", 65536, 2000, 65536, 1, 0},
    {"-", 65536, 2000, 32768, 0, 1},
    {"---", 65536, 2000, 8192, 0, 3},
    {"+++", 65536, 3, 131072, 0, 0},
    {"++-+++", 65536, 3, 65536, 0, 1},
    {"++++++++", 65536, 3, 262144, 2, 0},
    {"+-+-+-", 8, 2, 1, 0, 3},
    {"++", 0x1p127, 1, 0x1p127, 0, 0}, /* twice that is infinite */
    {"-", 1, 1, 0.5, 0, 1},
};

START_TEST(scale_follows_the_rule)
{
    const struct lk_scaler_config c = {LK_LOSS_SCALE_AUTO, rules[_i].start, rules[_i].interval};
    struct lk_scaler s;

    ck_assert_int_eq(lk_scaler_init(&s, &c, LK_F16), LK_OK);
    for (const char *at = rules[_i].steps; *at; at++)
        lk_scaler_step(&s, *at == '+');
    ck_assert_double_eq((double)s.scale, rules[_i].scale);
    ck_assert_int_eq(s.good, rules[_i].good);
    ck_assert_int_eq(s.skipped, rules[_i].skipped);
}
END_TEST

static const struct {
    const char *text;
    enum lk_loss_scale kind; /* in float16; AUTO: the text is refused */
    double start;
    bool in_float32;
} texts[] = {
    {"auto", LK_LOSS_SCALE_DYNAMIC, 65536, false},
    {"dynamic", LK_LOSS_SCALE_DYNAMIC, 65536, true},
    {"dynamic:1024", LK_LOSS_SCALE_DYNAMIC, 1024, true},
    {"none", LK_LOSS_SCALE_NONE, 65536, false},
    {"128", LK_LOSS_SCALE_FIXED, 128, true},
    {"0.5", LK_LOSS_SCALE_FIXED, 0.5, true},
    {"0", LK_LOSS_SCALE_AUTO, 0, false},
    {"-2", LK_LOSS_SCALE_AUTO, 0, false},
    {"nan", LK_LOSS_SCALE_AUTO, 0, false},
    {"1e39", LK_LOSS_SCALE_AUTO, 0, false},
    {"12x", LK_LOSS_SCALE_AUTO, 0, false},
    {"dynamic:", LK_LOSS_SCALE_AUTO, 0, false},
    {"fixed", LK_LOSS_SCALE_AUTO, 0, false},
    {"", LK_LOSS_SCALE_AUTO, 0, false},
};

START_TEST(scale_is_read)
{
    struct lk_scaler_config c = {.growth_interval = 7};
    enum lk_status st = lk_scaler_parse(texts[_i].text, &c);

    if (texts[_i].kind == LK_LOSS_SCALE_AUTO) {
        ck_assert_int_eq(st, LK_EUSAGE);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), texts[_i].text));
        return;
    }
    ck_assert_int_eq(st, LK_OK);
    ck_assert_int_eq(lk_scaler_kind(&c, LK_F16), texts[_i].kind);
    ck_assert_int_eq(lk_scaler_scales(&c, LK_F32), texts[_i].in_float32);
    ck_assert_double_eq(c.start, texts[_i].start);
    ck_assert_int_eq(c.growth_interval, 7);
}
END_TEST

SUITE(scaler, c)
{
    tcase_add_loop_test(c, scale_follows_the_rule, 0, LK_COUNT(rules));
    tcase_add_loop_test(c, scale_is_read, 0, LK_COUNT(texts));
}
