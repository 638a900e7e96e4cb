/* Read Chakra's protobuf form. Divisions: attributes, nodes, the file, recognition. */
#include "profiler/import/chakra.h"

#include "base/array.h"
#include "base/gz.h"
#include "base/protobuf.h"
#include "profiler/import/chakra_impl.h"
#include "profiler/import/torch_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A longer message is skipped: a node has some hundred bytes, and as many as its dependencies. */
enum { MESSAGE_MAX = 16 << 20 };

/* ---- Attributes ---- */

/* An AttributeProto. */
struct attribute {
    const char *name, *text; /* text NULL: it is no text */
    size_t n_name, n_text;
    int64_t number;
    bool is_number;
};

static int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (~(v & 1) + 1));
}

static void read_attribute_value(const struct lk_pb_field *f, struct attribute *a)
{
    switch (f->number) {
    case LK_CHAKRA_ATTR_INT32:
    case LK_CHAKRA_ATTR_INT64:
    case LK_CHAKRA_ATTR_UINT32:
    case LK_CHAKRA_ATTR_UINT64:
    case LK_CHAKRA_ATTR_FIXED32:
    case LK_CHAKRA_ATTR_FIXED64:
    case LK_CHAKRA_ATTR_SFIXED64:
    case LK_CHAKRA_ATTR_BOOL:
        a->number = (int64_t)f->value;
        break;
    case LK_CHAKRA_ATTR_SFIXED32:
        a->number = (int32_t)f->value;
        break;
    case LK_CHAKRA_ATTR_SINT32:
    case LK_CHAKRA_ATTR_SINT64:
        a->number = unzigzag(f->value);
        break;
    default:
        return;
    }
    a->is_number = f->wire != LK_PB_BYTES;
}

/* Read an attribute; false: it is damaged, or has no name. */
static bool read_attribute(const struct lk_pb_field *message, struct attribute *a)
{
    struct lk_pb p = lk_pb_of(message->bytes, message->n);
    struct lk_pb_field f;

    *a = (struct attribute){0};
    while (lk_pb_next(&p, &f)) {
        if (f.number == LK_CHAKRA_ATTR_NAME && f.wire == LK_PB_BYTES) {
            a->name = (const char *)f.bytes;
            a->n_name = f.n;
        } else if (f.number == LK_CHAKRA_ATTR_STRING && f.wire == LK_PB_BYTES) {
            a->text = (const char *)f.bytes;
            a->n_text = f.n;
        } else {
            read_attribute_value(&f, a);
        }
    }
    return !p.damaged && a->name;
}

/* ---- Nodes ---- */

/* Wire types of the fields of Node and GlobalMetadata, by number; packed lists may be written one
 * by one. */
static const struct {
    bool varint, bytes;
} of_node[] = {
    [LK_CHAKRA_NODE_ID] = {.varint = true},       [LK_CHAKRA_NODE_NAME] = {.bytes = true},
    [LK_CHAKRA_NODE_TYPE] = {.varint = true},     [LK_CHAKRA_NODE_CTRL_DEPS] = {true, true},
    [LK_CHAKRA_NODE_DATA_DEPS] = {true, true},    [LK_CHAKRA_NODE_START_US] = {.varint = true},
    [LK_CHAKRA_NODE_DURATION_US] = {true, false}, [LK_CHAKRA_NODE_INPUTS] = {.bytes = true},
    [LK_CHAKRA_NODE_OUTPUTS] = {.bytes = true},   [LK_CHAKRA_NODE_ATTR] = {.bytes = true},
    [LK_CHAKRA_NODE_STORAGE] = {.bytes = true},
};

static bool fits_node(const struct lk_pb_field *f)
{
    if (f->number >= LK_COUNT(of_node))
        return false;
    return (f->wire == LK_PB_VARINT && of_node[f->number].varint) ||
           (f->wire == LK_PB_BYTES && of_node[f->number].bytes);
}

/* Return true if the message is a whole Node: its type, of which a GlobalMetadata has none, exists.
 */
static bool is_node(const unsigned char *bytes, size_t n)
{
    struct lk_pb p = lk_pb_of(bytes, n);
    struct lk_pb_field f;
    bool typed = false;

    while (lk_pb_next(&p, &f)) {
        if (!fits_node(&f) || (f.number == LK_CHAKRA_NODE_TYPE && f.value >= LK_CHAKRA_TYPE_COUNT))
            return false;
        typed = typed || f.number == LK_CHAKRA_NODE_TYPE;
    }
    return !p.damaged && typed;
}

static enum lk_status read_deps(struct lk_et_graph *g, const struct lk_pb_field *f, bool ctrl)
{
    struct lk_pb p = lk_pb_of(f->bytes, f->n);
    uint64_t id;

    if (f->wire == LK_PB_VARINT)
        return lk_et_depend(g, f->value, ctrl);
    while (f->wire == LK_PB_BYTES && lk_pb_varint(&p, &id))
        LK_PASS(lk_et_depend(g, id, ctrl));
    return LK_OK;
}

