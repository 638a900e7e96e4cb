/*
 * A CUPTI session without a GPU (tests/fakes/fake_cupti_cuda.h), to test the handling of records
 * and the session itself: a recorder with a host track and two streams, whose spans are kept
 * (tests/rigs/kept_spans.h). One a process.
 */
#ifndef LK_TESTS_CUPTI_RIG_CUDA_H
#define LK_TESTS_CUPTI_RIG_CUDA_H

#include "profiler/record/cupti.h"

#include <stddef.h>
#include <stdint.h>

struct cupti_rig {
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    struct lk_recorder *next; /* of a second session: the first keeps its recorder */
    struct lk_track *host, *compute, *comm;
    uint16_t gelu, matmul;
    uint64_t t0; /* origin on CUPTI's clock: tests give times of records relative to it */
    struct lk_cupti_counts counts;
    uint64_t fetch_ns; /* of lk_cupti_config; 0: an hour, so that tests say when records come */
    uint32_t end_step; /* likewise */
    uint32_t version;  /* of CUPTI; 0: the headers' */
};
extern struct cupti_rig rig;

void cupti_rig_set_up(void);
/* Set up with this many buffers of this size; 0: the defaults. */
void cupti_rig_set_up_with(size_t buffer_bytes, size_t buffers);
void cupti_rig_tear_down(void);
/* End the session and set `counts`. */
void cupti_rig_close(void);
struct lk_track *cupti_rig_track(const char *name, enum lk_track_kind kind, int stream);
/* Return the id of work issued under such a span. */
uint64_t cupti_rig_id(struct lk_track *t, enum lk_span_kind kind, uint16_t name, uint32_t step,
                      int32_t index);
/* Put a record: of a call's id; of a call and its time; of a kernel. */
void cupti_rig_put_issue(uint32_t correlation, uint64_t id);
void cupti_rig_put_call(uint32_t correlation, uint64_t start);
void cupti_rig_put_kernel(uint32_t correlation, uint32_t stream, uint64_t start, uint64_t end,
                          const char *name);

#define CUPTI_RIG_GELU "_Z16gelu_forward_gpuIfEvPT_PKS0_m"

#endif
