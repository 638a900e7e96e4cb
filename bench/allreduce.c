/*
 * All-reduce over loopback: time of a call, ours and the peers'. bench/allreduce.sh runs it in
 * interleaved rounds with bench/allreduce_gloo.py and bench/peers/allreduce_mpi.c, which print the
 * same lines:
 *
 *     NAME RANKS BYTES SECONDS          median of the calls of this round, on rank 0
 *
 *     build/bench/allreduce RANKS [auto|ring|tree [CHUNK_BYTES [POLL_US]]]      one round
 *     build/bench/allreduce summary FILE                    a table of all rounds: time, ratios
 *
 * Calls are timed one by one, back to back; the buffer (float32) is the same in every call. Where
 * there are CPUs enough each rank is bound to one, as mpirun does.
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/stats.h"
#include "base/units.h"
#include "runtime/comm/comm.h"
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/rank_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST = 4 << 10,
    LARGEST = 64 << 20,
    STEP = 4,                /* from size to size */
    ROUND_BYTES = 256 << 20, /* moved by a size in a round, but... */
    CALLS_MIN = 7,           /* ...not fewer calls than these... */
    CALLS_MAX = 400,         /* ...and not more; one in eight more warms up */
    RESAMPLES = 2000,
};
static const double level = 0.95;

/* ---- one round ---- */

static int calls_of(size_t bytes)
{
    size_t n = ROUND_BYTES / bytes;

    return n < CALLS_MIN ? CALLS_MIN : n > CALLS_MAX ? CALLS_MAX : (int)n;
}

static enum lk_status time_size(struct lk_comm *c, const char *name, enum lk_algo algo, float *buf,
                                size_t bytes)
{
    enum lk_status st = LK_OK;
    int n = calls_of(bytes), warmup = n / 8 + 2;
    double *s = NULL;
    struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                .algo = algo,
                                .dtype = LK_F32,
                                .buf = buf,
                                .count = bytes / sizeof *buf,
                                .index = -1};

    LK_TRY(lk_alloc(&s, (size_t)n, sizeof *s));
    LK_TRY(lk_comm_run(c, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1}));
    for (int i = -warmup; i < n; i++) {
        uint64_t start_ns = lk_now_ns();

        LK_TRY(lk_comm_run(c, &call));
        if (i >= 0)
            s[i] = lk_s_from_ns(lk_now_ns() - start_ns);
    }
    if (lk_comm_rank(c) == 0)
        printf("%s %d %zu %.9f\n", name, lk_comm_world_size(c), bytes,
               lk_stats_median(s, (size_t)n));
out:
    free(s);
    return st;
}

static enum lk_status run_rank(const struct lk_rank_env *e, const char *const *words)
{
    enum lk_status st = LK_OK;
    struct lk_comm_config config = {
        .rank = e->rank, .world_size = e->world_size, .timeout_ns = 30 * LK_NS_PER_S};
    struct lk_comm *c = NULL;
    enum lk_algo a = LK_ALGO_AUTO;
    int64_t chunk_bytes = 0, poll_us = 0;
    float *buf = NULL;

    LK_TRY(lk_words_find(&lk_algo_words, words[0], &a));
    LK_TRY(lk_parse_int64(words[1], 0, 1 << 30, &chunk_bytes));
    LK_TRY(lk_parse_int64(words[2], 0, 1000000, &poll_us));
    config.chunk_bytes = (size_t)chunk_bytes;
    config.poll_ns = (uint64_t)poll_us * 1000;
    LK_TRY(lk_alloc(&buf, LARGEST, 1));
    LK_TRY(lk_store_connect(e->master_addr, e->master_port, e->rank, e->world_size,
                            config.timeout_ns, &e->ticket, &config.store));
    LK_TRY(lk_comm_open("tcp", &config, &c));
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= STEP)
        LK_TRY(time_size(c, poll_us ? "polls" : "ours", a, buf, bytes));
out:
    lk_comm_close(c);
    lk_store_close(config.store);
    free(buf);
    return st;
}

/* ---- the table ---- */

enum { NAMES_MAX = 4, ROUNDS_MAX = 1000 };
static const char *const names[NAMES_MAX] = {"ours", "polls", "gloo", "mpi"};
/* Ratios that the table has. */
static const struct {
    int of, to;
} ratios[] = {{0, 2}, {0, 3}, {1, 0}, {1, 3}};

struct series {
    int ranks;
    size_t bytes;
    double *s[NAMES_MAX]; /* by round */
    size_t n[NAMES_MAX];
};

