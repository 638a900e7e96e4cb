#include "profiler/import/chakra_impl.h"
#include "profiler/import/event_kind.h"

#include "base/array.h"

#include <string.h>

static bool is(const char *text, size_t n, const char *what)
{
    return n == strlen(what) && !memcmp(text, what, n);
}

/* Attributes that PyTorch's converter, ASTRA-sim's feeder and our export use: the old feeder reads
 * int64 here and uint64 there, so a reader takes any integer. */
enum number { ON_HOST, COMM_TYPE, COMM_SIZE, TENSOR_SIZE, THREAD, STREAM, NUMBER_COUNT };
static const char *const numbers[NUMBER_COUNT] = {
    [ON_HOST] = "is_cpu_op",       [COMM_TYPE] = "comm_type", [COMM_SIZE] = "comm_size",
    [TENSOR_SIZE] = "tensor_size", [THREAD] = "tid",          [STREAM] = "stream"};

void lk_et_set_number(struct lk_et_node *node, const char *name, size_t n_name, int64_t v)
{
    enum number which = ON_HOST;

    while (which < NUMBER_COUNT && !is(name, n_name, numbers[which]))
        which++;
    switch (which) {
    case ON_HOST:
        node->on_host = v != 0;
        break;
    case COMM_TYPE:
        node->coll_known = lk_coll_of_chakra(v, &node->coll);
        break;
    case COMM_SIZE:
    case TENSOR_SIZE:
        node->bytes = v > 0 ? (uint64_t)v : node->bytes;
        break;
    case THREAD:
        node->thread = v >= 0 ? v : -1;
        break;
    case STREAM:
        node->stream = v >= 0 ? v : -1;
        break;
    case NUMBER_COUNT:
        break;
    }
}

enum lk_status lk_et_set_text(struct lk_et_graph *g, struct lk_et_node *node, const char *name,
                              size_t n_name, const char *text, size_t n_text)
{
    if (is(name, n_name, "pg_name"))
        return lk_events_name(g->e, text, n_text, &node->group);
    if (is(name, n_name, LK_CHAKRA_OWN_PHASE))
        for (uint8_t i = 0; i < LK_CHAKRA_PHASE_COUNT; i++)
            if (is(text, n_text, lk_chakra_phase_name((enum lk_chakra_phase)i)))
                node->phase = i;
    if (is(name, n_name, LK_CHAKRA_OWN_DTYPE))
        for (uint8_t i = 0; i < LK_DTYPE_COUNT; i++)
            if (is(text, n_text, lk_dtype_name((enum lk_dtype)i))) {
                node->dtype = i;
                node->dtype_known = true;
            }
    return LK_OK;
}

/* Chakra's converter of ASTRA-sim's text files calls its nodes so, with the layer between
 * (src/converter/text_converter.py). */
static const struct {
    const char *start, *end;
    enum lk_chakra_phase phase;
} phases[] = {
    {"COMP_NODE_", "_FWD", LK_CHAKRA_FORWARD},
    {"COMP_NODE_", "_BWD_IG", LK_CHAKRA_BACKWARD},
    {"COMP_NODE_", "_BWD_WG", LK_CHAKRA_BACKWARD},
};

void lk_et_use_name(const struct lk_et_graph *g, struct lk_et_node *node)
{
    const char *name = lk_events_text(g->e, node->name);
    size_t n = strlen(name);
    enum lk_dtype dtype;

    for (size_t i = 0; i < LK_COUNT(phases) && node->type == LK_CHAKRA_COMP; i++) {
        size_t m = strlen(phases[i].end);

        if (node->phase == LK_CHAKRA_UNKNOWN && n > m &&
            !strncmp(name, phases[i].start, strlen(phases[i].start)) &&
            !strcmp(name + n - m, phases[i].end))
            node->phase = (uint8_t)phases[i].phase;
    }
    if (lk_et_is_comm(node) && !node->dtype_known && lk_event_dtype_of_kernel(name, &dtype)) {
        node->dtype = (uint8_t)dtype;
        node->dtype_known = true;
    }
}
