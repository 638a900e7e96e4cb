/* Layer normalisation, float64. */
#include "kernels/impl.h"

#include <math.h>
#include <string.h>

void lk_layernorm_forward_ref(const void *args)
{
    const struct lk_layernorm_forward_args *a = args;
    const double *weight = a->weight, *bias = a->bias;
    double *means = a->mean, *rstds = a->rstd;
    double n = (double)a->channels;

    for (size_t r = 0; r < a->rows; r++) {
        const double *in = (const double *)a->in + r * a->channels;
        double *out = (double *)a->out + r * a->channels;
        double mean = 0, variance = 0;

        for (size_t c = 0; c < a->channels; c++)
            mean += in[c] / n;
        for (size_t c = 0; c < a->channels; c++)
            variance += (in[c] - mean) * (in[c] - mean) / n;
        means[r] = mean;
        rstds[r] = 1 / sqrt(variance + LK_LAYERNORM_EPS);
        for (size_t c = 0; c < a->channels; c++)
            out[c] = (in[c] - mean) * rstds[r] * weight[c] + bias[c];
    }
}

/*
 * With x = (in - mean) * rstd and g = dout * weight:
 * din = rstd * (g - mean(g) - x * mean(g * x)).
 */
void lk_layernorm_backward_ref(const void *args)
{
    const struct lk_layernorm_backward_args *a = args;
    const double *weight = a->weight, *mean = a->mean, *rstd = a->rstd;
    double *dweight = a->dweight, *dbias = a->dbias;
    size_t c_n = a->channels;

    if (!a->accumulate) {
        memset(dweight, 0, c_n * sizeof *dweight);
        memset(dbias, 0, c_n * sizeof *dbias);
    }
    for (size_t r = 0; r < a->rows; r++) {
        const double *in = (const double *)a->in + r * c_n;
        const double *dout = (const double *)a->dout + r * c_n;
        double *din = (double *)a->din + r * c_n;
        double mean_g = 0, mean_gx = 0;

        for (size_t c = 0; c < c_n; c++) {
            double x = (in[c] - mean[r]) * rstd[r];
            double g = dout[c] * weight[c];

            mean_g += g / (double)c_n;
            mean_gx += g * x / (double)c_n;
            dweight[c] += dout[c] * x;
            dbias[c] += dout[c];
        }
        for (size_t c = 0; c < c_n; c++) {
            double x = (in[c] - mean[r]) * rstd[r];
            double d = rstd[r] * (dout[c] * weight[c] - mean_g - x * mean_gx);

            din[c] = (a->accumulate_input ? din[c] : 0) + d;
        }
    }
}
