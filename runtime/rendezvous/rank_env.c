/* Read this process's rank and world size from the environment; see the header. */
#include "runtime/rendezvous/rank_env.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/slurm.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_FIRST = 20000, PORTS = 10000, PORT_STEP = 2477, PORT_TRIES = 4 };

/* Read an integer in [min, max] from a variable. LK_EUSAGE: malformed, or missing and `needed`. */
static enum lk_status read_int(const char *name, bool needed, int64_t min, int64_t max, int *out)
{
    const char *text = getenv(name);
    int64_t v = 0;
    enum lk_status st;

    if (!text)
        return needed ? lk_fail(LK_EUSAGE, "%s is not set", name) : LK_OK;
    st = lk_parse_int64(text, min, max, &v);
    if (st != LK_OK)
        return lk_fail_context(st, "%s", name);
    *out = (int)v;
    return LK_OK;
}

static const char *first_set(const char *a, const char *b)
{
    return getenv(a) ? getenv(a) : getenv(b) ? getenv(b) : "";
}

static enum lk_status set_addr(struct lk_rank_env *e, const char *text, const char *what)
{
    if (!*text || strlen(text) >= sizeof e->master_addr)
        return lk_fail(LK_EUSAGE, "%s: '%s' is not the name of a host", what, text);
    snprintf(e->master_addr, sizeof e->master_addr, "%s", text);
    return LK_OK;
}

/* Derive a port from a job's name, the same on all its ranks; i: which of several. */
static int port_of_job(const char *job, int i)
{
    uint32_t h = 2166136261U;

    for (; *job; job++)
        h = (h ^ (unsigned char)*job) * 16777619U;
    return PORT_FIRST + (int)((h + (uint32_t)i * PORT_STEP) % PORTS);
}

/* Read MASTER_ADDR and MASTER_PORT, with defaults for those that are not set. */
static enum lk_status read_master(struct lk_rank_env *e, const char *default_addr, const char *job)
{
    const char *addr = getenv("MASTER_ADDR");
    enum lk_status st = set_addr(e, addr ? addr : default_addr, "MASTER_ADDR");

    e->master_port = job ? port_of_job(job, 0) : 0;
    e->port_given = getenv("MASTER_PORT") != NULL;
    snprintf(e->ticket.job, sizeof e->ticket.job, "%s", job ? job : "");
    if (st == LK_OK)
        st = read_int("MASTER_PORT", !job, 1, 65535, &e->master_port);
    return st;
}

static enum lk_status read_torchrun(struct lk_rank_env *e)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");

    LK_PASS(read_int("WORLD_SIZE", true, 1, INT32_MAX, &e->world_size));
    LK_PASS(read_int("RANK", true, 0, e->world_size - 1, &e->rank));
    e->local_world_size = e->world_size;
    LK_PASS(read_int("LOCAL_WORLD_SIZE", false, 1, e->world_size, &e->local_world_size));
    assert(e->local_world_size > 0);
    e->local_rank = e->rank % e->local_world_size;
    LK_PASS(read_int("LOCAL_RANK", false, 0, e->local_world_size - 1, &e->local_rank));
    LK_PASS(read_int("GROUP_WORLD_SIZE", false, 1, e->world_size, &e->nodes));
    if (!getenv("MASTER_ADDR"))
        return lk_fail(LK_EUSAGE, "MASTER_ADDR is not set");
    LK_PASS(read_master(e, "", NULL));
    snprintf(e->ticket.job, sizeof e->ticket.job, "%s",
             first_set(LK_JOB_ENV, "TORCHELASTIC_RUN_ID"));
    if (agent && !strcmp(agent, "True"))
        e->master_port += e->master_port < 65535 ? 1 : -1;
    return LK_OK;
}

/* The variables of a launcher of MPI's. */
struct mpi_names {
    const char *rank, *size, *local_rank, *local_size, *job;
    const char *how; /* to give ranks a variable */
};
static const struct mpi_names open_mpi = {
    "OMPI_COMM_WORLD_RANK",       "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE",       "mpirun -x MASTER_ADDR=HOST"};
