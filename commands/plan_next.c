/* Which run next; see the header. */
#include "commands/plan_next.h"

#include "base/array.h"
#include "base/table.h"
#include "base/units.h"
#include "commands/evidence_inputs.h"
#include "commands/forecast_ask.h"
#include "commands/forecast_page.h"
#include "facts/forecast.h"
#include "facts/forecast_answer.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/next_run.h"
#include "sim/step/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double S_PER_HOUR = 3600;

/* ---- What could be measured ---- */

struct candidates {
    const struct lk_evidence_source *e;
    double run_s;
    struct lk_next_run *v;
    size_t n, capacity;
};

static enum lk_status add(struct candidates *c, const struct lk_config *config, bool collectives)
{
    struct lk_next_run r = {.config = *config, .collectives = collectives};

    r.gpu_hours = config->world_size * c->run_s / S_PER_HOUR;
    LK_PASS(lk_array_grow(&c->v, &c->capacity, c->n + 1, sizeof *c->v));
    c->v[c->n++] = r;
    return LK_OK;
}

/* Sets the nodes of a count; false: they do not hold it. */
static bool place(const struct candidates *c, int gpus, struct lk_config *config)
{
    config->world_size = gpus;
    return lk_config_nodes(c->e->cluster, config) == LK_OK;
}

/* Adds a run of the target's settings on so many GPUs, and all-reduces there. */
static enum lk_status add_count(struct candidates *c, const struct lk_config *target, int gpus)
{
    struct lk_config config = *target;

    if (!place(c, gpus, &config))
        return LK_OK;
    LK_PASS(add(c, &config, false));
    return gpus > 1 && c->e->knows > LK_KNOWS_COUNTS ? add(c, &config, true) : LK_OK;
}

/* Adds runs on so many GPUs that differ from the target in accumulation or bucket cap. */
static enum lk_status add_settings(struct candidates *c, const struct lk_config *target, int gpus)
{
    static const int accumulations[] = {1, 2, 4}, caps_mib[] = {1, 25, 100};
    struct lk_config config = *target;

    if (!place(c, gpus, &config))
        return LK_OK;
    for (size_t i = 0; i < LK_COUNT(accumulations); i++) {
        struct lk_config other = config;

        other.accumulation = accumulations[i];
        if (other.accumulation != config.accumulation)
            LK_PASS(add(c, &other, false));
    }
    for (size_t i = 0; i < LK_COUNT(caps_mib) && gpus > 1; i++) {
        struct lk_config other = config;

        lk_config_set_cap(&other, c->e->job, (uint64_t)caps_mib[i] << 20);
        if (other.cap_bytes != config.cap_bytes)
            LK_PASS(add(c, &other, false));
    }
    return LK_OK;
}

/* Lists runs and all-reduces on 1, 2, 4, ... GPUs and whole nodes, and other settings on the most.
 */
static enum lk_status list(struct candidates *c, const struct lk_config *target, int most)
{
    int per_node = c->e->cluster->gpus_per_node, last = 1;

    for (int gpus = 1; gpus <= most && gpus < target->world_size; gpus *= 2) {
        LK_PASS(add_count(c, target, gpus));
        last = gpus;
        if (per_node > gpus && per_node < 2 * gpus && per_node <= most)
            LK_PASS(add_count(c, target, last = per_node));
    }
    /* The law of a table alone hardly knows what other settings do. */
    return c->e->job ? add_settings(c, target, last) : LK_OK;
}

/* ---- The page ---- */

static void describe(const struct lk_next_run *r, char *out, size_t size)
{
    char cap[32], settings[96] = "";

    if (r->collectives) {
        snprintf(out, size, "all-reduces on %d GPUs", r->config.world_size);
        return;
    }
    if (r->config.cap_bytes)
        snprintf(settings, sizeof settings, ", accumulation %d, cap %s", r->config.accumulation,
                 lk_units_format(LK_DIM_BYTES, (double)r->config.cap_bytes, cap, sizeof cap));
    snprintf(out, size, "run: %d GPU%s%s", r->config.world_size,
             r->config.world_size == 1 ? "" : "s", settings);
}

/* Writes the command to paste; JOB stands for the user's script and its settings. */
static void write_command(const struct lk_next_run *r, bool table, const char *cluster, char *out,
                          size_t size)
{
    const struct lk_config *c = &r->config;
    int each = c->world_size / (c->nodes > 0 ? c->nodes : 1);

    if (r->collectives)
        snprintf(out, size,
                 "mpirun -np %d -npernode %d all_reduce_perf -b 64K -e 1G -f 4 -g 1 > "
                 "all_reduce_%d.log && lockstep import --collectives all_reduce_%d.log --base %s "
                 "--out cluster.json",
                 c->world_size, each, c->world_size, c->world_size, cluster ? cluster : "CLUSTER");
    else if (table)
        snprintf(out, size, "torchrun --nnodes %d --nproc_per_node %d JOB", c->nodes, each);
    else
        snprintf(out, size,
                 "lockstep profile --out run-%d -- torchrun --nnodes %d --nproc_per_node %d JOB",
                 c->world_size, c->nodes, each);
}

