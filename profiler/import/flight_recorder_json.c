/* Read dumps that are JSON. */
#include "profiler/import/flight_recorder_impl.h"

#include "base/array.h"
#include "base/json_scan.h"
#include "profiler/import/torch_values.h"

#include <string.h>

enum { TEXT_MAX = 1 << 10 };

/* Members of an entry that are read; n 0: it has none. */
struct members {
#define DECLARE(key) struct lk_slice key;
    LK_FLIGHT_KEYS(DECLARE)
#undef DECLARE
};

static const struct lk_scan_member entry_table[] = {
#define ROW(key) LK_SCAN_MEMBER(struct members, #key, key, LK_SCAN_SLICE),
    LK_FLIGHT_KEYS(ROW)
#undef ROW
};

/* Members of a group. */
struct group {
    struct lk_slice name, description, ranks;
};

static const struct lk_scan_member group_table[] = {
    LK_SCAN_MEMBER(struct group, "name", name, LK_SCAN_SLICE),
    LK_SCAN_MEMBER(struct group, "desc", description, LK_SCAN_SLICE),
    LK_SCAN_MEMBER(struct group, "ranks", ranks, LK_SCAN_SLICE),
};

/* Texts of an entry, without their escapes. */
struct texts {
    char group[TEXT_MAX], description[TEXT_MAX], name[TEXT_MAX];
};

static struct flight_text slice_text(const struct lk_scan *s, const struct lk_slice *v)
{
    return (struct flight_text){lk_scan_at(s, v), v->n};
}

static struct flight_text plain_text(const struct lk_scan *s, const struct lk_slice *v, char *buf)
{
    lk_scan_plain(lk_scan_at(s, v), v->n, buf, TEXT_MAX);
    return (struct flight_text){buf, strlen(buf)};
}

/* Return a number times 10^places, or -1; *wrong is set if there is something else. */
static int64_t number_of(const struct lk_scan *s, const struct lk_slice *v, int places, bool *wrong)
{
    int64_t n;

    if (!v->n || LK_SCAN_IS(s, v, "null"))
        return -1;
    if (lk_scan_fixed(lk_scan_at(s, v), v->n, places, &n) && n >= 0)
        return n;
    *wrong = true;
    return -1;
}

/* Set name and description of the group, ["0", "default_pg"]. */
static void read_group_of(const struct lk_scan *s, const struct lk_slice *v, struct texts *t,
                          struct flight_entry *x)
{
    struct lk_slice item;
    struct lk_scan in;

    lk_scan_memory(&in, lk_scan_at(s, v), v->n);
    if (lk_scan_next(&in) != LK_SCAN_ARRAY || !lk_scan_value(&in, &item))
        return;
    x->group = plain_text(&in, &item, t->group);
    if (lk_scan_value(&in, &item))
        x->description = plain_text(&in, &item, t->description);
}

static uint64_t elements_of(const struct lk_scan *s, const struct lk_slice *v)
{
    return lk_torch_tensor_elements(lk_scan_at(s, v), v->n);
}

static void set_entry(const struct lk_scan *s, const struct members *m, struct texts *t,
                      struct flight_entry *x)
{
    x->record = number_of(s, &m->record_id, 0, &x->wrong);
    x->sequence = number_of(s, &m->collective_seq_id, 0, &x->wrong);
    x->created_ns = number_of(s, &m->time_created_ns, 0, &x->wrong);
    x->duration_ns = number_of(s, &m->duration_ms, LK_FLIGHT_MS_PLACES, &x->wrong);
    read_group_of(s, &m->process_group, t, x);
    x->name = plain_text(s, &m->profiling_name, t->name);
    x->state = slice_text(s, &m->state);
    x->in_elements = elements_of(s, &m->input_sizes);
    x->out_elements = elements_of(s, &m->output_sizes);
    /* An empty list is "[]". */
    x->dtype = slice_text(s, m->input_dtypes.n > 2 ? &m->input_dtypes : &m->output_dtypes);
    x->p2p = LK_SCAN_IS(s, &m->is_p2p, "true");
}

static enum lk_status read_entry(struct flight *f, struct lk_scan *s, bool *more)
{
    struct flight_entry x = LK_FLIGHT_ENTRY;
    enum lk_status st = LK_OK;
    struct members m = {0};
    struct texts t;

    lk_scan_pin(s);
    *more = lk_scan_object(s, entry_table, LK_COUNT(entry_table), &m);
    if (*more && !s->overflown) {
        set_entry(s, &m, &t, &x);
        st = lk_flight_entry_(f, &x);
    }
    f->out->source.n_skipped += !lk_scan_unpin(s);
    return st;
}

static enum lk_status read_entries(struct flight *f, struct lk_scan *s)
{
    bool more = true;

    while (more && lk_scan_next_object(s))
        LK_PASS(read_entry(f, s, &more));
    return LK_OK;
}

/* Read a group, whose object is open. */
static enum lk_status read_group(struct flight *f, struct lk_scan *s)
{
    enum lk_status st = LK_OK;
    struct group g = {0};
    struct texts t;

    lk_scan_pin(s);
    (void)lk_scan_object(s, group_table, LK_COUNT(group_table), &g);
    if (!s->overflown)
        st =
            lk_flight_group_(f, plain_text(s, &g.name, t.group),
                             plain_text(s, &g.description, t.description), slice_text(s, &g.ranks));
    (void)lk_scan_unpin(s);
    return st;
}

static enum lk_status read_groups(struct flight *f, struct lk_scan *s)
{
    while (lk_scan_next(s) == LK_SCAN_TEXT) {
        enum lk_scan_token token = lk_scan_next(s);

        if (token == LK_SCAN_OBJECT)
            LK_PASS(read_group(f, s));
        else if (token == LK_SCAN_ARRAY)
            lk_scan_leave(s, s->depth);
        else if (token != LK_SCAN_TEXT && token != LK_SCAN_WORD)
            break;
    }
    return LK_OK;
}

static enum lk_status read_root(struct flight *f, struct lk_scan *s)
{
    struct lk_slice value;

    if (lk_scan_next(s) != LK_SCAN_OBJECT)
        return lk_fail(LK_EPARSE, "%s: is no object with entries", s->path);
    while (lk_scan_next(s) == LK_SCAN_TEXT) {
        bool entries = LK_SCAN_IS(s, &s->slice, "entries");
        bool groups = LK_SCAN_IS(s, &s->slice, "pg_config");
        enum lk_scan_token want = entries ? LK_SCAN_ARRAY : LK_SCAN_OBJECT;

        if (!entries && !groups) {
            if (!lk_scan_value(s, &value))
                break;
            continue;
        }
        if (lk_scan_next(s) != want)
            return lk_fail(LK_EPARSE, "%s: %s is no %s", s->path, entries ? "entries" : "pg_config",
                           entries ? "array" : "object");
        LK_PASS(entries ? read_entries(f, s) : read_groups(f, s));
    }
    return LK_OK;
}

enum lk_status lk_flight_json_read(const char *path, const char *step_range, struct lk_events *out)
{
    enum lk_status st = LK_OK;
    struct lk_scan s = {0};
    struct flight f;

    (void)step_range;
    LK_TRY(lk_flight_init_(&f, out));
    LK_TRY(lk_scan_open(&s, path));
    LK_TRY(read_root(&f, &s));
    LK_TRY(lk_scan_status(&s));
    lk_flight_finish_(&f);
    out->source.cut = s.cut;
out:
    lk_scan_close(&s);
    lk_flight_fini_(&f);
    return st;
}
