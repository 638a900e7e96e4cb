/*
 * The configuration that tests of training start from: a model and a run so small that they can be
 * repeated many times, on one rank, with samples for little more than an epoch. Tests change the
 * fields under test.
 */
#ifndef LK_TESTS_SMALL_TRAIN_H
#define LK_TESTS_SMALL_TRAIN_H

#include "runtime/train/trainer.h"

/* pre: for a fake device the caller sets the device's calls. */
struct lk_train_config small_train(const char *device, int steps);

#endif
