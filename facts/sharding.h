/*
 * Sharding schemes: which rank keeps what, and how a step's gradients and parameters travel. A
 * scheme is a row of traits; training (runtime/train/sharded.h), memory (sim/planning/memory.h),
 * collectives (sim/step/volume.h) and ranks' waiting (sim/step/config.h) ask for the trait and know
 * no scheme.
 */
#ifndef LK_FACTS_SHARDING_H
#define LK_FACTS_SHARDING_H

#include "base/words.h"

#include <stdbool.h>

/* The ranks among which a scheme divides what it shards, and the optimizer's work. */
enum lk_sharers {
    LK_SHARERS_NONE,
    LK_SHARERS_ALL,
    LK_SHARERS_GROUP /* of lk_config's shard_group; between groups gradients are all-reduced */
};

/*
 * X(reduction, name, help): the micro-batches of a step whose gradients are reduced. SCATTER is of
 * schemes that scatter gradients in a group and all-reduce them between groups; of others it is
 * EVERY.
 */
#define LK_REDUCTION_LIST(X)                                                                       \
    X(LK_REDUCTION_EVERY, "every", "gradients of every micro-batch are reduced")                   \
    X(LK_REDUCTION_LAST, "last", "of the last alone: a rank keeps whole gradients until then")     \
    X(LK_REDUCTION_SCATTER, "scatter", "hsdp: all-reduced in the last, scattered in every one")

enum lk_reduction { LK_REDUCTION_LIST(LK_WORD_VALUE) LK_REDUCTION_COUNT };

/* A scheme's library reduces so where nothing else is asked for. */
enum lk_reduced {
    LK_REDUCED_AS_JOB, /* DDP: the last with no_sync, else every */
    LK_REDUCED_LAST,   /* ZeRO-1 of DeepSpeed; late gradients */
    LK_REDUCED_EVERY   /* ZeRO-2 and 3; FSDP, and HSDP with its all-reduce (pytorch#126166) */
};

/* When parameters are gathered. */
enum lk_gathers {
    LK_GATHERS_NONE,
    LK_GATHERS_AFTER,   /* all, once the optimizer has stepped */
    LK_GATHERS_FORWARD, /* each unit before its forward, kept through backward */
    LK_GATHERS_TWICE    /* each unit before its forward and before its backward */
};

/* When ranks wait for each other. */
enum lk_pace {
    LK_PACE_STEP,   /* in every step */
    LK_PACE_PERIOD, /* when parameters are averaged, every averaging_period steps; in a shard group,
                       if there is one, in every step */
    LK_PACE_BOUNDED /* for the gradients of the step `staleness` steps ago; 0: in every step */
};

struct lk_sharding_traits {
    enum lk_sharers sharers;
    bool parameters, gradients, states; /* divided among the sharers in memory */
    bool buckets;  /* a rank holds copies of gradients in buckets (DDP's reducer) */
    bool units;    /* a rank holds one gathered unit at a time */
    int copies;    /* further fp32 copies of the parameters */
    bool scatters; /* gradients are reduce-scattered, else all-reduced */
    enum lk_reduced reduced;
    enum lk_gathers gathers;
    enum lk_pace pace;
};

/*
 * X(scheme, name, help, traits of lk_sharding_traits that are not 0). FSDP's SHARD_GRAD_OP holds
 * all parameters from forward to the end of backward: its peak. DiLoCo keeps the parameters of the
 * last averaging and an outer momentum (arXiv:2311.08105).
 */
#define LK_SHARDING_OTHERS(X)                                                                      \
    X(LK_SHARDING_ZERO1, "zero1", "optimizer states are sharded", .sharers = LK_SHARERS_ALL,       \
      .states = true, .buckets = true, .scatters = true, .reduced = LK_REDUCED_LAST,               \
      .gathers = LK_GATHERS_AFTER)                                                                 \
    X(LK_SHARDING_ZERO2, "zero2", "optimizer states and gradients are sharded",                    \
      .sharers = LK_SHARERS_ALL, .gradients = true, .states = true, .units = true,                 \
      .scatters = true, .reduced = LK_REDUCED_EVERY, .gathers = LK_GATHERS_AFTER)                  \
    X(LK_SHARDING_ZERO3, "zero3", "parameters too; FSDP's FULL_SHARD", .sharers = LK_SHARERS_ALL,  \
      .parameters = true, .gradients = true, .states = true, .units = true, .scatters = true,      \
      .reduced = LK_REDUCED_EVERY, .gathers = LK_GATHERS_TWICE)                                    \
    X(LK_SHARDING_GRAD_OP, "shard-grad-op", "FSDP: parameters are kept through backward",          \
      .sharers = LK_SHARERS_ALL, .gradients = true, .states = true, .units = true,                 \
      .scatters = true, .reduced = LK_REDUCED_EVERY, .gathers = LK_GATHERS_FORWARD)                \
    X(LK_SHARDING_HSDP, "hsdp", "full sharding in groups, all-reduce between them",                \
      .sharers = LK_SHARERS_GROUP, .parameters = true, .gradients = true, .states = true,          \
      .units = true, .scatters = true, .reduced = LK_REDUCED_EVERY, .gathers = LK_GATHERS_TWICE)   \
    X(LK_SHARDING_LOCAL_SGD, "local-sgd", "parameters are averaged every period of steps",         \
      .pace = LK_PACE_PERIOD)                                                                      \
    X(LK_SHARDING_DILOCO, "diloco", "an outer optimizer every period of steps", .copies = 2,       \
      .pace = LK_PACE_PERIOD)                                                                      \
    X(LK_SHARDING_ASYNC, "async", "gradients are applied some steps late: bounded staleness",      \
      .buckets = true, .reduced = LK_REDUCED_LAST, .pace = LK_PACE_BOUNDED)
#define LK_SHARDING_LIST(X)                                                                        \
    X(LK_SHARDING_DDP, "ddp", "every rank keeps all; gradients are all-reduced", .buckets = true)  \
    LK_SHARDING_OTHERS(X)

enum lk_sharding { LK_SHARDING_LIST(LK_WORD_VALUE) LK_SHARDING_COUNT };

/* The names, separated by commas: a text. */
#define LK_SHARDING_COMMA_(scheme, name, ...) ", " name
#define LK_SHARDING_NAMES                     "ddp" LK_SHARDING_OTHERS(LK_SHARDING_COMMA_)

LK_WORDS_DECLARE(lk_sharding, enum lk_sharding);
LK_WORDS_DECLARE(lk_reduction, enum lk_reduction);
const struct lk_sharding_traits *lk_sharding_traits(enum lk_sharding s);

#endif
