/* The scenarios of a forecast: a set in which each is predicted once, on its machine. */
#include "sim/forecast/pipeline.h"

#include "base/array.h"
#include "sim/forecast/site.h"
#include "sim/step/balance.h"
#include "sim/step/config.h"

#include <stdlib.h>
#include <string.h>

bool lk_refuses(enum lk_status st)
{
    return st == LK_EUSAGE || st == LK_EEVIDENCE;
}

/* ---- The set ---- */

static uint64_t hash_of(const struct lk_item *i)
{
    const struct lk_config *c = &i->config;
    const uint64_t parts[] = {i->machine,
                              (uint64_t)c->world_size,
                              (uint64_t)c->local_batch,
                              (uint64_t)c->accumulation,
                              (uint64_t)c->reduce,
                              c->first_bytes,
                              c->cap_bytes,
                              (uint64_t)c->overlap << 8 | (uint64_t)c->sharding,
                              (uint64_t)c->powersgd_rank,
                              (uint64_t)c->shard_group,
                              (uint64_t)c->averaging_period,
                              (uint64_t)c->staleness};
    uint64_t h = 14695981039346656037u; /* FNV-1a, by words */

    for (size_t k = 0; k < LK_COUNT(parts); k++)
        h = (h ^ parts[k]) * 1099511628211u;
    return h ^ (h >> 32);
}

/* Returns the slot that holds a scenario, or the empty one that is its own. */
static size_t *slot_of(const struct lk_scenarios *w, const struct lk_item *i)
{
    size_t mask = w->n_slots - 1, at = hash_of(i) & mask;
    const struct lk_item *other;

    while (w->slots[at]) {
        other = &w->v[w->slots[at] - 1];
        if (other->machine == i->machine && lk_config_equal(&other->config, &i->config))
            break;
        at = (at + 1) & mask;
    }
    return &w->slots[at];
}

/* Makes room for one more. */
static enum lk_status grow(struct lk_scenarios *w)
{
    size_t n = w->n_slots ? 2 * w->n_slots : 64, *slots;

    LK_PASS(lk_array_grow(&w->v, &w->capacity, w->n + 1, sizeof *w->v));
    if (2 * (w->n + 1) <= w->n_slots)
        return LK_OK;
    LK_PASS(lk_alloc(&slots, n, sizeof *slots));
    free(w->slots);
    w->slots = slots;
    w->n_slots = n;
    for (size_t i = 0; i < w->n; i++)
        *slot_of(w, &w->v[i]) = i + 1;
    return LK_OK;
}

static enum lk_status machine_of(struct lk_scenarios *w, const struct lk_change *c, size_t *out)
{
    size_t i = 0;

    while (i < w->n_machines && !lk_change_equal(&w->machines[i].change, c))
        i++;
    *out = i;
    if (i < w->n_machines)
        return LK_OK;
    LK_PASS(lk_array_grow(&w->machines, &w->machines_capacity, i + 1, sizeof *w->machines));
    w->machines[w->n_machines++] = (struct lk_machine){.change = *c};
    return LK_OK;
}

/* Balances the batches where that is asked for, and checks those that were given. */
static enum lk_status settle_batches(const struct lk_scenarios *w, const struct lk_change *change,
                                     struct lk_config *c)
{
    const struct lk_slowed *slowed = &change->slow_rank;
    struct lk_known_stragglers slow = {0};
    const struct lk_gpu_mix *mix = change->mix;
    double *kinds = NULL;
    enum lk_status st = LK_OK;

    if (strcmp(c->batches, LK_AXIS_BALANCED) != 0)
        return lk_rank_batches_check(c->batches, c->world_size, c->local_batch);
    memset(c->batches, 0, sizeof c->batches);
    if (!w->source->job)
        return lk_fail(LK_EUSAGE, "balanced batches need a job's compute times");
    LK_TRY(lk_known_stragglers_init(&slow, w->source->job, w->source->cluster));
    if (mix) {
        LK_TRY(lk_alloc(&kinds, (size_t)mix->ranks, sizeof *kinds));
        LK_TRY(lk_gpu_mix_slowness(w->source->job, w->source->cluster, mix, kinds));
    }
    LK_TRY(lk_balance(w->source->job, &slow, slowed->factor > 0 ? slowed->at : -1, slowed->factor,
                      kinds, c));
out:
    free(kinds);
    lk_known_stragglers_fini(&slow);
    return st;
}

/* Sets what follows from the axes' values: nodes and accumulation, and what the GPUs of a mix are.
 * pre: the ranks are set. */
static enum lk_status settle(const struct lk_scenarios *w, struct lk_change *change, bool has_nodes,
                             struct lk_config *c)
{
    struct lk_cluster cluster = *w->source->cluster;

