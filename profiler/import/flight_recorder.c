/* Make events of a Flight Recorder dump. Divisions: groups, entries. */
#include "profiler/import/flight_recorder_impl.h"

#include "base/array.h"
#include "profiler/analysis/rank_list.h"
#include "profiler/import/torch_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 10 };

enum lk_status lk_flight_init_(struct flight *f, struct lk_events *out)
{
    *f = (struct flight){.out = out, .last_record = -1};
    LK_PASS(lk_events_init(out, NULL));
    out->source.format = "Flight Recorder";
    return lk_events_lane(out, 0, 0, false, &f->lane);
}

void lk_flight_fini_(struct flight *f)
{
    free(f->labels);
    *f = (struct flight){0};
}

static bool is(struct flight_text t, const char *text)
{
    return t.n == strlen(text) && !memcmp(t.at, text, t.n);
}

/* ---- Groups ---- */

/* Find the name that shows a group: its description and, since several may share that, its name. */
static enum lk_status label_of(struct lk_events *e, struct flight_text name,
                               struct flight_text description, uint32_t *out)
{
    char text[TEXT_MAX];

    if (!description.n || is(description, "undefined"))
        return lk_events_name(e, name.n ? name.at : "", name.n, out);
    if (is(description, "default_pg") || !name.n)
        return lk_events_name(e, description.at, description.n, out);
    snprintf(text, sizeof text, "%.*s (%.*s)", (int)(description.n < TEXT_MAX ? description.n : 0),
             description.at, (int)(name.n < TEXT_MAX ? name.n : 0), name.at);
    return lk_events_name(e, text, strlen(text), out);
}

/* Groups of other ranks may have the same name: all but the default group show their ranks. */
static enum lk_status label_with_ranks(struct flight *f, uint32_t label,
                                       const struct lk_rank_list *ranks, uint32_t *out)
{
    char text[2 * TEXT_MAX], list[TEXT_MAX];

    *out = label;
    if (!strcmp(lk_events_text(f->out, label), "default_pg"))
        return LK_OK;
    snprintf(text, sizeof text, "%s of ranks %s", lk_events_text(f->out, label),
             lk_rank_list_text(ranks->at, ranks->n, list, sizeof list));
    LK_PASS(lk_events_name(f->out, text, strlen(text), out));
    while (f->n_labels <= label) {
        LK_PASS(lk_array_grow(&f->labels, &f->labels_capacity, f->n_labels + 1, sizeof *f->labels));
        f->labels[f->n_labels++] = 0;
    }
    f->labels[label] = *out;
    return LK_OK;
}

enum lk_status lk_flight_group_(struct flight *f, struct flight_text name,
                                struct flight_text description, struct flight_text ranks)
{
    enum lk_status st = LK_OK;
    struct lk_rank_list list = {0};
    uint32_t label;

    LK_TRY(lk_rank_list_parse(&list, ranks.at, ranks.n));
    if (!list.n)
        goto out;
    LK_TRY(label_of(f->out, name, description, &label));
    LK_TRY(label_with_ranks(f, label, &list, &label));
    LK_TRY(lk_events_group(f->out, label, list.at, list.n));
    if ((int)list.n > f->out->source.world_size)
        f->out->source.world_size = (int)list.n;
out:
    lk_rank_list_fini(&list);
    return st;
}

/* Return the members of a group, by its final name; *n 0: they are not known. */
static const int *members_of(const struct lk_events *e, uint32_t name, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < e->n_groups; i++) {
        if (e->groups[i].name != name)
            continue;
        *n = e->groups[i].n;
        return e->ranks + e->groups[i].first;
    }
    return NULL;
}

/* Return the rank of a send's or receive's file, "nccl:send 0->1", "nccl:recv 1<-0": the first
 * number is its own, in the group. -1: another entry, or the group is not known. */
static int rank_of_peer_entry(const struct lk_events *e, const struct lk_import_event *x)
{
    const char *text = lk_events_text(e, x->name), *blank = strchr(text, ' ');
    const int *members;
    size_t n;
    long k;

    if (!x->detail || !blank || blank[1] < '0' || blank[1] > '9')
        return -1;
    members = members_of(e, e->details[x->detail - 1].group, &n);
    k = strtol(blank + 1, NULL, 10);
    return k >= 0 && (size_t)k < n ? members[k] : -1;
}

