#include "tests/fakes/fake_nccl_profiler.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATE_SEND_GPU_WAIT = 8, STATE_RECV_WAIT = 10, STATE_RECV_FLUSH_WAIT = 11 };
enum { STATE_OP_IN_PROGRESS = 19, STATE_SEND_PEER_WAIT = 20 };
enum { STATE_GROUP_API_STARTED = 23, STATE_GROUP_API_ENDING = 24, STATE_KERNEL_PHASE_STOP = 31 };
enum { GROUP_API = 1 << 8, KERNEL_PHASE = 1 << 15 };
#define GARBAGE ((void *)(uintptr_t)0xa5a5a5a5a5a5a5a5)

/*
 * Version 7's parts whole, as its header has them (NVIDIA/nccl at 8898068, profiler_v7.h): behind
 * what the plugin reads lie the handle of version 4's group, the kernel's variant, and the tag that
 * a user gave the call. Offsets are those of a descriptor, whose parts begin at 24.
 */
enum { PART = 24, DESCRIPTOR_V6 = 112, DESCRIPTOR_V7 = 136 };

struct coll_v7 {
    struct nccl_coll coll;
    void *group;
    const char *kernel_variant;
    bool symmetric;
    uint64_t user_tag;
};

struct p2p_v7 {
    struct nccl_p2p p2p;
    void *group;
    uint64_t user_tag;
};

struct ce_coll_v7 {
    struct nccl_ce_coll ce_coll;
    const char *sync;
    bool intra_batch;
    uint32_t batch_size, n_batches, number;
    void *stream;
    uint64_t user_tag;
};

struct coll_api_v7 {
    struct nccl_coll_api coll_api;
    uint64_t user_tag;
};

struct p2p_api_v7 {
    struct nccl_p2p_api p2p_api;
    uint64_t user_tag;
};

struct kernel_phase {
    uint8_t channel, phase; /* 0 to 2: the first barrier, the work, the last barrier */
    const char *name;
    uint64_t start_ns;
};

#define AT(type, member, offset)                                                                   \
    static_assert(offsetof(struct type, member) == (offset)-PART, #type "." #member)
AT(coll_v7, group, 104);
AT(coll_v7, kernel_variant, 112);
AT(coll_v7, symmetric, 120);
AT(coll_v7, user_tag, 128);
AT(p2p_v7, group, 64);
AT(p2p_v7, user_tag, 72);
AT(ce_coll_v7, sync, 80);
AT(ce_coll_v7, batch_size, 92);
AT(ce_coll_v7, stream, 104);
AT(ce_coll_v7, user_tag, 112);
AT(coll_api_v7, user_tag, 72);
AT(p2p_api_v7, user_tag, 64);
AT(kernel_phase, phase, 25);
AT(kernel_phase, name, 32);
AT(kernel_phase, start_ns, 40);
#undef AT
static_assert(offsetof(struct nccl_descriptor, coll) == PART, "a descriptor's parts");
static_assert(PART + sizeof(struct coll_v7) == DESCRIPTOR_V7, "the longest part of version 7");
static_assert(PART + offsetof(struct ce_coll_v7, user_tag) == DESCRIPTOR_V6, "that of version 6");

/* As long as the longest descriptor of all versions. */
union descriptor {
    struct nccl_descriptor d;
    unsigned char bytes[DESCRIPTOR_V7];
};

typedef int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes,
                    int n_ranks, int rank, void (*log)(void));

void fake_plugin_open(struct fake_plugin *p, const char *path, int version)
{
    char symbol[32];

    p->interface = version >= 23100 ? 7 : version >= 22900 ? 6 : version >= 22800 ? 5 : 4;
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(p->library != NULL, "%s", dlerror());
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", p->interface);
    p->table = dlsym(p->library, symbol);
    ck_assert_msg(p->table != NULL, "no %s", symbol);
    ck_assert_str_eq(p->table->name, "lockstep");
}

void fake_plugin_close(struct fake_plugin *p)
{
    dlclose(p->library);
}

