#include "tests/fakes/fake_nccl_profiler.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { STATE_GROUP_API_STARTED = 23, STATE_GROUP_API_ENDING = 24, GROUP_API = 1 << 8 };
#define GARBAGE ((void *)(uintptr_t)0xa5a5a5a5a5a5a5a5)

/* As long as the longest descriptor, version 6's. */
union descriptor {
    struct nccl_descriptor d;
    unsigned char bytes[112];
};

typedef int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_id, int n_nodes,
                    int n_ranks, int rank, void (*log)(void));

void fake_plugin_open(struct fake_plugin *p, const char *path, int version)
{
    char symbol[32];

    p->interface = version >= 22900 ? 6 : version >= 22800 ? 5 : 4;
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

/* ---- The proxy thread ---- */

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

void fake_channel_start(struct fake_call_work *w, int channel, uint64_t gpu_ns)
{
    w->channels[channel] =
        fake_channel_of(w->comm->plugin, w->comm->context, w->handle, channel, gpu_ns);
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
