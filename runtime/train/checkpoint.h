/*
 * A folder of checkpoints, and the thread that writes them there while training goes on.
 *
 * A checkpoint is a file step-000000040.safetensors (facts/tensor_file.h), of the state after so
 * many steps. It is written beside its place, to the disk, and renamed, and then the folder is
 * written to the disk: whenever the process or the machine dies, files with such names are whole.
 * The last `keep` of them stay.
 */
#ifndef LK_RUNTIME_CHECKPOINT_H
#define LK_RUNTIME_CHECKPOINT_H

#include "base/status.h"
#include "facts/tensor_file.h"

#include <stdint.h>

struct lk_checkpoints;

/* Make the folder, remove what a killed writer left half in it, and start the thread. */
enum lk_status lk_checkpoints_open(const char *dir, int keep, struct lk_checkpoints **out);
/* Finish what is being written, and free. NULL is legal. */
void lk_checkpoints_close(struct lk_checkpoints *c);

/* Return the file to lay out and fill, when the one before is written or has failed. */
struct lk_tensor_file *lk_checkpoints_take(struct lk_checkpoints *c);
/* Let the thread write the file that was taken, as of so many steps. One that cannot be written is
 * a warning: training goes on, and the files before it stay. */
void lk_checkpoints_put(struct lk_checkpoints *c, int64_t steps);
/* Wait for the last file; LK_EIO if it could not be written. */
enum lk_status lk_checkpoints_wait(struct lk_checkpoints *c);

/* ---- Reading ---- */

/* Find the newest checkpoint of a folder that is of fewer steps than `below`. LK_EIO: there is
 * none. The caller frees *out. */
enum lk_status lk_checkpoint_find(const char *dir, int64_t below, char **out);
/* Return the steps that a file's name says; -1: it is no checkpoint's name. */
int64_t lk_checkpoint_steps(const char *path);
/*
 * Read and check a checkpoint. The error of a damaged one names the one before it in its folder, if
 * that is whole.
 */
enum lk_status lk_checkpoint_read(const char *path, struct lk_tensor_file *out);

#endif
