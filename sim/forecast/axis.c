/* The axes of a forecast. */
#include "sim/forecast/axis.h"

#include "base/words.h"
#include "sim/step/config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum kind { COUNT, SIZE, RATE, LINK, TIME, RATIO, WORD, NAME, PLACE, SPLIT };

static const char *const option_names[LK_AXIS_COUNT] = {LK_AXIS_LIST(LK_WORD_NAME)};

static const char *const column_names[LK_AXIS_COUNT] = {
#define COLUMN_(axis, option, column, kind, min, max, help) [axis] = column,
    LK_AXIS_LIST(COLUMN_)
#undef COLUMN_
};

static const enum kind kinds[LK_AXIS_COUNT] = {
#define KIND_(axis, option, column, kind, min, max, help) [axis] = kind,
    LK_AXIS_LIST(KIND_)
#undef KIND_
};

/* Of counts, sizes and absolute values, in base units, and of places. */
static const struct {
    double min, max;
} ranges[LK_AXIS_COUNT] = {
#define RANGE_(axis, option, column, kind, min, max, help) [axis] = {min, max},
    LK_AXIS_LIST(RANGE_)
#undef RANGE_
};

static const enum lk_dimension dims[LK_AXIS_COUNT] = {
#define DIM_(axis, option, column, kind, min, max, help) [axis] = LK_AXIS_DIM_##kind,
    LK_AXIS_LIST(DIM_)
#undef DIM_
};

/* The values an axis takes, and the int of the scenario, or the scaled or slowed value of its
 * change, that it sets; an axis without one is set by lk_axis_apply. */
#define COUNTS         LK_KNOWS_COUNTS
#define NETWORK        LK_KNOWS_COLLECTIVES
#define RANKS          LK_KNOWS_RANKS
#define CONFIG(member) offsetof(struct lk_scenario, config.member)
#define CHANGE(member) offsetof(struct lk_scenario, change.member)
static const struct {
    size_t at;
    const struct lk_words *words; /* of a WORD */
    enum lk_knowledge needs;      /* of a source that predicts other values */
} axes[LK_AXIS_COUNT] = {
    [LK_AXIS_GPUS] = {CONFIG(world_size), NULL, COUNTS},
    [LK_AXIS_LOCAL_BATCH] = {CONFIG(local_batch), NULL, COUNTS},
    [LK_AXIS_ACCUMULATION] = {CONFIG(accumulation), NULL, COUNTS},
    [LK_AXIS_REDUCE] = {CONFIG(reduce), &lk_reduction_words, NETWORK},
    [LK_AXIS_BUCKET_CAP] = {0, NULL, NETWORK},
    [LK_AXIS_FIRST_BUCKET] = {0, NULL, NETWORK},
    [LK_AXIS_RANK_BATCHES] = {CONFIG(batches), NULL, RANKS},
    [LK_AXIS_GRAD_DTYPE] = {CONFIG(grad_dtype), &lk_grad_dtype_words, NETWORK},
    [LK_AXIS_COMPRESSION] = {CONFIG(compression), &lk_compression_words, NETWORK},
    [LK_AXIS_POWERSGD_RANK] = {CONFIG(powersgd_rank), NULL, NETWORK},
    [LK_AXIS_ALGORITHM] = {CONFIG(algo), &lk_algo_words, NETWORK},
    [LK_AXIS_SHARDING] = {CONFIG(sharding), &lk_sharding_words, NETWORK},
    [LK_AXIS_SHARD_GROUP] = {CONFIG(shard_group), NULL, NETWORK},
    [LK_AXIS_PERIOD] = {CONFIG(averaging_period), NULL, NETWORK},
    [LK_AXIS_STALENESS] = {CONFIG(staleness), NULL, NETWORK},
    [LK_AXIS_OVERLAP] = {CONFIG(overlap), &lk_overlap_mode_words, NETWORK},
    [LK_AXIS_NODE_BANDWIDTH] = {CHANGE(node_Bps), NULL, NETWORK},
    [LK_AXIS_NIC_BANDWIDTH] = {CHANGE(bandwidth_Bps[LK_LINK_INTER]), NULL, NETWORK},
    [LK_AXIS_INTER_LATENCY] = {CHANGE(latency_s[LK_LINK_INTER]), NULL, NETWORK},
    [LK_AXIS_INTRA_BANDWIDTH] = {CHANGE(bandwidth_Bps[LK_LINK_INTRA]), NULL, NETWORK},
    [LK_AXIS_INTRA_LATENCY] = {CHANGE(latency_s[LK_LINK_INTRA]), NULL, NETWORK},
    [LK_AXIS_NODES_PER_SWITCH] = {CHANGE(nodes_per_switch), NULL, NETWORK},
    [LK_AXIS_OVERSUBSCRIPTION] = {CHANGE(oversubscription), NULL, NETWORK},
    [LK_AXIS_OVERLAP_SLOWDOWN] = {CHANGE(overlap_slowdown), NULL, NETWORK},
    [LK_AXIS_STRAGGLER_SPREAD] = {CHANGE(straggler_spread), NULL, RANKS},
    [LK_AXIS_GPUS_PER_NODE] = {CHANGE(gpus_per_node), NULL, COUNTS},
    [LK_AXIS_GPU] = {0, NULL, RANKS},
    [LK_AXIS_WITHOUT_RANKS] = {CHANGE(without_ranks), NULL, RANKS},
    [LK_AXIS_WITHOUT_NODES] = {CHANGE(without_nodes), NULL, RANKS},
    [LK_AXIS_SLOW_RANK] = {CHANGE(slow_rank), NULL, RANKS},
    [LK_AXIS_SLOW_LINK] = {CHANGE(slow_link), NULL, RANKS},
};

