/*
 * Data sets in files, memory-mapped:
 *
 *   bytes            each byte a token
 *   uint16, uint32   each number a token, little endian, as nanoGPT's prepare.py writes them
 *   cifar10          CIFAR-10's binary batches, which may be written one behind the other: records
 *                    of a label and 3 x 32 x 32 pixels, plane by plane
 *                    (https://www.cs.toronto.edu/~kriz/cifar.html)
 *   mnist            MNIST's idx files: images, beside them the labels, whose name has
 * "labels-idx1" for "images-idx3"
 *
 * Values are checked when they are read: that costs no pass over a file before training.
 */
#include "runtime/train/dataset_impl.h"

#include "base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const lk_data_formats[] = {LK_DATA_FORMAT_LIST(LK_WORD_NAME) NULL};

enum {
    CLASSES = 10, /* of CIFAR-10 and of MNIST */
    CIFAR_SIZE = 32,
    CIFAR_PIXELS = 3 * CIFAR_SIZE * CIFAR_SIZE,
    CIFAR_RECORD = 1 + CIFAR_PIXELS,
    /* An idx file begins with its type (8: bytes) and number of dimensions, then their sizes. */
    IDX_IMAGES = 0x00000803,
    IDX_LABELS = 0x00000801,
    IDX_IMAGES_HEADER = 16,
    IDX_LABELS_HEADER = 8
};

/* ---- Maps ---- */

/* Check the size before access: a page past the end of a truncated file raises SIGBUS. */
static enum lk_status check_size(const struct lk_dataset_map *m)
{
    struct stat s;

    if (fstat(m->fd, &s) < 0)
        return lk_fail(LK_EIO, "%s: %s", m->path, strerror(errno));
    if ((uint64_t)s.st_size < m->size)
        return lk_fail(LK_EIO, "%s: became shorter while it was read: %zu bytes, then %lld",
                       m->path, m->size, (long long)s.st_size);
    return LK_OK;
}

/* Map a file of at least `least` bytes, which `what` needs. */
static enum lk_status map_file(struct lk_dataset_map *m, const char *path, size_t least,
                               const char *what)
{
    struct stat s;
    void *map;

    LK_PASS(lk_strdup(&m->path, path));
    /* Without O_NONBLOCK a FIFO would wait for its writer for ever. */
    m->fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (m->fd < 0 || fstat(m->fd, &s) < 0)
        return lk_fail(LK_EIO, "%s: cannot read training data: %s", m->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return lk_fail(LK_EUSAGE, "%s: training data must be a regular file", m->path);
    m->size = (size_t)s.st_size;
    if (m->size < least)
        return lk_fail(LK_EUSAGE, "%s: %zu bytes are too few for %s", m->path, m->size, what);
    map = mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, m->fd, 0);
    if (map == MAP_FAILED)
        return lk_fail(LK_EIO, "%s: cannot map: %s", m->path, strerror(errno));
    m->bytes = map;
    return LK_OK;
}

/* ---- Texts ---- */

/* Return token `at` of a file of tokens of so many bytes. */
static uint32_t token_at(const uint8_t *bytes, size_t at, size_t width)
{
    uint32_t token = 0;

    for (size_t b = width; b-- > 0;)
        token = token << 8 | bytes[at * width + b];
    return token;
}

static enum lk_status read_tokens(const struct lk_dataset *d, size_t i, void *inputs,
                                  int32_t *targets, size_t width)
{
    const struct lk_dataset_map *m = &d->files[0];
    size_t context = (size_t)d->shape.width, first = i * context;
    int32_t *tokens = inputs;

    LK_PASS(check_size(m));
    for (size_t t = 0; t <= context; t++) {
        uint32_t token = token_at(m->bytes, first + t, width);

        if (token >= (uint32_t)d->classes)
            return lk_fail(LK_EPARSE, "%s: token %zu is %" PRIu32 ", the vocabulary has %d",
                           m->path, first + t, token, d->classes);
        if (t < context)
            tokens[t] = (int32_t)token;
        if (t > 0)
            targets[t - 1] = (int32_t)token;
    }
    return LK_OK;
}

#define READ_TOKENS(name, width)                                                                   \
    static enum lk_status name(const struct lk_dataset *d, size_t i, void *inputs,                 \
                               int32_t *targets)                                                   \
    {                                                                                              \
        return read_tokens(d, i, inputs, targets, width);                                          \
    }
