/* Datasets: synthetic tokens, files as tokens, and unsuitable files. */
#include "runtime/train/data.h"

#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTEXT = 4 };

static char directory[] = "/tmp/lockstep-dataset-XXXXXX";
static char path[64];

static void setup(void)
{
    strcpy(directory + sizeof directory - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/text", directory);
}

static void teardown(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static enum lk_status open_bytes(const char *file, struct lk_dataset **out)
{
    const struct lk_sample_shape shape = lk_sample_text(CONTEXT);

    return lk_dataset_file(file, LK_DATA_AUTO, &shape, 256, out);
}

static void write_file(const char *text)
{
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), f), strlen(text));
    ck_assert_int_eq(fclose(f), 0);
}

/* The file's text, and the number of samples of 4 tokens and their successors in it. */
static const struct {
    const char *text;
    size_t samples;
} sizes[] = {{"abcde", 1}, {"abcdefgh", 1}, {"abcdefghi", 2}, {"abcdefghijklmnopq", 4}};

START_TEST(file_samples)
{
    struct lk_dataset *d = NULL;
    int32_t in[CONTEXT];
    int32_t target[CONTEXT];

    write_file(sizes[_i].text);
    ck_assert_int_eq(open_bytes(path, &d), LK_OK);
    ck_assert_uint_eq(lk_dataset_samples(d), sizes[_i].samples);
    for (size_t s = 0; s < sizes[_i].samples; s++) {
        ck_assert_int_eq(lk_dataset_read(d, s, in, target), LK_OK);
        for (size_t t = 0; t < CONTEXT; t++) {
            ck_assert_int_eq(in[t], sizes[_i].text[s * CONTEXT + t]);
            ck_assert_int_eq(target[t], sizes[_i].text[s * CONTEXT + t + 1]);
        }
    }
    lk_dataset_destroy(d);
}
END_TEST

START_TEST(bytes_above_127_are_tokens_above_127)
{
    struct lk_dataset *d = NULL;
    int32_t in[CONTEXT];
    int32_t target[CONTEXT];

    write_file("\xff\x80\xc3\xa9\xfe");
    ck_assert_int_eq(open_bytes(path, &d), LK_OK);
    ck_assert_int_eq(lk_dataset_read(d, 0, in, target), LK_OK);
    ck_assert_int_eq(in[0], 0xff);
    ck_assert_int_eq(target[3], 0xfe);
    lk_dataset_destroy(d);
}
END_TEST

START_TEST(too_short)
{
    struct lk_dataset *d = NULL;

    write_file("abcd");
    ck_assert_int_eq(open_bytes(path, &d), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), path));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "4 bytes"));
    ck_assert_ptr_null(d);
}
END_TEST

START_TEST(missing_and_not_regular)
{
    struct lk_dataset *d = NULL;

    ck_assert_int_eq(open_bytes(path, &d), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), path));
    ck_assert_int_eq(open_bytes(directory, &d), LK_EUSAGE);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(open_bytes(path, &d), LK_EUSAGE);
}
END_TEST

/* Reading the lost pages would end the process with SIGBUS. */
START_TEST(truncated_while_open)
{
    struct lk_dataset *d = NULL;
    int32_t in[CONTEXT];
    int32_t target[CONTEXT];

    write_file("abcdefghijklmnopq");
    ck_assert_int_eq(open_bytes(path, &d), LK_OK);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_int_eq(lk_dataset_read(d, 0, in, target), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "shorter"));
    lk_dataset_destroy(d);
}
END_TEST

/* Targets are the next inputs, tokens stay below vocab, samples differ, and three in four follow.
 */
START_TEST(synthetic)
{
    enum { LENGTH = 64, VOCAB = 50, SAMPLES = 100 };
    const struct lk_sample_shape shape = lk_sample_text(LENGTH);
    struct lk_dataset *d = NULL;
    int32_t in[LENGTH];
    int32_t target[LENGTH];
    int32_t before = -1;
    int repeats = 0;
    int follow = 0;

    ck_assert_int_eq(lk_dataset_synthetic(SAMPLES, &shape, VOCAB, 3, &d), LK_OK);
    ck_assert_uint_eq(lk_dataset_samples(d), SAMPLES);
    for (size_t s = 0; s < SAMPLES; s++) {
        ck_assert_int_eq(lk_dataset_read(d, s, in, target), LK_OK);
        repeats += in[0] == before;
        before = in[0];
        for (int t = 0; t < LENGTH; t++) {
            ck_assert(in[t] >= 0 && in[t] < VOCAB && target[t] >= 0 && target[t] < VOCAB);
            ck_assert(t == 0 || in[t] == target[t - 1]);
            follow += target[t] == (5 * in[t] + 1) % VOCAB;
        }
    }
    ck_assert_int_lt(repeats, 10);
    /* 3/4 + 1/4 * 1/50 = 0.755 of 6400, sd 0.0054: six of them either way. */
    ck_assert_double_eq_tol(follow / 6400.0, 0.755, 0.033);
    lk_dataset_destroy(d);
}
END_TEST

START_TEST(synthetic_is_a_function_of_seed_and_sample)
{
    const struct lk_sample_shape shape = lk_sample_text(16);
    struct lk_dataset *a = NULL;
    struct lk_dataset *b = NULL;
    int32_t in[2][16];
    int32_t target[2][16];

    ck_assert_int_eq(lk_dataset_synthetic(10, &shape, 256, 3, &a), LK_OK);
    ck_assert_int_eq(lk_dataset_synthetic(99, &shape, 256, 3, &b), LK_OK);
    ck_assert_int_eq(lk_dataset_read(a, 7, in[0], target[0]), LK_OK);
    ck_assert_int_eq(lk_dataset_read(b, 2, in[1], target[1]), LK_OK);
    ck_assert_int_ne(memcmp(in[0], in[1], sizeof in[0]), 0);
    ck_assert_int_eq(lk_dataset_read(b, 7, in[1], target[1]), LK_OK);
    ck_assert_int_eq(memcmp(in[0], in[1], sizeof in[0]), 0);
    ck_assert_int_eq(memcmp(target[0], target[1], sizeof target[0]), 0);
    lk_dataset_destroy(a);
    lk_dataset_destroy(b);
}
END_TEST

SUITE(dataset, c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, file_samples, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(c, bytes_above_127_are_tokens_above_127);
    tcase_add_test(c, too_short);
    tcase_add_test(c, missing_and_not_regular);
    tcase_add_test(c, truncated_while_open);
    tcase_add_test(c, synthetic);
    tcase_add_test(c, synthetic_is_a_function_of_seed_and_sample);
}
