/*
 * Attention by cuDNN's fused kernels, opened at run time (base/library.h says why).
 *
 * Who runs attention of a shape is decided once, by making the plans of the two graphs of
 * kernels/attention_graph.h, about half a second each: what the heuristic names may still fail to
 * load or compile. A failure after the decision is an error: nobody changes kernels in mid-run.
 *
 * Plans of a stream share its workspace, which grows as needed. Outgrown blocks are kept until the
 * end, because a CUDA graph may have captured their addresses.
 */
#include "kernels/dnn.h"

#ifdef LK_HAVE_CUDNN

#include "base/array.h"
#include "base/library.h"
#include "base/log.h"
#include "kernels/calls_dnn_cuda.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_library_symbol symbols[] = {
#define ROW(function) {"cudnn" #function, offsetof(struct lk_dnn_calls, function)},
    LK_DNN_CALL_LIST(ROW)
#undef ROW
};

static const char *const files[] = {"libcudnn.so.9", NULL};
/* Before 9.6, the caller had to zero dq_sum; before 9.10, masks were the lowest float; NVIDIA's
 * frontend works around errors of 9.10.0 and 9.10.1. */
enum { OLDEST = 91002, HOPPER = 9 /* major compute capability */ };

/* The three numbers of a version. */
#define THREE_NUMBERS(v) (v) / 10000, (v) / 100 % 100, (v) % 100

enum direction { FORWARD, BACKWARD, DIRECTIONS };

/* A shape whose attention was asked for. */
struct shape {
    struct lk_attention_shape key;
    bool taken;
    char text[LK_ATTENTION_TEXT];
    struct lk_attention_graph graphs[DIRECTIONS];
    struct lk_dnn_plan plans[DIRECTIONS]; /* empty unless taken */
};

struct block {
    void *stream, *memory;
    size_t bytes;
};

struct lk_cuda_dnn {
    enum lk_attention by;
    bool deterministic;
    struct lk_dnn_calls call;
    struct lk_library *library; /* NULL: not opened yet, or the caller gave the functions */
    bool opened;
    struct lk_dnn_target target;
    void *stream; /* of the handle */
    struct shape **shapes;
    size_t n_shapes, shapes_capacity;
    struct block *blocks;
    size_t n_blocks, blocks_capacity;
};

enum lk_status lk_cuda_dnn_open(enum lk_attention by, bool deterministic, struct lk_cuda_dnn **out)
{
    struct lk_cuda_dnn *d = NULL;

    LK_PASS(lk_alloc(&d, 1, sizeof *d));
    d->by = by;
    d->deterministic = deterministic;
    *out = d;
    return LK_OK;
}

enum lk_status lk_cuda_dnn_open_calls(const struct lk_dnn_calls *calls,
                                      const struct lk_dnn_target *target, enum lk_attention by,
                                      bool deterministic, struct lk_cuda_dnn **out)
{
    LK_PASS(lk_cuda_dnn_open(by, deterministic, out));
    (*out)->call = *calls;
    (*out)->target = *target;
    return LK_OK;
}

static void drop_plans(struct shape *s)
{
    for (int way = 0; way < DIRECTIONS; way++)
        lk_dnn_bag_empty(&s->plans[way].bag);
}

void lk_cuda_dnn_close(struct lk_cuda_dnn *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_shapes; i++) {
        drop_plans(d->shapes[i]);
        free(d->shapes[i]);
    }
    for (size_t i = 0; i < d->n_blocks; i++)
        (void)d->call.Free(d->blocks[i].memory);
    if (d->target.handle)
        (void)d->call.Destroy(d->target.handle);
    lk_library_close(d->library);
    free(d->shapes);
    free(d->blocks);
    free(d);
}

/* ---- The choice ---- */

/* The library stays loaded, as cuBLASLt does: its kernels stay in CUDA's context. */
static enum lk_status load(struct lk_cuda_dnn *d)
{
    static const struct lk_library_spec spec = {.name = "cuDNN",
                                                .files = files,
                                                .symbols = symbols,
                                                .n_symbols = LK_COUNT(symbols),
                                                .stays = true};
    int device;

