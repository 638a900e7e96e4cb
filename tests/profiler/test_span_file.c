/* Span files: emitted spans are read back, also after a kill or a wrap; garbage is refused. */
#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "profiler/record/span_file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/span_rig.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each test's own directory. */
static char *dir;

static void set_up(void)
{
    dir = scratch_create();
    ck_assert_int_eq(lk_log_configure("error"), LK_OK); /* full rings are intended here */
}

static void tear_down(void)
{
    scratch_remove(dir);
}

/* ---- Emitted spans are read back ---- */

/* Three threads, one track each, at once. */
START_TEST(spans_come_back)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 8 * 2000, &rec);
    const struct lk_clock_sample sample = {
        .local_send_ns = 10, .remote_ns = 500, .local_recv_ns = 20};
    struct span_emitter emitters[SPAN_RIG_TRACKS];
    pthread_t threads[SPAN_RIG_TRACKS];
    struct lk_trace t;

    for (size_t i = 0; i < SPAN_RIG_TRACKS; i++) {
        emitters[i].n = 500 * (i + 1);
        ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[i], &emitters[i].track), LK_OK);
        ck_assert_int_eq(lk_recorder_name(rec, i ? "gelu" : "matmul", &emitters[i].name), LK_OK);
    }
    ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_START, &sample, 1), LK_OK);
    for (size_t i = 0; i < SPAN_RIG_TRACKS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, span_rig_emit, &emitters[i]), 0);
    for (size_t i = 0; i < SPAN_RIG_TRACKS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);

    span_rig_read(path, &t);
    ck_assert(!t.truncated);
    ck_assert_ptr_null(t.failure);
    ck_assert_uint_eq(t.dropped, 0);
    ck_assert_uint_eq(t.n_names, 2);
    ck_assert_str_eq(t.names[0], "matmul");
    ck_assert_str_eq(t.names[1], "gelu");
    ck_assert_str_eq(t.info.model, "step-model");
    ck_assert_uint_eq(t.info.n_tensors, STEP_MODEL_TENSORS);
    ck_assert(t.base_epoch_ns > 1500000000ULL * LK_NS_PER_S && t.base_local_ns > 0);
    ck_assert_uint_eq(t.n_tracks, SPAN_RIG_TRACKS);
    for (size_t i = 0; i < SPAN_RIG_TRACKS; i++) {
        ck_assert_str_eq(t.tracks[i].name, span_rig_tracks[i].name);
        ck_assert_int_eq(t.tracks[i].kind, span_rig_tracks[i].kind);
        ck_assert_int_eq(t.tracks[i].stream, span_rig_tracks[i].stream);
        span_rig_assert_track(&t, (uint32_t)i, 0, emitters[i].n);
    }
    for (size_t k = 1; k < t.n_spans; k++)
        ck_assert_uint_le(t.spans[k - 1].span.start_ns, t.spans[k].span.start_ns);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* A full ring keeps the newest and counts the lost. */
START_TEST(wraps)
{
    static const uint64_t counts[] = {0,
                                      1,
                                      LK_SPAN_FILE_RING_MIN - 1,
                                      LK_SPAN_FILE_RING_MIN,
                                      LK_SPAN_FILE_RING_MIN + 1,
                                      3 * LK_SPAN_FILE_RING_MIN + 17};
    uint64_t n = counts[_i];
    uint64_t kept = n < LK_SPAN_FILE_RING_MIN ? n : LK_SPAN_FILE_RING_MIN;
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct span_emitter e = {.n = n};
    struct lk_trace t;

    ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[0], &e.track), LK_OK);
    span_rig_emit(&e);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    span_rig_assert_track(&t, 0, n - kept, kept);
    ck_assert_uint_eq(t.dropped, n - kept);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* A track that states its expected number gets that room, whatever its kind. */
