#include "kernels/dnn.h"

#ifdef LK_HAVE_CUDNN

#include "base/array.h"
#include "tests/fakes/fake_cudnn_cuda.h"
#include "tests/rigs/graph_run.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES_MAX = 8, VALUES_MAX = 64, ENGINES = 2 };

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    unsigned char values[VALUES_MAX * 8];
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finished;
    int engine; /* of an engine's or a plan's configuration: from 1 */
    struct descriptor *graph;
    struct attribute attributes[ATTRIBUTES_MAX];
    size_t n;
};

#define FRESH                                                                                      \
    {                                                                                              \
        .version = 91900, .workspace_bytes = 300                                                   \
    }
struct fake_cudnn fake_cudnn = FRESH;
static int handle;

void fake_cudnn_reset(void)
{
    fake_cudnn = (struct fake_cudnn)FRESH;
}

__attribute__((format(printf, 2, 3))) static cudnnStatus_t refuse(cudnnStatus_t status,
                                                                  const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(fake_cudnn.why, sizeof fake_cudnn.why, fmt, ap);
    va_end(ap);
    return status;
}

/* Count a call; return the status that it fails with. */
static cudnnStatus_t called(void)
{
    return ++fake_cudnn.calls == fake_cudnn.fail_at
               ? refuse(fake_cudnn.fail_with, "call %d was to fail", fake_cudnn.calls)
               : CUDNN_STATUS_SUCCESS;
}

#define CALLED()                                                                                   \
    do {                                                                                           \
        cudnnStatus_t status_ = called();                                                          \
                                                                                                   \
        if (status_ != CUDNN_STATUS_SUCCESS)                                                       \
            return status_;                                                                        \
    } while (0)

static struct descriptor *of(cudnnBackendDescriptor_t d)
{
    return (struct descriptor *)d;
}

/* ---- Attributes ---- */

/* The attributes of a kind of descriptor are numbered in a row of 50 or 100; those of operations
 * and of what they are made with lie close together. */
static const struct {
    cudnnBackendDescriptorType_t type;
    int first, last;
} ranges[] = {
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_AXIS},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_ATTR_MATMUL_PADDING_VALUE},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_DESC},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_ATTR_REDUCTION_COMP_TYPE},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_ATTR_OPERATION_REDUCTION_DESC},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     CUDNN_ATTR_OPERATION_RESHAPE_YDESC},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
     CUDNN_ATTR_TENSOR_IS_BY_VALUE},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
     CUDNN_ATTR_OPERATIONGRAPH_OPS},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE,
     CUDNN_ATTR_ENGINEHEUR_DEVICEPROP},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
     CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
     CUDNN_ATTR_VARIANT_PACK_WORKSPACE},
};

static bool has_attribute(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < LK_COUNT(ranges); i++)
        if (ranges[i].type == type)
            return (int)name >= ranges[i].first && (int)name <= ranges[i].last;
    return false;
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return sizeof(int);
    }
}

/* Return an attribute, or NULL where it was not set. */
static const struct attribute *attribute(const struct descriptor *d,
                                         cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

static struct descriptor *linked(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute(d, name);
    struct descriptor *to = NULL;

    if (a)
        memcpy(&to, a->values, sizeof to);
    return to;
}

static int number(const struct descriptor *d, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute(d, name);
    int value = -1;

    if (a)
        memcpy(&value, a->values, sizeof value);
    return value;
}

static cudnnStatus_t fake_BackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out)
{
    struct descriptor *d;

    CALLED();
    d = calloc(1, sizeof *d);
    if (!d)
        return CUDNN_STATUS_ALLOC_FAILED;
    d->type = type;
    fake_cudnn.alive++;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_BackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    fake_cudnn.alive--;
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_BackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values)
{
    struct descriptor *d = of(descriptor);
    struct attribute *a;

    CALLED();
    if (d->finished)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d of a finished descriptor", (int)name);
    if (!has_attribute(d->type, name))
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d of a descriptor of type %d", (int)name,
                      (int)d->type);
    if (attribute(d, name) || d->n == ATTRIBUTES_MAX || count < 1 || count > VALUES_MAX)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d: set twice, or %lld values", (int)name,
                      (long long)count);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
        if (!of(((cudnnBackendDescriptor_t const *)values)[i])->finished)
            return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d: an unfinished descriptor",
                          (int)name);
    a = &d->attributes[d->n++];
    *a = (struct attribute){.name = name, .type = type, .count = count};
    memcpy(a->values, values, (size_t)count * bytes_of(type));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Graphs ---- */

static int unique_id(const struct descriptor *tensor)
{
    const struct attribute *a = attribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    int64_t id = -1;

    if (a)
        memcpy(&id, a->values, sizeof id);
    return (int)id;
}