    if (change->mix)
        LK_PASS(lk_gpu_mix_take(w->source->job, &cluster, change->mix, c->world_size, &change->mix,
                                &change->gpu));
    if (change->gpus_per_node)
        cluster.gpus_per_node = change->gpus_per_node;
    if (c->compression == LK_COMPRESSION_POWERSGD && !c->powersgd_rank)
        c->powersgd_rank = 1; /* PyTorch's default */
    if (!has_nodes || change->gpus_per_node)
        LK_PASS(lk_config_nodes(&cluster, c));
    if (*c->batches && w->global_batch > 0)
        return lk_fail(LK_EUSAGE, "local batches of ranks that differ have a global batch, which "
                                  "--global-batch cannot change");
    LK_PASS(lk_config_split_global(w->global_batch, c));
    return settle_batches(w, change, c);
}

enum lk_status lk_scenarios_add(struct lk_scenarios *w, const struct lk_scenario *s, bool has_nodes,
                                size_t *out)
{
    struct lk_scenario settled = *s;
    struct lk_item i = {.worth = 1};
    struct lk_machine *m;
    size_t *slot;

    i.status = settle(w, &settled.change, has_nodes, &settled.config);
    if (i.status != LK_OK && !lk_refuses(i.status))
        return i.status;
    if (i.status != LK_OK)
        settled.config.nodes = 0; /* no prediction of other nodes is taken for it */
    lk_axis_settle(&w->source->current, w->source->cluster, w->source->job, &settled);
    i.config = settled.config;
    LK_PASS(machine_of(w, &settled.change, &i.machine));
    LK_PASS(grow(w));
    slot = slot_of(w, &i);
    if (!*slot) {
        if (i.status != LK_OK)
            LK_PASS(lk_strdup(&i.refusal, lk_error_text()));
        w->v[w->n++] = i;
        *slot = w->n;
        m = &w->machines[i.machine];
        if (i.status == LK_OK && i.config.world_size > m->most_gpus)
            m->most_gpus = i.config.world_size;
    }
    *out = *slot - 1;
    w->v[*out].skipped = false;
    return LK_OK;
}

void lk_scenarios_fini(struct lk_scenarios *w)
{
    for (size_t i = 0; i < w->n_machines; i++) {
        struct lk_machine *m = &w->machines[i];

        if (m->self && m->self != w->source->self)
            w->source->ops->close(m->self);
        free(m->refusal);
    }
    for (size_t i = 0; i < w->n; i++) {
        lk_prediction_fini(&w->v[i].at);
        free(w->v[i].refusal);
    }
    free(w->machines);
    free(w->v);
    free(w->slots);
}

/* ---- Predictions ---- */

/* A source that knows counts alone is told of another machine by the configuration's nodes. */
static enum lk_status make_machine(const struct lk_evidence_source *e, struct lk_machine *m)
{
    m->made = true;
    if (lk_change_is_none(&m->change) || e->knows == LK_KNOWS_COUNTS)
        m->self = e->self;
    else
        m->status = e->ops->alter(e->self, &m->change, m->most_gpus, &m->self);
    return lk_refuses(m->status) ? lk_strdup(&m->refusal, lk_error_text()) : m->status;
}

enum lk_status lk_scenarios_machine(struct lk_scenarios *w, const struct lk_item *i, void **self)
{
    struct lk_machine *m = &w->machines[i->machine];

    if (!m->made)
        LK_PASS(make_machine(w->source, m));
    *self = m->self;
    return m->refusal ? lk_fail(m->status, "%s", m->refusal) : LK_OK;
}

static enum lk_status predict(struct lk_scenarios *w, const struct lk_forecast_request *q,
                              struct lk_item *i)
{
    void *self;

    i->status = lk_scenarios_machine(w, i, &self);
    if (i->status == LK_OK)
        i->status = w->source->ops->at(self, &i->config, &i->at);
    if (i->status == LK_OK && q->site_factor > 0)
        lk_prediction_spread(&i->at, q->site_factor);
    return lk_refuses(i->status) ? lk_strdup(&i->refusal, lk_error_text()) : i->status;
}

enum lk_status lk_scenarios_predict(struct lk_scenarios *w, const struct lk_forecast_request *q)
{
    enum { TELL = 64 }; /* scenarios between two calls of progress */

    for (size_t i = 0; i < w->n; i++) {
        if (w->v[i].status == LK_OK && !w->v[i].skipped)
            LK_PASS(predict(w, q, &w->v[i]));
        if (q->progress && ((i + 1) % TELL == 0 || i + 1 == w->n))
            q->progress(q->user, i + 1, w->n);
    }
    return LK_OK;
}
