/*
 * Train on the fake machine (tests/fakes/fake_cuda.h) with records by the fake CUPTI
 * (tests/fakes/fake_cupti_cuda.h): each op and copy leaves a record as its launch would, and all of
 * them must be in the trace with their op, step and stream.
 */

#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "profiler/analysis/run_set.h"
#include "profiler/analysis/steps.h"
#include "profiler/record/cupti.h"
#include "profiler/record/span_file.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/waits.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5 };

static struct {
    char *directory;
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_span_file *spans;
    struct lk_cuda_calls cuda;
    const struct lk_nccl_calls *nccl; /* NULL: no collectives */
    struct lk_train_config config;
    struct lk_cupti_counts counts;
    uint32_t correlation;
    uint64_t kernels, copies, memsets;
} rig;

/* ---- The machine makes records ---- */

/* Return a small number for a stream, as CUPTI does. */
static uint32_t stream_number(const void *stream)
{
    return (uint32_t)((uintptr_t)stream % 1000003);
}

enum { CALL_NS = 777 };

/* Note what the calling thread is issuing, and its call, if it has pushed an id; otherwise
 * recording has not begun. */
static uint32_t issue(uint64_t *count)
{
    CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                           .correlationId = ++rig.correlation};

    CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                           .start = lk_now_ns(),
                           .correlationId = rig.correlation};

    if (fake_cupti_stack.depth > 0) {
        e.externalId = fake_cupti_stack.ids[fake_cupti_stack.depth - 1];
        a.end = a.start + CALL_NS;
        while (lk_now_ns() < a.end) {
        }
        ck_assert(fake_cupti_put(&e, sizeof e));
        ck_assert(fake_cupti_put(&a, sizeof a));
        ++*count;
    }
    return rig.correlation;
}

/* Guards the records: the loader's thread copies while this one launches. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

static enum lk_status recorded_op(const struct lk_op *op, const void *args,
                                  const struct lk_cuda *cuda)
{
    CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                .streamId = stream_number(cuda->stream),
                                .name = op->name};

    pthread_mutex_lock(&recording);
    k.correlationId = issue(&rig.kernels);
    k.start = lk_now_ns();
    k.end = k.start + 1;
    ck_assert(fake_cupti_put(&k, sizeof k));
    pthread_mutex_unlock(&recording);
    return fake_cuda_calls.run_op(op, args, cuda);
}

static cudaError_t recorded_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    CUpti_ActivityMemcpy6 c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                               .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
                               .bytes = bytes,
                               .streamId = stream_number(stream)};

    pthread_mutex_lock(&recording);
    c.correlationId = issue(&rig.copies);
    c.start = lk_now_ns();
    c.end = c.start + 1;
    ck_assert(fake_cupti_put(&c, sizeof c));
    pthread_mutex_unlock(&recording);
    return fake_cuda_calls.MemcpyAsync(to, from, bytes, kind, stream);
}

/* As CUPTI, record memsets, too, on the legacy stream. */
static cudaError_t recorded_memset(void *p, int value, size_t bytes)
{
    CUpti_ActivityMemset4 m = {
        .kind = CUPTI_ACTIVITY_KIND_MEMSET, .bytes = bytes, .streamId = stream_number(NULL)};

    pthread_mutex_lock(&recording);
    m.correlationId = issue(&rig.memsets);
    m.start = lk_now_ns();
    m.end = m.start + 1;
    ck_assert(fake_cupti_put(&m, sizeof m));
    pthread_mutex_unlock(&recording);
    return fake_cuda_calls.Memset(p, value, bytes);
}

#ifdef LK_NCCL_BUILT

enum { REDUCED = 1000 };
static char reduced_names[REDUCED][40]; /* by collective */
static size_t n_reduced;

/* As NCCL's thread, launch the kernel after all of the step was issued, as behind a slow one. */
static void *launch_reduced(void *stream)
{
    const uint64_t now = lk_now_ns() + fake_cupti.ahead_ns;
    const CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_DRIVER,
                                 .start = now,
                                 .end = now + 1,
                                 .correlationId = ++rig.correlation};
    const CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      .start = now + LK_NS_PER_S / 2,
                                      .end = now + LK_NS_PER_S / 2 + 1,
                                      .streamId = stream_number(stream),
                                      .correlationId = a.correlationId,
                                      .name = reduced_names[n_reduced++]};

    ck_assert_uint_eq(fake_cupti_stack.depth, 0);
    ck_assert(fake_cupti_put(&k, sizeof k));
    ck_assert(fake_cupti_put(&a, sizeof a));
    return NULL;
}