/* MPICH's Hydra, and Intel MPI's; it tells its ranks no job's name. */
static const struct mpi_names hydra = {"PMI_RANK",        "PMI_SIZE",
                                       "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                                       LK_JOB_ENV,        "mpirun -genv MASTER_ADDR HOST"};

static enum lk_status read_mpi(const struct mpi_names *n, struct lk_rank_env *e)
{
    const char *job = getenv(n->job);

    LK_PASS(read_int(n->size, true, 1, INT32_MAX, &e->world_size));
    LK_PASS(read_int(n->rank, true, 0, e->world_size - 1, &e->rank));
    LK_PASS(read_int(n->local_size, true, 1, e->world_size, &e->local_world_size));
    LK_PASS(read_int(n->local_rank, true, 0, e->local_world_size - 1, &e->local_rank));
    if (e->local_world_size < e->world_size && !getenv("MASTER_ADDR"))
        return lk_fail(LK_EUSAGE,
                       "MASTER_ADDR is not set: with ranks on several hosts, say where rank 0 is "
                       "(%s)",
                       n->how);
    return read_master(e, "127.0.0.1", job ? job : LK_JOB_UNNAMED);
}

static enum lk_status read_slurm(struct lk_rank_env *e)
{
    const char *size = getenv("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const char *tasks = first_set("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
    char host[256], job[128];
    int node = 0;

    LK_PASS(read_int(size, true, 1, INT32_MAX, &e->world_size));
    LK_PASS(read_int("SLURM_PROCID", true, 0, e->world_size - 1, &e->rank));
    LK_PASS(read_int("SLURM_NODEID", false, 0, INT32_MAX - 1, &node));
    e->local_world_size = *tasks ? lk_slurm_tasks_on_node(tasks, node) : e->world_size;
    if (e->local_world_size < 1)
        return lk_fail(LK_EUSAGE, "SLURM_TASKS_PER_NODE: '%s' has no entry for node %d", tasks,
                       node);
    LK_PASS(read_int("SLURM_LOCALID", true, 0, e->local_world_size - 1, &e->local_rank));
    lk_slurm_first_host(first_set("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"), host, sizeof host);
    snprintf(job, sizeof job, "%.60s.%.60s", first_set("SLURM_JOB_ID", "SLURM_JOBID"),
             first_set("SLURM_STEP_ID", "SLURM_STEPID"));
    if (!*host && !getenv("MASTER_ADDR"))
        return lk_fail(LK_EUSAGE, "SLURM_JOB_NODELIST is not set");
    LK_PASS(read_master(e, host, job));
    e->slurm_name = !getenv("MASTER_ADDR");
    /* Nodes may have different numbers of ranks, so take the number of nodes from Slurm. */
    return read_int("SLURM_STEP_NUM_NODES", false, 1, e->world_size, &e->nodes);
}

/* Return true in a job step made by srun. SLURM_PROCID alone does not tell: batch scripts and
 * interactive shells have it, too. */
static bool in_slurm_step(void)
{
    const char *step = getenv("SLURM_STEP_ID");

    return step && strlen(step) < 10 && getenv("SLURM_PROCID"); /* special steps are near 2^32 */
}

enum lk_status lk_rank_env_read(struct lk_rank_env *out)
{
    struct lk_rank_env e = {.present = true};
    const char *served = getenv("LOCKSTEP_STORE_SERVED");
    enum lk_status st;

    if (getenv("RANK") || getenv("WORLD_SIZE"))
        st = read_torchrun(&e);
    else if (getenv("OMPI_COMM_WORLD_RANK"))
        st = read_mpi(&open_mpi, &e);
    else if (getenv("PMI_RANK") && getenv("MPI_LOCALRANKID")) /* Slurm's PMI has no second */
        st = read_mpi(&hydra, &e);
    else if (in_slurm_step())
        st = read_slurm(&e);
    else
        st = (e.present = false, LK_OK);
    if (st != LK_OK)
        return st;
    assert(!e.present || e.local_world_size > 0);
    if (e.present && !e.nodes)
        e.nodes = (e.world_size + e.local_world_size - 1) / e.local_world_size;
    if (e.present)
        LK_PASS(lk_ticket_read_env(&e.ticket));
    e.serve = e.present && e.rank == 0 && !(served && !strcmp(served, "1"));
    *out = e;
    return LK_OK;
}

/* Serve on the first port that is free. */
static enum lk_status serve(const struct lk_rank_env *e, const char *addr, const int *ports, int n,
                            const struct lk_ticket *ticket, struct lk_store_server **server)
{
    enum lk_status st = LK_OK;

    for (int i = 0; i < n; i++) {
        st = lk_store_serve(addr, ports[i], e->world_size, ticket, server);
        if (st != LK_EIO)
            break;
    }
    return st;
}

enum lk_status lk_rank_env_connect(const struct lk_rank_env *e, const char *secret_file,
                                   uint64_t timeout_ns, struct lk_store_server **server,
                                   struct lk_store **store)
{
    struct lk_ticket ticket = e->ticket;
    int ports[PORT_TRIES] = {e->master_port}, n = e->port_given ? 1 : PORT_TRIES;
    char addr[sizeof e->master_addr];

    snprintf(addr, sizeof addr, "%s", e->master_addr);
    if (e->slurm_name)
        LK_PASS(lk_slurm_address(e->master_addr, timeout_ns, addr, sizeof addr));
    for (int i = 1; i < n; i++)
        ports[i] = port_of_job(ticket.job, i);
    if (secret_file)
        LK_PASS(lk_fail_context(lk_ticket_read_file(&ticket, secret_file), "--secret-file"));
    if (e->serve && !ticket.has_secret && !lk_net_is_loopback(addr))
        lk_log(LK_LOG_COMM, LK_WARN,
               "whoever reaches %s can join this run: give all ranks a --secret-file", addr);
    if (e->serve)
        LK_PASS(serve(e, addr, ports, n, &ticket, server));
    return lk_store_find(addr, ports, n, e->rank, e->world_size, timeout_ns, &ticket, store);
}
