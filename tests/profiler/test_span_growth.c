/* Span files grow while they are written, and end behind their last span; full disks are errors. */
#include "base/log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/span_rig.h"
#include "tests/rigs/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_up(void)
{
    scratch_set_up();
    ck_assert_int_eq(lk_log_configure("error"), LK_OK); /* full rings are intended here */
}

/* The file grows with its spans, up to the room of its rings, and ends behind the last. */
START_TEST(grows_with_its_spans)
{
    enum { EXPECTED = 16 * LK_SPAN_FILE_SEGMENT };
    static const uint64_t counts[] = {0,
                                      LK_SPAN_FILE_SEGMENT / 2 - 1,
                                      LK_SPAN_FILE_SEGMENT,
                                      LK_SPAN_FILE_SEGMENT + 1,
                                      5 * LK_SPAN_FILE_SEGMENT + 7,
                                      EXPECTED,
                                      EXPECTED + 3};
    uint64_t n = counts[_i], kept = n < EXPECTED ? n : EXPECTED;
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(scratch_dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, EXPECTED, &rec);
    struct span_emitter e = {.n = n}, other = {.n = 10};
    uint64_t header_bytes = span_rig_bytes(path);
    struct lk_trace t;

    ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[0], &e.track), LK_OK);
    ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[1], &other.track), LK_OK);
    span_rig_emit(&e);
    span_rig_emit(&other);
    /* While it is written it has at most one prepared segment of each track too many. */
    ck_assert_uint_le(span_rig_bytes(path),
                      header_bytes + (kept + 4 * LK_SPAN_FILE_SEGMENT) * sizeof(struct lk_span));
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    /* The second track's segment is in front of the later ones of the first. */
    ck_assert_uint_le(span_rig_bytes(path), header_bytes + (kept + LK_SPAN_FILE_SEGMENT + other.n) *
                                                               sizeof(struct lk_span));
    span_rig_read(path, &t);
    span_rig_assert_track(&t, 0, n - kept, kept);
    span_rig_assert_track(&t, 1, 0, other.n);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* A disk that becomes full while the file grows: an error and no signal, and what was written
 * before is read back. */
START_TEST(no_room_to_grow)
{
    enum { SEGMENT_BYTES = LK_SPAN_FILE_SEGMENT * sizeof(struct lk_span) };
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(scratch_dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 16 * LK_SPAN_FILE_SEGMENT, &rec);
    uint64_t bytes = span_rig_bytes(path) + 2 * SEGMENT_BYTES + 1000;
    struct rlimit limit = {bytes, bytes};
    struct span_emitter e = {.n = 4 * LK_SPAN_FILE_SEGMENT};
    struct lk_trace t;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[0], &e.track), LK_OK);
    ck_assert_int_eq(lk_span_file_status(f), LK_OK);
    span_rig_emit(&e);
    ck_assert_int_eq(lk_span_file_status(f), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank0.spans: cannot reserve"));
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_EIO);
    span_rig_read(path, &t);
    span_rig_assert_track(&t, 0, 0, 2 * LK_SPAN_FILE_SEGMENT);
    ck_assert(t.truncated);
    ck_assert_ptr_nonnull(strstr(t.failure, "cannot reserve"));
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* A file that is abandoned ends behind its last span, although threads go on emitting. */
START_TEST(abandoned_while_written)
{
    enum { N = 3 * LK_SPAN_FILE_SEGMENT + 100 };
    char *path = scratch_path(scratch_dir, "rank0.spans");
    struct lk_trace t;
    uint64_t bytes;
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child) {
        struct lk_recorder *rec = NULL;
        struct lk_span_file *f = span_rig_create(path, 64 * LK_SPAN_FILE_SEGMENT, &rec);
        struct span_emitter e = {.n = N};

        if (lk_recorder_track(rec, &span_rig_tracks[0], &e.track) != LK_OK)
            _exit(1);
        span_rig_emit(&e);
        lk_span_file_abandon(f, "the rank was ended");
        for (uint64_t i = N; i < 2 * N; i++) { /* into pages that are no longer the file's */
            struct lk_span s = span_rig_span(i, 0);

            lk_span_emit(e.track, &s);
        }
        _exit(7);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    bytes = span_rig_bytes(path);
    span_rig_read(path, &t);
    ck_assert(t.truncated);
    ck_assert_str_eq(t.failure, "the rank was ended");
    span_rig_assert_track(&t, 0, 0, N);
    ck_assert_uint_lt(bytes,
                      sizeof(struct lk_span_file_header) + (1 << 16) + N * sizeof(struct lk_span));
    lk_trace_fini(&t);
    free(path);
}
END_TEST

SUITE(span_growth, t)
{
    tcase_add_checked_fixture(t, set_up, scratch_tear_down);
    tcase_add_loop_test(t, grows_with_its_spans, 0, 7);
    tcase_add_test(t, no_room_to_grow);
    tcase_add_test(t, abandoned_while_written);
}