    LK_PASS(lk_library_open(&spec, &d->call, &d->library));
    d->call.Malloc = cudaMalloc;
    d->call.Free = cudaFree;
    LK_PASS(lk_cuda_status(cudaGetDevice(&device), "current device"));
    return lk_cuda_status(
        cudaDeviceGetAttribute(&d->target.major, cudaDevAttrComputeCapabilityMajor, device),
        "compute capability");
}

/* Open cuDNN. Where it does not come up, the machine lacks something: AUTO goes on without it. */
static enum lk_status open_library(struct lk_cuda_dnn *d)
{
    enum lk_status st = LK_OK;

    if (d->opened)
        return LK_OK;
    if (!d->call.Create)
        LK_PASS(load(d));
    if (d->call.GetVersion() < OLDEST)
        return lk_fail(LK_EUNSUPPORTED, "cuDNN %zu.%zu.%zu is older than 9.10.2",
                       THREE_NUMBERS(d->call.GetVersion()));
    if (!d->target.json) /* a GPU that is only described needs no handle */
        st = lk_dnn_check(&d->call, d->call.Create(&d->target.handle), "a handle");
    d->opened = st == LK_OK;
    return st == LK_EINTERNAL ? LK_EUNSUPPORTED : st;
}

/* Contexts of whole tiles only: before 9.16 others were wrong without a mask of the padding. */
static enum lk_status check_shape(enum lk_dtype real, const struct lk_attention_shape *s)
{
    enum { TILE = 128 };
    size_t width = s->channels / s->heads;

    if (real != LK_BF16)
        return lk_fail(LK_EUNSUPPORTED, "cuDNN's attention is for bfloat16, not %s",
                       lk_dtype_name(real));
    if (width != 64 && width != 128)
        return lk_fail(LK_EUNSUPPORTED,
                       "cuDNN's attention is for heads of 64 or 128 channels, not %zu", width);
    if (s->context % TILE)
        return lk_fail(LK_EUNSUPPORTED,
                       "cuDNN's attention is for contexts of multiples of %d, not %zu", TILE,
                       s->context);
    return LK_OK;
}

/* Describe both graphs of a shape, if cuDNN may run them at all. */
static enum lk_status describe(struct lk_cuda_dnn *d, enum lk_dtype real, struct shape *s)
{
    LK_PASS(check_shape(real, &s->key));
    LK_PASS(open_library(d));
    if (d->deterministic && d->target.major != HOPPER)
        return lk_fail(LK_EUNSUPPORTED,
                       "cuDNN's deterministic attention is for compute capability 9.x, not %d.x",
                       d->target.major);
    lk_attention_graph_forward(&s->key, &s->graphs[FORWARD]);
    lk_attention_graph_backward(&s->key, d->deterministic, &s->graphs[BACKWARD]);
    return LK_OK;
}

/* Ask the heuristic whether there is an engine for each graph. */
static enum lk_status find_engines(struct lk_cuda_dnn *d, struct shape *s)
{
    for (int way = 0; way < DIRECTIONS; way++)
        LK_PASS(lk_dnn_plan_find(&d->call, &d->target, &s->graphs[way]));
    return LK_OK;
}

/* Make both plans, or none. */
static enum lk_status make_plans(struct lk_cuda_dnn *d, struct shape *s)
{
    enum lk_status st = LK_OK;

    for (int way = 0; way < DIRECTIONS && st == LK_OK; way++)
        st = lk_dnn_plan_make(&d->call, &d->target, &s->graphs[way], &s->plans[way]);
    if (st != LK_OK)
        drop_plans(s);
    if (st != LK_OK && st != LK_EUNSUPPORTED && d->by == LK_ATTENTION_AUTO)
        lk_log(LK_LOG_DEVICE, LK_WARN, "%s; attention runs on our own kernels", lk_error_text());
    return st;
}

/* Decide by what the shape's description or `how` came to, and say it. Where cuDNN may be done
 * without, all that it fails with is a reason to do so. */
static enum lk_status decide(struct lk_cuda_dnn *d, enum lk_dtype real, struct shape *s,
                             enum lk_status (*how)(struct lk_cuda_dnn *d, struct shape *s))
{
    enum lk_status st = describe(d, real, s);

