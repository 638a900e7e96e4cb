/*
 * Runs the CUDA kernels on the host: PROGRAM CASE TYPE ORDERS, or PROGRAM --plant FAULT SEED, or
 * PROGRAM --kernels or --work, where PROGRAM is cuda_shim_races or cuda_shim_bounds (shim.h).
 *
 * A case passes when each of the orders keeps within the bounds, and all give the same bits.
 * --kernels prints how many kernels the cases launch, --work about how many seconds a case of the
 * GPU's shapes takes a processor of the GPU's host.
 */
#include "tests/cuda_shim/planted.h"
#include "tests/cuda_shim/shim.h"

#include "tests/cuda/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough for the host's shapes; less than launchers may use, so that an overflow is close. */
enum { WORKSPACE_BYTES = 1 << 20, SUMS_BYTES = 4096 };
/* The most shared memory that a launch may ask for on an H100. */
enum { SHARED_BYTES = 227 << 10 };

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static const struct cuda_machine machine = {.alloc = shim_alloc, .free = shim_free, .copy = copy};

static struct cuda_rig rig(enum lk_dtype real)
{
    return (struct cuda_rig){
        .machine = &machine, .cuda.real = real, .cuda.shared_bytes = SHARED_BYTES};
}

static void run_once(const struct cuda_case *c, struct cuda_rig *r)
{
    r->cuda.workspace = shim_alloc(WORKSPACE_BYTES, "workspace");
    r->cuda.sums = shim_alloc(SUMS_BYTES, "sums");
    cuda_case_run(c, r);
    shim_free(r->cuda.sums);
    shim_free(r->cuda.workspace);
}

static int run_case(const struct cuda_case *c, enum lk_dtype real, int orders)
{
    struct cuda_rig r = rig(real);
    uint64_t first = 0;

    for (int order = 0; order < orders; order++) {
        shim_seed((uint64_t)order + 1);
        r.compare = order == 0;
        run_once(c, &r);
        if (r.text[0]) {
            fprintf(stderr, "%s, order %d: %s\n", c->name, order, r.text);
            return 1;
        }
        if (order == 0)
            first = r.hash;
        if (r.hash != first) {
            fprintf(stderr, "%s: order %d gives other bits than order 0\n", c->name, order);
            return 1;
        }
    }
    printf("%s %s: %d orders alike, %llu launches, largest error %.2f of its bound\n", c->name,
           lk_dtype_name(real), orders, (unsigned long long)shim_launches(), r.worst);
    return 0;
}

static const struct {
    const char *name;
    enum lk_status (*run)(const struct lk_cuda *c, float *out, const float *in, size_t n);
} planted[] = {
#define PLANT(fault, races, bounds) {#fault, planted_##fault},
    PLANTED_LIST(PLANT)
#undef PLANT
};

enum { PLANTED_SUMS = 4, PLANTED_TERMS = 64 };

/* Sum ones with a planted fault. */
static enum lk_status plant(const char *name, uint64_t seed, float sums[PLANTED_SUMS])
{
    enum { N = PLANTED_SUMS * PLANTED_TERMS };
    struct lk_cuda c = {.real = LK_F32};
    enum lk_status st = LK_EUSAGE;
    float *in, *out;

    shim_seed(seed);
    in = shim_alloc(N * sizeof *in, "in");
    out = shim_alloc(PLANTED_SUMS * sizeof *out, "out");
    for (int i = 0; i < N; i++)
        in[i] = 1;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        if (!strcmp(planted[i].name, name))
            st = planted[i].run(&c, out, in, N);
    memcpy(sums, out, PLANTED_SUMS * sizeof *out);
    shim_free(out);
    shim_free(in);
    return st;
}

/* Run a planted fault under two orders, as a case is run. */
static int run_planted(const char *name, uint64_t seed)
{
    float sums[2][PLANTED_SUMS];

    for (uint64_t order = 0; order < 2; order++)
        if (plant(name, 2 * seed + order, sums[order]) != LK_OK) {
            fprintf(stderr, "%s: %s\n", name, lk_error_text());
            return 1;
        }
    if (memcmp(sums[0], sums[1], sizeof sums[0]) != 0) {
        fprintf(stderr, "%s: the second order gives other bits\n", name);
        return 1;
    }
    for (int i = 0; i < PLANTED_SUMS; i++)
        if (sums[0][i] != PLANTED_TERMS)
            return 2;
    return 0;
}

static int count(bool work)
{
    shim_count_only();
    for (const struct cuda_case *c = cuda_cases; c->name; c++) {
        double s = 0;

        for (int i = 0; i < CUDA_CASE_TYPES; i++) {
            struct cuda_rig r = rig(cuda_case_types[i]);

            r.large = r.counts = work;
            run_once(c, &r);
            s += cuda_rig_seconds(&r);
        }
        if (work)
            printf("%s %.2f s\n", c->name, s);
    }
    if (!work)
        printf("%zu instances\n", shim_kernels());
    return 0;
}

int main(int argc, char **argv)
{
    enum lk_dtype real;

    if (argc == 2 && (!strcmp(argv[1], "--kernels") || !strcmp(argv[1], "--work")))
        return count(!strcmp(argv[1], "--work"));
    if (argc == 4 && !strcmp(argv[1], "--plant"))
        return run_planted(argv[2], strtoull(argv[3], NULL, 10));
    for (const struct cuda_case *c = cuda_cases; argc == 4 && c->name; c++)
        if (!strcmp(c->name, argv[1]) && lk_words_find(&lk_dtype_words, argv[2], &real) == LK_OK)
            return run_case(c, real, atoi(argv[3]));
    fprintf(stderr,
            "usage: %s CASE float32|bfloat16|float16 ORDERS\n       %s --plant FAULT SEED\n"
            "       %s --kernels|--work\n",
            argv[0], argv[0], argv[0]);
    return 2;
}
