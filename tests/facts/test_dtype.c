/* Element types: names, sizes, and conversions over all 65536 halves. */
#include "base/array.h"
#include "facts/dtype.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static uint32_t bits(float v)
{
    uint32_t u;

    memcpy(&u, &v, sizeof u);
    return u;
}

START_TEST(names)
{
    static const size_t bytes[] = {4, 2, 2, 8, 4, 8, 1};
    enum lk_dtype t;

    ck_assert_uint_eq(LK_COUNT(bytes), LK_DTYPE_COUNT);
    for (int i = 0; i < LK_DTYPE_COUNT; i++) {
        ck_assert_int_eq(lk_words_find(&lk_dtype_words, lk_dtype_name((enum lk_dtype)i), &t),
                         LK_OK);
        ck_assert_int_eq((int)t, i);
        ck_assert_uint_eq(lk_dtype_bytes(t), bytes[i]);
    }
    ck_assert_int_eq(lk_words_find(&lk_dtype_words, "floats", &t), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "'floats' is not a dtype (known: float32 float16 bfloat16 "
                                      "float64 int32 int64 uint8)");
}
END_TEST

static const struct {
    const char *name;
    enum lk_dtype dtype;
} spellings[] = {
    {"bf16", LK_BF16},  {"BF16", LK_BF16}, {"BFloat16", LK_BF16}, {"torch.bfloat16", LK_BF16},
    {"fp16", LK_F16},   {"half", LK_F16},  {"float16", LK_F16},   {"F16", LK_F16},
    {"fp32", LK_F32},   {"f32", LK_F32},   {"float", LK_F32},     {"torch.float32", LK_F32},
    {"double", LK_F64}, {"FP64", LK_F64},
};

START_TEST(other_spellings)
{
    enum lk_dtype t = LK_U8;

    ck_assert_int_eq(lk_words_find(&lk_dtype_words, spellings[_i].name, &t), LK_OK);
    ck_assert_int_eq(t, spellings[_i].dtype);
}
END_TEST

/* The long word finds the short one of a list. */
START_TEST(spellings_go_both_ways)
{
    static const char *const hooks[] = {"none", "fp16", "bf16"};
    static const struct lk_words words = {.what = "a hook", .names = hooks, .n = LK_COUNT(hooks)};
    int i;

    ck_assert(lk_words_match(&words, "bfloat16", &i));
    ck_assert_int_eq(i, 2);
    ck_assert(lk_words_match(&words, "half", &i));
    ck_assert_int_eq(i, 1);
    ck_assert(!lk_words_match(&words, "float32", &i));
}
END_TEST

/* The value of a half by its definition. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 0x1F;
    double mantissa = h & 0x3FF;
    double v = exponent == 31  ? (mantissa > 0 ? NAN : INFINITY)
               : exponent == 0 ? ldexp(mantissa, -24)
                               : ldexp(1024 + mantissa, exponent - 25);

    return h & 0x8000 ? -v : v;
}

START_TEST(every_half)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float v = lk_f32_from_f16((uint16_t)h);
        double expected = half_value((uint16_t)h);

        if (isnan(expected)) {
            ck_assert(isnan(v));
            ck_assert(isnan(lk_f32_from_f16(lk_f16_from_f32(v))));
            continue;
        }
        ck_assert_msg((double)v == expected, "%04x is %g, not %g", h, (double)v, expected);
        ck_assert_uint_eq(lk_f16_from_f32(v), h);
    }
}
END_TEST

/* Between two neighbours: the middle goes to the even one, a little off it to the nearer one. */
START_TEST(half_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7BFF; h++) {
        float low = lk_f32_from_f16((uint16_t)h);
        float high = lk_f32_from_f16((uint16_t)(h + 1));
        float middle = (low + high) / 2;

        ck_assert_uint_eq(lk_f16_from_f32(middle), h + (h & 1));
        ck_assert_uint_eq(lk_f16_from_f32(nextafterf(middle, 0)), h);
        ck_assert_uint_eq(lk_f16_from_f32(nextafterf(middle, INFINITY)), h + 1);
        ck_assert_uint_eq(lk_f16_from_f32(-middle), 0x8000 | (h + (h & 1)));
    }
}
END_TEST