START_TEST(room_as_expected)
{
    const struct lk_track_info info = {.name = "GPU", .kind = LK_TRACK_GPU, .n_spans = 5000};
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct span_emitter e = {.n = 5000};
    struct lk_trace t;

    ck_assert_int_eq(lk_recorder_track(rec, &info, &e.track), LK_OK);
    span_rig_emit(&e);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    span_rig_assert_track(&t, 0, 0, 5000);
    ck_assert_uint_eq(t.dropped, 0);
    ck_assert_int_eq(t.tracks[0].kind, LK_TRACK_GPU);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* ---- How a run ends ---- */

/* Kill a child that emits without end; all spans emitted by then are there. */
START_TEST(survives_a_kill)
{
    char *path = scratch_path(dir, "rank0.spans");
    int pipe_fd[2];
    uint64_t emitted = 0;
    struct lk_trace t;
    pid_t child;
    int status;
    uint64_t kept;

    ck_assert_int_eq(pipe(pipe_fd), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        struct lk_recorder *rec = NULL;
        struct lk_track *track = NULL;

        (void)span_rig_create(path, LK_SPAN_FILE_RING_MIN, &rec);
        if (lk_recorder_track(rec, &span_rig_tracks[0], &track) != LK_OK)
            _exit(1);
        for (uint64_t i = 0;; i++) {
            struct lk_span s = span_rig_span(i, 0);

            lk_span_emit(track, &s);
            if (i % 100 == 99 && write(pipe_fd[1], &i, sizeof i) != sizeof i)
                _exit(1);
        }
    }
    /* Let it run for different lengths: with and without a wrap. */
    for (int n = 0; n < 5 + 10 * _i; n++)
        ck_assert_int_eq(read(pipe_fd[0], &emitted, sizeof emitted), sizeof emitted);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    close(pipe_fd[0]);
    close(pipe_fd[1]);

    span_rig_read(path, &t);
    ck_assert(t.truncated);
    ck_assert_ptr_null(t.failure);
    ck_assert_uint_gt(t.n_spans, 0);
    ck_assert_uint_gt(t.dropped + t.n_spans, emitted);
    kept = t.dropped ? LK_SPAN_FILE_RING_MIN - 1 : t.n_spans; /* the oldest may be torn */
    span_rig_assert_track(&t, 0, t.dropped, kept);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* What is found out during the run stands with what was known before, or in its place. */
START_TEST(later_facts_are_the_runs)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans"), *longer = NULL;
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct lk_run_info info = {0};
    struct lk_trace t;

    span_rig_info(&info, 0);
    ck_assert_int_eq(lk_recorder_fact(rec, "known early", "another"), LK_OK);
    ck_assert_int_eq(lk_recorder_fact(rec, "of late", "first"), LK_OK);
    ck_assert_int_eq(lk_recorder_fact(rec, "of late", ""), LK_OK);
    ck_assert_int_eq(lk_recorder_fact(NULL, "of late", "nobody"), LK_OK);
    ck_assert_int_eq(lk_alloc(&longer, LK_SPAN_FILE_FACTS_BYTES, 1), LK_OK);
    memset(longer, 'x', LK_SPAN_FILE_FACTS_BYTES - 1);
    ck_assert_int_eq(lk_recorder_fact(rec, "too long", longer), LK_EINTERNAL);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    ck_assert_uint_eq(t.info.n_config, info.n_config + 1);
    ck_assert_str_eq(lk_run_info_value(&t.info, "known early"), "another");
    ck_assert_str_eq(lk_run_info_value(&t.info, "of late"), "");
    lk_trace_fini(&t);
    lk_run_info_fini(&info);
    free(longer);
    free(path);
}
END_TEST

START_TEST(keeps_the_first_failure)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    char *longer = NULL;
    struct lk_trace t;

    ck_assert_int_eq(lk_alloc(&longer, 5000, 1), LK_OK);
    memset(longer, 'x', 4999);
    lk_span_file_fail(f, "rank 1 did not arrive at all_reduce 7");
    lk_span_file_fail(f, "a later one");
    lk_span_file_fail(NULL, "nobody");
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    ck_assert(t.truncated);
    ck_assert_str_eq(t.failure, "rank 1 did not arrive at all_reduce 7");
    lk_trace_fini(&t);

    f = span_rig_create(path, 1, &rec);
    lk_span_file_fail(f, longer);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    ck_assert_uint_eq(strlen(t.failure), LK_SPAN_FILE_FAILURE_BYTES - 1);
    lk_trace_fini(&t);
    free(longer);
    free(path);
}
END_TEST

/* Of many round trips the shortest are kept. */
START_TEST(keeps_the_best_clock_samples)
{
    enum { N = 4 * LK_SPAN_FILE_SAMPLES };
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct lk_clock_sample samples[N];
    struct lk_span_file_header h;
    FILE *file;

    for (uint64_t i = 0; i < N; i++) /* round trips of 1000 + 37 i mod N, all different */
        samples[i] = (struct lk_clock_sample){.local_send_ns = 100000 * i,
                                              .local_recv_ns = 100000 * i + 1000 + 37 * i % N};
    ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_START, samples, 2), LK_OK);
    ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_START, samples, N), LK_OK);
    ck_assert_int_eq(lk_span_file_clock(f, LK_CLOCK_END, samples, 3), LK_OK);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(&h, sizeof h, 1, file), 1);
    fclose(file);
    ck_assert_uint_eq(h.n_samples[LK_CLOCK_START], LK_SPAN_FILE_SAMPLES);
    ck_assert_uint_eq(h.n_samples[LK_CLOCK_END], 3);
    for (uint64_t i = 0; i < LK_SPAN_FILE_SAMPLES; i++)
        ck_assert_uint_eq(h.samples[LK_CLOCK_START][i].local_recv_ns -
                              h.samples[LK_CLOCK_START][i].local_send_ns,
                          1000 + i);
    free(path);
}
END_TEST

