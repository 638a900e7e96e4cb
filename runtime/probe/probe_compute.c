/* Measure co-location, and run stretches of compute on the host; see the header. */
#include "runtime/probe/probe.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/probe/probe_impl.h"

#include <stdlib.h>

enum {
    BUILTIN_ELEMS = 4096, /* 16 KiB: stays in the first-level cache */
    BUILTIN_PASSES = 300,
    PILOT_UNITS = 8,
};

/* Run the built-in unit: multiply-adds on numbers that stay bounded (|a| < 1). */
static void builtin_unit(void *ctx)
{
    float *restrict x = ctx;

    for (int pass = 0; pass < BUILTIN_PASSES; pass++)
        for (size_t i = 0; i < BUILTIN_ELEMS; i++)
            x[i] = 0.75F * x[i] + 0.125F;
}

uint64_t lk_probe_compute_ns(const struct lk_probe_compute *c, size_t units)
{
    uint64_t start_ns = lk_now_ns();

    for (size_t i = 0; i < units; i++)
        c->work.unit(c->work.ctx);
    return lk_now_ns() - start_ns;
}

enum lk_status lk_probe_extreme(struct lk_comm *comm, bool largest, double mine, double *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm);
    double *all = NULL;

    LK_TRY(lk_alloc(&all, world, sizeof *all));
    LK_TRY(lk_comm_gather(comm, LK_F64, &mine, 1, all));
    for (size_t r = 0; r < world; r++)
        mine = largest == (all[r] > mine) ? all[r] : mine;
    *out = mine;
out:
    free(all);
    return st;
}

enum lk_status lk_probe_compute_init(struct lk_probe_compute *c, struct lk_comm *comm,
                                     const struct lk_probe_compute_config *config)
{
    enum lk_status st = LK_OK;
    double unit_s;

    *c = (struct lk_probe_compute){.work = config->work};
    if (!c->work.unit) {
        LK_TRY(lk_alloc(&c->own, BUILTIN_ELEMS, sizeof *c->own));
        c->work = (struct lk_probe_work){builtin_unit, c->own};
    }
    (void)lk_probe_compute_ns(c, PILOT_UNITS);
    unit_s = lk_s_from_ns(lk_probe_compute_ns(c, PILOT_UNITS)) / PILOT_UNITS;
    LK_TRY(lk_probe_extreme(comm, false, unit_s, &unit_s));
    c->units = unit_s > 0 ? (size_t)(config->unit_target_s / unit_s) : 1;
    c->units = c->units ? c->units : 1;
out:
    return st;
}

void lk_probe_compute_fini(struct lk_probe_compute *c)
{
    free(c->own);
    *c = (struct lk_probe_compute){0};
}

/* ---- co-location ---- */

/* Run one stretch alone, in turn, and one together; mine = {alone, together}. */
static enum lk_status time_colocation(struct lk_comm *comm, const struct lk_probe_compute *c,
                                      double *mine)
{
    enum lk_status st = LK_OK;

    for (int r = 0; r < lk_comm_world_size(comm); r++) {
        LK_TRY(lk_comm_barrier(comm)); /* the others wait here, without using a core */
        if (r == lk_comm_rank(comm))
            mine[0] = lk_s_from_ns(lk_probe_compute_ns(c, c->units));
    }
    LK_TRY(lk_comm_barrier(comm));
    mine[1] = lk_s_from_ns(lk_probe_compute_ns(c, c->units));
    LK_TRY(lk_comm_barrier(comm));
out:
    return st;
}

enum lk_status lk_probe_colocation(struct lk_comm *comm,
                                   const struct lk_probe_compute_config *config,
                                   struct lk_probe_colocation *out)
{
    enum lk_status st = LK_OK;
    size_t world = (size_t)lk_comm_world_size(comm), n = config->warmup + config->repetitions;
    struct lk_probe_colocation s = {.ranks = (int)world, .warmup = config->warmup};
    struct lk_probe_compute c = {0};
    uint64_t start_ns = lk_now_ns();
    double *all = NULL, mine[3];

    LK_TRY(lk_alloc(&all, 3 * world, sizeof *all));
    LK_TRY(lk_alloc(&s.alone_s, n * world, sizeof *s.alone_s));
    LK_TRY(lk_alloc(&s.together_s, n * world, sizeof *s.together_s));
    LK_TRY(lk_probe_compute_init(&c, comm, config));
    while (s.n < n) {
        LK_TRY(time_colocation(comm, &c, mine));
        mine[2] = lk_s_from_ns(lk_now_ns() - start_ns);
        LK_TRY(lk_comm_gather(comm, LK_F64, mine, 3, all));
        for (size_t r = 0; r < world; r++) {
            s.alone_s[s.n * world + r] = all[3 * r];
            s.together_s[s.n * world + r] = all[3 * r + 1];
        }
        s.n++;
        if (s.n >= s.warmup + LK_PROBE_SAMPLES_MIN && config->budget_s > 0 &&
            all[2] > config->budget_s)
            break;
    }
    *out = s;
    s = (struct lk_probe_colocation){0};
out:
    lk_probe_colocation_fini(&s);
    lk_probe_compute_fini(&c);
    free(all);
    return st;
}
