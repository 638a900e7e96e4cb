#include "profiler/import/event.h"

#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "facts/bounds.h"
#include "facts/coll.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 16 << 20, NAME_MAX_BYTES = 1 << 10, SLOTS_FIRST = 1 << 12 };

enum lk_status lk_events_init(struct lk_events *e, const char *step_range)
{
    uint32_t none;

    *e = (struct lk_events){.n_slots = SLOTS_FIRST,
                            .step_range = step_range,
                            .source = {.rank = -1, .clock = {.drift_ppb = NAN}}};
    LK_PASS(lk_alloc(&e->slots, e->n_slots, sizeof *e->slots));
    return lk_events_name(e, "", 0, &none);
}

void lk_source_fini(struct lk_source *s)
{
    free(s->device);
    free(s->host);
    free(s->backend);
    free(s->clock.name);
    lk_names_free(s->notes, s->n_notes);
    *s = (struct lk_source){0};
}

void lk_events_fini(struct lk_events *e)
{
    free(e->events);
    free(e->launches);
    free(e->lanes);
    free(e->details);
    free(e->groups);
    free(e->sent);
    free(e->ranks);
    free(e->names);
    free(e->name_at);
    free(e->slots);
    lk_source_fini(&e->source);
    *e = (struct lk_events){0};
}

const char *lk_events_text(const struct lk_events *e, uint32_t name)
{
    return e->names + e->name_at[name];
}

static size_t find(const struct lk_events *e, const char *text, size_t n)
{
    size_t i = lk_hash(text, n) & (e->n_slots - 1);

    while (e->slots[i]) {
        const char *known = lk_events_text(e, e->slots[i] - 1);

        if (!strncmp(known, text, n) && known[n] == '\0')
            break;
        i = (i + 1) & (e->n_slots - 1);
    }
    return i;
}

static enum lk_status grow_slots(struct lk_events *e)
{
    uint32_t *old = e->slots;

    LK_PASS(lk_alloc(&e->slots, 2 * e->n_slots, sizeof *e->slots));
    free(old);
    e->n_slots *= 2;
    for (size_t i = 0; i < e->n_names; i++) {
        const char *text = lk_events_text(e, (uint32_t)i);

        e->slots[find(e, text, strlen(text))] = (uint32_t)i + 1;
    }
    return LK_OK;
}

enum lk_status lk_events_name(struct lk_events *e, const char *text, size_t n, uint32_t *out)
{
    const char *nul = memchr(text, '\0', n);
    size_t slot;

    n = nul ? (size_t)(nul - text) : n;
    n = n > NAME_MAX_BYTES ? (size_t)NAME_MAX_BYTES : n;
    slot = find(e, text, n);
    *out = e->slots[slot] ? e->slots[slot] - 1 : 0;
    if (e->slots[slot] || e->names_bytes + n + 1 > NAMES_MAX)
        return LK_OK;
    LK_PASS(lk_array_grow(&e->names, &e->names_capacity, e->names_bytes + n + 1, 1));
    LK_PASS(lk_array_grow(&e->name_at, &e->name_at_capacity, e->n_names + 1, sizeof *e->name_at));
    memcpy(e->names + e->names_bytes, text, n);
    e->names[e->names_bytes + n] = '\0';
    e->name_at[e->n_names] = (uint32_t)e->names_bytes;
    e->names_bytes += n + 1;
    *out = (uint32_t)e->n_names++;
    e->slots[slot] = *out + 1;
    return 2 * e->n_names > e->n_slots ? grow_slots(e) : LK_OK;
}

enum lk_status lk_events_function(struct lk_events *e, const char *text, size_t n, uint32_t *out)
{
    enum lk_coll coll;

    if (!lk_coll_find(text, n, &coll))
        return lk_events_name(e, text, n, out);
    text = lk_coll_name(coll);
    return lk_events_name(e, text, strlen(text), out);
}

enum lk_status lk_events_lane(struct lk_events *e, int64_t process, int64_t thread, bool gpu,
                              uint32_t *out)
{
    for (size_t i = e->n_lanes; i-- > 0;)
        if (e->lanes[i].process == process && e->lanes[i].thread == thread &&
            e->lanes[i].gpu == gpu) {
            *out = (uint32_t)i;
            return LK_OK;
        }
    if (e->n_lanes == LK_LANES_MAX) {
        *out = LK_LANES_MAX - 1;
        return LK_OK;
    }
    LK_PASS(lk_array_grow(&e->lanes, &e->lanes_capacity, e->n_lanes + 1, sizeof *e->lanes));
    e->lanes[e->n_lanes] =
        (struct lk_lane){.process = process, .thread = thread, .owner = -1, .gpu = gpu};
    *out = (uint32_t)e->n_lanes++;
    return LK_OK;
}

