/* The axes of a what-if. */
#include "sim/axis.h"

#include "base/bounds.h"
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { COUNT, YES_NO, SIZE, RATE, TIME, RATIO, WORD, NAME, PLACE };

static const char *const option_names[LK_AXIS_COUNT] = {
#define OPTION_(axis, option, column, help) [axis] = option,
    LK_AXIS_LIST(OPTION_)
#undef OPTION_
};

static const char *const column_names[LK_AXIS_COUNT] = {
#define COLUMN_(axis, option, column, help) [axis] = column,
    LK_AXIS_LIST(COLUMN_)
#undef COLUMN_
};

static const struct {
    enum kind kind;
    double min, max;
} kinds[LK_AXIS_COUNT] = {
    [LK_AXIS_GPUS] = {COUNT,  1,     LK_FORECAST_GPUS_MAX},
    [LK_AXIS_LOCAL_BATCH] = {COUNT,  1,     LK_BATCH_MAX        },
    [LK_AXIS_ACCUMULATION] = {COUNT,  1,     LK_ACCUMULATION_MAX },
    [LK_AXIS_NO_SYNC] = {YES_NO, 0,     1                   },
    [LK_AXIS_BUCKET_CAP] = {SIZE,   1,     1e12                },
    [LK_AXIS_FIRST_BUCKET] = {SIZE,   1,     1e12                },
    [LK_AXIS_GRAD_DTYPE] = {WORD,   0,     0                   },
    [LK_AXIS_COMPRESSION] = {WORD,   0,     0                   },
    [LK_AXIS_POWERSGD_RANK] = {COUNT,  1,     1 << 20             },
    [LK_AXIS_ALGORITHM] = {WORD,   0,     0                   },
    [LK_AXIS_SHARDING] = {WORD,   0,     0                   },
    [LK_AXIS_SHARD_GROUP] = {COUNT,  1,     1 << 20             },
    [LK_AXIS_PERIOD] = {COUNT,  1,     1e9                 },
    [LK_AXIS_INTER_BANDWIDTH] = {RATE,   1,     1e15                },
    [LK_AXIS_INTER_LATENCY] = {TIME,   1e-12, 60                  },
    [LK_AXIS_INTRA_BANDWIDTH] = {RATE,   1,     1e15                },
    [LK_AXIS_INTRA_LATENCY] = {TIME,   1e-12, 60                  },
    [LK_AXIS_NODES_PER_SWITCH] = {COUNT,  1,     1 << 20             },
    [LK_AXIS_OVERSUBSCRIPTION] = {RATIO,  1,     1000                },
    [LK_AXIS_GPUS_PER_NODE] = {COUNT,  1,     1 << 20             },
    [LK_AXIS_GPU] = {NAME,   0,     0                   },
    [LK_AXIS_WITHOUT_RANKS] = {COUNT,  0,     1 << 20             },
    [LK_AXIS_WITHOUT_NODES] = {COUNT,  0,     1 << 20             },
    [LK_AXIS_SLOW_RANK] = {PLACE,  0,     1 << 20             },
    [LK_AXIS_SLOW_LINK] = {PLACE,  0,     1 << 20             },
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
    static const enum lk_dimension dims[] = {
        [SIZE] = LK_DIM_BYTES, [RATE] = LK_DIM_RATE, [TIME] = LK_DIM_TIME, [RATIO] = LK_DIM_NONE};
    enum lk_status st = LK_OK;
    int64_t n;
    double v;

    if (kinds[a].kind == COUNT)
        return lk_parse_int64(text, (int64_t)kinds[a].min, (int64_t)kinds[a].max, &n) == LK_OK
                   ? (*out = (double)n, LK_OK)
                   : LK_EUSAGE;
    LK_TRY(lk_units_parse(dims[kinds[a].kind], text, &v));
    if (v < kinds[a].min || v > kinds[a].max || (kinds[a].kind == SIZE && v != floor(v)))
        return lk_fail(LK_EUSAGE, "'%s' is out of range: expected %g to %g", text, kinds[a].min,
                       kinds[a].max);
    *out = v;
out:
    return st;
}

