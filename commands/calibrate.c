/*
 * lockstep calibrate: what this machine's collectives take, and how ranks on it slow each other.
 *
 * Started by hand it launches ranks, once for each count; started as a rank (by itself, torchrun,
 * mpirun or srun) it measures. Under another launcher there is one count, and rank 0 writes the
 * cluster file.
 */
#include "commands/calibrate.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "commands/cluster_table.h"
#include "commands/command.h"
#include "commands/common_rows.h"
#include "reports/print.h"
#include "sim/coll_fit.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const struct lk_option rows[] = {
    {.name = "ranks",
     .letter = 'n',
     .type = LK_OPT_INTS,
     .offset = offsetof(struct calibrate_options, ranks),
     .min = 2,
     .max = 1024,
     .fallback = "2",
     .group = "sweep",
     .help = "counts of local ranks to measure, each in a run of its own"},
    {.name = "collectives",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct calibrate_options, collectives),
     .fallback = "all_reduce",
     .help = "collectives to time, separated by commas"},
    {.name = "algorithms",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct calibrate_options, algorithms),
     .fallback = "auto,ring,tree",
     .help = "algorithms to time, separated by commas"},
    {.name = "sizes",
     .type = LK_OPT_SIZES,
     .offset = offsetof(struct calibrate_options, sizes),
     .min = 4,
     .max = 1e11,
     .fallback = "4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB,64MiB",
     .help = "bytes of a collective"},
    {.name = "repetitions",
     .type = LK_OPT_INT,
     .offset = offsetof(struct calibrate_options, repetitions),
     .min = 3,
     .max = 100000,
     .fallback = "20",
     .help = "samples of each row, interleaved over the rows"},
    {.name = "warmup",
     .type = LK_OPT_INT,
     .offset = offsetof(struct calibrate_options, warmup),
     .min = 0,
     .max = 1000,
     .fallback = "2",
     .help = "samples before them that do not count"},
    {.name = "budget",
     .type = LK_OPT_TIME,
     .offset = offsetof(struct calibrate_options, budget_s),
     .min = 0,
     .max = 1e6,
     .fallback = "20s",
     .help = "time after which the collectives of a count stop early; half of it for the rest"},
    {.name = "colocation",
     .type = LK_OPT_FLAG,
     .offset = offsetof(struct calibrate_options, colocation),
     .fallback = "yes",
     .help = "measure how ranks that only compute slow each other"},
    {.name = "overlap",
     .type = LK_OPT_FLAG,
     .offset = offsetof(struct calibrate_options, overlap),
     .fallback = "yes",
     .help = "measure how compute and all-reduces slow each other"},
    {.name = "overlap-bytes",
     .type = LK_OPT_SIZE,
     .offset = offsetof(struct calibrate_options, overlap_bytes),
     .min = 1024,
     .max = 1e11,
     .fallback = "4MiB",
     .help = "bytes of the all-reduces in that probe"},
    {.name = "pin",
     .type = LK_OPT_FLAG,
     .offset = offsetof(struct calibrate_options, pin),
     .fallback = "yes",
     .group = "machine",
     .help = "bind each rank to a CPU where there are enough"},
    {.name = "timeout",
     .type = LK_OPT_TIME,
     .offset = offsetof(struct calibrate_options, timeout_s),
     .min = 0.1,
     .max = 1e6,
     .fallback = "60s",
     .help = "longest wait for another rank"},
    {.name = "out",
     .type = LK_OPT_FILE,
     .offset = offsetof(struct calibrate_options, out),
     .fallback = "cluster.json",
     .group = "output",
     .help = "cluster file to write"},
    {.name = "name",
     .type = LK_OPT_TEXT,
     .offset = offsetof(struct calibrate_options, name),
     .help = "name of the cluster; default: the host's"},
    {ROW_FORMAT(struct calibrate_options)},
    {ROW_LOG(struct calibrate_options)},
    {0}
};
/* clang-format on */

/* From a rank's failure to SIGTERM for the others. */
#define GRACE_NS (5 * LK_NS_PER_S)

/* ---- Tables ---- */

static const struct lk_column effect_columns[] = {
    {"effect", "effect",      LK_DIM_NONE, -1},
    {"value",  "value",       LK_DIM_NONE, 3 },
    {"lo",     "from",        LK_DIM_NONE, 3 },
    {"hi",     "to",          LK_DIM_NONE, 3 },
    {"source", "measured by", LK_DIM_NONE, -1},
};