READ_TOKENS(read_bytes, 1)
READ_TOKENS(read_uint16, 2)
READ_TOKENS(read_uint32, 4)

static enum lk_status open_text(struct lk_dataset *d, const char *path, enum lk_data_format format)
{
    struct lk_dataset_map *m = &d->files[0];
    size_t context = (size_t)d->shape.width, width;
    char what[80];

    d->read = format == LK_DATA_UINT16   ? read_uint16
              : format == LK_DATA_UINT32 ? read_uint32
                                         : read_bytes;
    width = format == LK_DATA_UINT16 ? 2 : format == LK_DATA_UINT32 ? 4 : 1;
    if (width == 1 && d->classes < 256)
        return lk_fail(LK_EUSAGE, "%s: the bytes of a file need a vocabulary of 256, not %d", path,
                       d->classes);
    snprintf(what, sizeof what, "one sample of %zu tokens and its next", context);
    LK_PASS(map_file(m, path, (context + 1) * width, what));
    if (m->size % width)
        return lk_fail(LK_EPARSE, "%s: %zu bytes are no whole number of %s tokens", path, m->size,
                       lk_data_formats[format]);
    d->samples = (m->size / width - 1) / context;
    return LK_OK;
}

/* ---- Images ---- */

static enum lk_status check_label(const struct lk_dataset_map *m, size_t record, int label)
{
    return label < CLASSES ? LK_OK
                           : lk_fail(LK_EPARSE, "%s: image %zu has label %d, which is not in 0..%d",
                                     m->path, record, label, CLASSES - 1);
}

static enum lk_status read_cifar10(const struct lk_dataset *d, size_t i, void *inputs,
                                   int32_t *targets)
{
    const struct lk_dataset_map *m = &d->files[0];
    const uint8_t *record = m->bytes + i * CIFAR_RECORD;

    LK_PASS(check_size(m));
    LK_PASS(check_label(m, i, record[0]));
    memcpy(inputs, record + 1, CIFAR_PIXELS);
    *targets = record[0];
    return LK_OK;
}

/* pre of this and of open_mnist: the file is mapped. */
static enum lk_status open_cifar10(struct lk_dataset *d, const char *path)
{
    const struct lk_dataset_map *m = &d->files[0];

    if (m->size % CIFAR_RECORD)
        return lk_fail(LK_EPARSE,
                       "%s: %zu bytes are no whole number of CIFAR-10's records of %d bytes", path,
                       m->size, CIFAR_RECORD);
    d->read = read_cifar10;
    d->samples = m->size / CIFAR_RECORD;
    d->shape = lk_sample_image(3, CIFAR_SIZE, CIFAR_SIZE);
    return LK_OK;
}

static enum lk_status read_mnist(const struct lk_dataset *d, size_t i, void *inputs,
                                 int32_t *targets)
{
    size_t pixels = lk_sample_inputs(&d->shape);
    int label = d->files[1].bytes[IDX_LABELS_HEADER + i];

    LK_PASS(check_size(&d->files[0]));
    LK_PASS(check_size(&d->files[1]));
    LK_PASS(check_label(&d->files[1], i, label));
    memcpy(inputs, d->files[0].bytes + IDX_IMAGES_HEADER + i * pixels, pixels);
    *targets = label;
    return LK_OK;
}