    if (st == LK_OK) {
        st = how(d, s);
        if (st != LK_OK && d->by == LK_ATTENTION_AUTO)
            st = LK_EUNSUPPORTED;
    }
    if (st != LK_OK && (st != LK_EUNSUPPORTED || d->by == LK_ATTENTION_CUDNN))
        return st;
    s->taken = st == LK_OK;
    if (s->taken) {
        (void)snprintf(s->text, sizeof s->text, "cudnn %zu.%zu.%zu",
                       THREE_NUMBERS(d->call.GetVersion()));
    } else {
        (void)snprintf(s->text, sizeof s->text, "own: %s", lk_error_text());
    }
    return LK_OK;
}

enum lk_status lk_cuda_dnn_ask(struct lk_cuda_dnn *d, enum lk_dtype real,
                               const struct lk_attention_shape *shape, char text[LK_ATTENTION_TEXT])
{
    struct shape *s = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->key = *shape;
    LK_TRY(decide(d, real, s, find_engines));
    memcpy(text, s->text, LK_ATTENTION_TEXT);
out:
    free(s);
    return st;
}

static enum lk_status shape_of(struct lk_cuda_dnn *d, enum lk_dtype real,
                               const struct lk_attention_shape *key, struct shape **out)
{
    struct shape *s = NULL;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < d->n_shapes; i++)
        if (!memcmp(&d->shapes[i]->key, key, sizeof *key)) {
            *out = d->shapes[i];
            return LK_OK;
        }
    LK_TRY(lk_array_grow(&d->shapes, &d->shapes_capacity, d->n_shapes + 1, sizeof(struct shape *)));
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->key = *key;
    LK_TRY(decide(d, real, s, make_plans));
    lk_log(LK_LOG_DEVICE, LK_INFO, "attention of %zu x %zu x %zu, %zu heads: %s", s->key.samples,
           s->key.context, s->key.channels, s->key.heads, s->text);
    *out = d->shapes[d->n_shapes++] = s;
    s = NULL;
out:
    free(s);
    return st;
}

enum lk_status lk_cuda_dnn_choose(struct lk_cuda_dnn *d, enum lk_dtype real,
                                  const struct lk_attention_shape *shape, bool *out_taken,
                                  char text[LK_ATTENTION_TEXT])
{
    struct shape *s;

    LK_PASS(shape_of(d, real, shape, &s));
    *out_taken = s->taken;
    memcpy(text, s->text, LK_ATTENTION_TEXT);
    return LK_OK;
}

/* ---- Execution ---- */

/* Make room for a plan of the stream. */
static enum lk_status workspace_of(struct lk_cuda_dnn *d, void *stream, size_t bytes, void **out)
{
    struct block b = {.stream = stream, .bytes = bytes};

    for (size_t i = 0; i < d->n_blocks; i++)
        if (d->blocks[i].stream == stream && d->blocks[i].bytes >= bytes) {
            *out = d->blocks[i].memory;
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&d->blocks, &d->blocks_capacity, d->n_blocks + 1, sizeof *d->blocks));
    LK_PASS(lk_fail_context(
        lk_cuda_status(d->call.Malloc(&b.memory, bytes), "workspace of cuDNN's attention"),
        "%zu bytes", bytes));
    d->blocks[d->n_blocks++] = b;
    *out = b.memory;
    return LK_OK;
}