static enum lk_status effect_row(struct lk_table *t, const struct lk_quantity *q, const char *text)
{
    enum lk_status st = LK_OK;

    if (!lk_quantity_known(q))
        return LK_OK;
    LK_TRY(lk_table_row(t));
    LK_TRY(lk_table_text(t, "effect", "%s", text));
    LK_TRY(lk_table_number(t, "value", q->value));
    LK_TRY(lk_table_number(t, "lo", q->lo));
    LK_TRY(lk_table_number(t, "hi", q->hi));
    LK_TRY(lk_table_text(t, "source", "%s", q->source));
out:
    return st;
}

static enum lk_status effect_table(const struct lk_cluster *c, struct lk_table **out)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_table_create("How ranks slow each other, relative", effect_columns,
                           LK_COUNT(effect_columns), out));
    for (size_t i = 0; i < c->n_kappa; i++)
        LK_TRY(effect_row(*out, &c->kappa[i].kappa, "kappa: compute, by co-located ranks"));
    LK_TRY(effect_row(*out, &c->gamma_wait, "gamma_wait: compute, by a waiting collective"));
    LK_TRY(effect_row(*out, &c->gamma_wire, "gamma_wire: compute, by a moving collective"));
    LK_TRY(effect_row(*out, &c->delta, "delta: a collective, by compute"));
    LK_TRY(effect_row(*out, &c->rank_sd, "sd between ranks"));
    LK_TRY(effect_row(*out, &c->transient_sd, "sd from time to time"));
    LK_TRY(effect_row(*out, &c->common_sd, "sd of all ranks in common"));
    LK_TRY(effect_row(*out, &c->tail_share, "tail: share of micro-batches"));
    LK_TRY(effect_row(*out, &c->tail_scale, "tail: mean excess"));
out:
    return st;
}

/* Where the numbers that there is one of come from, and why some are missing. */
static enum lk_status effect_notes(struct lk_table *t, const struct calibrate_options *o,
                                   const struct lk_cluster *c, int least)
{
    enum lk_status st = LK_OK;

    if (lk_quantity_known(&c->delta))
        LK_TRY(lk_table_note(t, "overlap: %s, %zu samples", c->delta.source, (size_t)c->delta.n));
    else if (o->overlap && least > c->gpus_per_node)
        LK_TRY(lk_table_note(t,
                             "overlap not probed: %d ranks on %d usable CPU%s; compute and "
                             "collectives would share a CPU, which is co-location",
                             least, c->gpus_per_node, c->gpus_per_node == 1 ? "" : "s"));
    if (lk_quantity_known(&c->transient_sd))
        LK_TRY(lk_table_note(t, "sds: %s", c->transient_sd.source));
    for (size_t i = 0; i < c->n_slow; i++)
        LK_TRY(lk_table_note(t, "rank %d stands out: %.2f times as long as the others (%s)",
                             c->slow[i].rank, c->slow[i].compute.value, c->slow[i].compute.source));
out:
    return st;
}

static enum lk_status print(const struct calibrate_options *o, const struct lk_cluster *c,
                            int least)
{
    enum lk_status st = LK_OK;
    struct lk_table *tables[3] = {NULL};

    LK_TRY(cluster_point_table(c, &tables[0]));
    LK_TRY(cluster_fit_table(c, &tables[1]));
    LK_TRY(effect_table(c, &tables[2]));
    LK_TRY(effect_notes(tables[2], o, c, least));
    LK_TRY(lk_table_note(tables[2], "cluster file: %s", o->out));
    LK_TRY(lk_report_tables((const struct lk_table *const *)tables, LK_COUNT(tables),
                            (enum lk_format)o->format, "-"));
out:
    for (size_t i = 0; i < LK_COUNT(tables); i++)
        lk_table_destroy(tables[i]);
    return st;
}

/* ---- The cluster file ---- */

static int usable_cpus(void)
{
    cpu_set_t set;

    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

static enum lk_status set_header(const struct calibrate_options *o, int nodes, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    char host[256] = "";

    if (gethostname(host, sizeof host - 1))
        return lk_fail(LK_EIO, "gethostname: %s", strerror(errno));
    LK_TRY(lk_strdup(&c->name, o->name ? o->name : host));
    LK_TRY(lk_strdup(&c->gpu, "cpu"));
    c->nodes = nodes;
    c->gpus_per_node = usable_cpus();
out:
    return st;
}

/* Fits, writes and prints. least: the fewest ranks that our launcher started, or 0. */
static enum lk_status finish(const struct calibrate_options *o, struct lk_cluster *c, int least)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_coll_fit_cluster(c, 1));
    LK_TRY(lk_cluster_write(o->out, c));
    LK_TRY(print(o, c, least));
