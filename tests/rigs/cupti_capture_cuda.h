/*
 * Captured CUPTI records as text, for tests: tests/data/cupti-*.txt. The suite records of test_gpu
 * writes one if LK_CUPTI_CAPTURE names the file; tests/profiler/test_cupti_capture_cuda.c plays
 * them back. One line each, in this order, times in ns since the capture began:
 *
 *   # anything
 *   name TEXT                             of the recorder, in order of their ids
 *   track KIND STREAM NAME                of the recorder, by number: "track 1 1 compute stream"
 *   record KIND HEX [SYMBOL]              of CUPTI, unchanged but for times; SYMBOL: a kernel's
 *   buffer                                the records above were delivered in one buffer
 *   span KIND START END STEP INDEX BYTES TRACK: NAME     resulting span; STEP -1: unknown
 */
#ifndef LK_TESTS_CUPTI_CAPTURE_CUDA_H
#define LK_TESTS_CUPTI_CAPTURE_CUDA_H

#include <cupti.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Return the offset of a record's start time, which its end time follows; 0: it has none. */
static inline size_t capture_start_offset(uint32_t kind)
{
    switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
    case CUPTI_ACTIVITY_KIND_MEMSET:
        return offsetof(CUpti_ActivityMemset4, start);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
        return offsetof(CUpti_ActivityAPI, start);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
        return offsetof(CUpti_ActivityOverhead2, start);
    default:
        return 0;
    }
}

/* Shift both times; times that CUPTI did not have stay 0. */
static inline void capture_shift(uint32_t kind, unsigned char *record, uint64_t add)
{
    size_t at = capture_start_offset(kind);

    for (size_t i = 0; at && i < 2; i++) {
        uint64_t t;

        memcpy(&t, record + at + 8 * i, sizeof t);
        t = t ? t + add : 0;
        memcpy(record + at + 8 * i, &t, sizeof t);
    }
}

#endif
