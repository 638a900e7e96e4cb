#include "tests/rigs/chakra_file.h"

#include <string.h>

void chakra_put_head(struct lk_pb_out *file)
{
    struct lk_pb_out head = {0};

    lk_pb_put_text(&head, LK_CHAKRA_META_VERSION, "0.0.4");
    lk_pb_put_message(file, &head);
    lk_pb_out_fini(&head);
}

static void put_attribute(struct lk_pb_out *node, const char *name, uint32_t field, uint64_t number,
                          const char *text)
{
    struct lk_pb_out a = {0};

    lk_pb_put_text(&a, LK_CHAKRA_ATTR_NAME, name);
    if (text)
        lk_pb_put_text(&a, field, text);
    else
        lk_pb_put_uint(&a, field, number);
    lk_pb_put_bytes(node, LK_CHAKRA_NODE_ATTR, a.bytes, a.n);
    lk_pb_out_fini(&a);
}

/* Dependencies are packed where there are several, one by one where there is one. */
static void put_deps(struct lk_pb_out *o, uint32_t field, const uint64_t *ids)
{
    struct lk_pb_out list = {0};

    if (ids[0] && !ids[1])
        lk_pb_put_uint(o, field, ids[0]);
    for (size_t i = 0; ids[0] && ids[1] && i < 8 && ids[i]; i++)
        lk_pb_put_varint(&list, ids[i]);
    if (list.n)
        lk_pb_put_bytes(o, field, list.bytes, list.n);
    lk_pb_out_fini(&list);
}

static void put_comm(struct lk_pb_out *o, const struct chakra_node *node)
{
    uint64_t size = (uint64_t)node->comm_size;
    uint32_t field = LK_CHAKRA_ATTR_INT64;

    if (!strcmp(node->comm_size_field, "uint64"))
        field = LK_CHAKRA_ATTR_UINT64;
    if (!strcmp(node->comm_size_field, "sint64")) {
        field = LK_CHAKRA_ATTR_SINT64;
        size = size << 1 ^ (node->comm_size < 0 ? UINT64_MAX : 0);
    }
    put_attribute(o, "comm_type", LK_CHAKRA_ATTR_INT64, (uint64_t)node->comm_type, NULL);
    put_attribute(o, "comm_size", field, size, NULL);
}

static void put_inputs(struct lk_pb_out *o, const struct chakra_node *node)
{
    struct lk_pb_out io = {0};

    lk_pb_put_text(&io, LK_CHAKRA_IO_SHAPES, node->shapes);
    lk_pb_put_text(&io, LK_CHAKRA_IO_TYPES, node->types);
    lk_pb_put_bytes(o, LK_CHAKRA_NODE_INPUTS, io.bytes, io.n);
    lk_pb_out_fini(&io);
}

void chakra_put(struct lk_pb_out *file, const struct chakra_node *node)
{
    struct lk_pb_out o = {0};

    if (node->id)
        lk_pb_put_uint(&o, LK_CHAKRA_NODE_ID, node->id);
    if (node->name)
        lk_pb_put_text(&o, LK_CHAKRA_NODE_NAME, node->name);
    lk_pb_put_uint(&o, LK_CHAKRA_NODE_TYPE, node->type);
    put_deps(&o, LK_CHAKRA_NODE_CTRL_DEPS, node->ctrl);
    put_deps(&o, LK_CHAKRA_NODE_DATA_DEPS, node->data);
    if (node->start_us)
        lk_pb_put_uint(&o, LK_CHAKRA_NODE_START_US, node->start_us);
    if (node->duration_us)
        lk_pb_put_uint(&o, LK_CHAKRA_NODE_DURATION_US, node->duration_us);
    if (node->shapes)
        put_inputs(&o, node);
    put_attribute(&o, "is_cpu_op", LK_CHAKRA_ATTR_BOOL, node->on_host, NULL);
    if (node->stream)
        put_attribute(&o, "stream", LK_CHAKRA_ATTR_INT32, (uint64_t)node->stream, NULL);
    if (node->comm_size_field)
        put_comm(&o, node);
    if (node->phase)
        put_attribute(&o, LK_CHAKRA_OWN_PHASE, LK_CHAKRA_ATTR_STRING, 0, node->phase);
    lk_pb_put_message(file, &o);
    lk_pb_out_fini(&o);
}
