/*
 * The members of a configuration as rows (base/member.h): jobs, their runs, forecasts and ledgers
 * have these keys. Each macro is the rows of some members, for the table of a struct `type`; `in`
 * is where its configuration is, `config.` or nothing. A new member has its row here, so that no
 * file lacks it.
 */
#ifndef LK_FACTS_CONFIG_ROWS_H
#define LK_FACTS_CONFIG_ROWS_H

#include "base/member.h"
#include "facts/bounds.h"
#include "facts/config.h"

/* These say how many ranks there are, and their samples: `least` is 1, or 0 where the batch may be
 * unknown, which the text `unknown` then says. */
#define LK_CONFIG_SIZE_ROWS(type, in, least, unknown)                                              \
    LK_MEMBER(type, in world_size, "gpus", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX,           \
              .help = "GPUs"),                                                                     \
        LK_MEMBER(type, in nodes, "nodes", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX,           \
                  .help = "nodes, at most as many as GPUs"),                                       \
        LK_MEMBER(type, in local_batch, "local_batch", INT, REQUIRED, .min = (least),              \
                  .max = LK_BATCH_MAX, .help = "samples a micro-batch and GPU" unknown),           \
        LK_MEMBER(type, in batches, "local_batches", CHARS, SPARSE,                                \
                  .help = "of GPUs whose batches differ, in order: 2x8+4 is 8, 8 and 4",           \
                  .without = "all have `local_batch`, else the largest of them"),                  \
        LK_MEMBER(type, in accumulation, "accumulation", INT, REQUIRED, .min = 1,                  \
                  .max = LK_ACCUMULATION_MAX, .help = "micro-batches a step")

/* These say what ranks divide, average and send. */
#define LK_CONFIG_SCHEME_ROWS(type, in)                                                            \
    LK_MEMBER(type, in sharding, "sharding", WORD, SPARSE, .words = &lk_sharding_words,            \
              .help = "what ranks divide among them"),                                             \
        LK_MEMBER(type, in shard_group, "shard_group", INT, SPARSE, .max = LK_RANKS_MAX,           \
                  .help = "ranks that share one copy of the model: hsdp",                          \
                  .without = "those of a node"),                                                   \
        LK_MEMBER(type, in averaging_period, "period", INT, SPARSE, .max = 1e9,                    \
                  .help = "steps from one averaging of parameters to the next",                    \
                  .without = "none"),                                                              \
        LK_MEMBER(type, in staleness, "staleness", INT, SPARSE, .max = LK_STALENESS_MAX,           \
                  .help = "steps by which async applies gradients late", .without = "0"),          \
        LK_MEMBER(type, in algo, "algorithm", WORD, SPARSE, .words = &lk_algo_words,               \
                  .help = "of the all-reduce, as it was asked for"),                               \
        LK_MEMBER(type, in compression, "compression", WORD, SPARSE,                               \
                  .words = &lk_compression_words, .help = "communication hook of gradients"),      \
        LK_MEMBER(type, in powersgd_rank, "powersgd_rank", INT, SPARSE,                            \
                  .max = LK_POWERSGD_RANK_MAX, .help = "rank of powersgd's factors",               \
                  .without = "no powersgd")

/* This says how collectives share a step with compute. */
#define LK_CONFIG_OVERLAP_ROW(type, in)                                                            \
    LK_MEMBER(type, in overlap, "overlap", WORD, SPARSE, .words = &lk_overlap_mode_words,          \
              .help = "how collectives overlap with compute")

/* These say what a replica is. */
#define LK_CONFIG_REPLICA_ROWS(type, in)                                                           \
    LK_MEMBER(type, in tensor_parallel, "tensor_parallel", INT, SPARSE, .min = 1,                  \
              .max = LK_RANKS_MAX,                                                                 \
              .help = "GPUs, neighbours, that split each layer; a job's times, tensors and batch " \
                      "are those of one",                                                          \
              .without = "1"),                                                                     \
        LK_MEMBER(type, in pipeline_parallel, "pipeline_parallel", INT, SPARSE, .min = 1,          \
                  .max = LK_RANKS_MAX,                                                             \
                  .help = "stages that the layers are split into; a job's times have their share " \
                          "of the stages' waits",                                                  \
                  .without = "1")

#endif