/* "x2": on the network's axes. */
static enum lk_status parse_factor(const char *text, struct lk_scaled *out)
{
    enum lk_status st = LK_OK;
    double v;

    LK_TRY(lk_parse_double(text + 1, &v));
    if (!(v > 1 / FACTOR_MAX && v < FACTOR_MAX))
        return lk_fail(LK_EUSAGE, "'%s': expected a factor above 0, e.g. x2 or x0.5", text);
    *out = v == 1 ? (struct lk_scaled){0} : (struct lk_scaled){v, true}; /* as it is */
out:
    return st;
}

static enum lk_status parse_word(enum lk_axis a, const char *text, double *out)
{
    enum lk_status st = LK_OK;
    enum lk_grad_dtype d = LK_GRAD_OWN;
    enum lk_compression c = LK_COMPRESSION_NONE;
    enum lk_algo algo = LK_ALGO_AUTO;
    enum lk_sharding s = LK_SHARDING_DDP;

    if (a == LK_AXIS_GRAD_DTYPE)
        LK_TRY(lk_grad_dtype_from_name(text, &d));
    else if (a == LK_AXIS_COMPRESSION)
        LK_TRY(lk_compression_from_name(text, &c));
    else if (a == LK_AXIS_SHARDING)
        LK_TRY(lk_sharding_from_name(text, &s));
    else
        LK_TRY(lk_algo_from_name(text, &algo));
    *out = (double)d + (double)c + (double)s + (double)algo; /* one of them */
out:
    return st == LK_EPARSE ? LK_EUSAGE : st;
}

/* "none", or "3:1.25". */
static enum lk_status parse_place(enum lk_axis a, const char *text, struct lk_axis_value *v)
{
    enum lk_status st = LK_OK;
    int64_t at = 0;

    if (strcmp(text, "none") != 0)
        LK_TRY(lk_parse_factor_at(text, (int64_t)kinds[a].max, &at, &v->number.value));
    v->at = (int)at;
out:
    return st;
}

static enum lk_status parse(enum lk_axis a, const char *text, struct lk_axis_value *v)
{
    enum kind kind = kinds[a].kind;

    if ((kind == RATE || kind == TIME || kind == RATIO) && *text == 'x')
        return parse_factor(text, &v->number);
    if (kind == WORD)
        return parse_word(a, text, &v->number.value);
    if (kind == PLACE)
        return parse_place(a, text, v);
    if (kind == NAME)
        return *text ? LK_OK : lk_fail(LK_EUSAGE, "a name is empty");
    if (kind == YES_NO) {
        v->number.value = !strcmp(text, "yes");
        return v->number.value > 0 || !strcmp(text, "no")
                   ? LK_OK
                   : lk_fail(LK_EUSAGE, "'%s': expected yes or no", text);
    }
    return parse_number(a, text, &v->number.value);
}

enum lk_status lk_axis_parse(enum lk_axis a, const char *text, struct lk_axis_value *out)
{
    enum lk_status st = LK_OK;
    struct lk_axis_value v = {0};

    if (kinds[a].kind != NAME && strlen(text) >= sizeof v.text)
        return lk_fail(LK_EUSAGE, "--%s: '%.40s...' is too long for a value", option_names[a],
                       text);
    LK_TRY(lk_fail_context(parse(a, text, &v), "--%s", option_names[a]));
    snprintf(v.text, sizeof v.text, "%s", text);
    *out = v;
out:
    return st;
}

