/* lockstep import: takes in what other programs measured: traces of runs, or times of collectives.
 */
#include "base/file.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/import_impl.h"
#include "commands/paths.h"
#include "facts/bounds.h"
#include "profiler/import/import_files.h"
#include "profiler/import/training_log.h"

#include <stddef.h>

#define OPTION(...) ROW(struct import_options, __VA_ARGS__)

static const char *const step_names[] = {"launch", "gpu", NULL};

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("local-batch", local_batch, INT, .min = 1, .max = 1e6, .group = "traces",
           .help = "samples of a micro-batch on one rank, if the files do not say; of traces without it a micro-batch counts as one"),
    OPTION("world-size", world_size, INT, .min = 1, .max = LK_RANKS_MAX,
           .help = "ranks of the job, if the traces do not say (default: the number of files)"),
    OPTION("comm-kernels", comm_kernels, TEXT,
           .help = "kernels whose names contain one of these, apart by commas, are communication, as NCCL's are"),
    OPTION("step-range", step_range, TEXT,
           .help = "ranges whose names start with this are steps, beside ProfilerStep: NVTX ranges, user annotations"),
    OPTION("steps-by", steps_by, CHOICE, .choices = step_names, .fallback = "launch",
           .help = "GPU work is of the step that launched it, as HTA counts, or of the one in which it runs"),
    OPTION("drop-last", drop_last, FLAG,
           .help = "leave out the last step, as HTA does: its work may be cut off"),
    OPTION("collectives", bench.csv, FILE, .role = LK_ROLE_INPUT, .group = "collectives",
           .help = "CSV with columns collective, gpus, nodes, bytes, seconds (or time_us)"),
    BENCH_ROWS(OPTION),
    OPTION("base", base, FILE, .role = LK_ROLE_CLUSTER,
           .help = "preset or cluster file to add to: its links, devices and prices are kept"),
    OPTION("name", name, TEXT, .help = "name of the cluster; default: the base's, or 'imported'"),
    OPTION("gpu", gpu, TEXT, .help = "name of the GPU; default: the logs', the base's, or 'any'"),
    OPTION("out", out, FILE, .role = LK_ROLE_OUTPUT, .group = "output",
           .help = "run directory of traces, new or empty (imported), table of throughputs (throughput.csv), or cluster file (cluster.json)"),
    OPTION(FORCE_OPTION),
    PAGE_ROWS(OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

/* The three kinds of input; the first file tells which it is. */
static const struct {
    const char *out; /* where the result goes if --out is not given */
    enum lk_status (*import)(const struct import_options *o, const char **files, int n,
                             struct lk_page *page);
} kinds[] = {
    {"imported", import_traces},
    {"throughput.csv", import_throughput},
    {"cluster.json", import_cluster},
};

/* Return true for a folder without traces, into which NCCL Inspector wrote. */
static bool is_of_inspector(const char *folder)
{
    char **files = NULL;
    size_t n = 0;
    const bool found = !lk_import_is(folder) && lk_point_files(&folder, 1, &files, &n) == LK_OK;

    lk_names_free(files, n);
    return found;
}

static size_t kind_of(const char *const *files, int n)
{
    if (n > 0 && (lk_is_folder(files[0]) ? !is_of_inspector(files[0]) : lk_import_is(files[0])))
        return 0;
    return n > 0 && lk_training_log_is(files[0]) ? 1 : 2;
}

static enum lk_status run(void *options, const char **files, int n, struct lk_page *page)
{
    struct import_options *o = options;
    size_t kind;

    for (int i = 0; i < n; i++)
        LK_PASS(lk_file_check(files[i]));
    kind = kind_of(files, n);
    o->out = o->out ? o->out : kinds[kind].out;
    LK_PASS(check_paths(rows, o, files, n));
    return kinds[kind].import(o, files, n, page);
}

const struct lk_command lk_command_import = {
    .name = "import",
    .usage = "[TRACE... | TRAINING-LOG... | NCCL-TESTS-LOG...]",
    .help = "make a run directory of traces, a table of logged throughputs, or a cluster file of "
            "measured collectives",
    .options = rows,
    .size = sizeof(struct import_options),
    .operands_max = 4096,
    .tables = TABLES("traces", "throughputs", "sizes", "points", "fits", "effects"),
    .run = run,
};
