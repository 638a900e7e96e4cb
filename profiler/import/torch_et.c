#include "profiler/import/torch_et.h"

#include "base/array.h"
#include "base/json_scan.h"
#include "profiler/import/torch_values.h"

#include <string.h>

/* Members of a node that are read. */
struct node {
    struct lk_slice name, shapes, types, inputs;
};

#define MEMBER(key, member) LK_SCAN_MEMBER(struct node, key, member, LK_SCAN_SLICE)
static const struct lk_scan_member node_table[] = {
    MEMBER("name", name),
    MEMBER("input_shapes", shapes),
    MEMBER("input_types", types),
    MEMBER("inputs", inputs),
};

/* Since schema 1.0.2 shapes and types are members of inputs. */
static const struct lk_scan_member inputs_table[] = {
    MEMBER("shapes", shapes),
    MEMBER("types", types),
};
#undef MEMBER

/* Nodes that tell a size, and the function that their details get. */
static const struct {
    const char *node, *function;
} sized[] = {
    {"c10d::allreduce_", "all_reduce"},
    {"torch::autograd::AccumulateGrad", LK_GRADIENT_SIZE},
};

static enum lk_status take_node(const struct lk_scan *s, const struct node *n,
                                struct lk_events *out)
{
    struct lk_event_detail c = {0};
    const char *function = NULL;
    struct node sizes = *n;
    const struct lk_scan *where = s; /* the sizes are slices of it */
    struct lk_scan in;
    uint32_t index;

    for (size_t i = 0; i < LK_COUNT(sized); i++)
        if (lk_scan_is(s, &n->name, sized[i].node, strlen(sized[i].node)))
            function = sized[i].function;
    if (!function)
        return LK_OK;
    if (!n->shapes.n) {
        sizes = (struct node){0};
        where = &in;
        lk_scan_memory(&in, lk_scan_at(s, &n->inputs), n->inputs.n);
        if (lk_scan_next(&in) == LK_SCAN_OBJECT)
            (void)lk_scan_object(&in, inputs_table, LK_COUNT(inputs_table), &sizes);
    }
    LK_PASS(lk_events_name(out, function, strlen(function), &c.function));
    c.elements = strcmp(function, LK_GRADIENT_SIZE)
                     ? lk_torch_elements(lk_scan_at(where, &sizes.shapes), sizes.shapes.n)
                     : lk_torch_tensor_elements(lk_scan_at(where, &sizes.shapes), sizes.shapes.n);
    c.dtype_known = lk_torch_dtype(lk_scan_at(where, &sizes.types), sizes.types.n, &c.dtype);
    return c.elements && c.dtype_known ? lk_events_detail(out, &c, &index) : LK_OK;
}

static enum lk_status read_nodes(struct lk_scan *s, struct lk_events *out)
{
    bool more = true;

    while (more && lk_scan_next_object(s)) {
        enum lk_status st = LK_OK;
        struct node n = {0};

        lk_scan_pin(s);
        more = lk_scan_object(s, node_table, LK_COUNT(node_table), &n);
        out->source.n_read += more;
        if (more && !s->overflown && n.name.n)
            st = take_node(s, &n, out);
        out->source.n_skipped += !lk_scan_unpin(s);
        LK_PASS(st);
    }
    return LK_OK;
}

static enum lk_status read_root(struct lk_scan *s, struct lk_events *out)
{
    struct lk_slice value;
    enum lk_scan_token token;

    if (lk_scan_next(s) != LK_SCAN_OBJECT)
        return lk_fail(LK_EPARSE, "%s: is no object with nodes", s->path);
    while ((token = lk_scan_next(s)) == LK_SCAN_TEXT) {
        if (LK_SCAN_IS(s, &s->slice, "nodes")) {
            if (lk_scan_next(s) != LK_SCAN_ARRAY)
                return lk_fail(LK_EPARSE, "%s: nodes is no array", s->path);
            LK_PASS(read_nodes(s, out));
        } else if (!lk_scan_value(s, &value)) {
            break;
        }
    }
    return LK_OK;
}

enum lk_status lk_torch_et_read(const char *path, const char *step_range, struct lk_events *out)
{
    enum lk_status st = LK_OK;
    struct lk_scan s = {0};

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "PyTorch execution trace";
    LK_TRY(lk_scan_open(&s, path));
    LK_TRY(read_root(&s, out));
    LK_TRY(lk_scan_status(&s));
    out->source.cut = s.cut;
out:
    lk_scan_close(&s);
    return st;
}
