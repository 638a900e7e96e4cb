/* The configurations that `plan` searches; see the header. */
#include "commands/plan_space.h"

#include "base/array.h"
#include "facts/sharding.h"
#include "sim/forecast/forecast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 4096, NODES_MAX = 128 };

struct space {
    const struct lk_evidence_source *source;
    char texts[LK_AXIS_COUNT][TEXT_BYTES];
};

/* Append a value to an axis's list, unless it is there. */
static void add(struct space *s, enum lk_axis a, const char *value)
{
    char *text = s->texts[a];
    size_t n = strlen(text), size = strlen(value);

    for (const char *at = text; (at = strstr(at, value)); at += size)
        if ((at == text || at[-1] == ',') && (at[size] == ',' || !at[size]))
            return;
    snprintf(text + n, TEXT_BYTES - n, "%s%s", n ? "," : "", value);
}

static void add_count(struct space *s, enum lk_axis a, int64_t value)
{
    char text[32];

    if (value <= 0)
        return;
    snprintf(text, sizeof text, "%" PRId64, value);
    add(s, a, text);
}

static void add_batches(struct space *s)
{
    const struct lk_evidence_source *e = s->source;

    add_count(s, LK_AXIS_LOCAL_BATCH, e->current.local_batch);
    for (size_t i = 0; i < e->n_measured; i++)
        add_count(s, LK_AXIS_LOCAL_BATCH, e->measured[i].config.local_batch);
}

static void add_accumulations(struct space *s)
{
    enum { MOST = 8 };

    for (int64_t n = 1; n <= MOST; n *= 2)
        add_count(s, LK_AXIS_ACCUMULATION, n);
    add_count(s, LK_AXIS_ACCUMULATION, s->source->current.accumulation);
}

static void add_caps(struct space *s)
{
    static const int mib[] = {1, 5, 25, 100};
    const uint64_t own = s->source->current.cap_bytes;
    char text[32];

    for (size_t i = 0; i < LK_COUNT(mib); i++) {
        snprintf(text, sizeof text, "%dMiB", mib[i]);
        if (own != (uint64_t)mib[i] << 20)
            add(s, LK_AXIS_BUCKET_CAP, text);
    }
    if (own % (1 << 20) == 0)
        snprintf(text, sizeof text, "%" PRIu64 "MiB", own >> 20);
    else
        snprintf(text, sizeof text, "%" PRIu64 "B", own);
    if (own)
        add(s, LK_AXIS_BUCKET_CAP, text);
}

static void add_shardings(struct space *s)
{
    static const enum lk_sharding of[] = {LK_SHARDING_DDP, LK_SHARDING_ZERO1, LK_SHARDING_ZERO2,
                                          LK_SHARDING_ZERO3};

    for (size_t i = 0; i < LK_COUNT(of); i++)
        add(s, LK_AXIS_SHARDING, lk_sharding_name(of[i]));
}

/* Append counts of GPUs, the next one by a share 1 / slow larger; return how many there are. */
static size_t add_gpus(struct space *s, int slow)
{
    const struct lk_cluster *c = s->source->cluster;
    int per_node = c->gpus_per_node > 0 ? c->gpus_per_node : 1, n = 0;
    int most = c->nodes > 0 ? c->nodes : NODES_MAX;

    *s->texts[LK_AXIS_GPUS] = '\0';
    for (int gpus = 1; gpus < per_node; gpus *= 2, n++)
        add_count(s, LK_AXIS_GPUS, gpus);
    for (int nodes = 1; nodes <= most; nodes += nodes > slow ? nodes / slow : 1, n++)
        add_count(s, LK_AXIS_GPUS, (int64_t)nodes * per_node);
    return (size_t)n;
}

/* Append as many counts of GPUs as the other axes leave room for. */
static void fill_gpus(struct space *s, const struct axis_lists *others, bool quick)
{
    double each = 1;

    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (a != LK_AXIS_GPUS && others->n[a])
            each *= (double)others->n[a];
    for (int slow = quick ? 8 : 1; slow >= 1; slow /= 2)
        if ((double)add_gpus(s, slow) * each <= LK_FORECAST_POINTS_MAX)
            return;
}

enum lk_status plan_space_read(const struct lk_evidence_source *e, bool has_global_batch,
                               const char *const texts[LK_AXIS_COUNT], struct axis_lists *out)
{
    static const struct {
        enum lk_axis axis;
        void (*add)(struct space *s);
        bool many; /* for sources alone that are quick */
    } rows[] = {{LK_AXIS_LOCAL_BATCH, add_batches, false},
                {LK_AXIS_ACCUMULATION, add_accumulations, false},
                {LK_AXIS_BUCKET_CAP, add_caps, true},
                {LK_AXIS_SHARDING, add_shardings, true}};
    enum lk_status st = LK_OK;
    const char *all[LK_AXIS_COUNT], *gpus[LK_AXIS_COUNT] = {NULL};
    struct space *s = NULL;
    bool quick = e->knows == LK_KNOWS_RANKS; /* beside a table each takes a fit */

    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->source = e;
    memcpy(all, texts, sizeof all);
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        enum lk_axis a = rows[i].axis;

        if (all[a] || lk_axis_needs(a) > e->knows || (rows[i].many && !quick) ||
            (a == LK_AXIS_ACCUMULATION && has_global_batch))
            continue;
        rows[i].add(s);
        all[a] = *s->texts[a] ? s->texts[a] : NULL;
    }
    LK_TRY(axis_lists_read(all, out));
    if (all[LK_AXIS_GPUS])
        goto out;
    fill_gpus(s, out, quick);
    gpus[LK_AXIS_GPUS] = s->texts[LK_AXIS_GPUS];
    LK_TRY(axis_lists_add(gpus, out));
out:
    free(s);
    return st;
}
