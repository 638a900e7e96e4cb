/* lockstep import: makes a cluster file of collectives that other programs measured. */
#include "base/array.h"
#include "base/bounds.h"
#include "commands/cluster_table.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "commands/inputs.h"
#include "profiler/bench_log.h"
#include "reports/print.h"
#include "sim/collective/alpha_beta_fit.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_MAX = 256 };

struct options {
    const char *csv, *where, *collective, *base, *name, *gpu, *out;
    int64_t gpus, nodes;
    int place, format;
    const char *log;
};

/* The order of enum lk_bench_place. */
static const char *const place_names[] = {"in", "out", NULL};

/* clang-format off */
static const struct lk_option rows[] = {
    {.name = "collectives",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, csv),
     .group = "input",
     .help = "CSV with columns collective, gpus, nodes, bytes, seconds (or time_us)"},
    {.name = "where",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, where),
     .help = "read only those rows of the CSV whose column contains a text: gpu=H100, interconnect=EFA"},
    {.name = "place",
     .type = LK_OPT_CHOICE,
     .offset = offsetof(struct options, place),
     .choices = place_names,
     .fallback = "in",
     .help = "which of nccl-tests' two times: in place, as DDP reduces, or out of place"},
    {.name = "collective",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, collective),
     .help = "collective of the logs, where they do not name it"},
    {.name = "gpus",
     .type = LK_OPT_INT,
     .offset = offsetof(struct options, gpus),
     .min = 1,
     .max = LK_RANKS_MAX,
     .help = "GPUs of the runs, where the logs do not say"},
    {.name = "nodes",
     .type = LK_OPT_INT,
     .offset = offsetof(struct options, nodes),
     .min = 1,
     .max = LK_RANKS_MAX,
     .help = "nodes of the runs, where the logs do not say"},
    {.name = "base",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, base),
     .group = "output",
     .help = "preset or cluster file to add to: its links, devices and prices are kept"},
    {.name = "name",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, name),
     .help = "name of the cluster; default: the base's, or 'imported'"},
    {.name = "gpu",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct options, gpu),
     .help = "name of the GPU; default: the logs', the base's, or 'any'"},
    {.name = "out",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct options, out),
     .fallback = "cluster.json",
     .help = "cluster file to write"},
    {ROW_FORMAT(struct options)},
    {ROW_LOG(struct options)},
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
    enum lk_status st = LK_OK;

    if (!option && !log && *to)
        return LK_OK;
    LK_TRY(lk_strdup(&text, option ? option : log ? log : fallback));
    free(*to);
    *to = text;
out:
    return st;
}

/* Move the points of b behind those of c. */
static enum lk_status add_points(struct lk_bench *b, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_point *all = NULL;
    size_t n = c->n_points + b->n_points;

    LK_TRY(lk_alloc(&all, n, sizeof *all));
    if (c->n_points)
        memcpy(all, c->points, c->n_points * sizeof *all);
    memcpy(all + c->n_points, b->points, b->n_points * sizeof *all);
    free(c->points);
    free(b->points);
    b->points = NULL;
    b->n_points = b->capacity = 0;
    c->points = all;
    c->n_points = n;
out:
    return st;
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
    LK_TRY(lk_report_tables((const struct lk_table *const *)tables, LK_COUNT(tables),
                            (enum lk_format)o->format, "-"));
out:
    for (size_t i = 0; i < LK_COUNT(tables); i++)
        lk_table_destroy(tables[i]);
    return st;
}

static enum lk_status run(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    const char *files[FILES_MAX];
    int n = 0;
    struct options o;
    struct lk_bench b = {0};
    struct lk_cluster c;

    lk_cluster_init(&c);
    LK_TRY(lk_option_parse(rows, &o, argc, argv, files, FILES_MAX, &n));
    LK_TRY(lk_log_configure(o.log));
    if (o.base)
        LK_TRY(find_cluster(o.base, &c));
    LK_TRY(read_files(&o, files, n, &b));
    LK_TRY(set_shape(&b, &c));
    LK_TRY(set_text(&c.gpu, o.gpu, b.gpu, "any"));
    LK_TRY(set_text(&c.name, o.name, NULL, "imported"));
    LK_TRY(add_points(&b, &c));
    c.preset = false;
    LK_TRY(lk_alpha_beta_fit_cluster(&c, 1));
    LK_TRY(lk_cluster_write(o.out, &c));
    LK_TRY(print(&o, &b, &c));
out:
    lk_bench_fini(&b);
    lk_cluster_fini(&c);
    return st;
}

const struct lk_command lk_command_import = {
    .name = "import",
    .usage = "[NCCL-TESTS-LOG...]",
    .help = "make a cluster file of nccl-tests output or a table of collectives",
    .options = rows,
    .run = run,
};