/* Return number `at` of an idx file's header, big endian. */
static uint32_t idx_at(const struct lk_dataset_map *m, size_t at)
{
    const uint8_t *b = m->bytes + 4 * at;

    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static enum lk_status check_idx(const struct lk_dataset_map *m, uint32_t magic, size_t header,
                                uint64_t item)
{
    uint64_t items = idx_at(m, 1);

    if (idx_at(m, 0) != magic)
        return lk_fail(LK_EPARSE, "%s: begins with 0x%08" PRIx32 ", MNIST's %s with 0x%08" PRIx32,
                       m->path, idx_at(m, 0), magic == IDX_IMAGES ? "images" : "labels", magic);
    if (items == 0 || items * item != m->size - header)
        return lk_fail(LK_EPARSE, "%s: says %" PRIu64 " items of %" PRIu64 " bytes, has %zu bytes",
                       m->path, items, item, m->size - header);
    return LK_OK;
}

/* Make the name of the labels' file; NULL when the images' has not the usual name. */
static enum lk_status labels_path(const char *images, char **out)
{
    static const char from[] = "images-idx3", to[] = "labels-idx1";
    char *at;

    *out = NULL;
    if (!strstr(images, from))
        return lk_fail(LK_EUSAGE,
                       "%s: MNIST's images are in a file with '%s' in its name, beside which is "
                       "one with '%s'",
                       images, from, to);
    LK_PASS(lk_strdup(out, images));
    for (char *next = at = strstr(*out, from); next; next = strstr(next + 1, from))
        at = next;
    memcpy(at, to, sizeof to - 1);
    return LK_OK;
}

static enum lk_status open_mnist(struct lk_dataset *d, const char *path)
{
    const struct lk_dataset_map *images = &d->files[0];
    struct lk_dataset_map *labels = &d->files[1];
    enum lk_status st = LK_OK;
    uint64_t height, width;
    char *beside = NULL;

    height = idx_at(images, 2);
    width = idx_at(images, 3);
    LK_TRY(check_idx(images, IDX_IMAGES, IDX_IMAGES_HEADER, height * width));
    if (height > 1 << 15 || width > 1 << 15)
        LK_TRY(lk_fail(LK_EPARSE, "%s: images of %" PRIu64 " x %" PRIu64, path, height, width));
    LK_TRY(labels_path(path, &beside));
    LK_TRY(map_file(labels, beside, IDX_LABELS_HEADER, "the header of an idx file"));
    LK_TRY(check_idx(labels, IDX_LABELS, IDX_LABELS_HEADER, 1));
    if (idx_at(images, 1) != idx_at(labels, 1))
        LK_TRY(lk_fail(LK_EPARSE, "%s: %" PRIu32 " labels of the %" PRIu32 " images in %s", beside,
                       idx_at(labels, 1), idx_at(images, 1), path));
    d->read = read_mnist;
    d->samples = idx_at(images, 1);
    d->shape = lk_sample_image(1, (int)height, (int)width);
out:
    free(beside);
    return st;
}

/* Check that the images are those that the model takes. */
static enum lk_status check_images(const struct lk_dataset *d, const struct lk_sample_shape *wanted)
{
    char is[64], takes[64];

    lk_sample_describe(&d->shape, is, sizeof is);
    lk_sample_describe(wanted, takes, sizeof takes);
    if (!lk_sample_equal(&d->shape, wanted))
        return lk_fail(LK_EUSAGE, "%s: each sample is an %s, the model takes an %s",
                       d->files[0].path, is, takes);
    if (d->classes < CLASSES)
        return lk_fail(LK_EUSAGE, "%s: has %d classes, the model %d", d->files[0].path, CLASSES,
                       d->classes);
    return LK_OK;
}

static enum lk_status open_images(struct lk_dataset *d, const char *path,
                                  enum lk_data_format format, const struct lk_sample_shape *wanted)
{
    LK_PASS(map_file(&d->files[0], path, IDX_IMAGES_HEADER, "one image"));
    if (format == LK_DATA_MNIST ||
        (format == LK_DATA_AUTO && idx_at(&d->files[0], 0) == IDX_IMAGES))
        LK_PASS(open_mnist(d, path));
    else
        LK_PASS(open_cifar10(d, path));
    return check_images(d, wanted);
}

/* ---- All ---- */

enum lk_status lk_dataset_file(const char *path, enum lk_data_format format,
                               const struct lk_sample_shape *shape, int classes,
                               struct lk_dataset **out)
{
    bool images = shape->dtype == LK_U8;
    bool asked = format == LK_DATA_CIFAR10 || format == LK_DATA_MNIST;
    enum lk_status st = LK_OK;
    struct lk_dataset *d = NULL;

    if (lk_sample_inputs(shape) == 0)
        return lk_fail(LK_EUSAGE, "%s: samples without inputs", path);
    if (format != LK_DATA_AUTO && images != asked)
        return lk_fail(LK_EUSAGE, "%s: %s is a format of %s, and the model takes %s", path,
                       lk_data_formats[format], asked ? "images" : "texts",
                       images ? "images" : "texts");
    LK_TRY(lk_alloc(&d, 1, sizeof *d));
    *d = (struct lk_dataset){.shape = *shape, .classes = classes};
    lk_dataset_file_none(d);
    LK_TRY(images ? open_images(d, path, format, shape) : open_text(d, path, format));
    LK_HAND_OVER(out, d);
out:
    lk_dataset_destroy(d);
    return st;
}