#define COLUMNS(X)                                                                                 \
    X("measurement", "measurement", LK_DIM_NONE, -1, what)                                         \
    X("width_pct", "width promised, %", LK_DIM_NONE, 1, 100 * r->width)                            \
    X("lo_s", "from", LK_DIM_TIME, -1, r->lo_s)                                                    \
    X("hi_s", "to", LK_DIM_TIME, -1, r->hi_s)                                                      \
    X("gpu_hours", "GPU-hours", LK_DIM_NONE, 2, r->gpu_hours)                                      \
    X("gpus", "GPUs", LK_DIM_NONE, -1, r->config.world_size)                                       \
    X("command", "command", LK_DIM_NONE, -1, command)
static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
static const struct lk_view_column view[] = {LK_VIEW("measurement"), LK_VIEW("width_pct"),
                                             LK_VIEW("gpu_hours")};

static enum lk_status tabulate(const struct candidates *c, size_t n, const char *cluster,
                               struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_table_create("Measurements, the one that would narrow the forecast most first",
                           columns, LK_COUNT(columns), &t));
    for (size_t i = 0; i < n; i++) {
        const struct lk_next_run *r = &c->v[i];
        char what[96], command[320];

        describe(r, what, sizeof what);
        write_command(r, c->e->knows < LK_KNOWS_RANKS, cluster, command, sizeof command);
        LK_TRY(lk_table_row(t));
        COLUMNS(LK_TABLE_CELL)
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

static enum lk_status say(const struct candidates *c, size_t n, const struct lk_prediction *now,
                          const char *cluster, struct lk_page *page)
{
    const double width = log(now->hi_s / now->lo_s);
    const struct lk_next_run *r = c->v;
    char what[96], command[320], t[5][32];

    LK_PASS(lk_page_value(page, "width", "which=\"now\"", LK_DIM_NONE, width));
    if (!n || !(r->width < width * 0.99))
        return lk_page_say(page,
                           "Nothing that could be measured would narrow the forecast at %d GPUs: "
                           "its interval is %.1f %% wide.",
                           now->config.world_size, 100 * width);
    describe(r, what, sizeof what);
    LK_PASS(lk_page_say(
        page,
        "Most would tell %s, in %s GPU-hours: it would narrow the step at %d GPUs, %s (%s to %s), "
        "to about %s to %s: from %.1f %% wide to %.1f %%.",
        what, lk_answer_number(r->gpu_hours, t[0], sizeof t[0]), now->config.world_size,
        lk_units_format(LK_DIM_TIME, now->step_s, t[1], sizeof t[1]),
        lk_units_format(LK_DIM_TIME, now->lo_s, t[2], sizeof t[2]),
        lk_units_format(LK_DIM_TIME, now->hi_s, t[3], sizeof t[3]),
        lk_units_format(LK_DIM_TIME, r->lo_s, t[4], sizeof t[4]),
        lk_units_format(LK_DIM_TIME, r->hi_s, (char[32]){0}, 32), 100 * width, 100 * r->width));
    write_command(r, c->e->knows < LK_KNOWS_RANKS, cluster, command, sizeof command);
    LK_PASS(lk_page_value(page, "width", "which=\"promised\"", LK_DIM_NONE, r->width));
    return lk_page_next(page, "Measure it: %s", command);
}

/* Multiply the widths that are promised by the site's factor. */
static void spread(struct lk_next_run *v, size_t n, double factor)
{
    for (struct lk_next_run *r = v; r < v + n; r++) {
        r->lo_s = r->step_s * pow(r->lo_s / r->step_s, factor);
        r->hi_s = r->step_s * pow(r->hi_s / r->step_s, factor);
        r->width *= factor;
    }
}

enum lk_status plan_next(const struct plan_next_options *o, const struct forecast_question *q,
                         const struct evidence_inputs *in, struct lk_page *page)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = &in->source;
    const char *cluster = forecast_question_cluster(q);
    double factor;
    struct candidates c = {.e = e, .run_s = o->run_s};
    struct lk_config target = e->current;
    struct lk_forecast f = {0};
    struct lk_prediction now = {0};
    struct lk_table *t = NULL;
    size_t n = 0;

    target.world_size = (int)o->narrow;
    LK_TRY(lk_config_nodes(e->cluster, &target));
    LK_TRY(e->ops->prepare(e->self, &f));
    if (lk_contradictions_refute(&f)) {
        LK_TRY(lk_contradictions_tell(&f, false));
        LK_TRY(forecast_page_answer(&f, false, page));
        LK_TRY(forecast_verdict(&f));
    }
    LK_TRY(list(&c, &target, (int)(o->available ? o->available : o->narrow / 2)));
    LK_TRY(lk_next_runs(e, &target, c.v, c.n, &n, &now));
    LK_TRY(forecast_ask_predicted(q, in, &now, &factor, page));
    spread(c.v, n, factor);
    LK_TRY(say(&c, n, &now, cluster, page));
    LK_TRY(tabulate(&c, n, cluster, &t));
    LK_TRY(lk_page_table(page, "measurements", LK_PAGE_MAIN, view, LK_COUNT(view), &t));
out:
    lk_table_destroy(t);
    lk_prediction_fini(&now);
    lk_forecast_fini(&f);
    free(c.v);
    return st;
}