static void log_nothing(void)
{
}

void fake_comm_init(struct fake_comm *c, struct fake_plugin *p, uint64_t id, const char *name,
                    int n_ranks, int rank)
{
    int r;

    *c = (struct fake_comm){.plugin = p, .n_ranks = n_ranks, .rank = rank};
    if (p->interface == 4)
        r = ((init_v4 *)(void (*)(void))p->table->init)(&c->context, &p->mask, name, id, 1, n_ranks,
                                                        rank, log_nothing);
    else
        r = p->table->init(&c->context, id, &p->mask, name, 1, n_ranks, rank, log_nothing);
    ck_assert_int_eq(r, NCCL_SUCCESS);
}

/* NCCL 2.27 finalizes a context that init left NULL, too. */
void fake_comm_finalize(struct fake_comm *c)
{
    if (c->context || c->plugin->interface == 4)
        ck_assert_int_eq(c->plugin->table->finalize(c->context), NCCL_SUCCESS);
}

void fake_set_mask(struct fake_plugin *p, int mask)
{
    __atomic_store_n(&p->mask, mask, __ATOMIC_RELAXED);
}

/* ---- Events ---- */

/* Other communicators' inits write it meanwhile; NCCL reads it so. */
static int mask_of(const struct fake_plugin *p)
{
    return __atomic_load_n(&p->mask, __ATOMIC_RELAXED);
}

static void blank(union descriptor *u, const struct fake_plugin *p, unsigned type)
{
    memset(u, 0xa5, sizeof *u);
    if (p->interface == 4)
        u->bytes[0] = (unsigned char)type;
    else
        u->d.type = type;
}

static void *start(const struct fake_plugin *p, void *context, union descriptor *u)
{
    void *handle = GARBAGE;

    ck_assert_int_eq(p->table->start_event(context, &handle, &u->d), NCCL_SUCCESS);
    ck_assert_ptr_ne(handle, GARBAGE);
    return handle;
}

static void stop(const struct fake_plugin *p, void *handle)
{
    if (handle)
        ck_assert_int_eq(p->table->stop_event(handle), NCCL_SUCCESS);
}

static bool is_p2p(const struct fake_call *call)
{
    return !strcmp(call->function, "Send") || !strcmp(call->function, "Recv");
}

void fake_call_api(struct fake_comm *c, const struct fake_call *call, struct fake_call_work *out)
{
    const struct fake_plugin *p = c->plugin;
    union descriptor u;
    void *group;

    *out = (struct fake_call_work){.comm = c, .call = *call};
    if (p->interface == 4 || !mask_of(p))
        return;
    blank(&u, p, GROUP_API);
    group = start(p, c->context, &u);
    if (group)
        p->table->record_event_state(group, STATE_GROUP_API_STARTED, NULL);
    blank(&u, p, is_p2p(call) ? NCCL_P2P_API : NCCL_COLL_API);
    u.d.parent = group;
    if (is_p2p(call))
        u.d.p2p_api =
            (struct nccl_p2p_api){call->function, call->count, call->dtype, NULL, call->captured};
    else
        u.d.coll_api = (struct nccl_coll_api){call->function, call->count, call->dtype,
                                              call->peer,     NULL,        call->captured};
    out->api = start(p, c->context, &u);
    stop(p, out->api);
    if (group)
        p->table->record_event_state(group, STATE_GROUP_API_ENDING, NULL);
    stop(p, group);
}

static void fill_work(union descriptor *u, struct fake_comm *c, const struct fake_call_work *w)
{
    const struct fake_call *call = &w->call;
    bool as_bytes = !strcmp(call->function, "AllGather") || !strcmp(call->function, "Broadcast");
    bool half = strstr(call->dtype, "16") != NULL;

    if (is_p2p(call)) {
        u->d.p2p.function = call->function;
        u->d.p2p.dtype = call->dtype;
        u->d.p2p.count = call->count;
        u->d.p2p.peer = call->peer;
        return;
    }
    u->d.coll.number = c->numbers++;
    u->d.coll.function = call->function;
    u->d.coll.dtype = as_bytes ? "ncclInt8" : call->dtype;
    u->d.coll.count = as_bytes ? call->count * (half ? 2 : 4) : call->count;
    u->d.coll.root = call->peer;
}

