/* Compute on other GPUs, and mixes of them; see the header. */
#include "sim/step/gpu_mix.h"

#include <math.h>

/* ---- Speeds ---- */

static enum lk_status rates_known(const struct lk_cluster *c, bool memory)
{
    if (!lk_quantity_known(&c->device.flops))
        return lk_fail(LK_EEVIDENCE,
                       "cluster %s does not say how fast its GPU (%s) is. Give device.flops in the "
                       "cluster file",
                       c->name, c->gpu);
    if (memory && !lk_quantity_known(&c->device.memory_Bps))
        return lk_fail(LK_EEVIDENCE,
                       "cluster %s does not say how fast its GPU's (%s) memory is. Give "
                       "device.memory_bandwidth in the cluster file",
                       c->name, c->gpu);
    return LK_OK;
}

/* Return the seconds of a sample by the roofline. */
static double roofline_s(const struct lk_job *j, const struct lk_cluster_device *d)
{
    double sum = 0;

    for (size_t i = 0; i < j->n_layers; i++) {
        double compute = j->layers[i].flops.value / d->flops.value;
        double memory = lk_quantity_known(&j->layers[i].bytes)
                            ? j->layers[i].bytes.value / d->memory_Bps.value
                            : 0;

        sum += fmax(compute, memory);
    }
    return sum;
}

static bool layers_have_bytes(const struct lk_job *j)
{
    for (size_t i = 0; i < j->n_layers; i++)
        if (lk_quantity_known(&j->layers[i].bytes))
            return true;
    return false;
}

static double ratio(const struct lk_quantity *from, const struct lk_quantity *to)
{
    return lk_quantity_known(from) && lk_quantity_known(to) ? from->value / to->value : NAN;
}

enum lk_status lk_gpu_speeds(const struct lk_job *j, const struct lk_cluster *from,
                             const struct lk_cluster *to, struct lk_gpu_speed *out_compute,
                             struct lk_gpu_speed *out_optimizer)
{
    struct lk_gpu_speed compute = {1, 1, 1};
    double flops, memory;

    *out_compute = *out_optimizer = compute;
    if (!to)
        return LK_OK;
    if (!j->n_layers && !lk_quantity_known(&j->flops_per_sample))
        return lk_fail(LK_EEVIDENCE,
                       "job %s: nothing says what it computes, so its time on another GPU is not "
                       "known. The least that would do: flops_per_sample in the job file; better: "
                       "layers with flops and bytes",
                       j->name);
    LK_PASS(rates_known(from, layers_have_bytes(j)));
    LK_PASS(rates_known(to, layers_have_bytes(j)));
    flops = ratio(&from->device.flops, &to->device.flops);
    memory = ratio(&from->device.memory_Bps, &to->device.memory_Bps);
    if (j->n_layers) {
        double before = roofline_s(j, &from->device);

        if (!(before > 0))
            return lk_fail(LK_EEVIDENCE, "job %s: its layers compute nothing", j->name);
        compute.factor = roofline_s(j, &to->device) / before;
        compute.lo = compute.hi = compute.factor;
    } else {
        compute = (struct lk_gpu_speed){flops, fmin(flops, memory), fmax(flops, memory)};
    }
    *out_compute = compute;
    *out_optimizer = isnan(memory) ? compute : (struct lk_gpu_speed){memory, memory, memory};
    return LK_OK;
}

/* ---- Mixes ---- */

enum lk_status lk_gpu_kinds_of(const struct lk_job *j, const struct lk_cluster *own,
                               const struct lk_gpu_mix *mix, struct lk_gpu_kinds *out)
{
    struct lk_gpu_kinds k = {.one = true};
    struct lk_gpu_speed compute, optimizer;
    double fastest = INFINITY, lo = 1, hi = 1;

    for (int g = 0; g < mix->n; g++) {
        LK_PASS(lk_gpu_speeds(j, own, mix->of[g].gpu, &compute, &optimizer));
        k.slowness[g] = compute.factor;
        lo = fmin(lo, compute.lo / compute.factor); /* NaN, of unknown memories, is no bound */
        hi = fmax(hi, compute.hi / compute.factor);
        if (!g || optimizer.factor > k.optimizer.factor)
            k.optimizer = optimizer;
        if (compute.factor < fastest) {
            fastest = compute.factor;
            k.fastest = mix->of[g].gpu;
        }
        k.one = k.one && mix->of[g].gpu == mix->of[0].gpu;
    }
    for (int g = 0; g < mix->n; g++) {
        k.n_fastest += k.slowness[g] == fastest ? mix->of[g].ranks : 0;
        k.slowness[g] /= fastest;
    }
    k.compute = (struct lk_gpu_speed){fastest, fastest * lo, fastest * hi};
    *out = k;
    return LK_OK;
}

enum lk_status lk_gpu_mix_slowness(const struct lk_job *j, const struct lk_cluster *own,
                                   const struct lk_gpu_mix *mix, double *out)
{
    struct lk_gpu_kinds k;
    int r = 0;

    LK_PASS(lk_gpu_kinds_of(j, own, mix, &k));
    for (int g = 0; g < mix->n; g++)
        for (int i = 0; i < mix->of[g].ranks; i++)
            out[r++] = k.slowness[g];
    return LK_OK;
}

enum lk_status lk_gpu_mix_take(const struct lk_job *j, const struct lk_cluster *own,
                               const struct lk_gpu_mix *mix, int ranks,
                               const struct lk_gpu_mix **out_mix, const struct lk_cluster **out_gpu)
{
    struct lk_gpu_kinds k;

    LK_PASS(lk_gpu_kinds_of(j, own, mix, &k));
    *out_mix = NULL;
    *out_gpu = NULL;
    if (ranks == mix->ranks && !k.one) {
        *out_mix = mix;
        return LK_OK;
    }
    *out_gpu = k.fastest;
    return ranks <= k.n_fastest
               ? LK_OK
               : lk_fail(LK_EUSAGE,
                         "the mix has %d GPUs, %d of the fastest kind: nothing says which %d of "
                         "them are meant",
                         mix->ranks, k.n_fastest, ranks);
}
