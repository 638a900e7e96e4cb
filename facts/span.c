/* The recorder: tracks, names and the fan-out to sinks. */
#include "facts/span.h"

#include "base/array.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = UINT16_MAX - 1 };

struct lk_track {
    const struct lk_recorder *recorder;
    void *ctx[LK_SINKS_MAX];
    struct lk_track *next;
};

struct lk_recorder {
    const struct lk_sink_ops *ops[LK_SINKS_MAX];
    void *sinks[LK_SINKS_MAX];
    int n_sinks;
    pthread_mutex_t lock; /* guards all members below; never taken when emitting */
    struct lk_track *tracks;
    char **names; /* by id - 1; NULL: an id that some sink refused, never used again */
    size_t n_names;
    size_t names_capacity;
};

const struct lk_words lk_span_kind_words = LK_WORDS("a kind of span", LK_SPAN_LIST);

static const char *const categories[] = {LK_SPAN_LIST(LK_WORD_THIRD)};

enum lk_status lk_recorder_create(struct lk_recorder **out)
{
    struct lk_recorder *r;

    LK_PASS(lk_alloc(&r, 1, sizeof *r));
    if (pthread_mutex_init(&r->lock, NULL)) {
        free(r);
        return lk_fail(LK_ENOMEM, "cannot make a mutex");
    }
    *out = r;
    return LK_OK;
}

void lk_recorder_destroy(struct lk_recorder *r)
{
    if (!r)
        return;
    while (r->tracks) {
        struct lk_track *next = r->tracks->next;

        free(r->tracks);
        r->tracks = next;
    }
    for (size_t i = 0; i < r->n_names; i++)
        free(r->names[i]);
    free(r->names);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

enum lk_status lk_recorder_attach(struct lk_recorder *r, const struct lk_sink_ops *ops, void *sink)
{
    enum lk_status st = LK_OK;

    pthread_mutex_lock(&r->lock);
    if (r->tracks || r->n_sinks == LK_SINKS_MAX)
        LK_TRY(lk_fail(LK_EINTERNAL, "sink %s attached too late or one too many", ops->name));
    for (size_t i = 0; i < r->n_names; i++)
        if (ops->name_added && r->names[i])
            LK_TRY(ops->name_added(sink, (uint16_t)(i + 1), r->names[i]));
    r->ops[r->n_sinks] = ops;
    r->sinks[r->n_sinks++] = sink;
out:
    pthread_mutex_unlock(&r->lock);
    return st;
}

enum lk_status lk_recorder_track(struct lk_recorder *r, const struct lk_track_info *info,
                                 struct lk_track **out)
{
    enum lk_status st = LK_OK;
    struct lk_track *t = NULL;

    if (!r) {
        *out = NULL;
        return LK_OK;
    }
    pthread_mutex_lock(&r->lock);
    LK_TRY(lk_alloc(&t, 1, sizeof *t));
    t->recorder = r;
    for (int i = 0; i < r->n_sinks; i++)
        LK_TRY(r->ops[i]->track_open(r->sinks[i], info, &t->ctx[i]));
    t->next = r->tracks;
    r->tracks = t;
    LK_HAND_OVER(out, t);
out:
    pthread_mutex_unlock(&r->lock);
    free(t);
    return st;
}

static enum lk_status add_name(struct lk_recorder *r, const char *name)
{
    enum lk_status st = LK_OK;
    char *copy = NULL;

    if (r->n_names == NAMES_MAX)
        return lk_fail(LK_EINTERNAL, "more than %d span names", NAMES_MAX);
    LK_TRY(lk_array_grow(&r->names, &r->names_capacity, r->n_names + 1, sizeof *r->names));
    LK_TRY(lk_strdup(&copy, name));
    r->names[r->n_names++] = NULL; /* the id is used up, also when a sink fails below */
    for (int i = 0; i < r->n_sinks; i++)
        if (r->ops[i]->name_added)
            LK_TRY(r->ops[i]->name_added(r->sinks[i], (uint16_t)r->n_names, name));
    r->names[r->n_names - 1] = copy;
    copy = NULL;
out:
    free(copy);
    return st;
}

enum lk_status lk_recorder_name(struct lk_recorder *r, const char *name, uint16_t *out_id)
{
    enum lk_status st = LK_OK;
    size_t i;

    if (!r) {
        *out_id = 0;
        return LK_OK;
    }
    pthread_mutex_lock(&r->lock);
    for (i = 0; i < r->n_names; i++)
        if (r->names[i] && !strcmp(r->names[i], name))
            break;
    if (i == r->n_names)
        LK_TRY(add_name(r, name));
    *out_id = (uint16_t)(i + 1);
out:
    pthread_mutex_unlock(&r->lock);
    return st;
}

enum lk_status lk_recorder_fact(struct lk_recorder *r, const char *key, const char *value)
{
    enum lk_status st = LK_OK;

    if (!r)
        return LK_OK;
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < r->n_sinks; i++)
        if (r->ops[i]->fact)
            LK_TRY(r->ops[i]->fact(r->sinks[i], key, value));
out:
    pthread_mutex_unlock(&r->lock);
    return st;
}

void lk_span_emit(struct lk_track *t, const struct lk_span *s)
{
    if (!t)
        return;
    for (int i = 0; i < t->recorder->n_sinks; i++)
        if (t->recorder->ops[i]->emit)
            t->recorder->ops[i]->emit(t->ctx[i], s);
}

void lk_span_enter(struct lk_track *t, const struct lk_span *s)
{
    if (!t)
        return;
    for (int i = 0; i < t->recorder->n_sinks; i++)
        if (t->recorder->ops[i]->enter)
            t->recorder->ops[i]->enter(t->ctx[i], s);
}

void lk_span_leave(struct lk_track *t, const struct lk_span *s)
{
    if (!t)
        return;
    for (int i = 0; i < t->recorder->n_sinks; i++)
        if (t->recorder->ops[i]->leave)
            t->recorder->ops[i]->leave(t->ctx[i], s);
}

bool lk_span_mark(struct lk_track *t, const struct lk_span *s)
{
    for (int i = 0; t && i < t->recorder->n_sinks; i++)
        if (t->recorder->ops[i]->mark && t->recorder->ops[i]->mark(t->ctx[i], s))
            return true;
    return false;
}

struct lk_span lk_span_begin(struct lk_track *t, enum lk_span_kind kind, uint16_t name,
                             uint32_t step, int32_t index)
{
    struct lk_span s = {.step = step, .index = index, .kind = (uint16_t)kind, .name = name};

    if (!t)
        return s;
    lk_span_enter(t, &s);
    s.start_ns = lk_now_ns();
    return s;
}

void lk_span_end(struct lk_track *t, struct lk_span *s)
{
    if (!t)
        return;
    s->end_ns = lk_now_ns();
    lk_span_leave(t, s);
    lk_span_emit(t, s);
}

void lk_span_counter(struct lk_track *t, uint16_t name, uint32_t step, double value)
{
    struct lk_span s = {.step = step, .index = -1, .kind = LK_SPAN_COUNTER, .name = name};

    if (!t)
        return;
    s.value = value;
    s.start_ns = lk_now_ns();
    s.end_ns = s.start_ns;
    lk_span_emit(t, &s);
}

const char *lk_span_kind_category(enum lk_span_kind kind)
{
    return categories[kind];
}