/* What version 7 has behind it: tags are numbers, and a symmetric kernel has no protocol's name. */
static void fill_v7(union descriptor *u, const struct fake_call *call)
{
    struct coll_v7 *coll = (struct coll_v7 *)(u->bytes + PART);

    if (is_p2p(call)) {
        ((struct p2p_v7 *)(u->bytes + PART))->user_tag = 1;
    } else if (call->copy_engine) {
        ((struct ce_coll_v7 *)(u->bytes + PART))->user_tag = 2;
    } else {
        coll->coll.algorithm = "LL_R";
        coll->coll.protocol = "";
        coll->kernel_variant = "AGxLL_R";
        coll->symmetric = true;
        coll->user_tag = UINT64_MAX >> 1;
    }
}

void fake_work_start(struct fake_comm *c, struct fake_call_work *w)
{
    const struct fake_plugin *p = c->plugin;
    union descriptor u;

    if (!mask_of(p) || (w->call.copy_engine && p->interface < 6))
        return;
    blank(&u, p, NCCL_GROUP);
    w->group = start(p, c->context, &u);
    if (p->interface == 4 && !w->group)
        return; /* NCCL 2.27: no events in a group without a handle */
    blank(&u, p, is_p2p(&w->call) ? NCCL_P2P : w->call.copy_engine ? NCCL_CE_COLL : NCCL_COLL);
    fill_work(&u, c, w);
    if (p->interface >= 7)
        fill_v7(&u, &w->call);
    u.d.parent = p->interface == 4 ? w->group : w->api;
    u.d.rank = c->rank;
    w->handle = start(p, c->context, &u);
}

void fake_work_stop(struct fake_call_work *w)
{
    stop(w->comm->plugin, w->handle);
    stop(w->comm->plugin, w->group);
}

void fake_launch(struct fake_comm *c, struct fake_call_work *w)
{
    fake_work_start(c, w);
    fake_work_stop(w);
}

void fake_call_enqueue(struct fake_comm *c, const struct fake_call *call,
                       struct fake_call_work *out)
{
    fake_call_api(c, call, out);
    fake_launch(c, out);
}

/* ---- The thread that watches the kernels ---- */

void *fake_channel_of(const struct fake_plugin *p, void *context, void *parent, int channel,
                      uint64_t gpu_ns)
{
    union descriptor u;

    blank(&u, p, NCCL_KERNEL_CH);
    u.d.parent = parent;
    u.d.kernel_ch.channel = (uint8_t)channel;
    u.d.kernel_ch.start_ns = gpu_ns;
    return start(p, context, &u);
}

/* NCCL stops a phase that the plugin took, and tells of the others' ends nothing. */
static void tell_phases(const struct fake_call_work *w, int channel, uint64_t gpu_ns)
{
    static const char *const names[] = {"initial_sync", "compute", "final_sync"};
    const struct fake_plugin *p = w->comm->plugin;

    for (unsigned i = 0; i < 3; i++) {
        const union nccl_state args = {.kernel_ch_stop_ns = gpu_ns + 1};
        union descriptor u;
        void *handle;

        blank(&u, p, KERNEL_PHASE);
        u.d.parent = w->channels[channel];
        *(struct kernel_phase *)(u.bytes + PART) =
            (struct kernel_phase){(uint8_t)channel, (uint8_t)i, names[i], gpu_ns};
        handle = start(p, w->comm->context, &u);
        if (!handle)
            continue;
        p->table->record_event_state(handle, STATE_KERNEL_PHASE_STOP, &args);
        stop(p, handle);
    }
}