static void apply_to_config(enum lk_axis a, double v, const struct lk_job *j, struct lk_config *c)
{
    int *const counts[LK_AXIS_COUNT] = {
        [LK_AXIS_GPUS] = &c->gpus,
        [LK_AXIS_LOCAL_BATCH] = &c->local_batch,
        [LK_AXIS_ACCUMULATION] = &c->accumulation,
        [LK_AXIS_POWERSGD_RANK] = &c->powersgd_rank,
        [LK_AXIS_SHARD_GROUP] = &c->shard_group,
        [LK_AXIS_PERIOD] = &c->period,
    };

    if (counts[a])
        *counts[a] = (int)v;
    else if (a == LK_AXIS_NO_SYNC)
        c->no_sync = v > 0;
    else if (a == LK_AXIS_BUCKET_CAP && (uint64_t)v != j->cap_bytes)
        lk_config_set_cap(c, j, (uint64_t)v);
    else if (a == LK_AXIS_FIRST_BUCKET)
        c->first_bytes = (uint64_t)v;
    else if (a == LK_AXIS_GRAD_DTYPE)
        c->grad_dtype = (enum lk_grad_dtype)v;
    else if (a == LK_AXIS_COMPRESSION)
        c->compression = (enum lk_compression)v;
    else if (a == LK_AXIS_ALGORITHM)
        c->algo = (enum lk_algo)v;
    else if (a == LK_AXIS_SHARDING)
        c->sharding = (enum lk_sharding)v;
}

void lk_axis_apply(enum lk_axis a, const struct lk_axis_value *v, const struct lk_job *j,
                   struct lk_scenario *s)
{
    struct lk_change *c = &s->change;
    struct lk_scaled *const scaled[LK_AXIS_COUNT] = {
        [LK_AXIS_INTER_BANDWIDTH] = &c->bandwidth_Bps[LK_LINK_INTER],
        [LK_AXIS_INTER_LATENCY] = &c->latency_s[LK_LINK_INTER],
        [LK_AXIS_INTRA_BANDWIDTH] = &c->bandwidth_Bps[LK_LINK_INTRA],
        [LK_AXIS_INTRA_LATENCY] = &c->latency_s[LK_LINK_INTRA],
        [LK_AXIS_OVERSUBSCRIPTION] = &c->oversubscription,
    };

    if (scaled[a])
        *scaled[a] = v->number;
    else if (a == LK_AXIS_NODES_PER_SWITCH)
        c->nodes_per_switch = (int)v->number.value;
    else if (a == LK_AXIS_GPUS_PER_NODE)
        c->gpus_per_node = (int)v->number.value;
    else if (a == LK_AXIS_GPU)
        c->gpu = v->gpu;
    else if (a == LK_AXIS_WITHOUT_RANKS)
        c->without_ranks = (int)v->number.value;
    else if (a == LK_AXIS_WITHOUT_NODES)
        c->without_nodes = (int)v->number.value;
    else if (a == LK_AXIS_SLOW_RANK)
        c->slow_rank = (struct lk_slowed){v->at, v->number.value};
    else if (a == LK_AXIS_SLOW_LINK)
        c->slow_link = (struct lk_slowed){v->at, v->number.value};
    else
        apply_to_config(a, v->number.value, j, &s->config);
}

void lk_axis_settle(const struct lk_job *j, struct lk_config *c)
{
    if (!lk_axis_matters(LK_AXIS_POWERSGD_RANK, c))
        c->powersgd_rank = 0;
    if (!lk_axis_matters(LK_AXIS_SHARD_GROUP, c))
        c->shard_group = 0;
    if (!lk_axis_matters(LK_AXIS_PERIOD, c))
        c->period = 0;
    if (!lk_axis_matters(LK_AXIS_NO_SYNC, c))
        c->no_sync = j->no_sync;
}

bool lk_axis_matters(enum lk_axis a, const struct lk_config *c)
{
    bool periodic = c->sharding == LK_SHARDING_LOCAL_SGD || c->sharding == LK_SHARDING_DILOCO;

    switch (a) {
    case LK_AXIS_POWERSGD_RANK:
        return c->compression == LK_COMPRESSION_POWERSGD;
    case LK_AXIS_SHARD_GROUP:
        return periodic || c->sharding == LK_SHARDING_HSDP;
    case LK_AXIS_PERIOD:
        return periodic;
    case LK_AXIS_NO_SYNC:
        return c->accumulation > 1;
    default:
        return true;
    }
}
