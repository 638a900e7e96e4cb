/* A data set's struct. Private to the synthetic ones and to files (dataset_file.c). */
#ifndef LK_RUNTIME_DATASET_IMPL_H
#define LK_RUNTIME_DATASET_IMPL_H

#include "runtime/train/data.h"

struct lk_dataset {
    /* As lk_dataset_read. */
    enum lk_status (*read)(const struct lk_dataset *d, size_t i, void *inputs, int32_t *targets);
    size_t samples;
    struct lk_sample_shape shape;
    int classes; /* inputs of texts, and all targets, lie below */
    /* synthetic */
    uint64_t seed;
    int8_t *patterns; /* of images: by class, plane, patch */
    /* files: the inputs, and labels if these are apart */
    struct lk_dataset_map {
        char *path;
        int fd; /* -1: not open */
        const uint8_t *bytes;
        size_t size;
    } files[2];
};

/* Say that no file is open. */
static inline void lk_dataset_file_none(struct lk_dataset *d)
{
    d->files[0].fd = d->files[1].fd = -1;
}

#endif
