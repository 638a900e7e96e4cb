/* Several ranks on one GPU; see the header. */
#include "commands/share_gpu.h"

#include "base/array.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CTAS = 2 };

/*
 * Each rank has a host of its own, so NCCL chooses NET/Socket (paths.cc:286, shm.cc:87); the rest
 * keeps NCCL from anything else that a machine or a plugin may offer. Ranks of one node meet on the
 * loopback interface, which NCCL takes only when told to or when there is no other (socket.cc:383).
 * LL moves 0.06 GB/s between time slices where Simple moves 2.5.
 */
static const struct {
    const char *name, *value; /* NULL: a name made for the rank */
    bool one_node;            /* set for runs on one node alone */
} variables[] = {
    {"NCCL_HOSTID", NULL, false},       {"NCCL_NET", "Socket", false},
    {"NCCL_NET_PLUGIN", "none", false}, {"NCCL_IB_DISABLE", "1", false},
    {"NCCL_SOCKET_IFNAME", "lo", true}, {"NCCL_P2P_DISABLE", "1", false},
    {"NCCL_SHM_DISABLE", "1", false},   {"NCCL_MNNVL_ENABLE", "0", false},
    {"NCCL_NVLS_ENABLE", "0", false},   {"NCCL_RAS_ENABLE", "0", false},
    {"NCCL_PROTO", "Simple", false},
};

enum lk_status share_gpu_environment(int rank, int nodes)
{
    char host[64];

    snprintf(host, sizeof host, "lockstep-rank-%d", rank);
    for (size_t i = 0; i < LK_COUNT(variables); i++) {
        const char *name = variables[i].name;
        const char *value = variables[i].value ? variables[i].value : host;

        if (variables[i].one_node && nodes != 1)
            continue;
        if (getenv(name)) {
            lk_log(LK_LOG_COMM, LK_INFO, "shared GPU: %s=%s is kept", name, getenv(name));
            continue;
        }
        if (setenv(name, value, 0))
            return lk_fail(LK_ENOMEM, "%s: %s", name, strerror(errno));
        lk_log(LK_LOG_COMM, LK_INFO, "shared GPU: %s=%s", name, value);
    }
    return LK_OK;
}

void share_gpu_limit(struct lk_nccl_options *n)
{
    if (!n->max_ctas)
        n->max_ctas = n->min_ctas > MAX_CTAS ? n->min_ctas : MAX_CTAS;
}

void share_gpu_deadline(double timeout_s)
{
    double s = ceil(4 * timeout_s);

    (void)signal(SIGALRM, SIG_DFL); /* whatever was inherited */
    alarm(s < INT_MAX ? (unsigned)s : INT_MAX);
}
