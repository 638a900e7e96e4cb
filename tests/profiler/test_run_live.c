/* Span files are read while they are written: what is read is whole, and of the last steps. */
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/run_live.h"
#include "profiler/record/span_file.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/span_rig.h"
#include "tests/rigs/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_up(void)
{
    scratch_set_up();
    must(lk_log_configure("error")); /* full rings are intended here */
}

/* The last of a ring, while its writer holds the file, are those that it emitted last. */
START_TEST(the_last_records_of_a_file)
{
    enum { EMITTED = 3 * LK_SPAN_FILE_RING_MIN + 17, MOST = 100 };
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(scratch_dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct span_emitter e = {.n = EMITTED};
    struct lk_trace t, all;
    bool written;

    must(lk_recorder_track(rec, &span_rig_tracks[0], &e.track));
    span_rig_emit(&e);
    ck_assert_int_eq(lk_spans_read(path, &t), LK_EIO); /* the whole is not read of a running one */
    must(lk_spans_read_live(path, MOST, &t, &written));
    ck_assert(written);
    span_rig_assert_track(&t, 0, EMITTED - MOST, MOST);
    ck_assert_uint_eq(t.dropped, EMITTED - MOST);
    lk_trace_fini(&t);
    lk_recorder_destroy(rec);
    must(lk_span_file_close(f));
    must(lk_spans_read(path, &all));
    must(lk_spans_read_live(path, UINT64_MAX, &t, &written));
    ck_assert(!written);
    /* The oldest might be half written over: of a file whose writer may be there it is left out. */
    ck_assert_uint_eq(t.n_spans + 1, all.n_spans);
    for (size_t i = 0; i < t.n_spans; i++)
        ck_assert_int_eq(memcmp(&t.spans[i].span, &all.spans[i + 1].span, sizeof t.spans[i].span),
                         0);
    lk_trace_fini(&all);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

struct writer {
    struct lk_track *track;
    _Atomic bool stop;
};

/* Emits spans whose members tell each other, in bursts that wrap the ring in some milliseconds. */
static void *write_spans(void *arg)
{
    enum { BURST = LK_SPAN_FILE_RING_MIN / 4 };
    struct writer *w = arg;

    for (uint64_t i = 1; !atomic_load(&w->stop); i++) {
        const struct lk_span s = {.start_ns = i,
                                  .end_ns = 3 * i,
                                  .bytes = 7 * i,
                                  .step = (uint32_t)i,
                                  .index = -1,
                                  .seq = (uint32_t)(5 * i),
                                  .kind = LK_SPAN_KERNEL};

        lk_span_emit(w->track, &s);
        if (i % BURST == 0)
            lk_nap_ns(LK_NS_PER_MS);
    }
    return NULL;
}

START_TEST(no_record_is_half_written)
{
    enum { READS = 200 };
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(scratch_dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct writer w = {0};
    pthread_t thread;
    size_t seen = 0;

    must(lk_recorder_track(rec, &span_rig_tracks[0], &w.track));
    ck_assert_int_eq(pthread_create(&thread, NULL, write_spans, &w), 0);
    for (int k = 0; k < READS; k++) {
        struct lk_trace t;
        bool written;
        enum lk_status st = lk_spans_read_live(path, UINT64_MAX, &t, &written);

        ck_assert_msg(st == LK_OK || st == LK_EPARSE, "%s", lk_error_text());
        if (st != LK_OK)
            continue;
        for (size_t i = 0; i < t.n_spans; i++) {
            const struct lk_span *s = &t.spans[i].span;

            ck_assert_uint_eq(s->end_ns, 3 * s->start_ns);
            ck_assert_uint_eq(s->bytes, 7 * s->start_ns);
            ck_assert_uint_eq(s->seq, (uint32_t)(5 * s->start_ns));
            ck_assert(!i || s->start_ns == t.spans[i - 1].span.start_ns + 1);
        }
        seen += t.n_spans;
        lk_trace_fini(&t);
    }
    atomic_store(&w.stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(seen, 0);
    lk_recorder_destroy(rec);
    must(lk_span_file_close(f));
    free(path);
}
END_TEST

/* A torn tail is no step; and of a rank that has not begun nothing is said. */
START_TEST(what_is_not_there_is_waited_for)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(scratch_dir, "rank0.spans"), *folder = NULL;
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct lk_run run;
    bool goes_on;

    must(lk_run_live_folder(scratch_dir, &folder));
    ck_assert_str_eq(folder, scratch_dir);
    ck_assert_int_eq(lk_run_live_read(scratch_dir, 5, &run, &goes_on), LK_EEVIDENCE);
    lk_recorder_destroy(rec);
    must(lk_span_file_close(f));
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_int_eq(lk_run_live_read(scratch_dir, 5, &run, &goes_on), LK_EEVIDENCE);
    ck_assert_int_eq(unlink(path), 0);
    free(folder);
    must(lk_run_live_folder(scratch_dir, &folder));
    ck_assert_ptr_null(folder);
    free(path);
}
END_TEST

SUITE(run_live, c)
{
    tcase_add_checked_fixture(c, set_up, scratch_tear_down);
    tcase_add_test(c, the_last_records_of_a_file);
    tcase_add_test(c, no_record_is_half_written);
    tcase_add_test(c, what_is_not_there_is_waited_for);
}