/* Read a gradient's shape and type, where the node is the one with which autograd has it. */
static enum lk_status read_gradient(struct lk_et_graph *g, struct lk_et_node *node,
                                    const struct lk_pb_field *io)
{
    static const char accumulate[] = "torch::autograd::AccumulateGrad";
    struct lk_event_detail c = {0};
    struct lk_pb p = lk_pb_of(io->bytes, io->n);
    struct lk_pb_field f;

    if (strncmp(lk_events_text(g->e, node->name), accumulate, sizeof accumulate - 1) != 0)
        return LK_OK;
    while (lk_pb_next(&p, &f)) {
        if (f.number == LK_CHAKRA_IO_SHAPES && f.wire == LK_PB_BYTES)
            c.elements = lk_torch_tensor_elements((const char *)f.bytes, f.n);
        if (f.number == LK_CHAKRA_IO_TYPES && f.wire == LK_PB_BYTES)
            c.dtype_known = lk_torch_dtype((const char *)f.bytes, f.n, &c.dtype);
    }
    if (!c.elements || !c.dtype_known)
        return LK_OK;
    LK_PASS(lk_events_name(g->e, LK_GRADIENT_SIZE, sizeof LK_GRADIENT_SIZE - 1, &c.function));
    return lk_events_detail(g->e, &c, &node->detail);
}

static enum lk_status read_node_attribute(struct lk_et_graph *g, struct lk_et_node *node,
                                          const struct lk_pb_field *f)
{
    struct attribute a;

    if (!read_attribute(f, &a))
        return LK_OK;
    if (a.is_number)
        lk_et_set_number(node, a.name, a.n_name, a.number);
    return a.text ? lk_et_set_text(g, node, a.name, a.n_name, a.text, a.n_text) : LK_OK;
}

/* Read a node's fields but its dependencies. */
static enum lk_status read_fields(struct lk_et_graph *g, struct lk_et_node *node,
                                  const unsigned char *bytes, size_t n)
{
    struct lk_pb p = lk_pb_of(bytes, n);
    struct lk_pb_field f, inputs = {0};

    while (lk_pb_next(&p, &f)) {
        if (f.number == LK_CHAKRA_NODE_ID)
            node->id = f.value;
        else if (f.number == LK_CHAKRA_NODE_TYPE)
            node->type = (uint8_t)f.value;
        else if (f.number == LK_CHAKRA_NODE_START_US)
            node->given_start_us = (int64_t)f.value;
        else if (f.number == LK_CHAKRA_NODE_DURATION_US)
            node->duration_us = (int64_t)f.value;
        else if (f.number == LK_CHAKRA_NODE_NAME)
            LK_PASS(lk_events_name(g->e, (const char *)f.bytes, f.n, &node->name));
        else if (f.number == LK_CHAKRA_NODE_ATTR)
            LK_PASS(read_node_attribute(g, node, &f));
        else if (f.number == LK_CHAKRA_NODE_INPUTS)
            inputs = f;
    }
    lk_et_use_name(g, node);
    return inputs.bytes ? read_gradient(g, node, &inputs) : LK_OK;
}

static enum lk_status read_node(struct lk_et_graph *g, const unsigned char *bytes, size_t n)
{
    static const uint32_t lists[] = {LK_CHAKRA_NODE_DATA_DEPS, LK_CHAKRA_NODE_CTRL_DEPS};
    struct lk_et_node *node = NULL;
    struct lk_pb_field f;

    LK_PASS(lk_et_add(g, &node));
    LK_PASS(read_fields(g, node, bytes, n));
    for (size_t i = 0; i < LK_COUNT(lists); i++)
        for (struct lk_pb p = lk_pb_of(bytes, n); lk_pb_next(&p, &f);)
            if (f.number == lists[i])
                LK_PASS(read_deps(g, &f, lists[i] == LK_CHAKRA_NODE_CTRL_DEPS));
    return LK_OK;
}

/* ---- The file ---- */

/* Return true if a text may be a version: "0.0.4". Text files begin with what looks like a field,
 * but with other bytes in it. */
static bool is_version(const struct lk_pb_field *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!isalnum(f->bytes[i]) && !strchr(".+-_", f->bytes[i]))
            return false;
    return f->n > 0;
}

/* Return true if the message is a GlobalMetadata, or the start of one with an attribute at least.
 */
static bool is_metadata(const unsigned char *bytes, size_t n, bool whole)
{
    struct lk_pb p = lk_pb_of(bytes, n);
    struct lk_pb_field f;
    struct attribute a;
    bool any = false;

    while (lk_pb_next(&p, &f)) {
        bool attribute = f.number == LK_CHAKRA_META_ATTR && f.wire == LK_PB_BYTES;

        if (attribute
                ? !read_attribute(&f, &a)
                : f.number != LK_CHAKRA_META_VERSION || f.wire != LK_PB_BYTES || !is_version(&f))
            return false;
        any = any || attribute;
    }
    return whole ? !p.damaged : any;
}

