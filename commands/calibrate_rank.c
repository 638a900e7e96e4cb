/* One rank of a calibration. */
#include "commands/calibrate.h"

#include "base/log.h"
#include "base/units.h"
#include "runtime/comm.h"
#include "runtime/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A burst must outlast the clock's and the scheduler's grain. */
static const double BURST_S = 0.005;
static const double COMPUTE_UNIT_S = 0.02;

struct rank {
    const struct calibrate_options *options;
    const struct lk_rank_env *env;
    struct lk_store_server *server;
    struct lk_store *store;
    struct lk_comm *comm;
};

static enum lk_status open_comm(struct rank *r)
{
    return lk_comm_open("tcp",
                        &(struct lk_comm_config){.rank = r->env->rank,
                                                 .world_size = r->env->world_size,
                                                 .store = r->store,
                                                 .timeout_ns = lk_ns_from_s(r->options->timeout_s)},
                        &r->comm);
}

static void announce(const struct rank *r, const char *what)
{
    if (r->env->rank == 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "%d ranks: %s\n", r->env->world_size, what);
}

static enum lk_status sweep_collectives(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    const struct calibrate_options *o = r->options;
    struct calibrate_plan plan;
    struct lk_sweep_collectives_config config;
    struct lk_sweep_rows rows = {0};

    announce(r, "collectives");
    LK_TRY(calibrate_plan(o, &plan));
    config = calibrate_sweep(o, &plan, BURST_S);
    LK_TRY(lk_sweep_collectives(r->comm, &config, &rows));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_points(&rows, r->env->nodes, c));
out:
    lk_sweep_rows_fini(&rows);
    return st;
}

static struct lk_sweep_compute_config compute_config(const struct calibrate_options *o)
{
    return (struct lk_sweep_compute_config){.unit_target_s = COMPUTE_UNIT_S,
                                            .repetitions = (size_t)o->repetitions,
                                            .warmup = (size_t)o->warmup,
                                            .budget_s = o->budget_s / 2};
}

static enum lk_status sweep_colocation(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_compute_config config = compute_config(r->options);
    struct lk_sweep_colocation s = {0};

    announce(r, "co-location");
    LK_TRY(lk_sweep_colocation(r->comm, &config, &s));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_colocation(&s, r->env->local_world_size, c));
out:
    lk_sweep_colocation_fini(&s);
    return st;
}

static enum lk_status sweep_overlap(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_sweep_compute_config config = compute_config(r->options);
    struct lk_sweep_overlap s = {0};
    struct calibrate_plan plan;
    char source[64];

    announce(r, "overlap");
    LK_TRY(calibrate_plan(r->options, &plan));
    snprintf(source, sizeof source, "calibrate: overlap probe of %d ranks", r->env->world_size);
    LK_TRY(lk_sweep_overlap(r->comm, &config, plan.overlap_bytes, &s));
    if (r->env->rank == 0)
        LK_TRY(calibrate_add_overlap(&s, true, source, c));
out:
    lk_sweep_overlap_fini(&s);
    return st;
}

static enum lk_status measure_cpu(struct rank *r, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_comm(r));
    LK_TRY(sweep_collectives(r, c));
    if (r->options->colocation)
        LK_TRY(sweep_colocation(r, c));
    if (r->options->overlap && !getenv(CALIBRATE_NO_OVERLAP_ENV))
        LK_TRY(sweep_overlap(r, c));
out:
    return st;
}

enum lk_status calibrate_rank(const struct calibrate_options *o, const struct lk_rank_env *env,
                              struct lk_cluster *out, struct calibrate_tables *tables)
{
    enum lk_status st = LK_OK;
    struct rank r = {.options = o, .env = env};
    struct lk_cluster c;
    bool told = false;

    lk_cluster_init(&c);
    lk_log_set_rank(env->rank);
    LK_TRY(lk_rank_env_connect(env, lk_ns_from_s(o->timeout_s), &r.server, &r.store));
    if (o->device == CALIBRATE_CUDA)
        LK_TRY(calibrate_gpu(&(struct calibrate_gpu){.options = o, .env = env, .store = r.store},
                             &c, tables));
    else
        LK_TRY(measure_cpu(&r, &c));
    *out = c;
    c = (struct lk_cluster){0};
out:
    if (st != LK_OK && r.store) {
        st = lk_store_report(r.store, st, lk_error_text());
        told = getenv(CALIBRATE_PART_ENV) != NULL;
    }
    lk_comm_close(r.comm);
    lk_store_close(r.store);
    lk_store_server_stop(r.server, lk_ns_from_s(o->timeout_s));
    lk_cluster_fini(&c);
    return told ? LK_EREPORTED : st;
}
