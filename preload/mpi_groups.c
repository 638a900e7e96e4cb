#include "preload/mpi_groups.h"

#include "facts/dtype.h"
#include "preload/record.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    COMMS = 1 << 12,      /* that are remembered at once */
    SEEN = 1 << 11,       /* groups that were made */
    RANKS_AT_ONCE = 256,  /* translated by one call */
    NAME_BYTES = 128,     /* of a group */
    TYPE_NAME_BYTES = 256 /* at least MPI_MAX_OBJECT_NAME, which is 64 or 128 */
};

struct comm {
    lk_mpi_handle key;
    bool used;
    struct lk_mpi_group group;
    uint32_t next; /* number of the next collective */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct comm comms[COMMS]; /* without order, the first n_comms are or were used */
static size_t n_comms;
static uint64_t seen[SEEN]; /* identities, but for the count of those before */
static size_t n_seen;

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * 1099511628211ULL;
}

/* Append a rank to a name that lists them, or "..." where it has no room. */
static void list_rank(char *name, size_t *used, int rank)
{
    int n;

    if (*used + sizeof ",1000000..." > NAME_BYTES) {
        if (*used + sizeof "..." <= NAME_BYTES && name[*used - 1] != '.')
            *used += (size_t)snprintf(name + *used, NAME_BYTES - *used, "...");
        return;
    }
    n = snprintf(name + *used, NAME_BYTES - *used, "%s%d", name[*used - 1] == ' ' ? "" : ",", rank);
    *used += n > 0 ? (size_t)n : 0;
}

/* Hash the places in the world of a communicator's ranks, and list them. */
static bool hash_ranks(const struct lk_mpi *m, lk_mpi_handle comm, int n, uint64_t *hash,
                       char name[NAME_BYTES])
{
    lk_mpi_handle group = 0, world = 0;
    size_t used = (size_t)snprintf(name, NAME_BYTES, "ranks ");
    bool ok;

    if (m->comm_group(comm, &group) != LK_MPI_SUCCESS)
        return false;
    ok = m->comm_group(m->world, &world) == LK_MPI_SUCCESS;
    *hash = mix(14695981039346656037ULL, (uint64_t)n);
    for (int first = 0; first < n && ok; first += RANKS_AT_ONCE) {
        int of_group[RANKS_AT_ONCE], of_world[RANKS_AT_ONCE];
        int k = n - first < RANKS_AT_ONCE ? n - first : RANKS_AT_ONCE;

        for (int i = 0; i < k; i++)
            of_group[i] = first + i;
        ok = m->group_translate_ranks(group, k, of_group, world, of_world) == LK_MPI_SUCCESS;
        for (int i = 0; i < k && ok; i++) {
            *hash = mix(*hash, (uint64_t)of_world[i]);
            list_rank(name, &used, of_world[i]);
        }
    }
    m->group_free(&group);
    if (world)
        m->group_free(&world);
    return ok;
}

/* Count the groups of the same ranks that came before, and remember this one. */
static bool count_before(uint64_t hash, uint64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < n_seen; i++)
        *n += seen[i] == hash;
    if (n_seen == SEEN)
        return false;
    seen[n_seen++] = hash;
    return true;
}

static void describe(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out)
{
    char name[NAME_BYTES], again[NAME_BYTES + 24];
    uint64_t hash, before;
    int inter = 0;

    *out = (struct lk_mpi_group){.n_ranks = 1};
    if (m->comm_test_inter(comm, &inter) != LK_MPI_SUCCESS || inter ||
        m->comm_size(comm, &out->n_ranks) != LK_MPI_SUCCESS ||
        m->comm_rank(comm, &out->rank) != LK_MPI_SUCCESS ||
        !hash_ranks(m, comm, out->n_ranks, &hash, name) || !count_before(hash, &before))
        return;
    if (lk_mpi_key(m, comm) == m->world)
        snprintf(name, sizeof name, "MPI_COMM_WORLD");
    snprintf(again, sizeof again, "%s", name);
    if (before)
        snprintf(again, sizeof again, "%s #%llu", name, (unsigned long long)before + 1);
    out->id = lk_foreign_group("mpi", mix(hash, before), again, out->n_ranks, out->rank);
}

static struct comm *find(lk_mpi_handle key)
{
    for (size_t i = 0; i < n_comms; i++)
        if (comms[i].used && comms[i].key == key)
            return &comms[i];
    return NULL;
}

/* Return a place for a communicator, or NULL. */
static struct comm *add(lk_mpi_handle key)
{
    size_t i = 0;

    while (i < n_comms && comms[i].used)
        i++;
    if (i == COMMS)
        return NULL;
    n_comms += i == n_comms;
    comms[i] = (struct comm){.key = key, .used = true};
    return &comms[i];
}

/* Find or add a communicator; NULL: there is no room. */
static struct comm *look_up(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out)
{
    const lk_mpi_handle key = lk_mpi_key(m, comm);
    struct comm *c = find(key);

    if (!c && (c = add(key)) != NULL)
        describe(m, comm, &c->group);
    *out = c ? c->group : (struct lk_mpi_group){.n_ranks = 1};
    return c;
}

void lk_mpi_group_find(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out)
{
    pthread_mutex_lock(&lock);
    look_up(m, comm, out);
    pthread_mutex_unlock(&lock);
}

void lk_mpi_group_next(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out,
                       uint32_t *sequence)
{
    struct comm *c;

    pthread_mutex_lock(&lock);
    c = look_up(m, comm, out);
    *sequence = c ? c->next++ : 0;
    pthread_mutex_unlock(&lock);
}

void lk_mpi_group_forget(const struct lk_mpi *m, lk_mpi_handle comm)
{
    struct comm *c;

    pthread_mutex_lock(&lock);
    c = find(lk_mpi_key(m, comm));
    if (c)
        c->used = false;
    pthread_mutex_unlock(&lock);
}

uint8_t lk_mpi_dtype(const struct lk_mpi *m, lk_mpi_handle type, uint64_t *bytes)
{
    static const struct {
        const char *name;
        enum lk_dtype type;
        int bytes; /* a type of another size, by an option of the compiler, is none of these */
    } types[] = {
        {"MPI_FLOAT", LK_F32, 4},        {"MPI_REAL", LK_F32, 4},
        {"MPI_DOUBLE", LK_F64, 8},       {"MPI_DOUBLE_PRECISION", LK_F64, 8},
        {"MPI_INT", LK_I32, 4},          {"MPI_INT32_T", LK_I32, 4},
        {"MPI_INTEGER", LK_I32, 4},      {"MPI_LONG", LK_I64, 8},
        {"MPI_LONG_LONG", LK_I64, 8},    {"MPI_LONG_LONG_INT", LK_I64, 8},
        {"MPI_INT64_T", LK_I64, 8},      {"MPI_BYTE", LK_U8, 1},
        {"MPI_UNSIGNED_CHAR", LK_U8, 1}, {"MPI_UINT8_T", LK_U8, 1},
    };
    char name[TYPE_NAME_BYTES] = "";
    int n = 0, size = 0;

    *bytes = 1;
    if (m->type_get_name(type, name, &n) != LK_MPI_SUCCESS ||
        m->type_size(type, &size) != LK_MPI_SUCCESS)
        return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (size == types[i].bytes && !strcmp(name, types[i].name))
            return (uint8_t)(types[i].type + 1);
    *bytes = size > 0 ? (uint64_t)size : 1;
    return LK_U8 + 1;
}