static size_t rounded(size_t bytes)
{
    enum { ALIGNMENT = 256 };

    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Return true for a place that lies in the workspace, behind what the plan wants. */
static bool is_scratch(enum lk_attention_place place)
{
    return place == LK_AT_DELTA || place == LK_AT_DQ_SUM;
}

static size_t workspace_bytes(const struct shape *s, enum direction way)
{
    const struct lk_attention_graph *g = &s->graphs[way];
    size_t bytes = rounded(s->plans[way].workspace_bytes);

    for (size_t i = 0; i < g->n_tensors; i++)
        if (is_scratch(g->tensors[i].place))
            bytes += rounded(lk_attention_tensor_bytes(&g->tensors[i]));
    return bytes;
}

static void place_scratch(const struct shape *s, enum direction way, void *workspace,
                          void *at[LK_AT_PLACES])
{
    const struct lk_attention_graph *g = &s->graphs[way];
    char *free_from = (char *)workspace + rounded(s->plans[way].workspace_bytes);

    for (size_t i = 0; i < g->n_tensors; i++) {
        if (!is_scratch(g->tensors[i].place))
            continue;
        at[g->tensors[i].place] = free_from;
        free_from += rounded(lk_attention_tensor_bytes(&g->tensors[i]));
    }
}

/* Fused kernels read 16 bytes at a time. Buffers of a device begin at multiples of 256 bytes, and
 * 64 channels have 128. */
static bool are_aligned(void *const at[LK_AT_PLACES])
{
    for (int i = 0; i < LK_AT_PLACES; i++)
        if ((uintptr_t)at[i] % LK_DNN_ALIGNMENT)
            return false;
    return true;
}

static enum lk_status run(const struct lk_cuda *c, struct shape *s, enum direction way,
                          void *at[LK_AT_PLACES])
{
    struct lk_cuda_dnn *d = c->dnn;
    void *workspace = NULL;

    if (!are_aligned(at))
        return lk_fail(LK_EINTERNAL, "cuDNN: attention on buffers that are not aligned to %d bytes",
                       LK_DNN_ALIGNMENT);
    LK_PASS(workspace_of(d, c->stream, workspace_bytes(s, way), &workspace));
    place_scratch(s, way, workspace, at);
    if (d->stream != c->stream)
        LK_PASS(lk_dnn_check(&d->call, d->call.SetStream(d->target.handle, c->stream), "a stream"));
    d->stream = c->stream;
    return lk_dnn_plan_run(&s->plans[way], d->target.handle, &s->graphs[way], at, workspace);
}

/* Return the part of qkv or dqkv of bfloat16 that the heads' q (0), k (1) or v (2) begin with. */
static void *part(const lk_real *qkv, size_t number, size_t channels)
{
    return (uint16_t *)(uintptr_t)qkv + number * channels;
}

static enum lk_status find(const struct lk_cuda *c, const struct lk_attention_shape *key,
                           struct shape **out, bool *out_taken)
{
    *out_taken = false;
    if (!c->dnn || key->samples == 0 || key->context == 0)
        return LK_OK;
    LK_PASS(shape_of(c->dnn, c->real, key, out));
    *out_taken = (*out)->taken;
    return LK_OK;
}

enum lk_status lk_cuda_dnn_forward(const struct lk_cuda *c,
                                   const struct lk_attention_forward_args *a, bool *out_taken)
{
    const struct lk_attention_shape key = {a->samples, a->context, a->channels, a->heads};
    void *at[LK_AT_PLACES] = {
        [LK_AT_Q] = part(a->qkv, 0, a->channels),
        [LK_AT_K] = part(a->qkv, 1, a->channels),
        [LK_AT_V] = part(a->qkv, 2, a->channels),
        [LK_AT_OUT] = a->out,
        [LK_AT_LOG_SUM] = a->log_sum,
    };
    struct shape *s = NULL;

    LK_PASS(find(c, &key, &s, out_taken));
    return *out_taken ? run(c, s, FORWARD, at) : LK_OK;
}

enum lk_status lk_cuda_dnn_backward(const struct lk_cuda *c,
                                    const struct lk_attention_backward_args *a, bool *out_taken)
{
    const struct lk_attention_shape key = {a->samples, a->context, a->channels, a->heads};
    void *at[LK_AT_PLACES] = {
        [LK_AT_Q] = part(a->qkv, 0, a->channels),        [LK_AT_K] = part(a->qkv, 1, a->channels),
        [LK_AT_V] = part(a->qkv, 2, a->channels),        [LK_AT_OUT] = (void *)(uintptr_t)a->out,
        [LK_AT_LOG_SUM] = (void *)(uintptr_t)a->log_sum, [LK_AT_DOUT] = (void *)(uintptr_t)a->dout,
        [LK_AT_DQ] = part(a->dqkv, 0, a->channels),      [LK_AT_DK] = part(a->dqkv, 1, a->channels),
        [LK_AT_DV] = part(a->dqkv, 2, a->channels),
    };
    struct shape *s = NULL;

    LK_PASS(find(c, &key, &s, out_taken));
    return *out_taken ? run(c, s, BACKWARD, at) : LK_OK;
}

#endif
