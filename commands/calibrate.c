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
#include "base/log.h"
#include "base/units.h"
#include "commands/cluster_table.h"
#include "commands/command.h"
#include "commands/share_gpu.h"
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
    else if (o->device == CALIBRATE_CPU && o->overlap && least > c->gpus_per_node)
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

/* What GPUs were asked to show comes before what the file has. */
static enum lk_status print(const struct calibrate_options *o, const struct lk_cluster *c,
                            const struct calibrate_tables *gpu, int least)
{
    enum { OF_FILE = 3 };
    enum lk_status st = LK_OK;
    struct lk_table *own[OF_FILE] = {NULL};
    const struct lk_table *all[OF_FILE + CALIBRATE_TABLES];
    size_t n = 0;

    LK_TRY(cluster_point_table(c, &own[0]));
    LK_TRY(cluster_fit_table(c, &own[1]));
    LK_TRY(effect_table(c, &own[2]));
    LK_TRY(effect_notes(own[2], o, c, least));
    if (o->share_gpu)
        LK_TRY(lk_table_note(own[2], "no cluster file: " SHARE_GPU_WARNING));
    else
        LK_TRY(lk_table_note(own[2], "cluster file: %s", o->out));
    for (size_t i = 0; i < CALIBRATE_TABLES; i++)
        if (gpu->table[i] && gpu->table[i]->n_rows)
            all[n++] = gpu->table[i];
    for (size_t i = 0; i < OF_FILE; i++)
        if (o->device == CALIBRATE_CPU || i + 1 == OF_FILE || own[i]->n_rows)
            all[n++] = own[i];
    LK_TRY(lk_report_tables(all, n, (enum lk_format)o->format, "-"));
out:
    for (size_t i = 0; i < OF_FILE; i++)
        lk_table_destroy(own[i]);
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
    c->nodes = nodes;
    if (o->device == CALIBRATE_CUDA)
        return LK_OK; /* rank 0 says what its GPU is */
    LK_TRY(lk_strdup(&c->gpu, "cpu"));
    c->gpus_per_node = usable_cpus();
out:
    return st;
}

/* Fits, writes and prints. least: the fewest ranks that our launcher started, or 0. */
static enum lk_status finish(const struct calibrate_options *o, struct lk_cluster *c,
                             const struct calibrate_tables *tables, int least)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_coll_fit_cluster(c, 1));
    if (!o->share_gpu)
        LK_TRY(lk_cluster_write(o->out, c));
    LK_TRY(print(o, c, tables, least));
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

/* The files that rank 0 leaves, and what it is told in its environment. */
struct part {
    char *cluster, *tables;
    char *env[5];
    size_t n_env;
};

static enum lk_status add_env(struct part *p, const char *name, const char *value)
{
    enum lk_status st = lk_asprintf(&p->env[p->n_env], "%s=%s", name, value);

    p->n_env += st == LK_OK;
    return st;
}

static void remove_part(struct part *p)
{
    if (p->cluster)
        unlink(p->cluster);
    if (p->tables)
        unlink(p->tables);
    for (size_t i = 0; i < p->n_env; i++)
        free(p->env[i]);
    free(p->cluster);
    free(p->tables);
}

static enum lk_status make_part(const struct calibrate_options *o, int ranks, bool again,
                                struct part *p)
{
    bool cuda = o->device == CALIBRATE_CUDA;
    enum lk_status st = LK_OK;

    LK_TRY(lk_asprintf(&p->cluster, "%s.part.%ld", o->out, (long)getpid()));
    LK_TRY(add_env(p, CALIBRATE_PART_ENV, p->cluster));
    if (cuda) {
        LK_TRY(lk_asprintf(&p->tables, "%s.tables.%ld", o->out, (long)getpid()));
        LK_TRY(add_env(p, CALIBRATE_TABLES_ENV, p->tables));
    }
    if (cuda && again)
        LK_TRY(add_env(p, CALIBRATE_NO_RATES_ENV, "1"));
    if (!cuda && ranks > usable_cpus())
        LK_TRY(add_env(p, CALIBRATE_NO_OVERLAP_ENV, "1"));
out:
    return st;
}