static ncclResult_t recorded_all_reduce(const void *in, void *out, size_t n, ncclDataType_t dtype,
                                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    ncclResult_t result = fake_nccl_calls.AllReduce(in, out, n, dtype, op, comm, stream);
    pthread_t thread;

    ck_assert_uint_lt(n_reduced, REDUCED);
    snprintf(reduced_names[n_reduced], sizeof *reduced_names, "ncclDevKernel_of_%zu", n);
    pthread_mutex_lock(&recording);
    ck_assert_int_eq(pthread_create(&thread, NULL, launch_reduced, stream), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_mutex_unlock(&recording);
    return result;
}

#endif

/* ---- The rig ---- */

static void configure(int accumulation, int prefetch)
{
    rig.config = small_train("cuda", STEPS);
    rig.config.prefetch = prefetch;
    rig.config.recorder = rig.recorder;
    rig.config.device_config.cuda_calls = &rig.cuda;
    rig.config.comm = rig.nccl ? "nccl" : "self";
    rig.config.comm_config.nccl_calls = rig.nccl;
    rig.config.reducer.accumulation = accumulation;
}

static void open_file(void)
{
    struct lk_run_info info = {0};
    char *path = scratch_path(rig.directory, "rank0.spans");

    must(lk_train_describe(&rig.config, &info));
    must(lk_span_file_create(path, &info, 1 << 14, &rig.spans));
    lk_run_info_fini(&info);
    free(path);
}

static void setup(void)
{
    memset(&rig, 0, sizeof rig);
    rig.directory = scratch_create_for_gpus();
    fake_cuda_reset(1);
    fake_cupti_reset();
    rig.cuda = fake_cuda_calls;
    rig.cuda.run_op = recorded_op;
    rig.cuda.MemcpyAsync = recorded_copy;
    rig.cuda.Memset = recorded_memset;
    must(lk_recorder_create(&rig.recorder));
    must(lk_cupti_open(
        &(struct lk_cupti_config){.recorder = rig.recorder, .calls = &fake_cupti_calls},
        &rig.cupti));
    must(lk_recorder_attach(rig.recorder, &lk_cupti_ops, rig.cupti));
}

/* Train, and return the trace that a user gets. */
static void train(int accumulation, int prefetch, struct lk_trace *out)
{
    struct lk_train_result result = {0};
    char *path = scratch_path(rig.directory, "rank0.trace.json.gz");
    struct shell_result said;

    configure(accumulation, prefetch);
    open_file();
    must(lk_recorder_attach(rig.recorder, &lk_span_file_ops, rig.spans));
    must(lk_train(&rig.config, &result));
    lk_train_result_fini(&result);
    ck_assert_uint_eq(fake_cupti_stack.depth, 0);
    must(lk_cupti_close(rig.cupti, lk_deadline_in(WAIT_PLENTY_NS), &rig.counts));
    lk_recorder_destroy(rig.recorder);
    must(lk_span_file_close(rig.spans));
    must(lk_convert_run(rig.directory, false, NULL));
    must(lk_trace_read(path, out));
    said = shell_run("python3 tests/check_trace.py '%s' 2>&1", path);
    ck_assert_msg(said.code == 0, "%s", said.text);
    free(path);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(rig.directory);
}

static bool is_gpu_track(const struct lk_trace *t, uint32_t track)
{
    return strstr(t->tracks[track].name, "GPU records") != NULL;
}

/* ---- Cases ---- */

static const struct {
    int accumulation;
    uint32_t prefetch;
} shapes[] = {
    {1, 0},
    {3, 0},
    {2, 2},
};

/* No record is lost or added, and every steady-state step has the same. */
START_TEST(every_launch_is_in_the_trace)
{
    uint64_t kernels = 0, copies = 0, of_step[STEPS] = {0};
    struct lk_trace t = {0};

    train(shapes[_i].accumulation, (int)shapes[_i].prefetch, &t);
    for (size_t i = 0; i < t.n_spans; i++) {
        const struct lk_span *s = &t.spans[i].span;
        enum lk_track_kind kind = t.tracks[t.spans[i].track].kind;

        if (!is_gpu_track(&t, t.spans[i].track) || s->kind == LK_SPAN_GRADIENT)
            continue;
        /* Batches are copied ahead of their step. */
        ck_assert_uint_lt(s->step, STEPS + (s->kind == LK_SPAN_COPY ? shapes[_i].prefetch : 0));
        copies += s->kind == LK_SPAN_COPY;
        kernels += s->kind == LK_SPAN_KERNEL;
        ck_assert_uint_eq(s->seq, CALL_NS);
        if (s->ready_ns == 0 || s->ready_ns > s->start_ns)
            ck_abort_msg("launched at %" PRIu64 " ns, ran at %" PRIu64, s->ready_ns, s->start_ns);
        ck_assert_int_ne(kind, LK_TRACK_HOST);
        /* Memory is cleared on a stream that is nobody's. */
        ck_assert_int_eq(strcmp(t.tracks[t.spans[i].track].name, "other streams, GPU records") == 0,
                         s->kind == LK_SPAN_MEMSET);
        if (s->kind == LK_SPAN_KERNEL) {
            ck_assert_uint_ne(s->name, 0);
            of_step[s->step] += kind == LK_TRACK_COMPUTE;
        }
    }
    ck_assert_uint_gt(rig.kernels, 50 * STEPS);
    ck_assert_uint_gt(rig.copies, 0);
    ck_assert_uint_eq(kernels, rig.kernels);
    ck_assert_uint_eq(copies, rig.copies);
    ck_assert_uint_gt(rig.memsets, 0);
    ck_assert_uint_eq(rig.counts.records, rig.kernels + rig.copies + rig.memsets);
    ck_assert_uint_eq(rig.counts.unmatched, 0);
    for (int i = 2; i < STEPS; i++)
        ck_assert_uint_eq(of_step[i], of_step[1]);
    lk_trace_fini(&t);
}
END_TEST

/* The ranges remain beside the records, and steps are cut as without records. */
START_TEST(steps_are_whole)
{
    struct lk_rank_steps r = {0};
    struct lk_trace t = {0};

    train(2, 0, &t);
    must(lk_rank_steps_read(&t, &r));
    ck_assert_uint_eq(r.n_steps, STEPS);
    for (size_t i = 0; i < r.n_ranges; i++)
        ck_assert_uint_le(lk_range_busy_ns(&r, r.ranges[i].start_ns, r.ranges[i].end_ns),
                          r.ranges[i].end_ns - r.ranges[i].start_ns);
    lk_rank_steps_fini(&r);
    lk_trace_fini(&t);
}
END_TEST

/* Who runs attention is decided when the model is made, after the trace has its description. */
START_TEST(the_trace_says_what_was_decided_late)
{
    struct lk_trace t = {0};
    char want[80];

    train(1, 0, &t);
    (void)snprintf(want, sizeof want, "own in any order, %d samples, 3 heads",
                   rig.config.local_batch);
    ck_assert_str_eq(lk_run_info_value(&t.info, "gpu_attention"), want);
    lk_trace_fini(&t);
}
END_TEST

#ifdef LK_NCCL_BUILT

/* Return the collective of this step and bucket. */
static const struct lk_span *collective(const struct lk_trace *t, uint32_t step, int32_t bucket)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_COLLECTIVE && t->spans[i].span.step == step &&
            t->spans[i].span.index == bucket)
            return &t->spans[i].span;
    return NULL;
}

