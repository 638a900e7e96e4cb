/*
 * Plans of cuDNN, by its graph API (cuDNN backend API reference, "cudnn_graph"): tensors and
 * operations are descriptors with attributes; a heuristic names engines for a graph of them; an
 * engine becomes a plan, which runs on addresses.
 */
#include "kernels/dnn.h"

#ifdef LK_HAVE_CUDNN

#include "base/array.h"
#include "kernels/calls_dnn_cuda.h"

#include <string.h>

/* ---- Descriptors ---- */

struct attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
};

enum lk_status lk_dnn_check(const struct lk_dnn_calls *call, cudnnStatus_t status, const char *what)
{
    char why[256] = "";
    enum lk_status st = LK_EINTERNAL;

    if (status == CUDNN_STATUS_SUCCESS)
        return LK_OK;
    if (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + 1000)
        st = LK_EUNSUPPORTED;
    else if (status == CUDNN_STATUS_ALLOC_FAILED)
        st = LK_ENOMEM;
    call->GetLastErrorString(why, sizeof why);
    why[sizeof why - 1] = '\0';
    why[strcspn(why, "\n")] = '\0';
    return lk_fail(st, "cuDNN: %s: %s%s%s", what, call->GetErrorString(status), *why ? ": " : "",
                   why);
}

void lk_dnn_bag_empty(struct lk_dnn_bag *b)
{
    while (b->n > 0)
        (void)b->call->BackendDestroyDescriptor(b->made[--b->n]);
}

static enum lk_status create(struct lk_dnn_bag *b, cudnnBackendDescriptorType_t type,
                             const char *what, cudnnBackendDescriptor_t *out)
{
    if (b->n == LK_DNN_DESCRIPTORS_MAX)
        return lk_fail(LK_EINTERNAL, "cuDNN: %s: more than %d descriptors", what, (int)b->n);
    LK_PASS(lk_dnn_check(b->call, b->call->BackendCreateDescriptor(type, out), what));
    b->made[b->n++] = *out;
    return LK_OK;
}

/* Make a finished descriptor. */
static enum lk_status make(struct lk_dnn_bag *b, cudnnBackendDescriptorType_t type,
                           const char *what, const struct attribute *attributes, size_t n,
                           cudnnBackendDescriptor_t *out)
{
    LK_PASS(create(b, type, what, out));
    for (size_t i = 0; i < n; i++) {
        const struct attribute *a = &attributes[i];

        LK_PASS(lk_dnn_check(
            b->call, b->call->BackendSetAttribute(*out, a->name, a->type, a->count, a->values),
            what));
    }
    return lk_dnn_check(b->call, b->call->BackendFinalize(*out), what);
}

/* ---- The graph ---- */

static enum lk_status make_tensor(struct lk_dnn_bag *b, const struct lk_attention_tensor *t,
                                  int64_t id, cudnnBackendDescriptor_t *out)
{
    static const cudnnDataType_t types[] = {[LK_TYPE_REAL] = CUDNN_DATA_BFLOAT16,
                                            [LK_TYPE_FLOAT] = CUDNN_DATA_FLOAT,
                                            [LK_TYPE_INDEX] = CUDNN_DATA_INT32,
                                            [LK_TYPE_TRUTH] = CUDNN_DATA_BOOLEAN};
    const int64_t alignment = LK_DNN_ALIGNMENT;
    const bool is_virtual = t->place == LK_AT_VIRTUAL, by_value = t->place == LK_AT_SCALAR;
    const struct attribute attributes[] = {
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id},
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &types[t->type]},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t->extent},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t->stride},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual},
        {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value},
    };

    return make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor", attributes, LK_COUNT(attributes),
                out);
}

/* The descriptors of a node's tensors. */
struct ends {
    cudnnBackendDescriptor_t a, b, c, out;
};

static enum lk_status make_matmul(struct lk_dnn_bag *bag, const struct ends *e,
                                  cudnnBackendDescriptor_t *out)
{
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    const struct attribute of_product[] = {
        {CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision}};
    cudnnBackendDescriptor_t product;
    const struct attribute of_node[] = {
        {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->a},
        {CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->b},
        {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->out},
        {CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &product},
    };

    LK_PASS(make(bag, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a product", of_product,
                 LK_COUNT(of_product), &product));
    return make(bag, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a product", of_node,
                LK_COUNT(of_node), out);
}

static enum lk_status make_reduction(struct lk_dnn_bag *bag, cudnnReduceTensorOp_t by,
                                     const struct ends *e, cudnnBackendDescriptor_t *out)
{
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    const struct attribute of_reduction[] = {
        {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision},
        {CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by}};
    cudnnBackendDescriptor_t reduction;
    const struct attribute of_node[] = {
        {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->a},
        {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->out},
        {CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &reduction},
    };

    LK_PASS(make(bag, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction", of_reduction,
                 LK_COUNT(of_reduction), &reduction));
    return make(bag, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a reduction", of_node,
                LK_COUNT(of_node), out);
}

