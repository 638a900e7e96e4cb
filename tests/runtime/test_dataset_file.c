/* Files of images and of wide tokens: what they hold, and what is said of bad ones. */
#include "base/array.h"
#include "runtime/train/data.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CIFAR_RECORD = 3073, CIFAR_PIXELS = 3072, MAX_BYTES = 3 * CIFAR_RECORD };

/* ---- Texts ---- */

START_TEST(wide_tokens)
{
    static const uint8_t bytes[] = {1, 0, 2, 1, 3, 0, 4, 2, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0};
    const struct lk_sample_shape shape = lk_sample_text(2);
    char *path = scratch_put("tokens.bin", bytes, sizeof bytes);
    struct lk_dataset *d = NULL;
    int32_t in[2], target[2];

    ck_assert_int_eq(lk_dataset_file(path, LK_DATA_UINT16, &shape, 600, &d), LK_OK);
    ck_assert_uint_eq(lk_dataset_samples(d), 4);
    ck_assert_int_eq(lk_dataset_read(d, 0, in, target), LK_OK);
    ck_assert_int_eq(in[0], 1);
    ck_assert_int_eq(in[1], 258);
    ck_assert_int_eq(target[1], 3);
    ck_assert_int_eq(lk_dataset_read(d, 1, in, target), LK_OK);
    ck_assert_int_eq(target[0], 516);
    lk_dataset_destroy(d);
    ck_assert_int_eq(lk_dataset_file(path, LK_DATA_UINT32, &shape, 1 << 30, &d), LK_OK);
    ck_assert_uint_eq(lk_dataset_samples(d), 2);
    ck_assert_int_eq(lk_dataset_read(d, 0, in, target), LK_OK);
    ck_assert_int_eq(in[0], 1 + (258 << 16));
    ck_assert_int_eq(target[0], in[1]);
    lk_dataset_destroy(d);
    free(path);
}
END_TEST

/* ---- Images ---- */

/* Write records of CIFAR-10: image i has label labels[i], and pixels that count up from i. */
static char *put_cifar(const uint8_t *labels, size_t n, size_t bytes)
{
    static uint8_t file[MAX_BYTES];

    for (size_t i = 0; i < n; i++) {
        file[i * CIFAR_RECORD] = labels[i];
        for (size_t k = 0; k < CIFAR_PIXELS; k++)
            file[i * CIFAR_RECORD + 1 + k] = (uint8_t)(i + k % 251);
    }
    return scratch_put("data_batch_1.bin", file, bytes);
}