enum lk_status lk_events_detail(struct lk_events *e, const struct lk_event_detail *c, uint32_t *out)
{
    LK_PASS(lk_array_grow(&e->details, &e->details_capacity, e->n_details + 1, sizeof *e->details));
    e->details[e->n_details] = *c;
    if (c->elements > LK_TENSOR_ELEMS_MAX)
        e->details[e->n_details].elements = 0;
    e->n_details++;
    *out = (uint32_t)e->n_details;
    return LK_OK;
}

enum lk_status lk_events_group(struct lk_events *e, uint32_t name, const int *ranks, size_t n)
{
    LK_PASS(lk_array_grow(&e->groups, &e->groups_capacity, e->n_groups + 1, sizeof *e->groups));
    LK_PASS(lk_array_grow(&e->ranks, &e->ranks_capacity, e->n_ranks + n, sizeof *e->ranks));
    if (n)
        memcpy(e->ranks + e->n_ranks, ranks, n * sizeof *ranks);
    e->groups[e->n_groups++] = (struct lk_event_group){name, e->n_ranks, n};
    e->n_ranks += n;
    return LK_OK;
}

static enum lk_status add_launch(struct lk_events *e, const struct lk_import_event *event)
{
    int64_t length = event->end_ns - event->start_ns;

    LK_PASS(
        lk_array_grow(&e->launches, &e->launches_capacity, e->n_launches + 1, sizeof *e->launches));
    e->launches[e->n_launches++] =
        (struct lk_launch){.link = event->link,
                           .start_ns = event->start_ns,
                           .length_ns = (uint32_t)(length < UINT32_MAX ? length : UINT32_MAX),
                           .lane = event->lane};
    return LK_OK;
}

enum lk_status lk_events_sent(struct lk_events *e, const struct lk_event_sent *s)
{
    LK_PASS(lk_array_grow(&e->sent, &e->sent_capacity, e->n_sent + 1, sizeof *e->sent));
    e->sent[e->n_sent++] = *s;
    return LK_OK;
}

enum lk_status lk_events_add(struct lk_events *e, const struct lk_import_event *event)
{
    if (event->kind == LK_EVENT_LAUNCH)
        return event->link ? add_launch(e, event) : LK_OK;
    LK_PASS(lk_array_grow(&e->events, &e->events_capacity, e->n_events + 1, sizeof *e->events));
    e->events[e->n_events++] = *event;
    return LK_OK;
}

enum lk_status lk_events_note(struct lk_events *e, const char *fmt, ...)
{
    struct lk_source *s = &e->source;
    enum lk_status st;
    va_list ap;

    LK_PASS(lk_array_grow(&s->notes, &s->notes_capacity, s->n_notes + 1, sizeof *s->notes));
    va_start(ap, fmt);
    st = lk_vasprintf(&s->notes[s->n_notes], fmt, ap);
    va_end(ap);
    s->n_notes += st == LK_OK;
    return st;
}

static int by_start(const void *a, const void *b)
{
    const struct lk_import_event *x = a, *y = b;

    return LK_ORDER(x->start_ns, y->start_ns);
}

static int by_link(const void *a, const void *b)
{
    const struct lk_launch *x = a, *y = b;

    return LK_ORDER(x->link, y->link);
}

void lk_events_keep_window(struct lk_events *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_events && e->window_end_ns; i++)
        if (e->events[i].start_ns >= e->window_start_ns && e->events[i].end_ns <= e->window_end_ns)
            e->events[n++] = e->events[i];
    e->n_events = e->window_end_ns ? n : e->n_events;
}

void lk_events_sort(struct lk_events *e)
{
    if (e->n_events)
        qsort(e->events, e->n_events, sizeof *e->events, by_start);
    if (e->n_launches)
        qsort(e->launches, e->n_launches, sizeof *e->launches, by_link);
}

const struct lk_launch *lk_events_launch(const struct lk_events *e,
                                         const struct lk_import_event *event)
{
    const struct lk_launch key = {.link = event->link};

    if (!event->link || !e->n_launches)
        return NULL;
    return bsearch(&key, e->launches, e->n_launches, sizeof key, by_link);
}
