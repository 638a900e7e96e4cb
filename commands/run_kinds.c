/* Kinds of GPU in a replay; see the header. */
#include "commands/run_kinds.h"

#include "commands/axis_lists.h"
#include "commands/inputs.h"
#include "facts/job.h"
#include "sim/step/gpu_mix.h"

/* Set a rank's compute by the value of --gpu. */
static enum lk_status set_slowdown(const struct lk_axis_value *v, const struct lk_job *job,
                                   const struct lk_cluster *own, int rank, int ranks, double *out)
{
    const struct lk_gpu_mix *mix = v->mix;
    const struct lk_cluster *gpu = v->gpu;
    struct lk_gpu_speed compute, optimizer;

    if (mix)
        LK_PASS(lk_gpu_mix_take(job, own, mix, ranks, &mix, &gpu));
    for (int g = 0, first = 0; mix && g < mix->n; first += mix->of[g++].ranks)
        if (rank >= first)
            gpu = mix->of[g].gpu;
    LK_PASS(lk_gpu_speeds(job, own, gpu, &compute, &optimizer));
    *out = compute.factor;
    return LK_OK;
}

enum lk_status run_kind_slowdown(const struct run_options *o, int rank, int ranks, double *out)
{
    const char *texts[LK_AXIS_COUNT] = {[LK_AXIS_GPU] = o->gpu};
    enum lk_status st = LK_OK;
    struct axis_lists lists = {0};
    struct lk_cluster own = {0};
    struct lk_job job = {0};

    *out = 1;
    if (!o->gpu)
        return o->cluster ? lk_fail(LK_EUSAGE, "--cluster goes with --gpu") : LK_OK;
    if (!o->cluster)
        return lk_fail(LK_EUSAGE, "--gpu takes --cluster: the cluster, or preset, whose GPU the "
                                  "job's times are of");
    LK_TRY(axis_lists_read(texts, &lists));
    if (lists.n[LK_AXIS_GPU] != 1)
        LK_TRY(lk_fail(LK_EUSAGE, "--gpu=%s: one value, for a replay has one machine", o->gpu));
    LK_TRY(lk_fail_context(find_cluster(o->cluster, &own), "--cluster"));
    LK_TRY(lk_job_read(o->train.model.job, &job));
    LK_TRY(set_slowdown(&lists.values[LK_AXIS_GPU][0], &job, &own, rank, ranks, out));
out:
    lk_job_fini(&job);
    lk_cluster_fini(&own);
    axis_lists_fini(&lists);
    return st;
}
