/* Graphs of the fake machine, and their capture; see the header. */
#include "tests/fakes/fake_graph_cuda.h"

#include "base/array.h"
#include "tests/fakes/fake_machine_cuda.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

struct fake_graph *fake_graph_create(struct fake_stream *origin)
{
    struct fake_graph *g = calloc(1, sizeof *g);

    ck_assert_ptr_nonnull(g);
    g->origin = origin;
    g->refs = 1;
    fake_cuda.graphs_alive++;
    return g;
}

size_t fake_graph_add(struct fake_graph *g, struct fake_stream *s, const struct fake_work *w,
                      size_t other)
{
    ck_assert_int_eq(lk_array_grow(&g->nodes, &g->capacity, g->n + 1, sizeof *g->nodes), LK_OK);
    g->nodes[g->n] = (struct fake_node){.work = *w, .before = s->tail, .other = other};
    s->tail = g->n;
    return g->n++;
}

bool fake_graph_joined(const struct fake_graph *g)
{
    bool *needed = calloc(g->n + 1, sizeof *needed), all = true;

    ck_assert_ptr_nonnull(needed);
    if (g->n > 0 && g->origin->tail != FAKE_NO_NODE)
        needed[g->origin->tail] = true;
    for (size_t i = g->n; i > 0; i--) {
        const struct fake_node *node = &g->nodes[i - 1];

        all &= needed[i - 1];
        if (node->before != FAKE_NO_NODE)
            needed[node->before] |= needed[i - 1];
        if (node->other != FAKE_NO_NODE)
            needed[node->other] |= needed[i - 1];
    }
    free(needed);
    return all;
}

void fake_graph_release(struct fake_graph *g)
{
    if (!g || --g->refs > 0)
        return;
    for (size_t i = 0; i < g->n; i++)
        if (g->nodes[i].work.kind == WORK_OP)
            free(g->nodes[i].work.arg);
    free(g->nodes);
    free(g);
    fake_cuda.graphs_alive--;
}

static bool can_run(const struct fake_graph *g, const bool *ran, size_t i)
{
    const struct fake_node *node = &g->nodes[i];

    return !ran[i] && (node->before == FAKE_NO_NODE || ran[node->before]) &&
           (node->other == FAKE_NO_NODE || ran[node->other]);
}

const struct fake_node *fake_graph_next(const struct fake_graph *g, struct fake_stream *s)
{
    size_t chosen = FAKE_NO_NODE, able = 0;

    if (!s->ran) {
        s->ran = calloc(g->n + 1, sizeof *s->ran);
        ck_assert_ptr_nonnull(s->ran);
    }
    /* Reservoir sampling: the k-th runnable node replaces the choice with probability 1 / k. */
    for (size_t i = 0; i < g->n; i++)
        if (can_run(g, s->ran, i) && (!fake_cuda.seed || fake_draw(++able) == 0))
            chosen = i;
    if (chosen == FAKE_NO_NODE) {
        free(s->ran);
        s->ran = NULL;
        return NULL;
    }
    s->ran[chosen] = true;
    return &g->nodes[chosen];
}

cudaError_t fake_spoil(cudaError_t e)
{
    fake_cuda.capture->spoilt = true;
    return e;
}

cudaError_t fake_unsafe(void)
{
    cudaError_t e = cudaSuccess;

    fake_lock();
    if (fake_cuda.capture && pthread_equal(fake_cuda.capturer, pthread_self()))
        e = fake_spoil(cudaErrorStreamCaptureUnsupported);
    fake_unlock();
    return e;
}

cudaError_t fake_cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    const struct fake_graph *g = ((struct fake_stream *)s)->capture;

    FAKE_CALLED();
    *status = !g          ? cudaStreamCaptureStatusNone
              : g->spoilt ? cudaStreamCaptureStatusInvalidated
                          : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t fake_cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    struct fake_stream *f = (struct fake_stream *)s;
    cudaError_t e = cudaSuccess;

    FAKE_CALLED();
    ck_assert_int_eq(mode, cudaStreamCaptureModeThreadLocal);
    fake_lock();
    if (fake_cuda.capture) {
        e = cudaErrorIllegalState;
    } else {
        f->capture = fake_cuda.capture = fake_graph_create(f);
        f->tail = FAKE_NO_NODE;
        fake_cuda.capturer = pthread_self();
    }
    fake_unlock();
    return e;
}

static cudaError_t end_capture(struct fake_stream *s, cudaGraph_t *out)
{
    struct fake_graph *g = s->capture;
    cudaError_t e = g->spoilt               ? cudaErrorStreamCaptureInvalidated
                    : !fake_graph_joined(g) ? cudaErrorStreamCaptureUnjoined
                                            : cudaSuccess;

    for (size_t i = 0; i < fake_cuda.n_streams; i++)
        fake_cuda.streams[i].capture = NULL;
    fake_cuda.capture = NULL;
    fake_cuda.graph_nodes = g->n;
    *out = e == cudaSuccess ? (cudaGraph_t)g : NULL;
    if (e != cudaSuccess)
        fake_graph_release(g);
    return e;
}

/* End a capture. A call that fails by a test's plan ends the capture all the same. */
cudaError_t fake_cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    struct fake_stream *f = (struct fake_stream *)s;
    cudaError_t planned = fake_called(), e = cudaErrorIllegalState;

    fake_lock();
    if (f->capture && f->capture->origin == f) {
        f->capture->spoilt |= planned != cudaSuccess;
        e = end_capture(f, out);
    }
    fake_unlock();
    return planned == cudaSuccess ? e : planned;
}

cudaError_t fake_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                      unsigned long long flags)
{
    FAKE_CALLED();
    ck_assert_uint_eq(flags, cudaGraphInstantiateFlagUseNodePriority);
    fake_lock();
    ((struct fake_graph *)graph)->refs++;
    fake_unlock();
    *exec = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t fake_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    struct fake_graph *g = (struct fake_graph *)exec;

    FAKE_CALLED();
    fake_lock();
    g->refs++;
    fake_cuda.graph_launches++;
    fake_unlock();
    return fake_enqueue(s, (struct fake_work){.kind = WORK_GRAPH, .graph = g});
}

cudaError_t fake_cudaGraphDestroy(cudaGraph_t graph)
{
    fake_lock();
    fake_graph_release((struct fake_graph *)graph);
    fake_unlock();
    return cudaSuccess;
}

cudaError_t fake_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return fake_cudaGraphDestroy((cudaGraph_t)exec);
}
