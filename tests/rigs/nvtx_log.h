/* Read and check the log that tests/nvtx/injection.c wrote of one process. */
#ifndef LK_TESTS_NVTX_LOG_H
#define LK_TESTS_NVTX_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range, in the order in which they were pushed. */
struct nvtx_range {
    size_t pushed, popped;           /* line numbers in the log, in order over all threads */
    const struct nvtx_range *within; /* enclosing range of the same thread; NULL: none */
    long tid;
    char thread[48]; /* its name, "" before it has one */
    char text[64], category[32];
    bool has_payload;
    long long payload;
};

struct nvtx_log {
    struct nvtx_range *ranges;
    size_t n;
    char streams[256]; /* names of CUDA streams, each followed by ';' */
};

/* The library; a process loads it when NVTX_INJECTION64_PATH has its path. */
#define NVTX_TOOL LK_BUILD_DIR "/nvtx_injection.so"

/*
 * Read PREFIX.* files, of which there must be n_files, in order of their pids. The test fails if
 * the tool logged an error, a range was not closed by its thread, or it was closed in another
 * domain. NULL-safe fini.
 */
void nvtx_logs_read(const char *dir, const char *prefix, struct nvtx_log *out, size_t n_files);
void nvtx_log_fini(struct nvtx_log *l);

/* Return the next range of this text from *at on, and move *at behind it; NULL: there is none. */
const struct nvtx_range *nvtx_next(const struct nvtx_log *l, size_t *at, const char *text);
/* Return true if a lies within b in time, on any thread. */
bool nvtx_during(const struct nvtx_range *a, const struct nvtx_range *b);

#endif
