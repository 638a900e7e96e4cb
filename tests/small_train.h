/*
 * The run that tests of training make: of a model so small and so short that it can be repeated
 * many times, on one rank, with samples for little more than an epoch. Tests change what they are
 * about.
 */
#ifndef LK_TESTS_SMALL_TRAIN_H
#define LK_TESTS_SMALL_TRAIN_H

#include "runtime/trainer.h"

/* pre: the caller says the device's calls, where it is not a real one. */
struct lk_train_config small_train(const char *device, int steps);

#endif