START_TEST(cifar10)
{
    const struct lk_sample_shape shape = lk_sample_image(3, 32, 32);
    char *path = put_cifar((const uint8_t[]){6, 9, 0}, 3, MAX_BYTES);
    struct lk_dataset *d = NULL;
    uint8_t pixels[CIFAR_PIXELS];
    int32_t class = -1;

    ck_assert_msg(lk_dataset_file(path, LK_DATA_AUTO, &shape, 10, &d) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_uint_eq(lk_dataset_samples(d), 3);
    ck_assert_int_eq(lk_dataset_read(d, 1, pixels, &class), LK_OK);
    ck_assert_int_eq(class, 9);
    for (size_t k = 0; k < CIFAR_PIXELS; k++)
        ck_assert_uint_eq(pixels[k], 1 + k % 251);
    lk_dataset_destroy(d);
    free(path);
}
END_TEST

/* A row says what is wrong with a pair of MNIST's files. */
struct mnist {
    uint8_t magic, labels_magic; /* last byte */
    uint8_t images, labels;      /* numbers in the headers */
    size_t missing;              /* bytes of images that are not there */
    uint8_t label;               /* of the last image */
};
enum { SIDE = 4 };

static char *put_mnist(const struct mnist *m)
{
    uint8_t images[16 + 3 * SIDE * SIDE] = {0, 0, 8, m->magic, 0, 0, 0, m->images,
                                            0, 0, 0, SIDE,     0, 0, 0, SIDE};
    const uint8_t labels[] = {0, 0, 8, m->labels_magic, 0, 0, 0, m->labels, 5, 1, m->label};

    for (size_t i = 16; i < sizeof images; i++)
        images[i] = (uint8_t)i;
    free(scratch_put("train-labels-idx1-ubyte", labels, sizeof labels));
    return scratch_put("train-images-idx3-ubyte", images, sizeof images - m->missing);
}

START_TEST(mnist)
{
    const struct lk_sample_shape shape = lk_sample_image(1, SIDE, SIDE);
    char *path = put_mnist(&(struct mnist){3, 1, 3, 3, 0, 9});
    struct lk_dataset *d = NULL;
    uint8_t pixels[SIDE * SIDE];
    int32_t class = -1;

    ck_assert_msg(lk_dataset_file(path, LK_DATA_AUTO, &shape, 12, &d) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_uint_eq(lk_dataset_samples(d), 3);
    ck_assert_int_eq(lk_dataset_read(d, 2, pixels, &class), LK_OK);
    ck_assert_int_eq(class, 9);
    ck_assert_uint_eq(pixels[3], 16 + 2 * SIDE * SIDE + 3);
    lk_dataset_destroy(d);
    free(path);
}
END_TEST

/* ---- Bad files ---- */

/* Open a data set, and read all of it; the test fails unless the error says `message`. */
static void expect(const char *path, enum lk_data_format format, const struct lk_sample_shape *s,
                   int classes, const char *message)
{
    struct lk_dataset *d = NULL;
    enum lk_status st = lk_dataset_file(path, format, s, classes, &d);
    uint8_t inputs[CIFAR_PIXELS * 4];
    int32_t targets[64];

    for (size_t i = 0; st == LK_OK && i < lk_dataset_samples(d); i++)
        st = lk_dataset_read(d, i, inputs, targets);
    ck_assert_msg(st == LK_EUSAGE || st == LK_EPARSE, "%s: %d", message, st);
    ck_assert_msg(strstr(lk_error_text(), message) != NULL, "'%s' has no '%s'", lk_error_text(),
                  message);
    ck_assert_msg(!strncmp(lk_error_text(), scratch_dir, strlen(scratch_dir)), "%s",
                  lk_error_text());
    lk_dataset_destroy(d);
}

START_TEST(bad_texts)
{
    static const uint8_t bytes[] = {1, 0, 2, 0, 3, 0, 4};
    const struct lk_sample_shape text = lk_sample_text(1), long_text = lk_sample_text(4);
    char *path = scratch_put("tokens.bin", bytes, sizeof bytes);

    expect(path, LK_DATA_UINT16, &text, 100, "7 bytes are no whole number of uint16 tokens");
    expect(path, LK_DATA_UINT32, &text, 100, "7 bytes are too few for one sample of 1 tokens");
    expect(path, LK_DATA_UINT16, &long_text, 100, "7 bytes are too few for one sample of 4 tokens");
    expect(path, LK_DATA_CIFAR10, &text, 100, "cifar10 is a format of images, and the model takes");
    expect(path, LK_DATA_BYTES, &text, 255, "need a vocabulary of 256, not 255");
    free(path);
    path = scratch_put("even.bin", bytes, 6);
    expect(path, LK_DATA_UINT16, &text, 3, "token 2 is 3, the vocabulary has 3");
    free(path);
}
END_TEST

START_TEST(bad_cifar10)
{
    const struct lk_sample_shape shape = lk_sample_image(3, 32, 32);
    const struct lk_sample_shape large = lk_sample_image(3, 224, 224);
    char *path = put_cifar((const uint8_t[]){6, 10}, 2, CIFAR_RECORD + 100);

    expect(path, LK_DATA_AUTO, &shape, 10, "3173 bytes are no whole number of CIFAR-10's records");
    expect(path, LK_DATA_UINT16, &shape, 10, "uint16 is a format of texts, and the model takes");
    free(path);
    path = put_cifar((const uint8_t[]){6, 10}, 2, CIFAR_RECORD + CIFAR_RECORD);
    expect(path, LK_DATA_AUTO, &shape, 10, "image 1 has label 10, which is not in 0..9");
    expect(path, LK_DATA_AUTO, &large, 10,
           "an image of 3 x 32 x 32, the model takes an image of 3 x 224 x 224");
    expect(path, LK_DATA_AUTO, &shape, 9, "has 10 classes, the model 9");
    expect(path, LK_DATA_MNIST, &shape, 10, "MNIST's images with 0x00000803");
    free(path);
    path = scratch_put("short", "abc", 3);
    expect(path, LK_DATA_CIFAR10, &shape, 10, "3 bytes are too few for one image");
    free(path);
}
END_TEST

static const struct {
    struct mnist files;
    const char *message;
} bad_mnist[] = {
    {{4, 1, 3, 3, 0, 9}, "train-images-idx3-ubyte: begins with 0x00000804, MNIST's images with"},
    {{3, 2, 3, 3, 0, 9}, "train-labels-idx1-ubyte: begins with 0x00000802, MNIST's labels with"},
    {{3, 1, 3, 2, 0, 9}, "train-labels-idx1-ubyte: says 2 items of 1 bytes, has 3 bytes"},
    {{3, 1, 4, 3, 0, 9}, "train-images-idx3-ubyte: says 4 items of 16 bytes, has 48 bytes"},
    {{3, 1, 0, 3, 0, 9}, "train-images-idx3-ubyte: says 0 items"},
    {{3, 1, 3, 3, 5, 9}, "train-images-idx3-ubyte: says 3 items of 16 bytes, has 43 bytes"},
    {{3, 1, 3, 3, 0, 10}, "train-labels-idx1-ubyte: image 2 has label 10"},
};

START_TEST(bad_mnist_files)
{
    const struct lk_sample_shape shape = lk_sample_image(1, SIDE, SIDE);
    char *path = put_mnist(&bad_mnist[_i].files);

    expect(path, LK_DATA_MNIST, &shape, 10, bad_mnist[_i].message);
    free(path);
}
END_TEST

START_TEST(mnist_without_labels)
{
    const struct lk_sample_shape shape = lk_sample_image(1, SIDE, SIDE);
    char *path = put_mnist(&(struct mnist){3, 1, 3, 3, 0, 9}), *other;
    char *text = NULL;
    struct lk_dataset *d = NULL;

    other = scratch_path(scratch_dir, "images");
    ck_assert_int_eq(rename(path, other), 0);
    expect(other, LK_DATA_AUTO, &shape, 10, "in a file with 'images-idx3' in its name");
    ck_assert_int_eq(rename(other, path), 0);
    text = scratch_path(scratch_dir, "train-labels-idx1-ubyte");
    ck_assert_int_eq(remove(text), 0);
    ck_assert_int_eq(lk_dataset_file(path, LK_DATA_AUTO, &shape, 10, &d), LK_EIO);
    ck_assert_msg(strstr(lk_error_text(), "train-labels-idx1-ubyte: cannot read") != NULL, "%s",
                  lk_error_text());
    free(text);
    free(other);
    free(path);
}
END_TEST

/* ---- Synthetic images ---- */

/* A function of seed and sample; images of a class are nearer to each other than to others. */
START_TEST(synthetic_images)
{
    enum { SAMPLES = 60, CLASSES = 3, PIXELS = 2 * 9 * 7 };
    const struct lk_sample_shape shape = lk_sample_image(2, 9, 7);
    struct lk_dataset *a = NULL, *b = NULL;
    static uint8_t images[SAMPLES][PIXELS];
    uint8_t again[PIXELS];
    int32_t classes[SAMPLES], class;
    double apart[2] = {0}, pairs[2] = {0};

    ck_assert_int_eq(lk_dataset_synthetic(SAMPLES, &shape, CLASSES, 3, &a), LK_OK);
    ck_assert_int_eq(lk_dataset_synthetic(2 * SAMPLES, &shape, CLASSES, 3, &b), LK_OK);
    for (size_t i = 0; i < SAMPLES; i++) {
        ck_assert_int_eq(lk_dataset_read(a, i, images[i], &classes[i]), LK_OK);
        ck_assert_int_eq(lk_dataset_read(b, i, again, &class), LK_OK);
        ck_assert(classes[i] >= 0 && classes[i] < CLASSES);
        ck_assert_int_eq(classes[i], class);
        ck_assert_mem_eq(images[i], again, PIXELS);
    }
    for (size_t i = 0; i < SAMPLES; i++)
        for (size_t k = 0; k < i; k++) {
            bool same = classes[i] == classes[k];

            for (size_t p = 0; p < PIXELS; p++)
                apart[same] += abs(images[i][p] - images[k][p]);
            pairs[same]++;
        }
    ck_assert_double_gt(pairs[0] * pairs[1], 0);
    ck_assert_double_gt(apart[0] / pairs[0], 1.1 * apart[1] / pairs[1]);
    lk_dataset_destroy(a);
    lk_dataset_destroy(b);
}
END_TEST

SUITE(dataset_file, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, wide_tokens);
    tcase_add_test(c, cifar10);
    tcase_add_test(c, mnist);
    tcase_add_test(c, bad_texts);
    tcase_add_test(c, bad_cifar10);
    tcase_add_loop_test(c, bad_mnist_files, 0, LK_COUNT(bad_mnist));
    tcase_add_test(c, mnist_without_labels);
    tcase_add_test(c, synthetic_images);
}
