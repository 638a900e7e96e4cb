/*
 * NCCL's profiler interface, versions 4 to 7, as far as the plugin uses it: numbers and layouts of
 * NCCL's binary interface, which do not change (checked with the headers of NCCL 2.27.3, 2.28.9,
 * 2.29.7 and 2.30.7, and with those of version 7: docs/profile.md). A version is a table of five
 * functions, exported as ncclProfiler_v4 to _v7; NCCL takes the newest one that it knows and finds:
 * 2.27 version 4, 2.28 version 5, 2.29 and 2.30 version 6, 2.31 and 2.32 version 7. With an older
 * one it leaves out what that lacks.
 *
 * A descriptor of an event has a type, the handle of its parent, a rank, and what its type needs.
 * The versions differ in the width of the type, in the types, and in what stands behind the members
 * below: these lie at the same offsets in all of them.
 */
#ifndef LK_PRELOAD_NCCL_ABI_H
#define LK_PRELOAD_NCCL_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NCCL_SUCCESS = 0 };

/* Types of events; also the bits of the mask that init returns. */
enum nccl_event_type {
    NCCL_GROUP = 1 << 0,
    NCCL_COLL = 1 << 1, /* from when a collective is on its stream until its work is handed over */
    NCCL_P2P = 1 << 2,
    NCCL_PROXY_OP = 1 << 3, /* the proxy moves a channel's part of a collective to or from a peer */
    NCCL_PROXY_STEP = 1 << 4, /* one message of it */
    NCCL_KERNEL_CH = 1 << 6,  /* a channel (a block of the kernel) works on a collective */
    NCCL_COLL_API = 1 << 9,   /* version 5: the call of ncclAllReduce and others */
    NCCL_P2P_API = 1 << 10,
    NCCL_CE_COLL = 1 << 12 /* version 6: a collective of the copy engines, without a kernel */
};

/* ncclProfilerEventState_t: those that are used. SEND_WAIT: the network has taken a message; it is
 * delivered when its step stops. Before that a step waits for the GPU's data (8) and for the
 * receiver's buffer (20). */
enum { NCCL_SEND_WAIT = 9, NCCL_KERNEL_CH_STOP = 22 };

struct nccl_coll {
    uint64_t number; /* of this function in the communicator, from 0 */
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *dtype;
    uint8_t n_channels, n_warps; /* may be garbage: NCCL does not clear them (rocm-systems#4725) */
    const char *algorithm, *protocol;
};

struct nccl_p2p {
    const char *function;
    void *buffer;
    const char *dtype;
    size_t count;
    int peer;
    uint8_t n_channels;
};

struct nccl_proxy_op {
    int pid; /* of the rank: with PXN another process's proxy moves it */
    uint8_t channel;
    int peer;
    int n_steps, chunk_bytes;
    int is_send;
};

struct nccl_kernel_ch {
    uint8_t channel;
    uint64_t start_ns; /* the GPU's %globaltimer */
};

struct nccl_coll_api {
    const char *function;
    size_t count;
    const char *dtype;
    int root;
    void *stream;
    bool captured;
};

struct nccl_p2p_api {
    const char *function;
    size_t count;
    const char *dtype;
    void *stream;
    bool captured;
};

struct nccl_ce_coll {
    uint64_t number; /* of the copy engines' collectives in the communicator */
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *dtype;
};

/* Versions 5 to 7; version 4 has one byte for the type. */
struct nccl_descriptor {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct nccl_coll coll;
        struct nccl_p2p p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_kernel_ch kernel_ch;
        struct nccl_coll_api coll_api;
        struct nccl_p2p_api p2p_api;
        struct nccl_ce_coll ce_coll;
    };
};

/* ncclProfilerEventStateArgs: a union of one word. */
union nccl_state {
    size_t sent_bytes;          /* of SEND_WAIT: the message's */
    uint64_t kernel_ch_stop_ns; /* the GPU's %globaltimer */
};

typedef int nccl_init(void **context, uint64_t comm_id, int *mask, const char *comm_name,
                      int n_nodes, int n_ranks, int rank, void (*log)(void));
typedef int nccl_init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_id,
                         int n_nodes, int n_ranks, int rank, void (*log)(void));
typedef int nccl_start_event(void *context, void **handle, const struct nccl_descriptor *d);
typedef int nccl_stop_event(void *handle);
typedef int nccl_record_event_state(void *handle, int state, const union nccl_state *args);
typedef int nccl_finalize(void *context);

/* The tables of version 4, and of versions 5 to 7. */
#define NCCL_PROFILER(table, init_of_table)                                                        \
    struct table {                                                                                 \
        const char *name;                                                                          \
        init_of_table *init;                                                                       \
        nccl_start_event *start_event;                                                             \
        nccl_stop_event *stop_event;                                                               \
        nccl_record_event_state *record_event_state;                                               \
        nccl_finalize *finalize;                                                                   \
    }
NCCL_PROFILER(nccl_profiler_v4, nccl_init_v4);
NCCL_PROFILER(nccl_profiler, nccl_init);
#undef NCCL_PROFILER

/* The layouts on machines of 64 bits, where NCCL runs. */
#define NCCL_AT(part, member, offset)                                                              \
    static_assert(offsetof(struct nccl_descriptor, part.member) == (offset), #part "." #member)
static_assert(offsetof(struct nccl_descriptor, parent) == 8, "parent");
static_assert(offsetof(struct nccl_descriptor, rank) == 16, "rank");
NCCL_AT(coll, number, 24);
NCCL_AT(coll, function, 32);
NCCL_AT(coll, count, 56);
NCCL_AT(coll, root, 64);
NCCL_AT(coll, dtype, 72);
NCCL_AT(coll, n_channels, 80);
NCCL_AT(coll, algorithm, 88);
NCCL_AT(coll, protocol, 96);
NCCL_AT(p2p, function, 24);
NCCL_AT(p2p, dtype, 40);
NCCL_AT(p2p, count, 48);
NCCL_AT(p2p, peer, 56);
NCCL_AT(p2p, n_channels, 60);
NCCL_AT(proxy_op, channel, 28);
NCCL_AT(proxy_op, peer, 32);
NCCL_AT(proxy_op, is_send, 44);
NCCL_AT(kernel_ch, channel, 24);
NCCL_AT(kernel_ch, start_ns, 32);
NCCL_AT(coll_api, function, 24);
NCCL_AT(coll_api, count, 32);
NCCL_AT(coll_api, dtype, 40);
NCCL_AT(coll_api, root, 48);
NCCL_AT(coll_api, stream, 56);
NCCL_AT(coll_api, captured, 64);
NCCL_AT(p2p_api, stream, 48);
NCCL_AT(p2p_api, captured, 56);
NCCL_AT(ce_coll, function, 32);
NCCL_AT(ce_coll, count, 56);
NCCL_AT(ce_coll, dtype, 72);
#undef NCCL_AT

#endif
