/*
 * The axes of `predict` and `whatif` as options, and the lists of values that a user gave:
 *
 *     struct options { const char *axes[LK_AXIS_COUNT]; ... };
 *     static const struct lk_option rows[] = {LK_AXIS_LIST(AXIS_ROW) ...};
 */
#ifndef LK_COMMANDS_AXIS_LISTS_H
#define LK_COMMANDS_AXIS_LISTS_H

#include "base/status.h"
#include "facts/cluster.h"
#include "sim/forecast/axis.h"

#include <stddef.h>

/* The files that values of a kind name. */
#define AXIS_ROLE_COUNT  LK_ROLE_NONE
#define AXIS_ROLE_YES_NO LK_ROLE_NONE
#define AXIS_ROLE_SIZE   LK_ROLE_NONE
#define AXIS_ROLE_RATE   LK_ROLE_NONE
#define AXIS_ROLE_LINK   LK_ROLE_NONE
#define AXIS_ROLE_TIME   LK_ROLE_NONE
#define AXIS_ROLE_RATIO  LK_ROLE_NONE
#define AXIS_ROLE_WORD   LK_ROLE_NONE
#define AXIS_ROLE_NAME   LK_ROLE_CLUSTER
#define AXIS_ROLE_PLACE  LK_ROLE_NONE
#define AXIS_ROLE_SPLIT  LK_ROLE_NONE

/* Needs the command's OPTION. */
#define AXIS_ROW(axis, option, column, kind, min_, max_, text)                                     \
    OPTION(option, axes[axis], TEXT, .word = LK_AXIS_WORD_##kind, .dim = LK_AXIS_DIM_##kind,       \
           .role = AXIS_ROLE_##kind, .min = LK_AXIS_RANGED_##kind ? (min_) : 0,                    \
           .max = LK_AXIS_RANGED_##kind ? (max_) : 0,                                              \
           .former = (axis) == LK_AXIS_NODE_BANDWIDTH || (axis) == LK_AXIS_NIC_BANDWIDTH           \
                         ? "inter-bandwidth"                                                       \
                         : NULL,                                                                   \
           .help = (text)),

/* Lists of values, which stay where they are; those of an axis that was not given are NULL. */
struct axis_lists {
    struct lk_axis_value *values[LK_AXIS_COUNT];
    size_t n[LK_AXIS_COUNT];
    struct lk_cluster *gpus; /* the clusters that values of --gpu name, each once */
    char **gpu_names;
    size_t n_gpus, n_gpu_names, gpu_names_capacity;
    struct lk_gpu_mix *mixes; /* of values of --gpu that name several */
    size_t n_mixes;
};

/* Read the texts, NULL where not given; *out is zero. Call axis_lists_fini after a failure, too. */
enum lk_status axis_lists_read(const char *const texts[LK_AXIS_COUNT], struct axis_lists *out);
/* Read further axes, of which none was read before. */
enum lk_status axis_lists_add(const char *const texts[LK_AXIS_COUNT], struct axis_lists *out);
/* Ask for the lists, which the request borrows. */
void axis_lists_ask(const struct axis_lists *l, struct lk_forecast_request *q);
void axis_lists_fini(struct axis_lists *l);

#endif