static const double FACTOR_MAX = 1e6;

const char *lk_axis_option(enum lk_axis a)
{
    return option_names[a];
}

const char *lk_axis_column(enum lk_axis a)
{
    return column_names[a];
}

static enum lk_status parse_number(enum lk_axis a, const char *text, double *out)
{
    char min[40], max[40];
    double v;

    LK_PASS(lk_units_parse(dims[a], text, &v));
    if (v < ranges[a].min || v > ranges[a].max || (kinds[a] == SIZE && v != floor(v)))
        return lk_fail(LK_EUSAGE, "'%s' is out of range: expected %s to %s", text,
                       lk_units_exact(dims[a], ranges[a].min, min, sizeof min),
                       lk_units_exact(dims[a], ranges[a].max, max, sizeof max));
    *out = v;
    return LK_OK;
}

/* Reads "x2", on the network's axes. */
static enum lk_status parse_factor(const char *text, struct lk_scaled *out)
{
    double v;

    LK_PASS(lk_parse_double(text + 1, &v));
    if (!(v > 1 / FACTOR_MAX && v < FACTOR_MAX))
        return lk_fail(LK_EUSAGE, "'%s': expected a factor above 0, e.g. x2 or x0.5", text);
    *out = v == 1 ? (struct lk_scaled){0} : (struct lk_scaled){v, true}; /* as it is */
    return LK_OK;
}

static enum lk_status parse_word(enum lk_axis a, const char *text, int64_t *out)
{
    int value = 0;
    enum lk_status st = lk_words_find(axes[a].words, text, &value);

    *out = value;
    return st == LK_EPARSE ? LK_EUSAGE : st;
}

static enum lk_status parse_size(enum lk_axis a, const char *text, int64_t *out)
{
    double v = 1;

    if (a != LK_AXIS_BUCKET_CAP || strcmp(text, LK_BUCKET_CAP_TENSOR) != 0)
        LK_PASS(parse_number(a, text, &v));
    *out = (int64_t)v;
    return LK_OK;
}

/* Read "equal", "balanced", or batches. */
static enum lk_status parse_split(const char *text)
{
    struct lk_rank_batches b;

    return strcmp(text, "equal") && strcmp(text, LK_AXIS_BALANCED) ? lk_rank_batches_parse(text, &b)
                                                                   : LK_OK;
}

/* Set the batches of ranks; what is no list of them is kept for lk_scenarios_add. */
static void apply_split(const char *text, struct lk_config *c)
{
    struct lk_rank_batches b;

    memset(c->batches, 0, sizeof c->batches);
    if (!strcmp(text, LK_AXIS_BALANCED))
        snprintf(c->batches, sizeof c->batches, "%s", text);
    else if (strcmp(text, "equal") != 0 && lk_rank_batches_parse(text, &b) == LK_OK) {
        c->local_batch = b.most;
        (void)lk_rank_batches_text(&b, c->batches); /* no longer than the text that was read */
    }
}

