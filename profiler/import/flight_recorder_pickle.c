/* Read dumps that are pickles. */
#include "profiler/import/flight_recorder_impl.h"

#include "base/array.h"
#include "profiler/import/pickle_scan.h"

#include <math.h>
#include <string.h>

static struct flight_text text_of(struct lk_pickle *p, const struct lk_pickle_value *v)
{
    const char *text = lk_pickle_text(p, v);

    return (struct flight_text){text, text ? v->n : 0};
}

/* Return an integer, or -1; *wrong is set if there is something else. */
static int64_t integer_of(const struct lk_pickle_value *v, bool *wrong)
{
    if (!v || v->type == LK_PICKLE_NONE)
        return -1;
    if (v->type == LK_PICKLE_INTEGER && v->integer >= 0)
        return v->integer;
    *wrong = true;
    return -1;
}

/* Return ms as ns, likewise. */
static int64_t ns_of(const struct lk_pickle_value *v, bool *wrong)
{
    double ns;

    if (!v || v->type == LK_PICKLE_NONE)
        return -1;
    ns = 1e6 * (v->type == LK_PICKLE_NUMBER    ? v->number
                : v->type == LK_PICKLE_INTEGER ? (double)v->integer
                                               : NAN);
    if (ns >= 0 && ns < (double)(INT64_MAX / 2))
        return llround(ns);
    *wrong = true;
    return -1;
}

/* Return the elements of all tensors in a list of sizes, [[5, 3], [2]]. */
static uint64_t elements_of(struct lk_pickle *p, const struct lk_pickle_value *sizes)
{
    const struct lk_pickle_value *tensor, *side;
    uint64_t sum = 0;

    for (uint32_t i = 0; (tensor = lk_pickle_item(p, sizes, i)) != NULL; i++) {
        uint64_t product = 1;

        for (uint32_t k = 0; (side = lk_pickle_item(p, tensor, k)) != NULL; k++)
            product *=
                side->type == LK_PICKLE_INTEGER && side->integer > 0 ? (uint64_t)side->integer : 0;
        sum += product;
    }
    return sum;
}

static void read_entry(struct lk_pickle *p, const struct lk_pickle_value *dict,
                       struct flight_entry *x)
{
#define DECLARE(key) const struct lk_pickle_value *key = NULL;
    LK_FLIGHT_KEYS(DECLARE)
#undef DECLARE
    const struct lk_pickle_value *key, *value;

    for (uint32_t i = 0; (value = lk_pickle_pair(p, dict, i, &key)) != NULL; i++) {
        const char *name = lk_pickle_text(p, key);

#define SET(member)                                                                                \
    if (name && !strcmp(name, #member))                                                            \
        member = value;
        LK_FLIGHT_KEYS(SET)
#undef SET
    }
    x->record = integer_of(record_id, &x->wrong);
    x->sequence = integer_of(collective_seq_id, &x->wrong);
    x->created_ns = integer_of(time_created_ns, &x->wrong);
    x->duration_ns = ns_of(duration_ms, &x->wrong);
    x->group = text_of(p, lk_pickle_item(p, process_group, 0));
    x->description = text_of(p, lk_pickle_item(p, process_group, 1));
    x->name = text_of(p, profiling_name);
    x->state = text_of(p, state);
    x->in_elements = elements_of(p, input_sizes);
    x->out_elements = elements_of(p, output_sizes);
    x->dtype = text_of(p, lk_pickle_item(p, input_dtypes, 0));
    if (!x->dtype.n)
        x->dtype = text_of(p, lk_pickle_item(p, output_dtypes, 0));
    x->p2p = is_p2p && is_p2p->type == LK_PICKLE_BOOL && is_p2p->integer;
}

static enum lk_status read_groups(struct flight *f, struct lk_pickle *p,
                                  const struct lk_pickle_value *groups)
{
    const struct lk_pickle_value *key, *group;

    for (uint32_t i = 0; (group = lk_pickle_pair(p, groups, i, &key)) != NULL; i++)
        LK_PASS(lk_flight_group_(f, text_of(p, lk_pickle_member(p, group, "name")),
                                 text_of(p, lk_pickle_member(p, group, "desc")),
                                 text_of(p, lk_pickle_member(p, group, "ranks"))));
    return LK_OK;
}

static enum lk_status read_root(const char *path, struct flight *f, struct lk_pickle *p)
{
    const struct lk_pickle_value *root = lk_pickle_root(p), *entry;
    const struct lk_pickle_value *entries = lk_pickle_member(p, root, "entries");

    if ((!entries || entries->type != LK_PICKLE_LIST) && !p->cut)
        return lk_fail(LK_EPARSE, "%s: is a pickle, but no Flight Recorder dump with entries",
                       path);
    LK_PASS(read_groups(f, p, lk_pickle_member(p, root, "pg_config")));
    for (uint32_t i = 0; (entry = lk_pickle_item(p, entries, i)) != NULL; i++) {
        struct flight_entry x = LK_FLIGHT_ENTRY;

        read_entry(p, entry, &x);
        LK_PASS(lk_flight_entry_(f, &x));
    }
    if (!p->visits_left)
        return lk_fail(LK_EPARSE, "%s: its values are in each other too often for a dump", path);
    f->out->source.cut = p->cut;
    return LK_OK;
}

enum lk_status lk_flight_pickle_read(const char *path, const char *step_range,
                                     struct lk_events *out)
{
    enum lk_status st = LK_OK;
    struct lk_pickle p = {0};
    struct flight f;

    (void)step_range;
    LK_TRY(lk_flight_init_(&f, out));
    LK_TRY(lk_pickle_read(path, &p));
    LK_TRY(read_root(path, &f, &p));
    lk_flight_finish_(&f);
out:
    lk_flight_fini_(&f);
    lk_pickle_fini(&p);
    return st;
}
