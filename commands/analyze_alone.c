/* lockstep analyze: a run's collectives beside the same ones alone, by a cluster's costs. */
#include "base/array.h"
#include "commands/analyze_impl.h"
#include "commands/inputs.h"

#include <math.h>
#include <stdlib.h>

enum lk_status analyze_alone_init(struct alone *a, const char *cluster)
{
    *a = (struct alone){0};
    if (!cluster)
        return LK_OK;
    LK_PASS(find_cluster(cluster, &a->cluster));
    return lk_cost_model_create(&a->cluster, NULL, NULL, &a->cost);
}

void analyze_alone_fini(struct alone *a)
{
    lk_cost_model_destroy(a->cost);
    lk_cluster_fini(&a->cluster);
}

enum lk_status analyze_alone_compare(const struct alone *alone, struct lk_analysis *a)
{
    const struct lk_run_info *info = lk_run_about(a->run);
    enum lk_status st = LK_OK;
    double *alone_s = NULL;

    if (!alone->cost || info->world_size < 2 || lk_run_is_grouped(a->run))
        return LK_OK;
    LK_TRY(lk_alloc(&alone_s, a->n_buckets, sizeof *alone_s));
    for (size_t i = 0; i < a->n_buckets; i++) {
        struct lk_cost c = {.seconds = NAN};

        if (a->buckets[i].bucket >= 0 && a->buckets[i].bytes)
            LK_TRY(lk_cost_eval(alone->cost, LK_ALL_REDUCE, LK_ALGO_AUTO, info->world_size,
                                info->nodes, &a->buckets[i].bytes, 1, &c));
        alone_s[i] = c.seconds;
    }
    LK_TRY(lk_analysis_set_alone(a, alone->cluster.name, alone_s));
out:
    free(alone_s);
    return st;
}
