/* Random jobs on random clusters; see the header. */
#include "tests/rigs/random_job.h"

#include "base/array.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { TENSORS_MAX = 12 };

static struct lk_quantity known(double v)
{
    struct lk_quantity q = lk_quantity_none();

    ck_assert_int_eq(lk_quantity_set(&q, v, NAN, NAN, 0, "made up for this test"), LK_OK);
    return q;
}

double random_between(struct lk_rng *g, double a, double b)
{
    return a * exp(lk_rng_uniform(g) * log(b / a));
}

static void make_job(struct lk_rng *g, struct random_job *q)
{
    struct lk_job *j = &q->job;
    size_t n = 1 + lk_rng_below(g, TENSORS_MAX);

    lk_job_init(j);
    q->forward_s = random_between(g, 1e-4, 1);
    q->backward_s = q->forward_s * random_between(g, 0.5, 3);
    q->optimizer_s = lk_rng_below(g, 2) ? 0 : q->forward_s * 0.1;
    q->accumulation = 1 + (int)lk_rng_below(g, 4);
    j->accumulation = q->accumulation;
    j->reduce = LK_REDUCTION_LAST;
    j->ddp_rule = LK_DDP_TORCH_2;
    j->first_bytes = 1 << 20;
    j->cap_bytes = (uint64_t)random_between(g, 1e5, 1e8);
    ck_assert_int_eq(lk_strdup(&j->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j->sample_unit, "sample"), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->tensors, n, sizeof *j->tensors), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->compute, 1, sizeof *j->compute), LK_OK);
    for (; j->n_tensors < n; j->n_tensors++) {
        struct lk_job_tensor *t = &j->tensors[j->n_tensors];

        *t = (struct lk_job_tensor){
            .elems = (uint64_t)random_between(g, 1e2, 1e8), .dtype = LK_F32, .ready = NAN};
        ck_assert_int_eq(lk_asprintf(&t->name, "t%zu", j->n_tensors), LK_OK);
        q->bytes += 4 * (double)t->elems;
    }
    ck_assert_int_eq(lk_job_order_gradients(j), LK_OK);
    j->compute[0] = (struct lk_job_compute){.local_batch = 8,
                                            .forward_s = known(q->forward_s),
                                            .backward_s = known(q->backward_s),
                                            .input_s = lk_quantity_none(),
                                            .optimizer_s = known(q->optimizer_s),
                                            .optimizer_hidden_s = lk_quantity_none(),
                                            .gap_s = lk_quantity_none(),
                                            .transient = lk_quantity_none()};
    j->n_compute = 1;
}

static void make_cluster(struct lk_rng *g, struct random_job *q)
{
    static const enum lk_gpu_link links[] = {LK_GPU_LINK_UNKNOWN, LK_GPU_LINK_NVLINK,
                                             LK_GPU_LINK_PCIE};
    static const int capabilities[] = {0, 70, 80, 90};
    struct lk_cluster *c = &q->cluster;

    lk_cluster_init(c);
    q->per_node = 1 << lk_rng_below(g, 4);
    q->link_Bps = random_between(g, 1e9, 4e11);
    c->topology.nics_per_node = 1 << lk_rng_below(g, 4);
    q->nics_Bps = random_between(g, 1e8, 5e10) * c->topology.nics_per_node;
    ck_assert_int_eq(lk_strdup(&c->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&c->gpu, "none"), LK_OK);
    c->preset = lk_rng_below(g, 2);
    c->gpus_per_node = q->per_node;
    c->device.compute_capability = capabilities[lk_rng_below(g, LK_COUNT(capabilities))];
    c->topology.gpu_link = links[lk_rng_below(g, LK_COUNT(links))];
    c->topology.network = (enum lk_network)lk_rng_below(g, LK_NETWORK_COUNT);
    c->intra.latency_s = known(random_between(g, 1e-6, 1e-5));
    c->intra.bandwidth_Bps = known(q->link_Bps);
    c->inter.latency_s = known(random_between(g, 1e-6, 1e-4));
    c->inter.bandwidth_Bps = known(q->nics_Bps / c->topology.nics_per_node);
    q->slow = 1;
    if (lk_rng_below(g, 3))
        return;
    q->slow = random_between(g, 1.05, 3);
    q->slow_rank = (int)lk_rng_below(g, 8);
    ck_assert_int_eq(lk_alloc(&c->slow, 1, sizeof *c->slow), LK_OK);
    c->slow[0] = (struct lk_cluster_slow){.rank = q->slow_rank,
                                          .node = -1,
                                          .compute = known(q->slow),
                                          .link = lk_quantity_none(),
                                          .since = true};
    c->n_slow = 1;
}

void random_job_init(uint64_t number, struct random_job *q)
{
    struct lk_rng g = lk_rng_init(11, number);

    *q = (struct random_job){.slow_rank = -1};
    make_job(&g, q);
    make_cluster(&g, q);
    for (int i = 0; i < RANDOM_COUNTS; i++) /* whole nodes, or a power of two in one */
        q->counts[i].count =
            i ? q->counts[i - 1].count * (2 + (int64_t)lk_rng_below(&g, 2) * 2) : 1;
}

void random_job_fini(struct random_job *q)
{
    lk_job_fini(&q->job);
    lk_cluster_fini(&q->cluster);
}
