/*
 * Helpers of the fuzz targets: files made of bytes, since readers take paths, and the uses of an
 * accepted input: a forecast, and the file written and read again.
 */
#ifndef LK_TESTS_FUZZ_H
#define LK_TESTS_FUZZ_H

#include "facts/forecast.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/step_evidence.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file in memory; its path is valid while the process lives. */
struct fuzz_file {
    int fd;
    char path[64];
};

static inline const char *fuzz_file_put(struct fuzz_file *f, const void *data, size_t size)
{
    if (!*f->path) {
        f->fd = memfd_create("fuzz", 0);
        snprintf(f->path, sizeof f->path, "/proc/self/fd/%d", f->fd);
    }
    if (f->fd < 0 || ftruncate(f->fd, 0) || pwrite(f->fd, data, size, 0) != (ssize_t)size)
        abort();
    return f->path;
}

/* Write the input to a file and return its path, valid until the next call. */
static inline const char *fuzz_file(const uint8_t *data, size_t size)
{
    static struct fuzz_file f;

    return fuzz_file_put(&f, data, size);
}

static inline void fuzz_remove_output(void);

/* Return a path for a target's output, in memory, unique to this process and gone with it. */
static inline const char *fuzz_output(void)
{
    static char path[64];

    if (!*path) {
        snprintf(path, sizeof path, "/dev/shm/lockstep-fuzz-%ld", (long)getpid());
        if (atexit(fuzz_remove_output))
            abort();
    }
    return path;
}

static inline void fuzz_remove_output(void)
{
    (void)unlink(fuzz_output());
}

/* Abort if a call failed that must not: the input is a finding. */
static inline void fuzz_must(enum lk_status st)
{
    if (st == LK_OK)
        return;
    fprintf(stderr, "must not fail: %s\n", lk_error_text());
    abort();
}

/* Forecast one and two ranks and twice the batch: cheap, but with back-tests, draws and losses. */
static inline void fuzz_forecast(const struct lk_job *job, const struct lk_cluster *cluster)
{
    static const struct lk_axis_value world_sizes[] = {{.count = 1}, {.count = 2}};
    const struct lk_axis_value batches[] = {{.count = lk_job_usual_batch(job)},
                                            {.count = 2 * (lk_job_usual_batch(job) % (1 << 20))}};
    const struct lk_forecast_request q = {
        .axes[LK_AXIS_GPUS] = {world_sizes, 2},
        .axes[LK_AXIS_LOCAL_BATCH] = {batches, batches[1].count ? 2 : 1},
        .level = 0.9,
        .draws = 20,
        .seed = 1};
    struct lk_evidence_source e;
    struct lk_forecast f;

    if (lk_step_evidence(job, cluster, &q, &e) != LK_OK)
        return;
    if (lk_forecast_run(&e, &q, &f, NULL) == LK_OK)
        lk_forecast_fini(&f);
    e.ops->close(e.self);
}

#endif
