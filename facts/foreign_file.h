/*
 * The file of records that the preload library (preload/) leaves of a foreign process, for its
 * writer, preload/record.c, and its reader, profiler/import/preload.c.
 *
 * It has a header, groups, names and a ring of records, each page-aligned, in the byte order of the
 * machine. All sizes are fixed when the file is made, and its space is reserved. Record i is at
 * place i % n_records. Its stamp becomes LK_FOREIGN_BUSY before it is overwritten and i + 1, with
 * release order, after it is whole. So whatever moment the process dies at, a record is whole if
 * its stamp is that of its place; `head` counts the records that were begun.
 *
 * A name is its offset in the names; names and groups are whole once something refers to them.
 *
 * While CUPTI records kernels, all records go to a second area, the window, which is appended to
 * the file then. It does not wrap: record i is at place i, and whole if its stamp is i + 1. What
 * begins and ends between window_start_ns and window_end_ns is in it; the ring goes on behind it.
 */
#ifndef LK_FACTS_FOREIGN_FILE_H
#define LK_FACTS_FOREIGN_FILE_H

#include "base/words.h"
#include "facts/coll.h"

#include <stdatomic.h>
#include <stdint.h>

#define LK_FOREIGN_FILE_MAGIC   "LKPROBE\n"
#define LK_FOREIGN_FILE_VERSION 3
#define LK_FOREIGN_FILE_ORDER   0x01020304U
#define LK_FOREIGN_FILE_SUFFIX  ".probe"
#define LK_FOREIGN_BUSY         UINT64_MAX
#define LK_FOREIGN_NO_SEQUENCE  UINT32_MAX
/* The links of what NCCL's plugin tells of; those of CUPTI and MPI are smaller. */
#define LK_FOREIGN_LINK_OF_NCCL (UINT64_C(1) << 63)
#define LK_FOREIGN_NO_END       INT64_MAX /* of a window: its process ended in it */

/* The place of a pair: the last ones take turns. */
#define LK_FOREIGN_PAIR_AT(i) ((i) ? 1 + (i) % (LK_FOREIGN_FILE_PAIRS - 1) : 0)

enum {
    LK_FOREIGN_FILE_ALIGN = 4096,
    LK_FOREIGN_FILE_PAIRS = 3,
    LK_FOREIGN_FILE_GROUPS = 1024,
    LK_FOREIGN_FILE_NAMES_BYTES = 1 << 18,
    LK_FOREIGN_NAME_BYTES = 512 /* of a name with its NUL; the rest is left out */
};

enum lk_foreign_kind {
    LK_FOREIGN_COLLECTIVE_CALL = 1, /* the host's call, from its start to its end */
    LK_FOREIGN_COLLECTIVE_GPU, /* on the GPU: from its first channel's start to the last one's end
                                */
    LK_FOREIGN_WAIT,           /* the host waits for what it began earlier: MPI_Wait */
    LK_FOREIGN_RANGE,          /* a named range of the host: NVTX */
    LK_FOREIGN_KERNEL,         /* these are CUPTI's */
    LK_FOREIGN_COPY,
    LK_FOREIGN_MEMSET,
    LK_FOREIGN_LAUNCH,
    LK_FOREIGN_SYNC,
    LK_FOREIGN_SENT, /* what NCCL's proxy sent to a rank over a network: count is its bytes, link
                        the ns in which a message of it was on its way */
    LK_FOREIGN_KIND_COUNT
};

/* A record's function. 0: none. */
#define LK_FOREIGN_FUNCTION(coll) ((uint8_t)((coll) + 1))

/* How CUPTI fared in the process. X(state, text): the text follows "no kernels: ". */
#define LK_FOREIGN_CUPTI_LIST(X)                                                                   \
    X(LK_FOREIGN_CUPTI_OFF, "")      /* not asked for, or the process does not use CUDA */         \
    X(LK_FOREIGN_CUPTI_RECORDED, "") /* there is, or was, a window */                              \
    X(LK_FOREIGN_CUPTI_WAITING, "the process ended before they were to be recorded (--delay)")     \
    X(LK_FOREIGN_CUPTI_ABSENT, "no libcupti was found")                                            \
    X(LK_FOREIGN_CUPTI_UNKNOWN, "the records of its CUPTI are not known")                          \
    X(LK_FOREIGN_CUPTI_HANGS, "CUPTI of CUDA 13.0 before Update 1 may hang when it is stopped")    \
    X(LK_FOREIGN_CUPTI_TAKEN, "CUPTI was held by another profiler")                                \
    X(LK_FOREIGN_CUPTI_FORBIDDEN, "the driver lets only administrators profile")                   \
    X(LK_FOREIGN_CUPTI_REFUSED, "CUPTI refused")                                                   \
    X(LK_FOREIGN_CUPTI_NO_ROOM, "there was no room for them")

