/* The sampler: indices as recorded from PyTorch, and invariants of shuffling. */
#include "base/file.h"
#include "runtime/train/data.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lk_sampler *make(size_t samples, int ranks, int rank, bool shuffle, bool drop_last)
{
    struct lk_sampler_config c = {.samples = samples,
                                  .ranks = ranks,
                                  .rank = rank,
                                  .shuffle = shuffle,
                                  .uneven = drop_last ? LK_UNEVEN_DROP : LK_UNEVEN_PAD,
                                  .seed = 7};
    struct lk_sampler *s = NULL;

    ck_assert_int_eq(lk_sampler_create(&c, &s), LK_OK);
    return s;
}

/* One line of the golden: samples ranks drop_last rank count index... */
static void check_line(char *line)
{
    size_t field[5];
    struct lk_sampler *s;
    char *at = line;

    for (size_t i = 0; i < 5; i++)
        field[i] = strtoul(at, &at, 10);
    s = make(field[0], (int)field[1], (int)field[3], false, field[2] != 0);
    ck_assert_msg(lk_sampler_count(s) == field[4], "%s: got %zu", line, lk_sampler_count(s));
    for (size_t i = 0; i < field[4]; i++) {
        size_t want = strtoul(at, &at, 10);

        ck_assert_msg(lk_sampler_index(s, i) == want, "%s: sample %zu is %zu", line, i,
                      lk_sampler_index(s, i));
    }
    lk_sampler_destroy(s);
}

START_TEST(as_pytorch)
{
    char *text;
    char *rest;
    char *line;
    size_t size;
    int lines = 0;

    ck_assert_int_eq(lk_file_read("tests/data/sampler_torch.txt", &text, &size), LK_OK);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (*line != '#') {
            check_line(line);
            lines++;
        }
    ck_assert_int_eq(lines, 506);
    free(text);
}
END_TEST

/* All ranks together read every sample, and the padding repeats the
 * beginning of the epoch's order. */
START_TEST(shuffled_epochs_are_permutations)
{
    enum { N = 23, R = 4 };
    int seen[N] = {0};
    size_t head[R];

    for (int r = 0; r < R; r++) {
        struct lk_sampler *s = make(N, R, r, true, false);

        lk_sampler_set_epoch(s, 3);
        head[r] = lk_sampler_index(s, 0);
        for (size_t i = 0; i < lk_sampler_count(s); i++)
            seen[lk_sampler_index(s, i)]++;
        lk_sampler_destroy(s);
    }
    for (size_t i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], 1 + (i == head[0]));
}
END_TEST

START_TEST(dropping_repeats_nothing)
{
    enum { N = 23, R = 4 };
    int seen[N] = {0};

    for (int r = 0; r < R; r++) {
        struct lk_sampler *s = make(N, R, r, true, true);

        ck_assert_uint_eq(lk_sampler_count(s), 5);
        for (size_t i = 0; i < lk_sampler_count(s); i++)
            ck_assert_int_eq(seen[lk_sampler_index(s, i)]++, 0);
        lk_sampler_destroy(s);
    }
}
END_TEST

/* Epochs differ, an epoch is the same whenever it is asked for, and depends on seed + epoch. */
START_TEST(seed_plus_epoch)
{
    struct lk_sampler_config c = {.samples = 50, .ranks = 1, .shuffle = true, .seed = 8};
    struct lk_sampler *a = make(50, 1, 0, true, false); /* seed 7 */
    struct lk_sampler *b = NULL;
    size_t first[50];
    int moved = 0;

    ck_assert_int_eq(lk_sampler_create(&c, &b), LK_OK);
    for (size_t i = 0; i < 50; i++)
        first[i] = lk_sampler_index(a, i);
    lk_sampler_set_epoch(a, 1);
    for (size_t i = 0; i < 50; i++) {
        moved += lk_sampler_index(a, i) != first[i];
        ck_assert_uint_eq(lk_sampler_index(a, i), lk_sampler_index(b, i));
    }
    ck_assert_int_gt(moved, 25);
    lk_sampler_set_epoch(a, 0);
    for (size_t i = 0; i < 50; i++)
        ck_assert_uint_eq(lk_sampler_index(a, i), first[i]);
    lk_sampler_destroy(a);
    lk_sampler_destroy(b);
}
END_TEST

static const struct lk_sampler_config bad[] = {
    {.samples = 0, .ranks = 1},
    {.samples = 5, .ranks = 0},
    {.samples = 5, .ranks = 2, .rank = 2},
    {.samples = 5, .ranks = 2, .rank = -1},
};

START_TEST(bad_configurations)
{
    struct lk_sampler *s = NULL;

    ck_assert_int_eq(lk_sampler_create(&bad[_i], &s), LK_EUSAGE);
    ck_assert_ptr_null(s);
}
END_TEST

SUITE(sampler, c)
{
    tcase_add_test(c, as_pytorch);
    tcase_add_test(c, shuffled_epochs_are_permutations);
    tcase_add_test(c, dropping_repeats_nothing);
    tcase_add_test(c, seed_plus_epoch);
    tcase_add_loop_test(c, bad_configurations, 0, sizeof bad / sizeof *bad);
}
