/*
 * A session of CUPTI without a GPU (tests/fake_cupti_cuda.h), for tests of what becomes of records
 * and of the session itself: a recorder with a track of the host and of two streams, whose spans
 * are kept (tests/kept_spans.h). One a process.
 */
#ifndef LK_TESTS_CUPTI_RIG_CUDA_H
#define LK_TESTS_CUPTI_RIG_CUDA_H

#include "profiler/cupti.h"

#include <stddef.h>
#include <stdint.h>

struct cupti_rig {
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_recorder *next; /* of a second session: the first remains the first's */
    struct lk_track *host, *compute, *comm;
    uint16_t gelu, matmul;
    uint64_t t0; /* on CUPTI's clock: times of records are t0 and what a test says */
    struct lk_cupti_counts counts;
};
extern struct cupti_rig rig;

void cupti_rig_set_up(void);
/* With so many buffers of so many bytes; 0: as many and as large as they are otherwise. */
void cupti_rig_set_up_with(size_t buffer_bytes, size_t buffers);
void cupti_rig_tear_down(void);
/* Ends the session: its counts are in `counts`. */
void cupti_rig_close(void);
struct lk_track *cupti_rig_track(const char *name, enum lk_track_kind kind, int stream);
/* The id that work issued under such a span bears. */
uint64_t cupti_rig_id(struct lk_track *t, enum lk_span_kind kind, uint16_t name, uint32_t step,
                      int32_t index);
/* Records: that a call was made under the id; and a kernel. */
void cupti_rig_put_issue(uint32_t correlation, uint64_t id);
void cupti_rig_put_kernel(uint32_t correlation, uint32_t stream, uint64_t start, uint64_t end,
                          const char *name);

#define CUPTI_RIG_GELU "_Z16gelu_forward_gpuIfEvPT_PKS0_m"

#endif
