/*
 * NCCL as a profiler plugin sees it: opens the plugin, takes the newest table that a version of
 * NCCL knows, and calls it in the order of NCCL 2.27 to 2.32 (src/plugin/profiler.cc), with what
 * NCCL leaves unset set to garbage: handles before an event starts, numbers of channels, the bytes
 * behind version 4's type, what a version has behind the members that the plugin reads.
 *
 * The host's side is one call of a collective; the side of the thread that watches the kernels
 * (until 2.30 the proxy's, then one of its own), a channel's start and stop, is left to the test,
 * which also makes the calls that come late, twice or out of order.
 */
#ifndef LK_TESTS_FAKE_NCCL_PROFILER_H
#define LK_TESTS_FAKE_NCCL_PROFILER_H

#include "preload/nccl_abi.h"

enum {
    FAKE_NCCL_2_27 = 22700,
    FAKE_NCCL_2_28 = 22800,
    FAKE_NCCL_2_30 = 23000,
    FAKE_NCCL_2_31 = 23100,
    FAKE_NCCL_2_32 = 23200
};

struct fake_plugin {
    void *library;
    int interface; /* 4 to 7 */
    int mask;      /* what init returned, or an operator set (fake_set_mask) */
    const struct nccl_profiler *table;
};

struct fake_comm {
    const struct fake_plugin *plugin;
    void *context;
    int rank, n_ranks;
    uint64_t numbers; /* of collectives so far */
};

/* A call of a rank. */
struct fake_call {
    const char *function, *dtype; /* as NCCL names them: AllReduce, ncclFloat32 */
    size_t count;
    int peer;         /* or root */
    bool captured;    /* into a graph */
    bool copy_engine; /* no kernel runs (from 2.29 on, an event of its own) */
};

/* A collective, a send or a receive on its way. */
struct fake_call_work {
    const struct fake_comm *comm;
    struct fake_call call;
    void *api, *group, *handle;
    void *channels[64];
};

/* Open the library; the test fails if it does not export what the version looks for. */
void fake_plugin_open(struct fake_plugin *p, const char *path, int version);
void fake_plugin_close(struct fake_plugin *p);

/* Ask for events beside the plugin's choice, as operators can from 2.31 on (by NCCL's RAS client).
 * Call it behind all inits. */
void fake_set_mask(struct fake_plugin *p, int mask);

void fake_comm_init(struct fake_comm *c, struct fake_plugin *p, uint64_t id, const char *name,
                    int n_ranks, int rank);
void fake_comm_finalize(struct fake_comm *c);

/* The host's side of a call: the call itself, then the launch, which starts and stops the event. */
void fake_call_enqueue(struct fake_comm *c, const struct fake_call *call,
                       struct fake_call_work *out);
/* Its parts, for graphs and for calls out of order. */
void fake_call_api(struct fake_comm *c, const struct fake_call *call, struct fake_call_work *out);
void fake_launch(struct fake_comm *c, struct fake_call_work *w);
void fake_work_start(struct fake_comm *c, struct fake_call_work *w);
void fake_work_stop(struct fake_call_work *w);

/* The watching thread's side; times of the GPU's clock. From 2.31 on, if the mask has them, the
 * start of a channel is followed by the kernel's phases. */
void fake_channel_start(struct fake_call_work *w, int channel, uint64_t gpu_ns);
void fake_channel_stop(struct fake_call_work *w, int channel, uint64_t gpu_ns);
/* Its two calls. */
void fake_channel_record(struct fake_call_work *w, int channel, uint64_t gpu_ns);
void fake_channel_close(struct fake_call_work *w, int channel);
/* The network's side, which the proxy's thread plays in all versions: an operation sends a
 * channel's part to a peer, or receives it, by up to 8 steps at a time. NCCL tells of it if the
 * mask has proxy operations or steps, and of a step's states if both have handles. */
struct fake_transfer {
    const struct fake_comm *comm;
    void *op, *steps[8];
    bool is_send;
};
void fake_transfer_start(const struct fake_call_work *w, int channel, int peer, bool is_send,
                         struct fake_transfer *out);
void fake_transfer_stop(struct fake_transfer *t);
/* Step i begins and waits for its GPU; waits for the receiver, which has no buffer at first, and
 * is sent; is delivered. A step of a receiver: begins; waits for the network, for the flush; ends.
 */
void fake_step_start(struct fake_transfer *t, int i);
void fake_step_move(struct fake_transfer *t, int i, size_t bytes);
void fake_step_stop(struct fake_transfer *t, int i);
/* Send bytes to a peer in one step of the first channel. */
void fake_send(const struct fake_call_work *w, int peer, size_t bytes);

/* Start a channel with any parent and context; return the handle. */
void *fake_channel_of(const struct fake_plugin *p, void *context, void *parent, int channel,
                      uint64_t gpu_ns);

#endif