/* ---- Failures ---- */

START_TEST(needs_a_directory)
{
    struct lk_run_info info = {0};
    struct lk_span_file *f = NULL;

    span_rig_info(&info, 0);
    ck_assert_int_eq(lk_span_file_create("/nonexistent/rank0.spans", &info, 1, &f), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "/nonexistent/rank0.spans"));
    ck_assert_ptr_null(f);
    lk_run_info_fini(&info);
}
END_TEST

/* Without disk space (here: a limit on file sizes) span_rig_create or track_open fails;
 * there is no signal later. */
START_TEST(no_room)
{
    struct lk_run_info info = {0};
    struct lk_span_file *f = NULL;
    struct lk_recorder *rec = NULL;
    struct lk_track *track = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct rlimit limit = {4096, 4096};
    char **names = NULL;
    size_t n = 0;

    signal(SIGXFSZ, SIG_IGN);
    span_rig_info(&info, 0);
    if (!_i) {
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        ck_assert_int_eq(lk_span_file_create(path, &info, 1, &f), LK_EIO);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank0.spans: cannot reserve"));
        ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
        ck_assert_uint_eq(n, 0); /* no partial file remains */
        lk_names_free(names, n);
    } else {
        f = span_rig_create(path, 1 << 16, &rec);
        limit.rlim_cur = limit.rlim_max = sizeof(struct lk_span_file_header) + (1 << 16);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[0], &track), LK_EIO);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "cannot reserve"));
        lk_recorder_destroy(rec);
        ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    }
    lk_run_info_fini(&info);
    free(path);
}
END_TEST

START_TEST(is_locked_while_written)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct lk_trace t;

    ck_assert_int_eq(lk_spans_read(path, &t), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "still being written"));
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    span_rig_read(path, &t);
    lk_trace_fini(&t);
    free(path);
}
END_TEST

/* Return a valid file as bytes. */
static char *valid_bytes(size_t *out_size)
{
    struct lk_recorder *rec = NULL;
    char *path = scratch_path(dir, "rank0.spans");
    struct lk_span_file *f = span_rig_create(path, 1, &rec);
    struct span_emitter e = {.n = 40};
    char *bytes = NULL;
    FILE *file;
    long size;

    ck_assert_int_eq(lk_recorder_track(rec, &span_rig_tracks[0], &e.track), LK_OK);
    ck_assert_int_eq(lk_recorder_name(rec, "matmul", &e.name), LK_OK);
    span_rig_emit(&e);
    lk_recorder_destroy(rec);
    ck_assert_int_eq(lk_span_file_close(f), LK_OK);
    file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    rewind(file);
    ck_assert_int_eq(lk_alloc(&bytes, (size_t)size, 1), LK_OK);
    ck_assert_uint_eq(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    free(path);
    *out_size = (size_t)size;
    return bytes;
}

static enum lk_status read_bytes(const char *bytes, size_t size)
{
    char *path = scratch_path(dir, "rank0.spans");
    FILE *file = fopen(path, "wb");
    struct lk_trace t = {0};
    enum lk_status st;

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
    st = lk_spans_read(path, &t);
    if (st == LK_OK)
        lk_trace_fini(&t);
    free(path);
    return st;
}

/* Header fields with values that no writer produces, and the reader's error. */
static const struct {
    size_t offset, bytes;
    uint64_t value;
    const char *says;
} bad_fields[] = {
#define FIELD(f) offsetof(struct lk_span_file_header, f), sizeof((struct lk_span_file_header *)0)->f
    {FIELD(magic), 0, "not a span file"},
    {FIELD(version), 1, "version 1"},
    {FIELD(order), 0x04030201, "byte order"},
    {FIELD(header_bytes), 7, "record sizes"},
    {FIELD(span_bytes), 56, "record sizes"},
    {FIELD(info_offset), 1 << 30, "no valid place"},
    {FIELD(info_bytes), 1ULL << 62, "no valid place"},
    {FIELD(info_bytes), 1 << 25, "ends too early"},
    {FIELD(state), 4, "state 4"},
    {FIELD(n_tracks), 65, "out of range"},
    {FIELD(n_names), 1 << 17, "out of range"},
    {FIELD(n_names), 9, "span name 2"},
    {FIELD(names_bytes), 1 << 17, "out of range"},
    {FIELD(facts_bytes), 1 << 13, "out of range"},
    {FIELD(facts_bytes), 3, "a fact of the run is cut off"},
    {FIELD(n_samples[1]), 33, "out of range"},
    {FIELD(tracks[0].kind), LK_TRACK_KIND_COUNT, "valid name and kind"},
    {FIELD(tracks[0].capacity), 1000, "has 1000 records"},
    {FIELD(tracks[0].capacity), 1ULL << 63, "records"},
    {FIELD(tracks[0].n_segments), 2, "has 2 segments"},
    {FIELD(tracks[0].n_segments), 0, "lies outside"},
    {FIELD(tracks[0].segments[0]), 1 << 30, "lies outside"},
    {FIELD(tracks[0].segments[0]), 0, "lies outside"},
#undef FIELD
};

START_TEST(bad_field)
{
    size_t size;
    char *bytes = valid_bytes(&size);

    ck_assert_int_eq(read_bytes(bytes, size), LK_OK);
    memset(bytes + bad_fields[_i].offset, 0, bad_fields[_i].bytes);
    memcpy(bytes + bad_fields[_i].offset, &bad_fields[_i].value,
           bad_fields[_i].bytes < sizeof(uint64_t) ? bad_fields[_i].bytes : sizeof(uint64_t));
    ck_assert_int_eq(read_bytes(bytes, size), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), bad_fields[_i].says) != NULL, "%s", lk_error_text());
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank0.spans"));
    free(bytes);
}
END_TEST