/* They are attributed by the threads' launches, though each kernel runs
 * when no collective is issued. */
START_TEST(kernels_of_nccls_threads_have_their_bucket)
{
    struct lk_nccl_calls calls = fake_nccl_calls;
    struct lk_trace t = {0};
    size_t n = 0;

    fake_nccl_create();
    fake_nccl.in_progress = 2;
    calls.AllReduce = recorded_all_reduce;
    rig.nccl = &calls;
    n_reduced = 0;
    train(2, 0, &t);
    for (size_t i = 0; i < t.n_spans; i++) {
        const struct lk_span *s = &t.spans[i].span, *of;
        const char *name = lk_trace_span_name(&t, s);
        size_t elements;

        if (s->kind != LK_SPAN_KERNEL || sscanf(name, "ncclDevKernel_of_%zu", &elements) != 1)
            continue;
        n++;
        if (elements == 1) /* a barrier of the run */
            continue;
        of = collective(&t, s->step, s->index);
        ck_assert_msg(of != NULL, "%s: step %u, bucket %d", name, s->step, s->index);
        ck_assert_uint_eq(of->bytes, elements * sizeof(float));
    }
    ck_assert_uint_eq(n, n_reduced);
    ck_assert_uint_gt(n, 2 * STEPS); /* buckets */
    ck_assert_uint_eq(rig.counts.by_time, 0);
    lk_trace_fini(&t);
    fake_nccl_destroy();
}
END_TEST

#endif

SUITE(gpu_records_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_launch_is_in_the_trace, 0, (int)LK_COUNT(shapes));
    tcase_add_test(tc, steps_are_whole);
    tcase_add_test(tc, the_trace_says_what_was_decided_late);
#ifdef LK_NCCL_BUILT
    tcase_add_test(tc, kernels_of_nccls_threads_have_their_bucket);
#endif
}

#else

SUITE(gpu_records_cuda, c)
{
    (void)c;
}

#endif
