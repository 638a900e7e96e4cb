/* A directory of a test's own, for the files it makes. */
#ifndef LK_TESTS_SCRATCH_H
#define LK_TESTS_SCRATCH_H

/* Makes a directory under $TMPDIR or /tmp; aborts the test when it cannot. */
char *scratch_create(void);
/* The same, and the locks of GPUs lie there from now on (runtime/gpu_claim.h). */
char *scratch_create_for_gpus(void);
/* Removes it with all that is in it, and frees the name. */
void scratch_remove(char *dir);
/* "DIR/NAME", to be freed. */
char *scratch_path(const char *dir, const char *name);
/* The text of DIR/NAME, to be freed; the test fails when it cannot be read. */
char *scratch_read(const char *dir, const char *name);

#endif