out:
    return st;
}

/* ---- Launching ---- */

/* The same command line for the ranks: they parse it again. */
static enum lk_status child_argv(char *program, char *command, int argc, char **argv, char ***out)
{
    enum lk_status st = LK_OK;
    char **v = NULL;

    LK_TRY(lk_alloc(&v, (size_t)argc + 3, sizeof *v));
    v[0] = program;
    v[1] = command;
    for (int i = 0; i < argc; i++)
        v[i + 2] = argv[i];
    *out = v;
out:
    return st;
}

static enum lk_status launch_one(const struct calibrate_options *o, char **argv, int ranks,
                                 struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_cluster part = {0};
    char crowded[] = CALIBRATE_NO_OVERLAP_ENV "=1";
    char *env[] = {NULL, NULL, NULL}, *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s.part.%ld", o->out, (long)getpid()));
    LK_TRY(lk_asprintf(&env[0], "%s=%s", CALIBRATE_PART_ENV, path));
    if (ranks > usable_cpus())
        env[1] = crowded;
    LK_TRY(lk_launch(&(struct lk_launch_config){.ranks = ranks,
                                                .argv = argv,
                                                .env = (const char *const *)env,
                                                .grace_ns = GRACE_NS,
                                                .timeout_ns = UINT64_MAX,
                                                .pin = o->pin}));
    LK_TRY(lk_cluster_read(path, &part));
    LK_TRY(calibrate_merge(c, &part));
out:
    if (path)
        unlink(path);
    lk_cluster_fini(&part);
    free(env[0]);
    free(path);
    return st;
}

/* By count, each once: points and kappas of a cluster file are in that order. */
static void sort_ranks(struct lk_ints *r)
{
    int n = 0;

    for (int i = 1; i < r->n; i++)
        for (int j = i; j > 0 && r->v[j - 1] > r->v[j]; j--) {
            int64_t t = r->v[j];

            r->v[j] = r->v[j - 1];
            r->v[j - 1] = t;
        }
    for (int i = 0; i < r->n; i++)
        if (!n || r->v[n - 1] != r->v[i])
            r->v[n++] = r->v[i];
    r->n = n;
}

static enum lk_status run_launcher(struct calibrate_options *o, int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c;
    char program[] = "lockstep", command[] = "calibrate";
    struct lk_writer *probe = NULL;
    char **child = NULL;

    lk_cluster_init(&c);
    /* Before minutes are measured: can the file be made? */
    LK_TRY(lk_writer_open(o->out, false, &probe));
    lk_writer_abandon(probe);
    sort_ranks(&o->ranks);
    LK_TRY(child_argv(program, command, argc, argv, &child));
    LK_TRY(set_header(o, 1, &c));
    for (int i = 0; i < o->ranks.n; i++)
        LK_TRY(launch_one(o, child, (int)o->ranks.v[i], &c));
    LK_TRY(finish(o, &c, (int)o->ranks.v[0]));
out:
    free(child);
    lk_cluster_fini(&c);
    return st;
}

/* Rank 0 hands its part to our launcher or, under another one, makes the file itself. */
static enum lk_status run_rank(const struct calibrate_options *o, const struct lk_rank_env *env)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = {0};
    const char *part = getenv(CALIBRATE_PART_ENV);

    LK_TRY(calibrate_rank(o, env, &c));
    if (env->rank != 0)
        goto out;
    LK_TRY(set_header(o, env->nodes, &c));
    if (part)
        LK_TRY(lk_cluster_write(part, &c));
    else
        LK_TRY(finish(o, &c, 0));
out:
    lk_cluster_fini(&c);
    return st;
}

static enum lk_status run(int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct calibrate_options o;
    struct calibrate_plan plan;
    struct lk_rank_env env;
    int operands = 0;

    LK_TRY(lk_option_parse(rows, &o, argc, argv, NULL, 0, &operands));
    LK_TRY(lk_log_configure(o.log));
    LK_TRY(calibrate_plan(&o, &plan));
    LK_TRY(lk_rank_env_read(&env));
    st = env.present ? run_rank(&o, &env) : run_launcher(&o, argc, argv);
out:
    return st;
}

const struct lk_command lk_command_calibrate = {
    .name = "calibrate",
    .usage = "",
    .help = "time collectives, overlap and co-location here",
    .options = rows,
    .run = run,
};