static bool is_set(const struct descriptor *tensor, cudnnBackendAttributeName_t name)
{
    const struct attribute *a = attribute(tensor, name);

    return a && a->values[0];
}

/* Read a tensor into its place of the graph. Memory has the place OUT: the pack tells which. */
static int read_tensor(struct lk_attention_graph *g, const struct descriptor *d)
{
    static const enum lk_attention_type types[] = {[CUDNN_DATA_BFLOAT16] = LK_TYPE_REAL,
                                                   [CUDNN_DATA_FLOAT] = LK_TYPE_FLOAT,
                                                   [CUDNN_DATA_INT32] = LK_TYPE_INDEX,
                                                   [CUDNN_DATA_BOOLEAN] = LK_TYPE_TRUTH};
    int id = unique_id(d);
    struct lk_attention_tensor *t = &g->tensors[id];

    t->type = types[number(d, CUDNN_ATTR_TENSOR_DATA_TYPE)];
    t->place = LK_AT_OUT;
    if (is_set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL))
        t->place = LK_AT_VIRTUAL;
    if (is_set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE))
        t->place = LK_AT_SCALAR;
    memcpy(t->extent, attribute(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->values, sizeof t->extent);
    memcpy(t->stride, attribute(d, CUDNN_ATTR_TENSOR_STRIDES)->values, sizeof t->stride);
    if ((size_t)id >= g->n_tensors)
        g->n_tensors = (size_t)id + 1;
    return id;
}

static int read_end(struct lk_attention_graph *g, const struct descriptor *node,
                    cudnnBackendAttributeName_t name)
{
    const struct descriptor *d = linked(node, name);

    return d ? read_tensor(g, d) : -1;
}

static enum lk_attention_kind pointwise_kind(const struct descriptor *d)
{
    int64_t axis = 0;

    switch (number(d, CUDNN_ATTR_POINTWISE_MODE)) {
    case CUDNN_POINTWISE_ADD:
        return LK_NODE_ADD;
    case CUDNN_POINTWISE_SUB:
        return LK_NODE_SUB;
    case CUDNN_POINTWISE_MUL:
        return LK_NODE_MUL;
    case CUDNN_POINTWISE_DIV:
        return LK_NODE_DIV;
    case CUDNN_POINTWISE_EXP:
        return LK_NODE_EXP;
    case CUDNN_POINTWISE_LOG:
        return LK_NODE_LOG;
    case CUDNN_POINTWISE_IDENTITY:
        return LK_NODE_COPY;
    case CUDNN_POINTWISE_CMP_GE:
        return LK_NODE_GE;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return LK_NODE_SELECT;
    case CUDNN_POINTWISE_GEN_INDEX:
        memcpy(&axis, attribute(d, CUDNN_ATTR_POINTWISE_AXIS)->values, sizeof axis);
        return axis == 2 ? LK_NODE_ROW : LK_NODE_COLUMN;
    default:
        return LK_NODE_KINDS;
    }
}

static struct lk_attention_node read_node(struct lk_attention_graph *g, const struct descriptor *d)
{
    struct lk_attention_node n = {.kind = LK_NODE_KINDS, .b = -1, .c = -1};

