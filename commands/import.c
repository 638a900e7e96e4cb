/* lockstep import: makes a cluster file of collectives that other programs measured. */
#include "base/array.h"
#include "base/bounds.h"
#include "base/log.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/inputs.h"
#include "commands/output.h"
#include "profiler/bench_log.h"
#include "sim/collective/alpha_beta_fit.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *csv, *where, *collective, *base, *name, *gpu, *out;
    int64_t gpus, nodes;
    int place, format;
    const char *log;
};

/* The order of enum lk_bench_place. */
static const char *const place_names[] = {"in", "out", NULL};

#define OPTION(...) ROW(struct options, __VA_ARGS__)

/* clang-format off */
static const struct lk_option rows[] = {
    OPTION("collectives", csv, FILE, .group = "input",
           .help = "CSV with columns collective, gpus, nodes, bytes, seconds (or time_us)"),
    OPTION("where", where, TEXT,
           .help = "read only the rows of the CSV in which a column contains a text: gpu=H100, interconnect=EFA"),
    OPTION("place", place, CHOICE, .choices = place_names, .fallback = "in",
           .help = "which of nccl-tests' two times: in place, as DDP reduces, or out of place"),
    OPTION("collective", collective, TEXT,
           .help = "collective of the logs, if they do not name it"),
    OPTION("gpus", gpus, INT, .min = 1, .max = LK_RANKS_MAX,
           .help = "GPUs of the runs, if the logs do not say"),
    OPTION("nodes", nodes, INT, .min = 1, .max = LK_RANKS_MAX,
           .help = "nodes of the runs, if the logs do not say"),
    OPTION("base", base, FILE, .group = "output",
           .help = "preset or cluster file to add to: its links, devices and prices are kept"),
    OPTION("name", name, TEXT, .help = "name of the cluster; default: the base's, or 'imported'"),
    OPTION("gpu", gpu, TEXT, .help = "name of the GPU; default: the logs', the base's, or 'any'"),
    OPTION("out", out, FILE, .fallback = "cluster.json", .help = "cluster file to write"),
    OPTION(FORMAT_OPTION),
    OPTION(LOG_OPTION),
    {0}
};
/* clang-format on */

static enum lk_status read_files(const struct options *o, const char **files, int n,
                                 struct lk_bench *b)
{
    enum lk_status st = LK_OK;
    struct lk_bench_hints hints = {.coll = o->collective,
                                   .ranks = (int)o->gpus,
                                   .nodes = (int)o->nodes,
                                   .where = o->where,
                                   .place = (enum lk_bench_place)o->place};

    if (!n && !o->csv)
        return lk_fail(LK_EUSAGE, "nothing to read: name nccl-tests logs, or a CSV with "
                                  "--collectives");
    if (o->where && !o->csv)
        return lk_fail(LK_EUSAGE, "--where needs --collectives");
    for (int i = 0; i < n; i++)
        LK_TRY(lk_bench_read_nccl_tests(files[i], &hints, b));
    if (o->csv)
        LK_TRY(lk_bench_read_csv(o->csv, &hints, b));
    if (b->n_other)
        lk_log(LK_LOG_MAIN, LK_WARN,
               "left out %zu rows of collectives that a cluster file cannot hold", b->n_other);
    if (b->n_wrong)
        lk_log(LK_LOG_MAIN, LK_WARN, "left out %zu rows in which nccl-tests found wrong results",
               b->n_wrong);
    if (!b->n_points)
        st = lk_fail(LK_EPARSE,
                     "%s: no valid row of all_reduce, reduce_scatter, all_gather or "
                     "broadcast",
                     n ? files[0] : o->csv);
out:
    return st;
}

/* Set the GPUs of a node: the base's, or else the most that a run had. LK_EPARSE: a run had more
 * than the base. */
static enum lk_status set_shape(const struct lk_bench *b, struct lk_cluster *c)
{
    int most = 1;
    const struct lk_cluster_point *which = &b->points[0];

    for (size_t i = 0; i < b->n_points; i++)
        if (b->points[i].ranks / b->points[i].nodes > most) {
            which = &b->points[i];
            most = which->ranks / which->nodes;
        }
    if (!c->gpus_per_node)
        c->gpus_per_node = most;
    if (most > c->gpus_per_node)
        return lk_fail(LK_EPARSE, "%s: %d GPUs on %d nodes, but a node of the base has %d",
                       which->time_s.source, which->ranks, which->nodes, c->gpus_per_node);
    return LK_OK;
}

static enum lk_status set_text(char **to, const char *option, const char *log, const char *fallback)
{
    char *text = NULL;

    if (!option && !log && *to)
        return LK_OK;
    LK_PASS(lk_strdup(&text, option ? option : log ? log : fallback));
    free(*to);
    *to = text;
    return LK_OK;
}

/* Move the points of b behind those of c. */
static enum lk_status add_points(struct lk_bench *b, struct lk_cluster *c)
{
    size_t capacity = c->n_points;

    LK_PASS(lk_array_grow(&c->points, &capacity, c->n_points + b->n_points, sizeof *c->points));
    memcpy(c->points + c->n_points, b->points, b->n_points * sizeof *b->points);
    c->n_points += b->n_points;
    b->n_points = 0;
    return LK_OK;
}

static enum lk_status print(const struct options *o, const struct lk_bench *b,
                            const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_table *tables[2] = {NULL};

    LK_TRY(cluster_point_table(c, &tables[0]));
    LK_TRY(cluster_fit_table(c, &tables[1]));
    LK_TRY(lk_table_note(tables[1], "GPU: %s%s%s; %d a node", c->gpu,
                         b->nccl_version ? "; NCCL " : "", b->nccl_version ? b->nccl_version : "",
                         c->gpus_per_node));
    LK_TRY(lk_table_note(tables[1], "cluster file: %s", o->out));
out:
    return tables_finish(st, tables, LK_COUNT(tables), o->format);
}

static enum lk_status run(void *options, const char **files, int n)
{
    const struct options *o = options;
    enum lk_status st = LK_OK;
    struct lk_bench b = {0};
    struct lk_cluster c;

    lk_cluster_init(&c);
    if (o->base)
        LK_TRY(find_cluster(o->base, &c));
    LK_TRY(read_files(o, files, n, &b));
    LK_TRY(set_shape(&b, &c));
    LK_TRY(set_text(&c.gpu, o->gpu, b.gpu, "any"));
    LK_TRY(set_text(&c.name, o->name, NULL, "imported"));
    LK_TRY(add_points(&b, &c));
    c.preset = false;
    LK_TRY(lk_alpha_beta_fit_cluster(&c, 1));
    LK_TRY(lk_cluster_write(o->out, &c));
    LK_TRY(print(o, &b, &c));
out:
    lk_bench_fini(&b);
    lk_cluster_fini(&c);
    return st;
}

const struct lk_command lk_command_import = {
    .name = "import",
    .usage = "[NCCL-TESTS-LOG...]",
    .help = "make a cluster file from nccl-tests output or a table of collectives",
    .options = rows,
    .size = sizeof(struct options),
    .operands_max = 256,
    .run = run,
};