static void read_metadata(struct lk_events *e, const unsigned char *bytes, size_t n)
{
    struct lk_pb p = lk_pb_of(bytes, n);
    struct lk_pb_field f;
    struct attribute a;

    while (lk_pb_next(&p, &f)) {
        if (f.number != LK_CHAKRA_META_ATTR || !read_attribute(&f, &a) || !a.is_number ||
            a.number < 0 || a.number >= 1 << 20)
            continue;
        if (a.n_name == 4 && !memcmp(a.name, "rank", 4))
            e->source.rank = (int)a.number;
        if (a.n_name == 10 && !memcmp(a.name, "world_size", 10))
            e->source.world_size = (int)a.number;
    }
}

/* The file being read: one message is in memory. */
struct file {
    const char *path;
    gzFile gz;
    uint64_t at; /* bytes read, unpacked */
    unsigned char *message;
    size_t n, capacity;
    bool ended;
};

enum { CHECK_BYTES = 1 << 20 }; /* between two checks of how much the file unpacks to */

static enum lk_status read_bytes(struct file *f, void *to, size_t want, size_t *got)
{
    int n = gzread(f->gz, to, (unsigned)want), code;

    if (n < 0)
        return lk_fail(LK_EIO, "%s: cannot read: %s", f->path, gzerror(f->gz, &code));
    f->at += (uint64_t)n;
    if (f->at / CHECK_BYTES != (f->at - (uint64_t)n) / CHECK_BYTES)
        LK_PASS(lk_gz_check(f->gz, f->path));
    *got = (size_t)n;
    return LK_OK;
}

/* Read the length of the next message. *cut: the file ends in it. */
static enum lk_status read_length(struct file *f, uint64_t *out, bool *cut)
{
    uint64_t start = f->at;
    unsigned char byte;
    size_t got;

    *out = 0;
    for (int i = 0; i < LK_PB_VARINT_MAX; i++) {
        LK_PASS(read_bytes(f, &byte, 1, &got));
        f->ended = got == 0;
        *cut = f->ended && i > 0;
        if (f->ended)
            return LK_OK;
        *out |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128)
            return LK_OK;
    }
    return lk_fail(LK_EPARSE, "%s: byte %llu: there is no length of a message", f->path,
                   (unsigned long long)start);
}

/* Read the next message whole into f->message, or pass over one that is too long. */
static enum lk_status read_message(struct file *f, uint64_t length, bool *cut, bool *passed)
{
    unsigned char waste[1 << 12];
    uint64_t left = length;
    size_t got = 1;

    *passed = length > MESSAGE_MAX;
    if (!*passed) {
        LK_PASS(lk_array_grow(&f->message, &f->capacity, (size_t)length, 1));
        LK_PASS(length ? read_bytes(f, f->message, (size_t)length, &f->n) : LK_OK);
        f->n = length ? f->n : 0;
        *cut = f->n < length;
        f->ended = *cut;
        return LK_OK;
    }
    for (; left > 0 && got > 0; left -= got)
        LK_PASS(read_bytes(f, waste, left < sizeof waste ? (size_t)left : sizeof waste, &got));
    *cut = left > 0;
    f->ended = *cut;
    return LK_OK;
}

static enum lk_status read_messages(struct file *f, struct lk_et_graph *g)
{
    struct lk_events *e = g->e;

    for (uint64_t i = 0; !f->ended; i++) {
        uint64_t length;
        bool passed = false;

        LK_PASS(read_length(f, &length, &e->source.cut));
        if (f->ended)
            break;
        LK_PASS(read_message(f, length, &e->source.cut, &passed));
        if (f->ended)
            break;
        e->source.n_read++;
        if (!passed && is_node(f->message, f->n))
            LK_PASS(read_node(g, f->message, f->n));
        else if (!passed && i == 0 && is_metadata(f->message, f->n, true))
            read_metadata(e, f->message, f->n);
        else
            e->source.n_skipped++;
    }
    return LK_OK;
}

enum lk_status lk_chakra_read(const char *path, const char *step_range, struct lk_events *out)
{
    struct file f = {.path = path};
    struct lk_et_graph g = {.path = path, .e = out};
    enum lk_status st = LK_OK;

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "Chakra";
    LK_TRY(lk_gz_open(path, &f.gz));
    LK_TRY(read_messages(&f, &g));
    st = lk_et_events(&g);
out:
    if (f.gz)
        (void)gzclose_r(f.gz);
    free(f.message);
    lk_et_graph_fini(&g);
    return st;
}

/* ---- Recognition ---- */

bool lk_chakra_is(const unsigned char *bytes, size_t n)
{
    struct lk_pb p = lk_pb_of(bytes, n);
    uint64_t length;

    for (int i = 0; i < 2; i++) {
        bool whole;
        size_t there;

        if (!lk_pb_varint(&p, &length) || length > MESSAGE_MAX)
            return false;
        whole = length <= (uint64_t)(p.end - p.at);
        there = whole ? (size_t)length : (size_t)(p.end - p.at);
        if (whole && is_node(p.at, there))
            return true;
        /* A large GlobalMetadata may fill the start of a file. */
        if (i > 0 || !is_metadata(p.at, there, whole))
            return false;
        if (!whole)
            return true;
        p.at += length;
    }
    return false;
}
