/*
 * The inverse of a forecast: which of the configurations asked for reach a goal with a probability
 * that is given, and the smallest, the cheapest and the fastest of them.
 *
 * A goal is a time to train so many samples, what that may cost, a rate, or several of these
 * together. Time and cost are the plan's (sim/planning/plan.h): past the critical batch the samples
 * that are needed grow. The probability is the share of Monte Carlo draws in which all are reached:
 * a draw has its step and, the same for all configurations, its noise scale, price and failures.
 * A configuration reaches the goal if its estimate does, and the draws' quantile of that
 * probability: the end of an interval of level 2 p - 1, as `predict --level` prints it.
 *
 * Chosen are configurations that fit in a GPU's memory, as far as that is known, and learn: for a
 * rate alone, which no samples weigh, a step may not have more samples than the noise scale. A
 * sharded one is chosen only where plain DDP does not fit, unless a sharded run was seen. Of those
 * that the model cannot tell apart the one with fewest changes of the current settings is named.
 *
 * All configurations are estimated; the forecast has those alone that can be an answer
 * (sim/forecast/goal_screen.c).
 */
#ifndef LK_SIM_FORECAST_GOAL_H
#define LK_SIM_FORECAST_GOAL_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_goal {
    double deadline_s, budget, throughput_per_s; /* 0: not asked for */
    double probability;                          /* at least 0.5 */
    bool has_samples; /* the time is of samples that were asked for, else of any so many */
    bool has_price;   /* costs are money, else hours of GPUs */
};

/* X(limit, words): what can keep a configuration from a goal. */
#define LK_GOAL_LIMIT_LIST(X)                                                                      \
    X(LK_GOAL_MEMORY, "the memory of a GPU")                                                       \
    X(LK_GOAL_BATCH, "the critical batch")                                                         \
    X(LK_GOAL_DEADLINE, "the deadline")                                                            \
    X(LK_GOAL_BUDGET, "the budget")                                                                \
    X(LK_GOAL_RATE, "the throughput")

enum lk_goal_limit { LK_GOAL_LIMIT_LIST(LK_WORD_VALUE) LK_GOAL_LIMIT_COUNT };

/* Indices of points of the forecast; SIZE_MAX: none. */
struct lk_goal_answer {
    size_t smallest, cheapest, fastest; /* of those that reach the goal */
    bool cheaper, faster; /* another one costs or takes less, by less than the model's error */
    size_t nearest;       /* where none does: the likeliest that fits and learns */
    /* Where none reaches the goal, this alone keeps the point `without` from it; COUNT: nothing
     * does alone. It is the figure that is missed by least, if there are several. */
    enum lk_goal_limit limit;
    size_t without;
    size_t n_chosen, n_reach; /* points that can be chosen, and that reach the goal */
};

#endif