void fake_channel_start(struct fake_call_work *w, int channel, uint64_t gpu_ns)
{
    const struct fake_plugin *p = w->comm->plugin;

    w->channels[channel] = fake_channel_of(p, w->comm->context, w->handle, channel, gpu_ns);
    if (p->interface >= 7 && mask_of(p) & KERNEL_PHASE)
        tell_phases(w, channel, gpu_ns);
}

void fake_channel_record(struct fake_call_work *w, int channel, uint64_t gpu_ns)
{
    const union nccl_state args = {.kernel_ch_stop_ns = gpu_ns};

    if (w->channels[channel])
        ck_assert_int_eq(w->comm->plugin->table->record_event_state(w->channels[channel],
                                                                    NCCL_KERNEL_CH_STOP, &args),
                         NCCL_SUCCESS);
}

void fake_channel_close(struct fake_call_work *w, int channel)
{
    stop(w->comm->plugin, w->channels[channel]);
}

void fake_channel_stop(struct fake_call_work *w, int channel, uint64_t gpu_ns)
{
    fake_channel_record(w, channel, gpu_ns);
    fake_channel_close(w, channel);
}

/* ---- The network ---- */

void fake_transfer_start(const struct fake_call_work *w, int channel, int peer, bool is_send,
                         struct fake_transfer *out)
{
    const struct fake_plugin *p = w->comm->plugin;
    const union nccl_state none = {0};
    union descriptor u;

    *out = (struct fake_transfer){.comm = w->comm, .is_send = is_send};
    if (!(mask_of(p) & (NCCL_PROXY_OP | NCCL_PROXY_STEP)))
        return;
    blank(&u, p, NCCL_PROXY_OP);
    u.d.parent = w->handle;
    u.d.rank = w->comm->rank;
    u.d.proxy_op =
        (struct nccl_proxy_op){(int)getpid(), (uint8_t)channel, peer, 8, 1 << 19, is_send};
    out->op = start(p, w->comm->context, &u);
    if (out->op)
        p->table->record_event_state(out->op, STATE_OP_IN_PROGRESS, &none);
}

void fake_transfer_stop(struct fake_transfer *t)
{
    stop(t->comm->plugin, t->op);
}

static void tell_state(const struct fake_transfer *t, int i, int state, size_t bytes)
{
    const union nccl_state args = {.sent_bytes = bytes};

    if (t->op && t->steps[i])
        ck_assert_int_eq(t->comm->plugin->table->record_event_state(t->steps[i], state, &args),
                         NCCL_SUCCESS);
}

void fake_step_start(struct fake_transfer *t, int i)
{
    const struct fake_plugin *p = t->comm->plugin;
    union descriptor u;

    if (!(mask_of(p) & NCCL_PROXY_STEP))
        return;
    blank(&u, p, NCCL_PROXY_STEP);
    u.d.parent = t->op;
    u.d.rank = t->comm->rank;
    t->steps[i] = start(p, t->comm->context, &u);
    tell_state(t, i, t->is_send ? STATE_SEND_GPU_WAIT : STATE_RECV_WAIT, 0);
}

void fake_step_move(struct fake_transfer *t, int i, size_t bytes)
{
    if (!t->is_send) {
        tell_state(t, i, STATE_RECV_FLUSH_WAIT, bytes);
        return;
    }
    tell_state(t, i, STATE_SEND_PEER_WAIT, 0); /* at each try */
    tell_state(t, i, STATE_SEND_PEER_WAIT, 0);
    tell_state(t, i, NCCL_SEND_WAIT, bytes);
}

void fake_step_stop(struct fake_transfer *t, int i)
{
    stop(t->comm->plugin, t->steps[i]);
}

void fake_send(const struct fake_call_work *w, int peer, size_t bytes)
{
    struct fake_transfer t;

    fake_transfer_start(w, 0, peer, true, &t);
    fake_step_start(&t, 0);
    fake_step_move(&t, 0, bytes);
    fake_step_stop(&t, 0);
    fake_transfer_stop(&t);
}
