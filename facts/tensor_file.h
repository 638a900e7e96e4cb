/*
 * Files of named tensors in the safetensors format (github.com/huggingface/safetensors): eight
 * bytes with the length of a header, little endian; the header, JSON with the type, shape and place
 * of each tensor, and texts under "__metadata__"; the tensors, one behind the other. Any reader of
 * the format reads them. The text "checksum" is the checksum (base/checksum.h) of the whole file
 * with zeros in that place, so that a damaged file is not taken for a whole one.
 *
 *     LK_TRY(lk_tensor_file_lay_out(&f, texts, n_texts, rows, n_rows));
 *     memcpy(f.rows[i].data, ...); ...
 *     lk_tensor_file_seal(&f);
 *     LK_TRY(lk_tensor_file_write(&f, path));
 */
#ifndef LK_FACTS_TENSOR_FILE_H
#define LK_FACTS_TENSOR_FILE_H

#include "base/status.h"
#include "facts/dtype.h"

#include <stddef.h>
#include <stdint.h>

struct lk_tensor_text {
    char key[80];
    char value[4096]; /* a path at most */
};

struct lk_tensor_row {
    char name[192];
    enum lk_dtype dtype;
    size_t elems;
    void *data; /* in the file's image; not aligned: copy with memcpy */
};

/* A zeroed one is empty. */
struct lk_tensor_file {
    char *image; /* the file's bytes */
    size_t bytes, capacity;
    char *checksum; /* in the image: 16 hexadecimal digits */
    struct lk_tensor_row *rows;
    size_t n_rows, rows_capacity;
    struct lk_tensor_text *texts;
    size_t n_texts;
};

/* Make the image of a file with these texts and tensors, whose data are not set. f may have an
 * image already, whose memory is used again. No key is "checksum". */
enum lk_status lk_tensor_file_lay_out(struct lk_tensor_file *f, const struct lk_tensor_text *texts,
                                      size_t n_texts, const struct lk_tensor_row *rows,
                                      size_t n_rows);
/* Write the checksum into the image. */
void lk_tensor_file_seal(struct lk_tensor_file *f);
/* Write the image: to a temporary file, to the disk, and then in place of an old one. */
enum lk_status lk_tensor_file_write(const struct lk_tensor_file *f, const char *path);

/* Read a file and check all of it. LK_EPARSE names the file and what is wrong with it. */
enum lk_status lk_tensor_file_read(const char *path, struct lk_tensor_file *out);
/* Return the value of a text, or NULL. */
const char *lk_tensor_file_text(const struct lk_tensor_file *f, const char *key);
/* Return the tensor of this name, or NULL. */
const struct lk_tensor_row *lk_tensor_file_row(const struct lk_tensor_file *f, const char *name);
void lk_tensor_file_fini(struct lk_tensor_file *f); /* safe on a zeroed one */

#endif