START_TEST(cut_short)
{
    size_t size;
    char *bytes = valid_bytes(&size);

    for (size_t cut = 0; cut < size; cut += 1 + size / 200)
        ck_assert_int_eq(read_bytes(bytes, cut), LK_EPARSE);
    ck_assert_int_eq(read_bytes(bytes, size - 1), LK_EPARSE);
    ck_assert_int_eq(read_bytes(bytes, size), LK_OK);
    free(bytes);
}
END_TEST

/* Any damage gives a trace or an error, and no invalid access (the sanitizers watch). */
START_TEST(random_damage)
{
    struct lk_rng g = lk_rng_init(2, (uint64_t)_i);
    size_t size, failed = 0;
    char *bytes = valid_bytes(&size), *copy = NULL;

    ck_assert_int_eq(lk_alloc(&copy, size, 1), LK_OK);
    for (int round = 0; round < 200; round++) {
        memcpy(copy, bytes, size);
        for (uint64_t n = 1 + lk_rng_below(&g, 8); n; n--) {
            /* Names and unused tracks fill most of the header: aim at the rest of it, at the
             * description and at the ring. */
            static const size_t regions[] = {offsetof(struct lk_span_file_header, failure) + 200,
                                             offsetof(struct lk_span_file_header, tracks) + 120};
            size_t region = (size_t)lk_rng_below(&g, 3);
            size_t at =
                region < 2
                    ? (size_t)lk_rng_below(&g, regions[region])
                    : sizeof(struct lk_span_file_header) +
                          (size_t)lk_rng_below(&g, size - sizeof(struct lk_span_file_header));

            copy[at] = (char)lk_rng_below(&g, 256);
        }
        failed += read_bytes(copy, size) != LK_OK;
    }
    ck_assert_uint_gt(failed, 0);
    free(copy);
    free(bytes);
}
END_TEST

SUITE(span_file, t)
{
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, spans_come_back);
    tcase_add_loop_test(t, wraps, 0, 6);
    tcase_add_test(t, room_as_expected);
    tcase_add_loop_test(t, survives_a_kill, 0, 5);
    tcase_add_test(t, later_facts_are_the_runs);
    tcase_add_test(t, keeps_the_first_failure);
    tcase_add_test(t, keeps_the_best_clock_samples);
    tcase_add_test(t, needs_a_directory);
    tcase_add_loop_test(t, no_room, 0, 2);
    tcase_add_test(t, is_locked_while_written);
    tcase_add_loop_test(t, bad_field, 0, (int)LK_COUNT(bad_fields));
    tcase_add_test(t, cut_short);
    tcase_add_loop_test(t, random_damage, 0, 4);
}
