/* The sink that keeps spans; see the header. */
#include "tests/rigs/kept_spans.h"

#include "base/array.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept_spans kept;

static enum lk_status keep_track(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct kept_track *t = &kept.tracks[kept.n_tracks++];

    (void)sink;
    ck_assert_uint_le(kept.n_tracks, KEPT_TRACKS);
    snprintf(t->name, sizeof t->name, "%s", info->name);
    t->kind = info->kind;
    t->stream = info->stream;
    *out_ctx = t;
    return LK_OK;
}

static enum lk_status keep_name(void *sink, uint16_t id, const char *name)
{
    (void)sink;
    ck_assert_uint_lt(id, KEPT_NAMES);
    snprintf(kept.names[id], sizeof kept.names[id], "%s", name);
    kept.n_names = id;
    return LK_OK;
}

static enum lk_status keep_fact(void *sink, const char *key, const char *value)
{
    (void)sink;
    ck_assert_uint_lt(kept.n_facts, KEPT_FACTS);
    snprintf(kept.facts[kept.n_facts].key, sizeof kept.facts->key, "%s", key);
    snprintf(kept.facts[kept.n_facts++].value, sizeof kept.facts->value, "%s", value);
    return LK_OK;
}

static void keep_span(void *track_ctx, const struct lk_span *s)
{
    struct kept_track *t = track_ctx;

    ck_assert_int_eq(lk_array_grow(&t->spans, &t->capacity, t->n + 1, sizeof *t->spans), LK_OK);
    t->spans[t->n++] = *s;
}

const struct lk_sink_ops kept_ops = {.name = "kept",
                                     .track_open = keep_track,
                                     .name_added = keep_name,
                                     .fact = keep_fact,
                                     .emit = keep_span};

void kept_reset(void)
{
    for (size_t i = 0; i < kept.n_tracks; i++)
        free(kept.tracks[i].spans);
    memset(&kept, 0, sizeof kept);
}

const struct kept_track *kept_track(const char *name)
{
    for (size_t i = 0; i < kept.n_tracks; i++)
        if (!strcmp(kept.tracks[i].name, name))
            return &kept.tracks[i];
    ck_abort_msg("there is no track '%s'", name);
    return NULL;
}