static enum lk_status parse(enum lk_axis a, const char *text, struct lk_axis_value *v)
{
    switch (kinds[a]) {
    case COUNT:
        return lk_parse_count(text, (int64_t)ranges[a].min, (int64_t)ranges[a].max, &v->count);
    case SIZE:
        return parse_size(a, text, &v->count);
    case WORD:
        return parse_word(a, text, &v->count);
    case NAME:
        return *text ? LK_OK : lk_fail(LK_EUSAGE, "a name is empty");
    case PLACE: /* "none", or "3:1.25" */
        return strcmp(text, "none")
                   ? lk_parse_factor_at(text, (int64_t)ranges[a].max, &v->count, &v->number.value)
                   : LK_OK;
    case SPLIT:
        return parse_split(text);
    default:
        return *text == 'x' ? parse_factor(text, &v->number)
                            : parse_number(a, text, &v->number.value);
    }
}

enum lk_status lk_axis_parse(enum lk_axis a, const char *text, struct lk_axis_value *out)
{
    enum lk_status st = LK_OK;
    struct lk_axis_value v = {0};

    if (kinds[a] != NAME && strlen(text) >= sizeof v.text)
        return lk_fail(LK_EUSAGE, "--%s: '%.40s...' is too long for a value", option_names[a],
                       text);
    LK_TRY(lk_fail_context(parse(a, text, &v), "--%s", option_names[a]));
    snprintf(v.text, sizeof v.text, "%s", text);
    *out = v;
out:
    return st;
}

bool lk_axis_value_equal(enum lk_axis a, const struct lk_axis_value *x,
                         const struct lk_axis_value *y)
{
    if (kinds[a] == NAME || kinds[a] == SPLIT)
        return !strcmp(x->text, y->text);
    return x->count == y->count && x->number.value == y->number.value &&
           x->number.is_factor == y->number.is_factor;
}

void lk_axis_apply(enum lk_axis a, const struct lk_axis_value *v, const struct lk_job *j,
                   struct lk_scenario *s)
{
    void *member = (char *)s + axes[a].at;

    switch (kinds[a]) {
    case COUNT:
    case WORD:
        if (a == LK_AXIS_SHARDING)
            lk_config_shard(&s->config, (enum lk_sharding)v->count, s->config.reduce);
        else
            *(int *)member = (int)v->count;
        break;
    case RATE:
    case LINK:
    case TIME:
    case RATIO:
        *(struct lk_scaled *)member = v->number;
        break;
    case PLACE:
        *(struct lk_slowed *)member = (struct lk_slowed){(int)v->count, v->number.value};
        break;
    case NAME:
        s->change.gpu = v->gpu;
        s->change.mix = v->mix;
        break;
    case SPLIT:
        apply_split(v->text, &s->config);
        break;
    case SIZE:
        if (a == LK_AXIS_FIRST_BUCKET)
            s->config.first_bytes = (uint64_t)v->count;
        else if (j)
            lk_config_set_cap(&s->config, j, (uint64_t)v->count);
        else
            s->config.cap_bytes = (uint64_t)v->count;
        break;
    }
}

enum lk_axis_role lk_axis_role(enum lk_axis a)
{
    if (a < LK_AXIS_NODE_BANDWIDTH)
        return LK_AXIS_SETTING;
    return a < LK_AXIS_WITHOUT_RANKS ? LK_AXIS_MACHINE : LK_AXIS_DAMAGE;
}

/* Takes from a change what does nothing to these ranks. */
static void settle_change(const struct lk_cluster *cluster, const struct lk_config *c,
                          struct lk_change *change)
{
    if (change->slow_rank.at >= c->world_size || change->slow_rank.factor == 1)
        change->slow_rank = (struct lk_slowed){0};
    if (change->slow_link.at >= c->nodes || c->nodes == 1 || change->slow_link.factor == 1)
        change->slow_link = (struct lk_slowed){0};
    if (change->gpus_per_node == cluster->gpus_per_node ||
        (c->nodes == 1 && c->world_size <= cluster->gpus_per_node)) /* all on one node as it is */
        change->gpus_per_node = 0;
    if (change->straggler_spread.value == 1) /* as far as they do */
        change->straggler_spread = (struct lk_scaled){0};
    if (c->nodes == 1) {
        change->node_Bps = change->bandwidth_Bps[LK_LINK_INTER] = change->latency_s[LK_LINK_INTER] =
            change->oversubscription = (struct lk_scaled){0};
        change->nodes_per_switch = 0;
    }
    if (lk_config_replicas(c) == 1) {
        change->bandwidth_Bps[LK_LINK_INTRA] = change->latency_s[LK_LINK_INTRA] =
            change->overlap_slowdown = (struct lk_scaled){0};
        change->gpus_per_node = 0;
    }
}

