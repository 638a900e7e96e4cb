/* A temporary directory for the files of one test. */
#ifndef LK_TESTS_SCRATCH_H
#define LK_TESTS_SCRATCH_H

#include <stddef.h>

/* Make a directory under $TMPDIR or /tmp; aborts the test on failure. */
char *scratch_create(void);
/* Make a directory and use it for the locks of GPUs from now on (runtime/device/gpu_claim.h). */
char *scratch_create_for_gpus(void);
/* Remove it with its contents, and free the name. */
void scratch_remove(char *dir);

/* A checked fixture that makes and removes a directory of each test. */
extern char *scratch_dir;
void scratch_set_up(void);
void scratch_tear_down(void);

/* Return "DIR/NAME"; the caller frees it. */
char *scratch_path(const char *dir, const char *name);
/* Return the text of DIR/NAME, which the caller frees; the test fails if it cannot be read. */
char *scratch_read(const char *dir, const char *name);
/* The test fails unless two files of the directory have the same bytes. */
void scratch_same(const char *dir, const char *a, const char *b);
/* Write n bytes to scratch_dir/name, gzipped where that ends in ".gz"; return the path, which the
 * caller frees. */
char *scratch_put(const char *name, const void *data, size_t n);

#endif
