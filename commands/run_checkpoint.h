/* Checkpoints of `lockstep run`: which one a run goes on from, what its files say of the run, how
 * often it starts again, and how much of the time was training that counts. */
#ifndef LK_COMMANDS_RUN_CHECKPOINT_H
#define LK_COMMANDS_RUN_CHECKPOINT_H

#include "base/page.h"
#include "base/status.h"
#include "commands/run_options.h"
#include "facts/tensor_file.h"
#include "runtime/train/trainer.h"

/* Environment variable with the lk_now_ns at which our launcher began a start, or saw the failure
 * before it. */
#define RUN_BEGAN_ENV "LOCKSTEP_BEGAN_NS"

/* Put the newest checkpoint with steps left in place of a folder that --resume names. *owned, which
 * the caller frees, keeps its path. */
enum lk_status run_checkpoint_resolve(struct run_options *o, char **owned);

/*
 * Check what a rank would find out, too: that the checkpoint to go on from is whole, and that a new
 * run does not write among the checkpoints of another. Warn of options that differ from those that
 * the checkpoint was made with. *out_before is the course up to it; zero for a new run.
 */
enum lk_status run_checkpoint_check(const struct run_options *o,
                                    struct lk_train_course *out_before);

/* Make the texts of the options for a checkpoint's file; the caller frees *out. */
enum lk_status run_checkpoint_texts(const struct run_options *o, struct lk_tensor_text **out,
                                    size_t *out_n);

/* Find the newest checkpoint of a folder that is whole and leaves steps of the run; warn of damaged
 * ones. NULL: there is none. */
enum lk_status run_checkpoint_newest(const char *dir, const struct run_options *o, char **out);

/* All starts of a run, as its launcher saw them. */
struct run_starts {
    double wall_s; /* from the first start to the end */
    int failures;
    struct lk_train_course before; /* of an earlier run that this one goes on from */
};

/* Say how much of the time was training that counts, beside what the model makes of such failures
 * and checkpoints (sim/planning/economics.h). */
enum lk_status run_checkpoint_note(const struct run_starts *s, const struct lk_train_course *c,
                                   int ranks, struct lk_page *page);

#endif
