#include "tests/rigs/cupti_rig_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/log.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"
#include "tests/rigs/waits.h"

#include <check.h>
#include <string.h>

struct cupti_rig rig;

struct lk_track *cupti_rig_track(const char *name, enum lk_track_kind kind, int stream)
{
    struct lk_track *t = NULL;

    must(lk_recorder_track(
        rig.recorder, &(struct lk_track_info){.name = name, .kind = kind, .stream = stream}, &t));
    return t;
}

void cupti_rig_set_up_with(size_t buffer_bytes, size_t buffers)
{
    const struct lk_cupti_config config = {.calls = &fake_cupti_calls,
                                           .buffer_bytes = buffer_bytes,
                                           .buffers = buffers,
                                           .end_step = rig.end_step,
                                           .fetch_ns =
                                               rig.fetch_ns ? rig.fetch_ns : 3600 * LK_NS_PER_S};
    struct lk_cupti_config c = config;

    fake_cupti_reset();
    if (rig.version)
        fake_cupti.version = rig.version;
    fake_cupti.ahead_ns = UINT64_C(1800000000) * LK_NS_PER_S; /* since 1970 */
    must(lk_log_configure("error")); /* tests of missing records would print warnings */
    must(lk_recorder_create(&rig.recorder));
    must(lk_recorder_name(rig.recorder, "gelu_forward", &rig.gelu));
    c.recorder = rig.recorder;
    must(lk_cupti_open(&c, &rig.cupti));
    must(lk_recorder_attach(rig.recorder, &lk_cupti_ops, rig.cupti));
    must(lk_recorder_attach(rig.recorder, &kept_ops, &kept));
    must(lk_recorder_name(rig.recorder, "matmul_forward", &rig.matmul));
    rig.host = cupti_rig_track("host", LK_TRACK_HOST, 0);
    rig.compute = cupti_rig_track("compute stream", LK_TRACK_COMPUTE, 1);
    rig.comm = cupti_rig_track("comm stream", LK_TRACK_COMM, 2);
    rig.t0 = lk_now_ns() + fake_cupti.ahead_ns;
}

void cupti_rig_set_up(void)
{
    cupti_rig_set_up_with(0, 0);
}

void cupti_rig_close(void)
{
    must(lk_cupti_close(rig.cupti, lk_deadline_in(WAIT_PLENTY_NS), &rig.counts));
    rig.cupti = NULL;
}

void cupti_rig_tear_down(void)
{
    if (rig.cupti)
        cupti_rig_close();
    ck_assert_int_eq(fake_cupti.kinds_enabled, 0);
    ck_assert_int_eq(fake_cupti.calls_enabled, 0);
    ck_assert_int_eq(fake_cupti.subscribers, 0);
    lk_recorder_destroy(rig.recorder);
    lk_recorder_destroy(rig.next);
    kept_reset();
    memset(&rig, 0, sizeof rig);
}

uint64_t cupti_rig_id(struct lk_track *t, enum lk_span_kind kind, uint16_t name, uint32_t step,
                      int32_t index)
{
    const struct lk_span s = {.step = step, .index = index, .kind = (uint16_t)kind, .name = name};
    uint64_t id;

    lk_span_enter(t, &s);
    ck_assert_uint_gt(fake_cupti_stack.depth, 0);
    id = fake_cupti_stack.ids[fake_cupti_stack.depth - 1];
    lk_span_leave(t, &s);
    return id;
}

void cupti_rig_put_issue(uint32_t correlation, uint64_t id)
{
    const CUpti_ActivityExternalCorrelation r = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                 .externalKind =
                                                     CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                                 .externalId = id,
                                                 .correlationId = correlation};

    ck_assert(fake_cupti_put(&r, sizeof r));
}

void cupti_rig_put_call(uint32_t correlation, uint64_t start)
{
    const CUpti_ActivityAPI r = {.kind = CUPTI_ACTIVITY_KIND_DRIVER,
                                 .start = rig.t0 + start,
                                 .end = rig.t0 + start + 1,
                                 .correlationId = correlation};

    ck_assert(fake_cupti_put(&r, sizeof r));
}

void cupti_rig_put_kernel(uint32_t correlation, uint32_t stream, uint64_t start, uint64_t end,
                          const char *name)
{
    const CUpti_ActivityKernel10 r = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                      .start = rig.t0 + start,
                                      .end = rig.t0 + end,
                                      .contextId = 1,
                                      .streamId = stream,
                                      .correlationId = correlation,
                                      .name = name};

    ck_assert(fake_cupti_put(&r, sizeof r));
}

#endif
