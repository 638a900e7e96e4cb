/*
 * Graphs of the device cuda: capture of CUDA streams.
 *
 * The capture is of mode "thread local": other threads of the process, such as the loader's and a
 * communicator's, may go on with calls that are unsafe in the thread that captures (cudaMalloc,
 * cudaEventQuery; CUDA Runtime API, cudaStreamBeginCapture and
 * cudaThreadExchangeStreamCaptureMode), but not wait for the whole device. Events that join streams
 * within a capture are kept apart from the points, because CUDA allows no query of an event that
 * was last recorded in a capture.
 *
 * Kernels keep the priority of the stream that they were captured on
 * (cudaGraphInstantiateFlagUseNodePriority), so that collectives still go first.
 */
#include "base/array.h"
#include "runtime/device/device_cuda.h"

#include <stdlib.h>

struct cuda_graph {
    struct lk_graph base;
    cudaGraphExec_t exec;
};

static struct cuda_graph *graph_of(struct lk_graph *g)
{
    return (struct cuda_graph *)g;
}

/* End the capture for all its streams. Only this thread makes streams, so the list needs no
 * lock. */
static void forget(struct cuda_device *g)
{
    for (struct lk_stream *s = g->base.streams; s; s = s->next) {
        struct cuda_stream *t = stream_of(s);

        if (t->capturing) /* write only if set: another thread may read the flag of its own stream
                           */
            t->capturing = false;
        pthread_mutex_lock(&g->points_lock);
        while (t->n_captured > 0)
            (void)g->call->EventDestroy(t->captured[--t->n_captured].event);
        pthread_mutex_unlock(&g->points_lock);
    }
    g->capture = NULL;
}

enum lk_status lk_cuda_graph_begin(struct lk_stream *s)
{
    struct cuda_stream *t = stream_of(s);
    struct cuda_device *g = device_of(s->device);

    if (g->capture)
        return lk_fail(LK_EINTERNAL, "a graph is begun on stream '%s' within another", s->name);
    LK_PASS(lk_cuda_status(g->call->StreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal),
                           "a graph"));
    g->capture = t;
    t->capturing = true;
    return LK_OK;
}

void lk_cuda_graph_abandon(struct cuda_device *g)
{
    cudaGraph_t graph = NULL;

    if (!g->capture)
        return;
    (void)g->call->StreamEndCapture(g->capture->stream, &graph);
    if (graph)
        (void)g->call->GraphDestroy(graph);
    forget(g);
}

enum lk_status lk_cuda_graph_end(struct lk_stream *s, struct lk_graph **out)
{
    struct cuda_stream *t = stream_of(s);
    struct cuda_device *g = device_of(s->device);
    struct cuda_graph *made = NULL;
    cudaGraph_t graph = NULL;
    enum lk_status st = LK_OK;

    if (g->capture != t)
        return lk_fail(LK_EINTERNAL, "no graph was begun on stream '%s'", s->name);
    st = lk_cuda_status(g->call->StreamEndCapture(t->stream, &graph), "the end of a graph");
    forget(g);
    LK_TRY(st);
    LK_TRY(lk_alloc(&made, 1, sizeof *made));
    made->base.device = s->device;
    LK_TRY(lk_cuda_status(
        g->call->GraphInstantiate(&made->exec, graph, cudaGraphInstantiateFlagUseNodePriority),
        "making a graph"));
    *out = &made->base;
    made = NULL;
out:
    if (graph)
        (void)g->call->GraphDestroy(graph);
    free(made);
    return st;
}

enum lk_status lk_cuda_graph_launch(struct lk_graph *g, struct lk_stream *s)
{
    struct cuda_stream *t = stream_of(s);

    if (t->capturing)
        return lk_fail(LK_EINTERNAL, "a graph is launched within another");
    t->submitted++;
    t->at_point = false;
    return lk_cuda_status(calls_of(t)->GraphLaunch(graph_of(g)->exec, t->stream),
                          "launch of a graph");
}

void lk_cuda_graph_destroy(struct lk_graph *g)
{
    const struct cuda_device *d = device_of(g->device);

    if (!d->hangs)
        (void)d->call->GraphExecDestroy(graph_of(g)->exec);
    free(g);
}

cudaEvent_t lk_cuda_graph_event(const struct cuda_stream *on, uint64_t seq)
{
    for (size_t i = 0; i < on->n_captured; i++)
        if (on->captured[i].seq == seq)
            return on->captured[i].event;
    return NULL;
}

enum lk_status lk_cuda_graph_record(struct cuda_stream *t, const struct lk_stream_command *c)
{
    const struct lk_cuda_calls *call = calls_of(t);
    cudaEvent_t event = NULL;
    enum lk_status st = LK_OK;

    lock_points(t);
    LK_TRY(
        lk_array_grow(&t->captured, &t->captured_capacity, t->n_captured + 1, sizeof *t->captured));
    LK_TRY(lk_cuda_status(call->EventCreateWithFlags(&event, cudaEventDefault), "an event"));
    LK_TRY(lk_cuda_status(call->EventRecord(event, t->stream), "recording an event"));
    t->captured[t->n_captured++] = (struct captured){.seq = t->submitted, .event = event};
    event = NULL;
    lk_event_destroy(c->event);
out:
    if (event)
        (void)call->EventDestroy(event);
    unlock_points(t);
    return st;
}

enum lk_status lk_cuda_graph_refuse(struct cuda_stream *t, const struct lk_stream_command *c)
{
    return lk_fail(LK_EUNSUPPORTED, "stream '%s': a %s cannot be part of a graph", t->base.name,
                   lk_command_text(c));
}
