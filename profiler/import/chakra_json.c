/* Read Chakra's JSON form. Its nodes have the fields of the protobuf form under other names, and
 * attributes as members. */
#include "profiler/import/chakra.h"

#include "base/array.h"
#include "base/json_scan.h"
#include "profiler/import/chakra_impl.h"

#include <string.h>

enum { NAME_BYTES = 1 << 10 }; /* as much of a name as the events keep */

static bool read_int(const struct lk_scan *s, const struct lk_slice *v, int64_t *out)
{
    if (v->token != LK_SCAN_WORD && v->token != LK_SCAN_TEXT)
        return false;
    if (LK_SCAN_IS(s, v, "true") || LK_SCAN_IS(s, v, "false")) {
        *out = LK_SCAN_IS(s, v, "true");
        return true;
    }
    return lk_scan_fixed(lk_scan_at(s, v), v->n, 0, out);
}

/* Members that are numbers of a node. */
enum number { ID, TYPE, DURATION, START, NUMBER_COUNT };
static const struct {
    const char *key;
    enum number number;
} numbers[] = {
    {"Id", ID},
    {"id", ID},
    {"NodeType", TYPE},
    {"type", TYPE},
    {"runtime", DURATION},
    {"duration_micros", DURATION},
    {"start_time_micros", START},
};

static bool set_number(struct lk_et_node *node, const struct lk_scan *s, const struct lk_slice *key,
                       int64_t v)
{
    for (size_t i = 0; i < LK_COUNT(numbers); i++) {
        if (!lk_scan_is(s, key, numbers[i].key, strlen(numbers[i].key)))
            continue;
        if (numbers[i].number == ID)
            node->id = (uint64_t)v;
        else if (numbers[i].number == TYPE)
            node->type = (uint8_t)(v >= 0 && v < LK_CHAKRA_TYPE_COUNT ? v : LK_CHAKRA_INVALID);
        else if (numbers[i].number == DURATION)
            node->duration_us = v;
        else
            node->given_start_us = v;
        return true;
    }
    return false;
}

static enum lk_status set_name(struct lk_et_graph *g, struct lk_et_node *node,
                               const struct lk_scan *s, const struct lk_slice *v)
{
    char plain[NAME_BYTES];

    if (!v->escaped)
        return lk_events_name(g->e, lk_scan_at(s, v), v->n, &node->name);
    lk_scan_plain(lk_scan_at(s, v), v->n, plain, sizeof plain);
    return lk_events_name(g->e, plain, strlen(plain), &node->name);
}

/* Take a member that is no list. */
static enum lk_status take(struct lk_et_graph *g, struct lk_et_node *node, const struct lk_scan *s,
                           const struct lk_slice *key, const struct lk_slice *v)
{
    int64_t number;

    if (LK_SCAN_IS(s, key, "Name") || LK_SCAN_IS(s, key, "name"))
        return set_name(g, node, s, v);
    if (read_int(s, v, &number)) {
        if (!set_number(node, s, key, number))
            lk_et_set_number(node, lk_scan_at(s, key), key->n, number);
        return LK_OK;
    }
    if (v->token != LK_SCAN_TEXT)
        return LK_OK;
    return lk_et_set_text(g, node, lk_scan_at(s, key), key->n, lk_scan_at(s, v), v->n);
}

static enum lk_status take_deps(struct lk_et_graph *g, const struct lk_scan *s,
                                const struct lk_slice *list, bool ctrl)
{
    enum lk_scan_token token;
    struct lk_scan in;
    int64_t id;

    if (list->token != LK_SCAN_ARRAY)
        return LK_OK;
    lk_scan_memory(&in, lk_scan_at(s, list), list->n);
    (void)lk_scan_next(&in);
    while ((token = lk_scan_next(&in)) == LK_SCAN_WORD || token == LK_SCAN_TEXT)
        if (read_int(&in, &in.slice, &id))
            LK_PASS(lk_et_depend(g, (uint64_t)id, ctrl));
    return LK_OK;
}

/* Read the members of a node. *whole false: the file ends in it, or is no JSON there. */
static enum lk_status read_node(struct lk_et_graph *g, struct lk_scan *s, bool *whole)
{
    struct lk_slice key, value, data = {0}, ctrl = {0};
    struct lk_et_node *node = NULL;
    enum lk_scan_token token;

    LK_PASS(lk_et_add(g, &node));
    while ((token = lk_scan_next(s)) == LK_SCAN_TEXT) {
        key = s->slice;
        *whole = lk_scan_value(s, &value);
        if (!*whole || s->overflown)
            return LK_OK;
        if (LK_SCAN_IS(s, &key, "data_deps"))
            data = value;
        else if (LK_SCAN_IS(s, &key, "ctrl_deps") || LK_SCAN_IS(s, &key, "ctrlDeps"))
            ctrl = value;
        else
            LK_PASS(take(g, node, s, &key, &value));
    }
    *whole = token == LK_SCAN_CLOSE;
    lk_et_use_name(g, node);
    LK_PASS(take_deps(g, s, &data, false));
    return take_deps(g, s, &ctrl, true);
}

static enum lk_status read_nodes(struct lk_et_graph *g, struct lk_scan *s)
{
    bool whole = true;

    while (whole && lk_scan_next_object(s)) {
        size_t n = g->n, n_deps = g->n_deps;
        enum lk_status st;

        lk_scan_pin(s);
        st = read_node(g, s, &whole);
        g->e->source.n_read++;
        if (!lk_scan_unpin(s) || !whole) { /* it is not known whole */
            g->n = n;
            g->n_deps = n_deps;
            g->e->source.n_skipped += whole;
        }
        LK_PASS(st);
    }
    return LK_OK;
}

static enum lk_status read_root(struct lk_et_graph *g, struct lk_scan *s)
{
    struct lk_slice value;

    if (lk_scan_next(s) != LK_SCAN_OBJECT)
        return lk_fail(LK_EPARSE, "%s: is no object with a workload_graph", s->path);
    while (lk_scan_next(s) == LK_SCAN_TEXT) {
        if (LK_SCAN_IS(s, &s->slice, "workload_graph")) {
            if (lk_scan_next(s) != LK_SCAN_ARRAY)
                return lk_fail(LK_EPARSE, "%s: workload_graph is no array", s->path);
            LK_PASS(read_nodes(g, s));
        } else if (!lk_scan_value(s, &value)) {
            break;
        }
    }
    return LK_OK;
}

enum lk_status lk_chakra_json_read(const char *path, const char *step_range, struct lk_events *out)
{
    struct lk_et_graph g = {.path = path, .e = out};
    enum lk_status st = LK_OK;
    struct lk_scan s = {0};

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "Chakra";
    LK_TRY(lk_scan_open(&s, path));
    LK_TRY(read_root(&g, &s));
    LK_TRY(lk_scan_status(&s));
    out->source.cut = s.cut;
    st = lk_et_events(&g);
out:
    lk_scan_close(&s);
    lk_et_graph_fini(&g);
    return st;
}
