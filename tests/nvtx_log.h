/* What tests/nvtx/injection.c wrote of one process, checked. */
#ifndef LK_TESTS_NVTX_LOG_H
#define LK_TESTS_NVTX_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range, in the order in which they were pushed. */
struct nvtx_range {
    size_t pushed, popped;           /* numbers of the log's lines: of all threads, in order */
    const struct nvtx_range *within; /* of the same thread; NULL: none */
    long tid;
    char thread[48]; /* its name, "" before it has one */
    char text[64], category[32];
    bool has_payload;
    long long payload;
};

struct nvtx_log {
    struct nvtx_range *ranges;
    size_t n;
    char streams[256]; /* names of CUDA streams, each with a ';' behind it */
};

/* The library; a process that is to load it is given its path in NVTX_INJECTION64_PATH. */
#define NVTX_TOOL LK_BUILD_DIR "/nvtx_injection.so"

/*
 * Reads PREFIX.* files, of which there must be n_files, in order of their pids; the test fails
 * where the tool met an error, where a range was not closed by its thread, or one was closed in
 * another domain. NULL-safe fini.
 */
void nvtx_logs_read(const char *dir, const char *prefix, struct nvtx_log *out, size_t n_files);
void nvtx_log_fini(struct nvtx_log *l);

/* The next range of this text from *at on, which is moved behind it; NULL: there is none. */
const struct nvtx_range *nvtx_next(const struct nvtx_log *l, size_t *at, const char *text);
/* Whether a lies within b in time, on whatever thread. */
bool nvtx_during(const struct nvtx_range *a, const struct nvtx_range *b);

#endif