static const struct {
    float value;
    uint16_t half;
} edges[] = {
    {0.0F, 0x0000},         {-0.0F, 0x8000},     {1.0F, 0x3C00},     {65504.0F, 0x7BFF},
    {65519.99F, 0x7BFF},    {65520.0F, 0x7C00},  {1e30F, 0x7C00},    {-1e30F, 0xFC00},
    {INFINITY, 0x7C00},     {-INFINITY, 0xFC00}, {0x1p-24F, 0x0001}, {0x1p-25F, 0x0000},
    {0x1.8p-25F, 0x0001},   {1e-30F, 0x0000},    {0x1p-14F, 0x0400}, {0x1.ff8p-15F, 0x03FF},
    {0x1.ffcp-15F, 0x0400},
};

START_TEST(half_edges)
{
    ck_assert_uint_eq(lk_f16_from_f32(edges[_i].value), edges[_i].half);
}
END_TEST

START_TEST(every_bfloat)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float v = lk_f32_from_bf16((uint16_t)h);

        ck_assert_uint_eq(bits(v), h << 16);
        if (isnan(v))
            ck_assert(isnan(lk_f32_from_bf16(lk_bf16_from_f32(v))));
        else
            ck_assert_uint_eq(lk_bf16_from_f32(v), h);
    }
}
END_TEST

START_TEST(bfloat_rounds_to_nearest_even)
{
    uint32_t u = 0x7F800001; /* a NaN whose payload is all in the part that is cut */
    float nan_low;

    for (uint32_t h = 0; h < 0x7F7F; h++) {
        uint32_t middle = (h << 16) + 0x8000;
        float v;

        memcpy(&v, &middle, sizeof v);
        ck_assert_uint_eq(lk_bf16_from_f32(v), h + (h & 1));
        ck_assert_uint_eq(lk_bf16_from_f32(nextafterf(v, 0)), h);
        ck_assert_uint_eq(lk_bf16_from_f32(nextafterf(v, INFINITY)), h + 1);
    }
    ck_assert_uint_eq(lk_bf16_from_f32(3.4e38F), 0x7F80); /* beyond the largest: infinity */
    memcpy(&nan_low, &u, sizeof nan_low);
    ck_assert(isnan(lk_f32_from_bf16(lk_bf16_from_f32(nan_low))));
    ck_assert(isnan(lk_f32_from_f16(lk_f16_from_f32(nan_low))));
}
END_TEST

/* Conversions of arrays agree with those of single numbers, for each floating type. */
START_TEST(arrays_convert_as_numbers_do)
{
    static const float in[] = {0, 1, -2.5F, 3.14159274F, 6.1e-5F, 65504, -1e-8F};
    enum lk_dtype t = (enum lk_dtype)_i;
    double out[LK_COUNT(in)]; /* as wide as any */
    float back[LK_COUNT(in)];

    if (!lk_dtype_is_float(t))
        return;
    lk_dtype_from_f32(t, out, in, LK_COUNT(in));
    lk_dtype_to_f32(t, back, out, LK_COUNT(in));
    for (size_t i = 0; i < LK_COUNT(in); i++) {
        ck_assert_float_eq(back[i], (float)lk_dtype_at(t, out, i));
        /* 2^-24 is half of the last place of a subnormal half */
        ck_assert_double_le(fabs((double)back[i] - (double)in[i]),
                            lk_dtype_unit_roundoff(t) * fabs((double)in[i]) +
                                (t == LK_F16 ? 0x1p-25 : 0));
    }
}
END_TEST

START_TEST(traits)
{
    ck_assert(lk_dtype_has_masters(LK_BF16) && lk_dtype_has_masters(LK_F16));
    ck_assert(!lk_dtype_has_masters(LK_F32) && !lk_dtype_has_masters(LK_F64));
    ck_assert(!lk_dtype_has_masters(LK_U8) && !lk_dtype_is_float(LK_I32));
    ck_assert_double_eq(lk_dtype_unit_roundoff(LK_BF16), 0x1p-8);
    ck_assert_str_eq(lk_dtype_torch_name(LK_BF16), "BFloat16");
}
END_TEST

SUITE(dtype, c)
{
    tcase_add_loop_test(c, arrays_convert_as_numbers_do, 0, LK_DTYPE_COUNT);
    tcase_add_test(c, traits);
    tcase_add_test(c, names);
    tcase_add_loop_test(c, other_spellings, 0, LK_COUNT(spellings));
    tcase_add_test(c, spellings_go_both_ways);
    tcase_add_test(c, every_half);
    tcase_add_test(c, half_rounds_to_nearest_even);
    tcase_add_loop_test(c, half_edges, 0, (int)LK_COUNT(edges));
    tcase_add_test(c, every_bfloat);
    tcase_add_test(c, bfloat_rounds_to_nearest_even);
}