    switch (d->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        n.kind = LK_NODE_MATMUL;
        n.a = read_end(g, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        n.b = read_end(g, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        n.out = read_end(g, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
        break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        n.kind = number(linked(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC),
                        CUDNN_ATTR_REDUCTION_OPERATOR) == CUDNN_REDUCE_TENSOR_MAX
                     ? LK_NODE_MAX
                     : LK_NODE_SUM;
        n.a = read_end(g, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        n.out = read_end(g, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
        break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        n.kind = LK_NODE_TRANSPOSE;
        n.a = read_end(g, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
        n.out = read_end(g, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
        break;
    default:
        n.kind = pointwise_kind(linked(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
        n.a = read_end(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
        n.b = read_end(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
        n.c = read_end(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
        n.out = read_end(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    }
    return n;
}

static void read_graph(const struct descriptor *d, struct lk_attention_graph *g)
{
    const struct attribute *nodes = attribute(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);

    *g = (struct lk_attention_graph){0};
    for (int64_t i = 0; i < nodes->count; i++) {
        struct descriptor *node;

        memcpy(&node, nodes->values + i * (int64_t)sizeof node, sizeof node);
        g->nodes[g->n_nodes++] = read_node(g, node);
    }
}

/* ---- Engines and plans ---- */

static cudnnStatus_t fake_BackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *d = of(descriptor);

    CALLED();
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const struct descriptor *config = linked(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);

        if (!attribute(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE))
            return refuse(CUDNN_STATUS_BAD_PARAM, "a plan without a handle");
        if (config->engine <= fake_cudnn.engines_that_fail &&
            fake_cudnn.plans >= fake_cudnn.plans_before)
            return refuse(fake_cudnn.plans_fail_with ? fake_cudnn.plans_fail_with
                                                     : CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                          "engine %d does not take it", config->engine);
        d->engine = config->engine;
        d->graph = config->graph;
        fake_cudnn.engine = config->engine;
        fake_cudnn.plans++;
    }
    d->finished = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t give_engines(const struct descriptor *heuristic, int64_t most, int64_t *out_n,
                                  cudnnBackendDescriptor_t *configs)
{
    *out_n = 0;
    for (int i = 0; i < ENGINES && i < most && !fake_cudnn.no_engine; i++) {
        struct descriptor *c = of(configs[i]);

        if (c->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return refuse(CUDNN_STATUS_BAD_PARAM, "engines into a descriptor of type %d",
                          (int)c->type);
        c->engine = i + 1;
        c->graph = linked(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
        c->finished = true;
        ++*out_n;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_BackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t most,
                                              int64_t *out_n, void *values)
{
    const struct descriptor *d = (const struct descriptor *)descriptor;
    int64_t value;

    (void)type;
    CALLED();
    if (!d->finished)
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d of an unfinished descriptor",
                      (int)name);
    *out_n = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return give_engines(d, most, out_n, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        of(*(cudnnBackendDescriptor_t *)values)->engine = d->engine;
        of(*(cudnnBackendDescriptor_t *)values)->finished = true;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        value = d->engine;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        value = (int64_t)fake_cudnn.workspace_bytes;
        break;
    default:
        return refuse(CUDNN_STATUS_BAD_PARAM, "attribute %d is not read here", (int)name);
    }
    memcpy(values, &value, sizeof value);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_BackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t pack)
{
    const struct attribute *ids = attribute(of(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *to = attribute(of(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const struct attribute *room = attribute(of(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    struct lk_attention_graph g;
    void *at[LK_ATTENTION_TENSORS_MAX] = {0}, *workspace;

    CALLED();
    if (h != (cudnnHandle_t)&handle || !of(plan)->finished || !of(pack)->finished)
        return refuse(CUDNN_STATUS_BAD_PARAM, "executed with another handle, or unfinished");
    read_graph(of(plan)->graph, &g);
    for (int64_t i = 0; i < ids->count; i++) {
        int64_t id;

        memcpy(&id, ids->values + i * (int64_t)sizeof id, sizeof id);
        memcpy(&at[id], to->values + i * (int64_t)sizeof(void *), sizeof(void *));
    }
    for (size_t i = 0; i < g.n_tensors; i++) {
        if (g.tensors[i].place == LK_AT_VIRTUAL)
            continue;
        if (!at[i])
            return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %zu has no address", i);
        if (g.tensors[i].place == LK_AT_SCALAR)
            g.tensors[i].value = *(const float *)at[i];
        else if ((uintptr_t)at[i] % LK_DNN_ALIGNMENT)
            return refuse(CUDNN_STATUS_BAD_PARAM, "tensor %zu is not aligned", i);
    }
    fake_cudnn.runs++;
    if (fake_cudnn.idle)
        return CUDNN_STATUS_SUCCESS;
    memcpy(&workspace, room->values, sizeof workspace);
    memset(workspace, 0xff, fake_cudnn.workspace_bytes);
    graph_run(&g, GRAPH_AS_TYPED, at);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- The rest ---- */

static cudnnStatus_t fake_Create(cudnnHandle_t *out)
{
    CALLED();
    fake_cudnn.alive++;
    *out = (cudnnHandle_t)&handle;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_Destroy(cudnnHandle_t h)
{
    (void)h;
    fake_cudnn.alive--;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fake_SetStream(cudnnHandle_t h, cudaStream_t stream)
{
    (void)h;
    CALLED();
    fake_cudnn.stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

static size_t fake_GetVersion(void)
{
    return fake_cudnn.version;
}

static const char *fake_GetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_BAD_PARAM ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_OTHER";
}

static void fake_GetLastErrorString(char *text, size_t size)
{
    (void)snprintf(text, size, "%s", fake_cudnn.why);
}

static cudaError_t fake_Malloc(void **out, size_t bytes)
{
    if (fake_cudnn.no_memory)
        return cudaErrorMemoryAllocation;
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    fake_cudnn.alive++;
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t fake_Free(void *p)
{
    fake_cudnn.alive--;
    free(p);
    return cudaSuccess;
}

#define CALL(function) .function = fake_##function,
const struct lk_dnn_calls fake_cudnn_calls = {LK_DNN_CALL_LIST(CALL).Malloc = fake_Malloc,
                                              .Free = fake_Free};

#endif
