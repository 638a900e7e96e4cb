/* Events of the fake machine. */
#include "tests/fakes/fake_machine_cuda.h"

#include "tests/fakes/fake_graph_cuda.h"

#include <check.h>
#include <stdlib.h>

/* All events, so that those left behind on a GPU that hangs are no leak of this machine. */
static struct fake_event *events;

static bool waited_for(const struct fake_event *e)
{
    for (size_t i = 0; i < fake_cuda.n_streams; i++) {
        const struct fake_stream *s = &fake_cuda.streams[i];

        for (size_t k = s->done; k < s->n; k++)
            if (s->work[k].kind == WORK_WAIT && s->work[k].event == e)
                return true;
    }
    return false;
}

/* Free destroyed events without waiters: as in CUDA, a wait outlives the event. pre: locked. */
static void free_destroyed(void)
{
    for (struct fake_event **at = &events; *at;) {
        struct fake_event *e = *at;

        if (e->destroyed && !waited_for(e)) {
            *at = e->next;
            free(e);
        } else {
            at = &e->next;
        }
    }
}

cudaError_t fake_cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    struct fake_event *f;

    FAKE_CALLED();
    ck_assert(flags == cudaEventDefault || flags == cudaEventDisableTiming);
    f = calloc(1, sizeof *f);
    ck_assert_ptr_nonnull(f);
    f->timed = flags == cudaEventDefault;
    *e = (cudaEvent_t)f;
    fake_lock();
    f->next = events;
    events = f;
    fake_cuda.events_alive++;
    fake_unlock();
    return cudaSuccess;
}

cudaError_t fake_cudaEventDestroy(cudaEvent_t e)
{
    struct fake_event *f = (struct fake_event *)e;

    if (!f->graph && f->passed < f->recorded)
        fake_waits(NULL);
    fake_lock();
    f->destroyed = true;
    free_destroyed();
    fake_cuda.events_alive--;
    fake_unlock();
    return cudaSuccess;
}

cudaError_t fake_cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    struct fake_stream *stream = (struct fake_stream *)s;
    struct fake_event *f = (struct fake_event *)e;
    cudaError_t error;

    FAKE_CALLED();
    fake_lock();
    f->recorded++;
    error = fake_put(stream,
                     &(struct fake_work){.kind = WORK_RECORD, .event = f, .number = f->recorded},
                     FAKE_NO_NODE);
    f->graph = stream->capture;
    f->node = stream->tail;
    fake_unlock();
    return error;
}

static cudaError_t wait_for(struct fake_stream *s, struct fake_event *e)
{
    const struct fake_work w = {.kind = WORK_WAIT, .event = e, .number = e->recorded};

    if (!e->graph)
        return s->capture ? fake_spoil(cudaErrorStreamCaptureIsolation)
                          : fake_put(s, &w, FAKE_NO_NODE);
    if (e->graph != fake_cuda.capture)
        return cudaErrorCapturedEvent;
    if (!s->capture) {
        s->capture = e->graph;
        s->tail = FAKE_NO_NODE;
    }
    return fake_put(s, &w, e->node);
}

cudaError_t fake_cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    cudaError_t error;

    FAKE_CALLED();
    ck_assert_uint_eq(flags, 0);
    fake_lock();
    error = wait_for((struct fake_stream *)s, (struct fake_event *)e);
    fake_unlock();
    return error;
}

cudaError_t fake_cudaEventQuery(cudaEvent_t e)
{
    const struct fake_event *f = (const struct fake_event *)e;
    bool passed;

    FAKE_CALLED();
    if (fake_cuda.query_error != cudaSuccess)
        return fake_cuda.query_error;
    FAKE_UNSAFE();
    if (f->graph)
        return cudaErrorCapturedEvent;
    fake_lock();
    fake_cuda_step();
    passed = f->passed == f->recorded;
    if (passed)
        fake_saw(f->ms);
    fake_unlock();
    return passed ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t fake_cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    ck_assert(((const struct fake_event *)from)->timed && ((const struct fake_event *)to)->timed);
    *ms = (float)((((const struct fake_event *)to)->ms - ((const struct fake_event *)from)->ms) *
                  (1 + fake_cuda.drift));
    if (*ms < 0) /* CUDA documents no result for this */
        *ms = 0;
    return cudaSuccess;
}