static enum lk_status make_reshape(struct lk_dnn_bag *bag, const struct ends *e,
                                   cudnnBackendDescriptor_t *out)
{
    const struct attribute of_node[] = {
        {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->a},
        {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->out},
    };

    return make(bag, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a transposition", of_node,
                LK_COUNT(of_node), out);
}

struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t precision;
    int64_t axis; /* of indices; 0: there is none */
};

static enum lk_status make_pointwise(struct lk_dnn_bag *bag, const struct pointwise *p,
                                     const struct ends *e, cudnnBackendDescriptor_t *out)
{
    const struct attribute of_mode[] = {
        {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p->mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p->precision},
        {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p->axis},
    };
    cudnnBackendDescriptor_t mode;
    const struct attribute of_node[] = {
        {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &mode},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->a},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->out},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->b},
        {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->c},
    };
    size_t n = LK_COUNT(of_node) - (e->b ? 0 : 1) - (e->c ? 0 : 1);

    LK_PASS(make(bag, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "an operation", of_mode,
                 LK_COUNT(of_mode) - (p->axis ? 0 : 1), &mode));
    return make(bag, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "an operation", of_node, n, out);
}

static enum lk_status make_node(struct lk_dnn_bag *bag, enum lk_attention_kind kind,
                                const struct ends *e, cudnnBackendDescriptor_t *out)
{
    static const struct pointwise modes[LK_NODE_KINDS] = {
        [LK_NODE_ADD] = {CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_SUB] = {CUDNN_POINTWISE_SUB, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_MUL] = {CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_DIV] = {CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_EXP] = {CUDNN_POINTWISE_EXP, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_LOG] = {CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_COPY] = {CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, 0},
        [LK_NODE_ROW] = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2},
        [LK_NODE_COLUMN] = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3},
        [LK_NODE_GE] = {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0},
        [LK_NODE_SELECT] = {CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0},
    };

    switch (kind) {
    case LK_NODE_MATMUL:
        return make_matmul(bag, e, out);
    case LK_NODE_MAX:
        return make_reduction(bag, CUDNN_REDUCE_TENSOR_MAX, e, out);
    case LK_NODE_SUM:
        return make_reduction(bag, CUDNN_REDUCE_TENSOR_ADD, e, out);
    case LK_NODE_TRANSPOSE:
        return make_reshape(bag, e, out);
    default:
        return make_pointwise(bag, &modes[kind], e, out);
    }
}

static enum lk_status make_graph(struct lk_dnn_bag *bag, const struct lk_dnn_target *target,
                                 const struct lk_attention_graph *g, cudnnBackendDescriptor_t *out)
{
    cudnnBackendDescriptor_t tensors[LK_ATTENTION_TENSORS_MAX], nodes[LK_ATTENTION_NODES_MAX];
    const struct attribute attributes[] = {
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)g->n_nodes, nodes},
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle},
    };

    for (size_t i = 0; i < g->n_tensors; i++)
        LK_PASS(make_tensor(bag, &g->tensors[i], (int64_t)i, &tensors[i]));
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct lk_attention_node *n = &g->nodes[i];
        const struct ends ends = {.a = tensors[n->a],
                                  .b = n->b < 0 ? NULL : tensors[n->b],
                                  .c = n->c < 0 ? NULL : tensors[n->c],
                                  .out = tensors[n->out]};

        LK_PASS(make_node(bag, n->kind, &ends, &nodes[i]));
    }
    return make(bag, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph", attributes,
                target->handle ? 2 : 1, out);
}

/* ---- Plans ---- */

enum { ENGINES_MAX = 8 };

/* Ask the heuristic for engines, the one that it expects to be fastest first. */
static enum lk_status choose_engines(struct lk_dnn_bag *bag, cudnnBackendDescriptor_t graph,
                                     cudnnBackendDescriptor_t device,
                                     cudnnBackendDescriptor_t configs[ENGINES_MAX], int64_t *out_n)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const struct attribute attributes[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode},
        {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device},
    };
    cudnnBackendDescriptor_t heuristic;

    LK_PASS(make(bag, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "engines for attention", attributes,
                 device ? 3 : 2, &heuristic));
    for (int i = 0; i < ENGINES_MAX; i++)
        LK_PASS(create(bag, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine", &configs[i]));
    LK_PASS(lk_dnn_check(bag->call,
                         bag->call->BackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, ENGINES_MAX,
                                                        out_n, configs),
                         "engines for attention"));
    return *out_n > 0 ? LK_OK : lk_fail(LK_EUNSUPPORTED, "cuDNN: no engine for attention");
}