enum lk_foreign_cupti { LK_FOREIGN_CUPTI_LIST(LK_WORD_VALUE) LK_FOREIGN_CUPTI_COUNT };

enum lk_foreign_flag {
    LK_FOREIGN_NONBLOCKING = 1, /* the call returned before the collective was done; end_ns is when
                                 the host found it done */
    /* A collective ran on a GPU: its length is the GPU's, but end_ns is when the host saw the end,
     * which is later; count is its start by the GPU's own clock, ns of %globaltimer. */
    LK_FOREIGN_SEEN = 16,
    LK_FOREIGN_GRAPH = 32 /* a replay of a CUDA graph: no call of the host belongs to it */
};

/* 64 bytes: a cache line. */
struct lk_foreign_record {
    int64_t start_ns, end_ns; /* CLOCK_MONOTONIC_RAW */
    uint64_t link;     /* the same for a call and the work on the GPU that it launched; 0: none */
    uint64_t count;    /* of a collective, elements that a rank puts in; of copies, bytes */
    uint32_t name;     /* 0: none */
    uint32_t lane;     /* the thread's number in the kernel, or a stream of the GPU */
    uint32_t group;    /* index of the group plus one; 0: none */
    uint32_t sequence; /* of a collective: its number in the group, from 0; or NO_SEQUENCE */
    int32_t peer;      /* the other rank of a send or receive, or the root; -1: none. Of
                          kernels, copies and memsets, and of collectives on a GPU: its number */
    uint8_t kind;      /* enum lk_foreign_kind */
    uint8_t function;  /* enum lk_coll plus one; 0: none */
    uint8_t dtype;     /* enum lk_dtype plus one; 0: not known */
    uint8_t flags;     /* of enum lk_foreign_flag */
    _Atomic uint64_t stamp; /* the writer's: see above */
};

/* A communicator of the process. */
struct lk_foreign_group {
    uint64_t identity; /* the same on all of its ranks */
    uint32_t name;     /* 0: none */
    uint32_t library;  /* a name: "mpi", "nccl" */
    int32_t n_ranks, rank;
    _Atomic uint32_t ready; /* 1: whole */
    uint32_t spare;
};

/* Both clocks at one time: before_ns <= the time of epoch_ns <= after_ns. */
struct lk_foreign_pair {
    int64_t before_ns, after_ns; /* CLOCK_MONOTONIC_RAW */
    int64_t epoch_ns;            /* CLOCK_REALTIME */
};

struct lk_foreign_header {
    char magic[8]; /* written last: a file without it was not finished */
    uint32_t version, order;
    uint32_t header_bytes, record_bytes, group_bytes, pid;
    uint64_t groups_at, names_at, records_at; /* offsets in the file */
    uint64_t n_groups, names_bytes, n_records;
    char host[64], command[16];  /* of gethostname, /proc/self/comm */
    char boot[40];               /* /proc/sys/kernel/random/boot_id: files with the same one are of
                                    one clock; "": not known */
    _Atomic uint64_t head;       /* records begun */
    _Atomic uint64_t lost;       /* records that were not written: a writer was in their place, or
                                    their source had no room */
    _Atomic uint32_t names_used; /* bytes; offset 0 is no name */
    _Atomic uint32_t names_lost, groups_lost; /* calls that found no room */
    _Atomic uint32_t n_pairs; /* taken; pair 0 is that of the start, the last one is at
                                 LK_FOREIGN_PAIR_AT(n_pairs - 1) */
    struct lk_foreign_pair pairs[LK_FOREIGN_FILE_PAIRS];
    uint64_t window_at, n_window;                   /* 0: there is none */
    _Atomic uint64_t window_head;                   /* records begun there, or beyond its end */
    _Atomic int64_t window_start_ns, window_end_ns; /* CLOCK_MONOTONIC_RAW; NO_END */
    _Atomic uint64_t window_dropped;                /* that CUPTI had no buffer for */
    _Atomic uint32_t cupti;                         /* enum lk_foreign_cupti */
    _Atomic uint32_t cupti_error;                   /* CUptiResult of what was refused */
    _Atomic uint64_t made_ns;                       /* that making the file took */
    _Atomic uint64_t spent_ns; /* that recording took of the process's threads, estimated */
};

#endif