static bool is_in_all_groups(const struct lk_events *e, int rank)
{
    for (size_t i = 0; i < e->n_groups; i++) {
        size_t k = 0;

        while (k < e->groups[i].n && e->ranks[e->groups[i].first + k] != rank)
            k++;
        if (k == e->groups[i].n)
            return false;
    }
    return true;
}

/* A process lists the groups that it is in: return the one rank that is in all of them, or what its
 * sends and receives say; -1: neither tells. */
static int rank_of(const struct lk_events *e)
{
    int found = -1;

    for (size_t i = 0; i < e->n_events; i++)
        if ((found = rank_of_peer_entry(e, &e->events[i])) >= 0)
            return found;
    for (size_t k = 0; e->n_groups && k < e->groups[0].n; k++) {
        int rank = e->ranks[e->groups[0].first + k];

        if (!is_in_all_groups(e, rank))
            continue;
        if (found >= 0)
            return -1;
        found = rank;
    }
    return found;
}

void lk_flight_finish_(struct flight *f)
{
    for (size_t i = 0; i < f->out->n_details; i++) {
        uint32_t *group = &f->out->details[i].group;

        if (*group < f->n_labels && f->labels[*group])
            *group = f->labels[*group];
    }
    f->out->source.rank = rank_of(f->out);
}

/* ---- Entries ---- */

/* Split "nccl:send 0->1" into backend and function. */
static enum lk_status set_function(struct lk_events *e, struct flight_text name, uint32_t *out)
{
    const char *colon = memchr(name.at, ':', name.n), *blank;

    if (colon) {
        if (!e->source.backend)
            LK_PASS(lk_strndup(&e->source.backend, name.at, (size_t)(colon - name.at)));
        name.n -= (size_t)(colon + 1 - name.at);
        name.at = colon + 1;
    }
    blank = memchr(name.at, ' ', name.n);
    name.n = blank ? (size_t)(blank - name.at) : name.n;
    return lk_events_function(e, name.at, name.n, out);
}

static uint8_t state_of(struct flight_text t)
{
    static const char *const names[] = {[LK_COLLECTIVE_SCHEDULED] = "scheduled",
                                        [LK_COLLECTIVE_STARTED] = "started",
                                        [LK_COLLECTIVE_COMPLETED] = "completed"};

    for (size_t i = LK_COLLECTIVE_SCHEDULED; i < LK_COUNT(names); i++)
        if (is(t, names[i]))
            return (uint8_t)i;
    return LK_COLLECTIVE_STATE_UNKNOWN;
}

/* Entries before the first, or between two, are missing: the ring has overwritten them, or only
 * active ones were dumped. */
static void note_lost(struct flight *f, int64_t record)
{
    if (record < 0)
        return;
    f->out->source.lost = f->out->source.lost || record != f->last_record + 1;
    f->last_record = record;
}

static enum lk_status set_detail(struct lk_events *e, const struct flight_entry *x, uint32_t *out)
{
    struct lk_event_detail c = {.state = state_of(x->state)};

    LK_PASS(set_function(e, x->name, &c.function));
    if (x->group.n || x->description.n)
        LK_PASS(label_of(e, x->group, x->description, &c.group));
    c.elements = x->in_elements > x->out_elements ? x->in_elements : x->out_elements;
    c.dtype_known = x->dtype.n && lk_torch_dtype(x->dtype.at, x->dtype.n, &c.dtype);
    if (!x->p2p && c.group && x->sequence > 0)
        c.sequence = (uint64_t)x->sequence;
    return lk_events_detail(e, &c, out);
}

enum lk_status lk_flight_entry_(struct flight *f, const struct flight_entry *x)
{
    struct lk_import_event event = {.kind = LK_EVENT_ENQUEUE, .lane = f->lane};

    f->out->source.n_read++;
    if (x->wrong || !x->name.n || x->created_ns <= 0 || x->created_ns > INT64_MAX / 2 ||
        x->duration_ns > INT64_MAX / 2) {
        f->out->source.n_skipped++;
        return LK_OK;
    }
    note_lost(f, x->record);
    event.start_ns = event.end_ns = x->created_ns;
    LK_PASS(lk_events_name(f->out, x->name.at, x->name.n, &event.name));
    LK_PASS(set_detail(f->out, x, &event.detail));
    LK_PASS(lk_events_add(f->out, &event));
    if (x->duration_ns < 0)
        return LK_OK;
    event.kind = LK_EVENT_COLLECTIVE;
    event.end_ns += x->duration_ns;
    return lk_events_add(f->out, &event);
}