bool lk_axis_without_effect(enum lk_axis a, const struct lk_axis_value *v,
                            const struct lk_change *settled)
{
    struct lk_scenario with = {.change = *settled};

    if (lk_axis_role(a) == LK_AXIS_SETTING || v->mix) /* of a mix some may be taken */
        return false;
    lk_axis_apply(a, v, NULL, &with);
    return !lk_change_equal(&with.change, settled);
}

/* Returns true if all gradients of a job that are floats have this type as they are. */
static bool is_own_dtype(const struct lk_job *j, enum lk_grad_dtype d)
{
    size_t floats = 0;

    for (size_t i = 0; i < j->n_tensors; i++) {
        enum lk_dtype own = j->tensors[i].dtype;

        if (lk_dtype_is_float(own) && strcmp(lk_dtype_name(own), lk_grad_dtype_name(d)) != 0)
            return false;
        floats += lk_dtype_is_float(own);
    }
    return floats > 0;
}

void lk_axis_settle(const struct lk_config *current, const struct lk_cluster *cluster,
                    const struct lk_job *j, struct lk_scenario *s)
{
    struct lk_config *c = &s->config;

    settle_change(cluster, c, &s->change);
    if (lk_config_replicas(c) == 1) { /* it reduces nothing */
        c->first_bytes = current->first_bytes;
        c->cap_bytes = current->cap_bytes;
        c->grad_dtype = current->grad_dtype;
        c->compression = current->compression;
        c->algo = current->algo;
        c->sharding = current->sharding;
        c->reduce = current->reduce;
        c->overlap = current->overlap;
    }
    if (j && is_own_dtype(j, c->grad_dtype))
        c->grad_dtype = LK_GRAD_OWN;
    if (!lk_axis_matters(LK_AXIS_POWERSGD_RANK, c))
        c->powersgd_rank = 0;
    if (!lk_axis_matters(LK_AXIS_SHARD_GROUP, c))
        c->shard_group = 0;
    if (!lk_axis_matters(LK_AXIS_PERIOD, c))
        c->averaging_period = 0;
    if (!lk_axis_matters(LK_AXIS_STALENESS, c))
        c->staleness = 0;
    if (!lk_axis_matters(LK_AXIS_REDUCE, c))
        c->reduce = current->reduce;
    if (c->reduce == LK_REDUCTION_SCATTER &&
        lk_sharding_traits(c->sharding)->sharers != LK_SHARERS_GROUP)
        c->reduce = LK_REDUCTION_EVERY; /* nothing is all-reduced behind it */
}

enum lk_knowledge lk_axis_needs(enum lk_axis a)
{
    return axes[a].needs;
}

const char *lk_axis_partner(enum lk_axis a)
{
    static const char *const partners[LK_AXIS_COUNT] = {
        [LK_AXIS_REDUCE] = "--accumulation above 1",
        [LK_AXIS_POWERSGD_RANK] = "--compression=powersgd",
        [LK_AXIS_SHARD_GROUP] = "--sharding=hsdp, local-sgd or diloco",
        [LK_AXIS_PERIOD] = "--sharding=local-sgd or diloco",
        [LK_AXIS_STALENESS] = "--sharding=async",
    };

    return partners[a];
}

bool lk_axis_matters(enum lk_axis a, const struct lk_config *c)
{
    const struct lk_sharding_traits *t = lk_sharding_traits(c->sharding);

    switch (a) {
    case LK_AXIS_POWERSGD_RANK:
        return c->compression == LK_COMPRESSION_POWERSGD;
    case LK_AXIS_SHARD_GROUP:
        return t->pace == LK_PACE_PERIOD || t->sharers == LK_SHARERS_GROUP;
    case LK_AXIS_PERIOD:
        return t->pace == LK_PACE_PERIOD;
    case LK_AXIS_STALENESS:
        return t->pace == LK_PACE_BOUNDED;
    case LK_AXIS_REDUCE:
        return c->accumulation > 1;
    default:
        return true;
    }
}
