#include "reports/chakra.h"

#include "base/file.h"
#include "base/protobuf.h"
#include "facts/coll.h"

/* The version of the schema, and what PyTorch's converter says of it in its metadata. */
static const char version[] = "0.0.4", schema[] = "1.0.2-chakra.0.0.4";

/* ---- Attributes ---- */

/* Put an attribute, which is a message, as a field of another: a text, or with NULL a number. */
static void put_attribute(struct lk_pb_out *to, uint32_t field, const char *name,
                          uint32_t value_field, const char *text, uint64_t number)
{
    struct lk_pb_out a = {0};

    lk_pb_put_text(&a, LK_CHAKRA_ATTR_NAME, name);
    if (text)
        lk_pb_put_text(&a, value_field, text);
    else
        lk_pb_put_uint(&a, value_field, number);
    if (a.status == LK_OK)
        lk_pb_put_bytes(to, field, a.bytes, a.n);
    else
        to->status = a.status;
    lk_pb_out_fini(&a);
}

static void put_number(struct lk_pb_out *to, uint32_t field, const char *name, uint32_t type,
                       uint64_t v)
{
    put_attribute(to, field, name, type, NULL, v);
}

static void put_string(struct lk_pb_out *to, uint32_t field, const char *name, const char *text)
{
    put_attribute(to, field, name, LK_CHAKRA_ATTR_STRING, text, 0);
}

/* ---- Messages ---- */

static void put_metadata(struct lk_pb_out *o, const struct lk_chakra_about *about)
{
    lk_pb_put_text(o, LK_CHAKRA_META_VERSION, version);
    put_string(o, LK_CHAKRA_META_ATTR, "schema", schema);
    put_string(o, LK_CHAKRA_META_ATTR, "writer", about->writer);
    put_string(o, LK_CHAKRA_META_ATTR, "model", about->model);
    put_number(o, LK_CHAKRA_META_ATTR, "rank", LK_CHAKRA_ATTR_UINT64, (uint64_t)about->rank);
    put_number(o, LK_CHAKRA_META_ATTR, "world_size", LK_CHAKRA_ATTR_UINT64,
               (uint64_t)about->world_size);
    put_number(o, LK_CHAKRA_META_ATTR, "step", LK_CHAKRA_ATTR_UINT64, about->step);
}

/* Ids are from 1: the first field of a message is never left out. */
static uint64_t id_of(size_t index)
{
    return (uint64_t)index + 1;
}

static void put_deps(struct lk_pb_out *o, const struct lk_chakra_graph *g,
                     const struct lk_chakra_node *node)
{
    struct lk_pb_out list = {0};

    for (size_t i = 0; i < node->n_deps; i++)
        lk_pb_put_varint(&list, id_of(g->deps[node->first_dep + i]));
    if (list.status != LK_OK)
        o->status = list.status;
    else if (list.n)
        lk_pb_put_bytes(o, LK_CHAKRA_NODE_DATA_DEPS, list.bytes, list.n);
    lk_pb_out_fini(&list);
}

static void put_node(struct lk_pb_out *o, const struct lk_chakra_graph *g, size_t index)
{
    enum { ATTR = LK_CHAKRA_NODE_ATTR };
    const struct lk_chakra_node *node = &g->nodes[index];

    lk_pb_put_uint(o, LK_CHAKRA_NODE_ID, id_of(index));
    lk_pb_put_text(o, LK_CHAKRA_NODE_NAME, node->name);
    lk_pb_put_uint(o, LK_CHAKRA_NODE_TYPE, node->type);
    put_deps(o, g, node);
    lk_pb_put_uint(o, LK_CHAKRA_NODE_DURATION_US, node->end_us - node->start_us);
    put_number(o, ATTR, "is_cpu_op", LK_CHAKRA_ATTR_BOOL, false);
    if (node->type == LK_CHAKRA_COMM_COLL) {
        /* The types that Chakra's first feeder reads; the later one takes any integer. */
        put_number(o, ATTR, "comm_type", LK_CHAKRA_ATTR_INT64,
                   (uint64_t)lk_coll_chakra(node->coll));
        put_number(o, ATTR, "comm_size", LK_CHAKRA_ATTR_INT64, node->bytes);
        if (node->dtype)
            put_string(o, ATTR, LK_CHAKRA_OWN_DTYPE, node->dtype);
    } else {
        put_string(o, ATTR, LK_CHAKRA_OWN_PHASE, lk_chakra_phase_name(node->phase));
    }
}

enum lk_status lk_chakra_write(const char *path, const struct lk_chakra_about *about,
                               const struct lk_chakra_graph *g)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    struct lk_pb_out message = {0}, file = {0};

    put_metadata(&message, about);
    lk_pb_put_message(&file, &message);
    for (size_t i = 0; i < g->n; i++) {
        message.n = 0;
        put_node(&message, g, i);
        lk_pb_put_message(&file, &message);
    }
    LK_TRY(file.status);
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_writer_put(w, file.bytes, file.n));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_pb_out_fini(&message);
    lk_pb_out_fini(&file);
    lk_writer_abandon(w);
    return st;
}