static enum lk_status add(struct series **all, size_t *n, size_t *cap, const char *name, int ranks,
                          size_t bytes, double seconds)
{
    struct series *s = NULL;
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < *n; i++)
        if ((*all)[i].ranks == ranks && (*all)[i].bytes == bytes)
            s = &(*all)[i];
    if (!s) {
        LK_TRY(lk_array_grow(all, cap, *n + 1, sizeof **all));
        s = &(*all)[(*n)++];
        *s = (struct series){.ranks = ranks, .bytes = bytes};
        for (int k = 0; k < NAMES_MAX; k++)
            LK_TRY(lk_alloc(&s->s[k], ROUNDS_MAX, sizeof *s->s[k]));
    }
    for (int k = 0; k < NAMES_MAX; k++)
        if (!strcmp(names[k], name) && s->n[k] < ROUNDS_MAX)
            s->s[k][s->n[k]++] = seconds;
out:
    return st;
}

static enum lk_status print_ratio(const struct series *s, int of, int to)
{
    struct lk_rng g = lk_rng_init(1, s->bytes);
    size_t n = s->n[of] < s->n[to] ? s->n[of] : s->n[to];
    struct lk_estimate e;
    enum lk_status st;

    if (!n) {
        printf("  %-22s", "-");
        return LK_OK;
    }
    st = lk_stats_bootstrap_ratio(s->s[of], s->s[to], n, RESAMPLES, level, &g, &e);
    if (st == LK_OK)
        printf("  %.3f (%.3f to %.3f)", e.value, e.lo, e.hi);
    return st;
}

static enum lk_status print_series(const struct series *s)
{
    enum lk_status st = LK_OK;
    char text[32];

    printf("%5d  %10s", s->ranks,
           lk_units_format(LK_DIM_BYTES, (double)s->bytes, text, sizeof text));
    for (int k = 0; k < NAMES_MAX; k++)
        printf("  %10s", s->n[k] ? lk_units_format(LK_DIM_TIME, lk_stats_mean(s->s[k], s->n[k]),
                                                   text, sizeof text)
                                 : "-");
    for (size_t k = 0; k < LK_COUNT(ratios); k++)
        LK_TRY(print_ratio(s, ratios[k].of, ratios[k].to));
    printf("  %6zu\n", s->n[0]);
out:
    return st;
}

static enum lk_status summarise(const char *path)
{
    enum lk_status st = LK_OK;
    FILE *f = fopen(path, "r");
    struct series *all = NULL;
    size_t n = 0, cap = 0, bytes;
    char name[16];
    double seconds;
    int ranks;

    if (!f)
        return lk_fail(LK_EIO, "cannot open %s", path);
    while (fscanf(f, "%15s %d %zu %lf", name, &ranks, &bytes, &seconds) == 4)
        LK_TRY(add(&all, &n, &cap, name, ranks, bytes, seconds));
    printf("# mean of the rounds' medians; ratios of times with their %.0f %% bootstrap interval\n",
           100 * level);
    printf("#ranks      bytes");
    for (int k = 0; k < NAMES_MAX; k++)
        printf("  %10s", names[k]);
    for (size_t k = 0; k < LK_COUNT(ratios); k++) {
        snprintf(name, sizeof name, "%s/%s", names[ratios[k].of], names[ratios[k].to]);
        printf("  %-22s", name);
    }
    printf("  rounds\n");
    for (size_t i = 0; i < n; i++)
        LK_TRY(print_series(&all[i]));
out:
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < NAMES_MAX; k++)
            free(all[i].s[k]);
    free(all);
    fclose(f);
    return st;
}

static enum lk_status run(int argc, char **argv)
{
    const char *words[] = {"auto", "0", "0"};
    struct lk_rank_env e;
    int64_t ranks = 0;
    enum lk_status st = LK_OK;

    if (argc == 3 && !strcmp(argv[1], "summary"))
        return summarise(argv[2]);
    LK_TRY(lk_rank_env_read(&e));
    if (e.present) {
        for (int i = 2; i < argc && i < 5; i++)
            words[i - 2] = argv[i];
        return run_rank(&e, words);
    }
    if (argc < 2)
        return lk_fail(LK_EUSAGE,
                       "usage: allreduce RANKS [ALGORITHM [CHUNK [POLL]]] | summary FILE");
    LK_TRY(lk_parse_int64(argv[1], 1, 64, &ranks));
    LK_TRY(lk_launch(&(struct lk_launch_config){.ranks = (int)ranks,
                                                .argv = argv,
                                                .grace_ns = LK_NS_PER_S,
                                                .timeout_ns = UINT64_MAX,
                                                .pin = true}));
out:
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = run(argc, argv);

    if (st != LK_OK)
        fprintf(stderr, "allreduce: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
