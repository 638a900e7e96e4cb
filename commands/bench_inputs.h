/* Measured collectives that other programs wrote, as operands and options of a command. */
#ifndef LK_COMMANDS_BENCH_INPUTS_H
#define LK_COMMANDS_BENCH_INPUTS_H

#include "base/option.h"
#include "profiler/import/bench_log.h"
#include "profiler/import/nccl_inspector.h"

struct bench_options {
    const char *csv, *where, *collective; /* NULL: not given */
    struct lk_ints gpus, nodes;
    int place; /* enum lk_bench_place */
};

/* The order of enum lk_bench_place. */
extern const char *const bench_place_names[];

/* clang-format off */
/* Rows of struct bench_options bench, but its table. */
#define BENCH_ROWS(OPTION)                                                                         \
    OPTION("where", bench.where, TEXT,                                                             \
           .help = "read only the rows of the CSV in which a column contains a text: gpu=H100, "   \
                   "interconnect=EFA"),                                                            \
    OPTION("place", bench.place, CHOICE, .choices = bench_place_names, .fallback = "in",           \
           .help = "which of nccl-tests' two times: in place, as DDP reduces, or out of place"),   \
    OPTION("collective", bench.collective, TEXT,                                                   \
           .help = "collective of the logs, if they do not name it: one for all, or one a log, "   \
                   "apart by commas"),                                                             \
    OPTION("gpus", bench.gpus, INTS, .min = 1, .max = LK_RANKS_MAX,                                \
           .help = "GPUs of the runs, if the logs do not say: one for all, or one a log"),         \
    OPTION("nodes", bench.nodes, INTS, .min = 1, .max = LK_RANKS_MAX,                              \
           .help = "nodes of the runs, if the files do not say (traces do not): one for all, or "  \
                   "one a log")
/* clang-format on */

/* Return item i of a list that has one item for all logs or one for each; 0: the list is empty. */
int bench_item_of(const struct lk_ints *list, int i);
/* LK_EUSAGE if there is neither one item for all logs, nor one for each, nor none. */
enum lk_status bench_check_items(const char *option, int items, int logs);

/* Read logs of nccl-tests and its like, NCCL Inspector's files or a folder of them, and the CSV of
 * the options. Rows that cannot be used are warned of. LK_EPARSE: no row can be. The caller ends
 * *b, after a failure as well. */
enum lk_status bench_inputs_read(const struct bench_options *o, const char **files, int n,
                                 struct lk_bench *b, struct lk_inspector *inspector);

#endif
