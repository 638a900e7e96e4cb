/*
 * Time the recording of a span: begin + end + emit into the file sink, on one thread.
 *
 *     build/bench/span [DIR]      spans go to DIR/rank0.spans (default: a directory under /tmp)
 *
 * Prints ns per span for repeated batches: the least, the quartiles and the most; and the part of
 * it that is reading the clock twice, which any recorder pays.
 */
#include "facts/span.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/stats.h"
#include "profiler/record/span_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCHES = 200, SPANS = 5000 };

/* ns per span of one batch; track NULL measures the uninstrumented path. */
static double batch_spans(struct lk_track *track)
{
    uint64_t start = lk_now_ns();

    for (uint32_t i = 0; i < SPANS; i++) {
        struct lk_span s = lk_span_begin(track, LK_SPAN_KERNEL, 0, i, -1);

        lk_span_end(track, &s);
    }
    return (double)(lk_now_ns() - start) / SPANS;
}

static double batch_clock(struct lk_track *unused)
{
    uint64_t start = lk_now_ns();
    volatile uint64_t keep;

    (void)unused;
    for (uint32_t i = 0; i < SPANS; i++) {
        keep = lk_now_ns();
        keep = lk_now_ns();
    }
    (void)keep;
    return (double)(lk_now_ns() - start) / SPANS;
}

static void print(const char *what, double (*batch)(struct lk_track *), struct lk_track *track)
{
    double ns[BATCHES];

    for (int i = 0; i < BATCHES; i++)
        ns[i] = batch(track);
    (void)lk_stats_median(ns, BATCHES); /* sorts */
    printf("%-34s %8.1f %8.1f %8.1f %8.1f %8.1f\n", what, ns[0], ns[BATCHES / 4], ns[BATCHES / 2],
           ns[3 * BATCHES / 4], ns[BATCHES - 1]);
}

static enum lk_status run(const char *dir)
{
    const struct lk_track_info info = {
        .name = "compute stream", .kind = LK_TRACK_COMPUTE, .stream = 1};
    struct lk_run_info about = {.world_size = 1, .local_batch = 1, .accumulation = 1};
    struct lk_span_file *file = NULL;
    struct lk_recorder *recorder = NULL;
    struct lk_track *track = NULL;
    char *path = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_strdup(&about.run_id, "bench"));
    LK_TRY(lk_strdup(&about.host, "host"));
    LK_TRY(lk_strdup(&about.device, "cpu"));
    LK_TRY(lk_strdup(&about.comm, "self"));
    LK_TRY(lk_strdup(&about.model, "none"));
    LK_TRY(lk_strdup(&about.sample_unit, "span"));
    LK_TRY(lk_asprintf(&path, "%s/rank0.spans", dir));
    LK_TRY(lk_span_file_create(path, &about, (uint64_t)BATCHES * SPANS, &file));
    LK_TRY(lk_recorder_create(&recorder));
    LK_TRY(lk_recorder_attach(recorder, &lk_span_file_ops, file));
    LK_TRY(lk_recorder_track(recorder, &info, &track));
    printf("# ns per span, %d batches of %d\n# %-32s %8s %8s %8s %8s %8s\n", BATCHES, SPANS, "",
           "least", "q1", "median", "q3", "most");
    print("begin + end + emit to a file", batch_spans, track);
    print("of it: reading the clock twice", batch_clock, NULL);
    print("not instrumented (track NULL)", batch_spans, NULL);
out:
    lk_recorder_destroy(recorder);
    LK_KEEP(lk_span_file_close(file));
    if (path)
        (void)unlink(path);
    free(path);
    lk_run_info_fini(&about);
    return st;
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/lockstep-bench-XXXXXX";
    const char *dir = argc > 1 ? argv[1] : mkdtemp(made);
    enum lk_status st;

    if (!dir) {
        perror("mkdtemp");
        return 1;
    }
    st = run(dir);
    if (st != LK_OK)
        fprintf(stderr, "bench/span: %s\n", lk_error_text());
    if (argc < 2)
        (void)rmdir(dir);
    return lk_status_exit_code(st);
}
