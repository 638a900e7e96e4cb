/*
 * What recording costs a training step: the same job with and without spans, interleaved.
 *
 *     build/bench/overhead [PAIRS [RANKS [LOCKSTEP]]]     default 20 pairs, 1 rank, build/lockstep
 *
 * Every pair runs both, in alternating order, so that drift of the machine cancels. A run counts
 * with the 10 % quantile of its steps after the warm-up: the recorder does the same work in every
 * step, and a slower step was disturbed by something else. Prints the mean of instrumented over not
 * instrumented, with a 95 % interval by bootstrap over the pairs.
 */
#include "base/array.h"
#include "base/file.h"
#include "base/stats.h"
#include "commands/run_result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS_MAX = 1000, RESAMPLES = 10000, WARMUP = 20, BATCH = 8 };

#define JOB "--model=gpt-nano --steps=200 --warmup=20 --local-batch=8"

struct bench {
    const char *program, *dir;
    long pairs, ranks;
    int runs; /* so far: each has its own directory */
};

static enum lk_status quiet_step(const char *dir, long ranks, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_train_result r = {0};
    char *path = NULL;

    LK_TRY(lk_asprintf(&path, "%s/k%ld-b%d-a1-r0/result.json", dir, ranks, BATCH));
    LK_TRY(run_result_read(path, &r));
    if (r.n <= WARMUP) {
        st = lk_fail(LK_EEVIDENCE, "%s: no step after the warm-up", path);
        goto out;
    }
    *out = lk_stats_quantile(r.step_s + WARMUP, (size_t)(r.n - WARMUP), 0.1);
out:
    lk_train_result_fini(&r);
    free(path);
    return st;
}

static enum lk_status measure(struct bench *b, bool trace, double *out)
{
    enum lk_status st = LK_OK;
    char *command = NULL, *dir = NULL;

    LK_TRY(lk_asprintf(&dir, "%s/%d", b->dir, b->runs++));
    LK_TRY(lk_asprintf(&command, "%s run -n %ld " JOB " %s --out '%s' > '%s.log' 2>&1", b->program,
                       b->ranks, trace ? "--trace" : "--no-trace", dir, dir));
    if (system(command)) {
        st = lk_fail(LK_EIO, "failed: %s", command);
        goto out;
    }
    LK_TRY(quiet_step(dir, b->ranks, out));
out:
    free(command);
    free(dir);
    return st;
}

static enum lk_status run(struct bench *b)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("overhead", 0));
    struct lk_estimate ratio;
    double *with = NULL, *without = NULL;
    size_t n = (size_t)b->pairs;

    LK_TRY(lk_alloc(&with, n, sizeof *with));
    LK_TRY(lk_alloc(&without, n, sizeof *without));
    for (size_t i = 0; i < n; i++)
        for (int half = 0; half < 2; half++) {
            bool trace = (i + (size_t)half) % 2 == 0;

            LK_TRY(measure(b, trace, trace ? &with[i] : &without[i]));
        }
    LK_TRY(lk_stats_bootstrap_ratio(with, without, n, RESAMPLES, 0.95, &g, &ratio));
    printf("# %ld pairs of runs on %ld rank(s): %s\n"
           "without spans  %8.4f ms a step (mean of 10 %% quantiles)\n"
           "with spans     %8.4f ms\n"
           "overhead       %+8.3f %%   95 %% interval %+.3f to %+.3f %%\n",
           b->pairs, b->ranks, JOB, 1e3 * lk_stats_mean(without, n), 1e3 * lk_stats_mean(with, n),
           100 * (ratio.value - 1), 100 * (ratio.lo - 1), 100 * (ratio.hi - 1));
out:
    free(with);
    free(without);
    return st;
}

/* A count from 1 to max in argv[i], or the default when it is not given; 0: no such count. */
static long count_arg(int argc, char **argv, int i, long fallback, long max)
{
    char *end;
    long v;

    if (argc <= i)
        return fallback;
    errno = 0;
    v = strtol(argv[i], &end, 10);
    return errno || *end || v < 1 || v > max ? 0 : v;
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/lockstep-overhead-XXXXXX";
    struct bench b = {.program = argc > 3 ? argv[3] : "build/lockstep",
                      .pairs = count_arg(argc, argv, 1, 20, PAIRS_MAX),
                      .ranks = count_arg(argc, argv, 2, 1, 64)};
    char *command = NULL;
    enum lk_status st;

    if (!b.pairs || !b.ranks) {
        fprintf(stderr, "usage: bench/overhead [PAIRS [RANKS [LOCKSTEP]]]\n");
        return 2;
    }
    b.dir = mkdtemp(dir);
    if (!b.dir) {
        perror("mkdtemp");
        return 1;
    }
    st = run(&b);
    if (st != LK_OK)
        fprintf(stderr, "bench/overhead: %s\n", lk_error_text());
    if (lk_asprintf(&command, "rm -rf '%s'", dir) == LK_OK && system(command))
        fprintf(stderr, "bench/overhead: %s stays behind\n", dir);
    free(command);
    return lk_status_exit_code(st);
}
