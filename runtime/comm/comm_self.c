/* The communicator of one rank: every collective is the identity. */
#include "runtime/comm/comm.h"

#include "base/array.h"

#include <stdlib.h>

static enum lk_status self_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    if (config->world_size != 1)
        return lk_fail(LK_EUSAGE, "the communicator 'self' is for 1 rank, not %d",
                       config->world_size);
    return lk_alloc(out, 1, sizeof(struct lk_comm));
}

static enum lk_status self_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    (void)c;
    (void)call;
    (void)seq;
    return LK_OK;
}

static enum lk_status self_enqueue(struct lk_comm *c, struct lk_stream *s,
                                   const struct lk_coll_call *call, uint64_t seq)
{
    (void)s;
    return self_run(c, call, seq);
}

static enum lk_status self_graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end)
{
    (void)c;
    (void)s;
    (void)seq;
    (void)end;
    return LK_OK;
}

static void self_close(struct lk_comm *c)
{
    free(c);
}

const struct lk_comm_ops lk_comm_self = {.name = "self",
                                         .open = self_open,
                                         .run = self_run,
                                         .close = self_close,
                                         .enqueue = self_enqueue,
                                         .graph = self_graph};