bool calibrate_pins(const struct calibrate_options *o)
{
    return o->pin && o->device != CALIBRATE_CUDA;
}

static enum lk_status launch_one(const struct calibrate_options *o, char **argv, int ranks,
                                 struct lk_cluster *c, struct calibrate_tables *tables)
{
    enum lk_status st = LK_OK;
    struct lk_cluster found = {0};
    struct part p = {0};

    LK_TRY(make_part(o, ranks, c->gpu && o->device == CALIBRATE_CUDA, &p));
    LK_TRY(lk_launch(&(struct lk_launch_config){.ranks = ranks,
                                                .argv = argv,
                                                .env = (const char *const *)p.env,
                                                .grace_ns = GRACE_NS,
                                                .timeout_ns = UINT64_MAX,
                                                .pin = calibrate_pins(o)}));
    LK_TRY(lk_cluster_read(p.cluster, &found));
    LK_TRY(calibrate_merge(c, &found));
    if (p.tables)
        LK_TRY(calibrate_tables_append(tables, p.tables));
out:
    remove_part(&p);
    lk_cluster_fini(&found);
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

/* Where no counts are given: 2; of GPUs 2, 4, ... up to those that there are, or the only one. */
static enum lk_status default_ranks(struct calibrate_options *o)
{
    enum lk_status st = LK_OK;
    int most = 2;

    if (o->ranks.n)
        return LK_OK;
    if (o->device == CALIBRATE_CUDA)
        LK_TRY(lk_device_count("cuda", &(struct lk_device_config){.real = LK_F32}, &most));
    for (int n = 2; n <= most; n *= 2)
        o->ranks.v[o->ranks.n++] = n;
    if (!o->ranks.n)
        o->ranks.v[o->ranks.n++] = 1;
out:
    return st;
}

/* Before minutes are measured: can the file be made? */
static enum lk_status check_out(const char *path)
{
    struct lk_writer *probe = NULL;
    enum lk_status st = lk_writer_open(path, false, &probe);

    lk_writer_abandon(probe);
    return st;
}

static enum lk_status run_launcher(struct calibrate_options *o, int argc, char **argv)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c;
    struct calibrate_tables tables = {.table = {NULL}};
    char program[] = "lockstep", command[] = "calibrate";
    char **child = NULL;

    lk_cluster_init(&c);
    LK_TRY(check_out(o->out));
    LK_TRY(default_ranks(o));
    sort_ranks(&o->ranks);
    LK_TRY(child_argv(program, command, argc, argv, &child));
    LK_TRY(set_header(o, 1, &c));
    LK_TRY(calibrate_tables_create(&tables));
    if (o->share_gpu)
        lk_log(LK_LOG_MAIN, LK_WARN, SHARE_GPU_WARNING);
    for (int i = 0; i < o->ranks.n; i++)
        LK_TRY(launch_one(o, child, (int)o->ranks.v[i], &c, &tables));
    LK_TRY(finish(o, &c, &tables, (int)o->ranks.v[0]));
out:
    free(child);
    calibrate_tables_fini(&tables);
    lk_cluster_fini(&c);
    return st;
}

/* Rank 0 hands its part to our launcher or, under another one, makes the file itself. */
static enum lk_status run_rank(const struct calibrate_options *o, const struct lk_rank_env *env)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = {0};
    struct calibrate_tables tables = {.table = {NULL}};
    const char *part = getenv(CALIBRATE_PART_ENV), *shown = getenv(CALIBRATE_TABLES_ENV);

    LK_TRY(calibrate_tables_create(&tables));
    LK_TRY(calibrate_rank(o, env, &c, &tables));
    if (env->rank != 0)
        goto out;
    LK_TRY(set_header(o, env->nodes, &c));
    if (part)
        LK_TRY(lk_cluster_write(part, &c));
    if (part && shown)
        LK_TRY(calibrate_tables_write(&tables, shown));
    if (!part)
        LK_TRY(finish(o, &c, &tables, 0));
out:
    calibrate_tables_fini(&tables);
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

    LK_TRY(lk_option_parse(calibrate_option_rows, &o, argc, argv, NULL, 0, &operands));
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
    .options = calibrate_option_rows,
    .run = run,
};