/* Read the number of a configuration's engine. */
static enum lk_status number_of(struct lk_dnn_bag *bag, cudnnBackendDescriptor_t config,
                                int64_t *out)
{
    cudnnBackendDescriptor_t engine;
    int64_t n = 0;

    LK_PASS(create(bag, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine", &engine));
    LK_PASS(
        lk_dnn_check(bag->call,
                     bag->call->BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine),
                     "an engine"));
    return lk_dnn_check(bag->call,
                        bag->call->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                       CUDNN_TYPE_INT64, 1, &n, out),
                        "an engine's number");
}

static enum lk_status make_plan(struct lk_dnn_bag *bag, const struct lk_dnn_target *target,
                                cudnnBackendDescriptor_t device, cudnnBackendDescriptor_t config,
                                struct lk_dnn_plan *out)
{
    const struct attribute attributes[] = {
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config},
        device ? (struct attribute){CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device}
               : (struct attribute){CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                    &target->handle},
    };
    int64_t n = 0, bytes = 0;

    LK_PASS(make(bag, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan", attributes,
                 LK_COUNT(attributes), &out->plan));
    LK_PASS(lk_dnn_check(bag->call,
                         bag->call->BackendGetAttribute(out->plan,
                                                        CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                        CUDNN_TYPE_INT64, 1, &n, &bytes),
                         "a plan's workspace"));
    out->workspace_bytes = (size_t)bytes;
    return LK_OK;
}

/* What a plan is made from: the graph, and the engines that may run it. */
struct engines {
    cudnnBackendDescriptor_t device, graph; /* device: NULL if there is a handle */
    cudnnBackendDescriptor_t configs[ENGINES_MAX];
    int64_t n;
};

static enum lk_status find_engines(struct lk_dnn_bag *bag, const struct lk_dnn_target *target,
                                   const struct lk_attention_graph *graph, struct engines *e)
{
    *e = (struct engines){0};
    if (target->json) {
        const struct attribute of_device[] = {{CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                               CUDNN_TYPE_CHAR, (int64_t)strlen(target->json) + 1,
                                               target->json}};

        LK_PASS(make(bag, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a description of a GPU", of_device,
                     LK_COUNT(of_device), &e->device));
    }
    LK_PASS(make_graph(bag, target, graph, &e->graph));
    return choose_engines(bag, e->graph, e->device, e->configs, &e->n);
}

enum lk_status lk_dnn_plan_find(const struct lk_dnn_calls *call, const struct lk_dnn_target *target,
                                const struct lk_attention_graph *graph)
{
    struct lk_dnn_bag bag = {.call = call};
    struct engines engines;
    enum lk_status st = find_engines(&bag, target, graph, &engines);

    lk_dnn_bag_empty(&bag);
    return st;
}

enum lk_status lk_dnn_plan_make(const struct lk_dnn_calls *call, const struct lk_dnn_target *target,
                                const struct lk_attention_graph *graph, struct lk_dnn_plan *out)
{
    struct engines engines;
    int64_t i = 0;
    enum lk_status st = LK_OK;

    *out = (struct lk_dnn_plan){.bag = {.call = call}};
    LK_TRY(find_engines(&out->bag, target, graph, &engines));
    do {
        st = make_plan(&out->bag, target, engines.device, engines.configs[i], out);
    } while (st != LK_OK && ++i < engines.n);
    LK_TRY(st);
    LK_TRY(number_of(&out->bag, engines.configs[i], &out->engine));
out:
    if (st != LK_OK)
        lk_dnn_bag_empty(&out->bag);
    return st;
}

enum lk_status lk_dnn_plan_run(const struct lk_dnn_plan *p, cudnnHandle_t handle,
                               const struct lk_attention_graph *graph, void *const at[LK_AT_PLACES],
                               void *workspace)
{
    struct lk_dnn_bag bag = {.call = p->bag.call};
    float scalars[LK_ATTENTION_TENSORS_MAX];
    void *pointers[LK_ATTENTION_TENSORS_MAX];
    int64_t ids[LK_ATTENTION_TENSORS_MAX], n = 0;
    cudnnBackendDescriptor_t pack;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < graph->n_tensors; i++) {
        const struct lk_attention_tensor *t = &graph->tensors[i];

        if (t->place == LK_AT_VIRTUAL)
            continue;
        scalars[n] = t->value;
        pointers[n] = t->place == LK_AT_SCALAR ? &scalars[n] : at[t->place];
        ids[n++] = (int64_t)i;
    }
    const struct attribute attributes[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace},
    };

    LK_TRY(make(&bag, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "addresses", attributes,
                LK_COUNT(attributes), &pack));
    LK_TRY(lk_dnn_check(bag.call, bag.call->BackendExecute(handle, p->plan, pack), "attention"));
out:
    lk_dnn_bag_empty(&bag);
    return st;
}

#endif
