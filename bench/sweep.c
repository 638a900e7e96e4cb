/* A grid of 10,000 configurations with intervals of 200 draws: seconds and peak memory. */
#include "base/array.h"
#include "base/clock.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/forecast/predictor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { GPUS = 10, BATCHES = 10, ACCUMULATIONS = 10, CAPS = 10, POINTS = 10000, TENSORS = 160 };

static enum lk_status make_job(struct lk_job *j)
{
    enum lk_status st = LK_OK;

    *j = (struct lk_job){.ddp_rule = LK_DDP_TORCH_2,
                         .first_bytes = 1 << 20,
                         .cap_bytes = 25 << 20,
                         .accumulation = 1,
                         .reduce = LK_REDUCTION_LAST,
                         .flops_per_sample = lk_quantity_none(),
                         .memory_fixed_bytes = lk_quantity_none(),
                         .memory_per_sample_bytes = lk_quantity_none(),
                         .noise_scale = lk_quantity_none()};
    LK_TRY(lk_strdup(&j->name, "160 tensors, 25.6 M parameters"));
    LK_TRY(lk_strdup(&j->sample_unit, "image"));
    LK_TRY(lk_alloc(&j->tensors, TENSORS, sizeof *j->tensors));
    LK_TRY(lk_alloc(&j->ready_order, TENSORS, sizeof *j->ready_order));
    LK_TRY(lk_alloc(&j->compute, 3, sizeof *j->compute));
    for (size_t i = 0; i < TENSORS; i++, j->n_tensors++) {
        j->tensors[i] = (struct lk_job_tensor){
            .elems = 160000, .dtype = LK_F32, .ready = 1 - (double)i / TENSORS};
        j->ready_order[i] = TENSORS - 1 - i;
        LK_TRY(lk_asprintf(&j->tensors[i].name, "t%zu", i));
    }
    for (int b = 16; b <= 64; b *= 2) {
        struct lk_job_compute *c = &j->compute[j->n_compute++];
        struct lk_quantity none = lk_quantity_none();
        double t = 0.01 + 0.002 * b;

        *c = (struct lk_job_compute){b, none, none, none, none, none, none, none};
        LK_TRY(lk_quantity_set(&c->forward_s, t / 3, NAN, NAN, 1, "bench"));
        LK_TRY(lk_quantity_set(&c->backward_s, t * 2 / 3, NAN, NAN, 1, "bench"));
    }
out:
    return st;
}

static size_t make_grid(const struct lk_job *j, struct lk_config *out)
{
    size_t n = 0;

    for (int i = 0; i < POINTS; i++) {
        struct lk_config c = lk_config_current(j);

        c.world_size = 2 << (i / 1000);
        c.nodes = c.world_size;
        c.local_batch = 8 * (1 + i / 100 % BATCHES);
        c.accumulation = 1 + i / 10 % ACCUMULATIONS;
        lk_config_set_cap(&c, j, (uint64_t)(1 + 5 * (i % CAPS)) << 20);
        out[n++] = c;
    }
    return n;
}

static enum lk_status bench(const char *cluster_path)
{
    enum lk_status st = LK_OK;
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 1, .scale_error = NAN};
    struct lk_job job = {0};
    struct lk_cluster cluster = {0};
    struct lk_predictor *p = NULL;
    struct lk_config *configs = NULL;
    struct lk_prediction *points = NULL;
    struct rusage usage;
    uint64_t begin, created, end;
    size_t refused = 0;

    LK_TRY(make_job(&job));
    LK_TRY(lk_cluster_read(cluster_path, &cluster));
    LK_TRY(lk_alloc(&configs, POINTS, sizeof *configs));
    LK_TRY(lk_alloc(&points, POINTS, sizeof *points));
    make_grid(&job, configs);
    begin = lk_now_ns();
    LK_TRY(lk_predictor_create(&job, &cluster, &o, &p));
    created = lk_now_ns();
    for (size_t i = 0; i < POINTS; i++)
        refused += lk_predictor_at(p, &configs[i], &points[i]) != LK_OK;
    end = lk_now_ns();
    getrusage(RUSAGE_SELF, &usage);
    printf("%d points x %d draws: %.3f s (and %.3f s for the draws' cost models), %zu refused, "
           "peak memory %.1f MB\n",
           POINTS, o.draws, 1e-9 * (double)(end - created), 1e-9 * (double)(created - begin),
           refused, (double)usage.ru_maxrss / 1e3);
out:
    for (size_t i = 0; points && i < POINTS; i++)
        lk_prediction_fini(&points[i]);
    free(points);
    free(configs);
    lk_predictor_destroy(p);
    lk_cluster_fini(&cluster);
    lk_job_fini(&job);
    return st;
}

int main(int argc, char **argv)
{
    if (bench(argc > 1 ? argv[1] : "clusters/ethernet-25g.json") == LK_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "sweep: %s\n", lk_error_text());
    return EXIT_FAILURE;
}
