/*
 * Every op in float64, by its definition: naive loops over buffers of doubles. The device reference
 * runs them, and tests compare the others with them. (Ops of image models: reference_image.c.)
 */
#include "base/checksum.h"
#include "kernels/impl.h"

#include <math.h>
#include <string.h>

void lk_matmul_forward_ref(const void *args)
{
    const struct lk_matmul_forward_args *a = args;
    const double *in = a->in, *weight = a->weight, *bias = a->bias, *residual = a->residual;
    double *out = a->out;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    for (size_t r = 0; r < a->rows; r++)
        for (size_t o = 0; o < a->outputs; o++) {
            double sum = bias ? bias[o] : 0;

            for (size_t i = 0; i < a->inputs; i++)
                sum += in[r * a->inputs + i] * weight[o * a->inputs + i];
            out[r * stride + o] = sum + (residual ? residual[r * stride + o] : 0);
        }
    for (size_t r = 0; r < a->rows && a->gelu; r++)
        lk_gelu_forward_ref(&(struct lk_gelu_forward_args){
            .out = (double *)a->gelu + r * stride, .in = out + r * stride, .n = a->outputs});
}

void lk_matmul_backward_input_ref(const void *args)
{
    const struct lk_matmul_backward_input_args *a = args;
    const double *dout = a->dout, *weight = a->weight;
    double *din = a->din;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    if (!a->accumulate)
        memset(din, 0, a->rows * a->inputs * sizeof *din);
    for (size_t r = 0; r < a->rows; r++)
        for (size_t o = 0; o < a->outputs; o++)
            for (size_t i = 0; i < a->inputs; i++)
                din[r * a->inputs + i] += dout[r * stride + o] * weight[o * a->inputs + i];
    if (a->gelu_in)
        lk_gelu_backward_ref(&(struct lk_gelu_backward_args){.din = din,
                                                             .dbias = a->dbias,
                                                             .dout = din,
                                                             .in = a->gelu_in,
                                                             .n = a->rows * a->inputs,
                                                             .columns = a->inputs,
                                                             .accumulate = a->accumulate_bias});
}

void lk_matmul_backward_weight_ref(const void *args)
{
    const struct lk_matmul_backward_weight_args *a = args;
    const double *dout = a->dout, *in = a->in;
    double *dweight = a->dweight, *dbias = a->dbias;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    if (!a->accumulate)
        memset(dweight, 0, a->outputs * a->inputs * sizeof *dweight);
    for (size_t o = 0; o < a->outputs; o++) {
        double sum = dbias && a->accumulate ? dbias[o] : 0;

        for (size_t r = 0; r < a->rows; r++) {
            for (size_t i = 0; i < a->inputs; i++)
                dweight[o * a->inputs + i] += dout[r * stride + o] * in[r * a->inputs + i];
            sum += dout[r * stride + o];
        }
        if (dbias)
            dbias[o] = sum;
    }
}

static double dot(const double *x, const double *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Compute the softmax of x(0..n-1) in place. */
static void softmax(double *x, size_t n)
{
    double max = x[0], sum = 0;

    for (size_t i = 1; i < n; i++)
        max = fmax(max, x[i]);
    for (size_t i = 0; i < n; i++) {
        x[i] = exp(x[i] - max);
        sum += x[i];
    }
    for (size_t i = 0; i < n; i++)
        x[i] /= sum;
}

void lk_attention_forward_ref(const void *args)
{
    const struct lk_attention_forward_args *a = args;
    size_t t_n = a->context, c_n = a->channels, width = c_n / a->heads;
    double factor = 1 / sqrt((double)width);

    for (size_t i = 0; i < a->samples * a->heads * t_n; i++) {
        size_t t = i % t_n, head = i / t_n % a->heads, sample = i / t_n / a->heads;
        const double *q = (const double *)a->qkv + sample * t_n * 3 * c_n + head * width;
        const double *k = q + c_n, *v = q + 2 * c_n;
        double *probs = (double *)a->probs + i * t_n;
        double *out = (double *)a->out + (sample * t_n + t) * c_n + head * width;

        for (size_t u = 0; u <= t; u++)
            probs[u] = factor * dot(q + t * 3 * c_n, k + u * 3 * c_n, width);
        softmax(probs, t + 1);
        memset(out, 0, width * sizeof *out);
        for (size_t u = 0; u <= t; u++)
            for (size_t c = 0; c < width; c++)
                out[c] += probs[u] * v[u * 3 * c_n + c];
    }
}

void lk_attention_backward_ref(const void *args)
{
    const struct lk_attention_backward_args *a = args;
    size_t t_n = a->context, c_n = a->channels, width = c_n / a->heads;
    double factor = 1 / sqrt((double)width), *dprobs = a->scratch;

    memset(a->dqkv, 0, a->samples * t_n * 3 * c_n * sizeof(double));
    for (size_t i = 0; i < a->samples * a->heads * t_n; i++) {
        size_t t = i % t_n, head = i / t_n % a->heads, sample = i / t_n / a->heads;
        size_t at = sample * t_n * 3 * c_n + head * width;
        const double *q = (const double *)a->qkv + at, *k = q + c_n, *v = q + 2 * c_n;
        double *dq = (double *)a->dqkv + at, *dk = dq + c_n, *dv = dq + 2 * c_n;
        const double *probs = (const double *)a->probs + i * t_n;
        const double *dout = (const double *)a->dout + (sample * t_n + t) * c_n + head * width;
        double mean = 0;

        for (size_t u = 0; u <= t; u++) {
            dprobs[u] = dot(dout, v + u * 3 * c_n, width);
            mean += probs[u] * dprobs[u];
        }
        for (size_t u = 0; u <= t; u++) {
            double dscore = probs[u] * (dprobs[u] - mean) * factor;

            for (size_t c = 0; c < width; c++) {
                dq[t * 3 * c_n + c] += dscore * k[u * 3 * c_n + c];
                dk[u * 3 * c_n + c] += dscore * q[t * 3 * c_n + c];
                dv[u * 3 * c_n + c] += probs[u] * dout[c];
            }
        }
    }
}

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

static const double root_two_over_pi = 0.79788456080286535588;
static const double cubic = 0.044715;

void lk_gelu_forward_ref(const void *args)
{
    const struct lk_gelu_forward_args *a = args;
    const double *in = a->in;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++) {
        double x = in[i];

        out[i] = 0.5 * x * (1 + tanh(root_two_over_pi * (x + cubic * x * x * x)));
    }
}

void lk_gelu_backward_ref(const void *args)
{
    const struct lk_gelu_backward_args *a = args;
    const double *in = a->in, *dout = a->dout;
    double *din = a->din, *dbias = a->dbias;

    for (size_t i = 0; i < a->n; i++) {
        double x = in[i];
        double t = tanh(root_two_over_pi * (x + cubic * x * x * x));
        double dt = (1 - t * t) * root_two_over_pi * (1 + 3 * cubic * x * x);

        din[i] = dout[i] * (0.5 * (1 + t) + 0.5 * x * dt);
    }
    for (size_t c = 0; c < a->columns && dbias; c++) {
        double sum = a->accumulate ? dbias[c] : 0;

        for (size_t i = c; i < a->n; i += a->columns)
            sum += din[i];
        dbias[c] = sum;
    }
}

void lk_relu_forward_ref(const void *args)
{
    const struct lk_relu_forward_args *a = args;
    const double *in = a->in;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
}

void lk_relu_backward_ref(const void *args)
{
    const struct lk_relu_backward_args *a = args;
    const double *out = a->out, *dout = a->dout;
    double *din = a->din;

    for (size_t i = 0; i < a->n; i++)
        din[i] = out[i] <= 0 ? 0 : dout[i];
}

void lk_encoder_forward_ref(const void *args)
{
    const struct lk_encoder_forward_args *a = args;
    const double *wte = a->wte, *wpe = a->wpe;
    double *out = a->out;
    size_t c_n = a->channels;

    for (size_t i = 0; i < a->samples * a->context; i++) {
        size_t token = (size_t)a->tokens[i], t = i % a->context;

        for (size_t c = 0; c < c_n; c++)
            out[i * c_n + c] = wte[token * c_n + c] + wpe[t * c_n + c];
    }
}

void lk_encoder_backward_position_ref(const void *args)
{
    const struct lk_encoder_backward_position_args *a = args;
    const double *dout = a->dout;
    double *dwpe = a->dwpe;
    size_t c_n = a->channels;

    if (!a->accumulate)
        memset(dwpe, 0, a->wpe_rows * c_n * sizeof *dwpe);
    for (size_t i = 0; i < a->samples * a->context; i++)
        for (size_t c = 0; c < c_n; c++)
            dwpe[i % a->context * c_n + c] += dout[i * c_n + c];
}

void lk_encoder_backward_token_ref(const void *args)
{
    const struct lk_encoder_backward_token_args *a = args;
    const double *dout = a->dout;
    double *dwte = a->dwte;
    size_t c_n = a->channels;

    if (!a->accumulate)
        memset(dwte, 0, a->vocab * c_n * sizeof *dwte);
    for (size_t i = 0; i < a->samples * a->context; i++)
        for (size_t c = 0; c < c_n; c++)
            dwte[(size_t)a->tokens[i] * c_n + c] += dout[i * c_n + c];
}

void lk_bytes_forward_ref(const void *args)
{
    const struct lk_bytes_forward_args *a = args;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] = a->tokens[i] * a->factor + a->shift;
}

void lk_cross_entropy_forward_ref(const void *args)
{
    const struct lk_cross_entropy_forward_args *a = args;
    double *log_sum = a->log_sum, loss = 0;
    size_t stride = lk_op_stride(a->stride, a->vocab);

    if (a->rows == 0)
        return;
    for (size_t r = 0; r < a->rows; r++) {
        const double *logits = (const double *)a->logits + r * stride;
        double max = logits[0], sum = 0;

        for (size_t v = 1; v < a->vocab; v++)
            max = fmax(max, logits[v]);
        for (size_t v = 0; v < a->vocab; v++)
            sum += exp(logits[v] - max);
        log_sum[r] = log(sum) + max;
        loss += log_sum[r] - logits[a->targets[r * a->target_stride]];
    }
    *(double *)a->loss = loss / (double)a->rows;
    if (a->dlogits)
        lk_cross_entropy_backward_ref(
            &(struct lk_cross_entropy_backward_args){.dlogits = a->dlogits,
                                                     .logits = a->logits,
                                                     .log_sum = log_sum,
                                                     .targets = a->targets,
                                                     .rows = a->rows,
                                                     .vocab = a->vocab,
                                                     .target_stride = a->target_stride,
                                                     .stride = a->stride,
                                                     .seed = a->seed});
}

void lk_cross_entropy_backward_ref(const void *args)
{
    const struct lk_cross_entropy_backward_args *a = args;
    const double *log_sum = a->log_sum;
    double seed = a->seed / (double)a->rows;
    size_t stride = lk_op_stride(a->stride, a->vocab);

    for (size_t r = 0; r < a->rows; r++) {
        const double *logits = (const double *)a->logits + r * stride;
        double *dlogits = (double *)a->dlogits + r * stride;

        for (size_t v = 0; v < a->vocab; v++)
            dlogits[v] = seed * exp(logits[v] - log_sum[r]);
        dlogits[a->targets[r * a->target_stride]] -= seed;
    }
}

static void sgd_tensor(const struct lk_sgd_args *a, const struct lk_optim_tensor *p)
{
    const double *grad = p->grad;
    double *param = p->param, *m = p->m;

    for (size_t i = 0; i < p->n; i++) {
        double step = grad[i] * a->rate->unscale + p->weight_decay * param[i];

        if (m)
            step = m[i] = a->momentum * m[i] + step;
        param[i] -= a->rate->learning_rate * step;
    }
}

void lk_sgd_ref(const void *args)
{
    const struct lk_sgd_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        sgd_tensor(a, &a->tensors[i]);
}

static void adamw_tensor(const struct lk_adamw_args *a, const struct lk_optim_tensor *p)
{
    const double *grad = p->grad;
    double *param = p->param, *m = p->m, *v = p->v;

    for (size_t i = 0; i < p->n; i++) {
        double g = grad[i] * a->rate->unscale;

        param[i] -= a->rate->learning_rate * p->weight_decay * param[i];
        m[i] = a->beta1 * m[i] + (1 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1 - a->beta2) * g * g;
        param[i] -= a->rate->corrected * m[i] / (sqrt(v[i]) * a->rate->root + a->eps);
    }
}

void lk_adamw_ref(const void *args)
{
    const struct lk_adamw_args *a = args;

    for (size_t i = 0; i < a->n_tensors; i++)
        adamw_tensor(a, &a->tensors[i]);
}

void lk_sum_squares_ref(const void *args)
{
    const struct lk_sum_squares_args *a = args;
    const double *in = a->in;
    double *out = a->out, sum = a->accumulate ? *out : 0;

    for (size_t i = 0; i < a->n; i++)
        sum += in[i] * in[i];
    *out = sum;
}

void lk_checksum_ref(const void *args)
{
    const struct lk_checksum_args *a = args;
    uint64_t sum = 0;

    for (size_t i = 0; i < a->n; i++)
        sum += lk_checksum_word(a->words[i], i);
    *a->sum = sum;
}

void lk_scale_ref(const void *args)
{
    const struct lk_scale_args *a = args;
    double *x = a->x;

    for (size_t i = 0; i < a->n; i++)
        x[i] *= a->factor;
}

void lk_fill_ref(const void *args)
{
    const struct lk_fill_args *a = args;
    double *x = a->x;

    for (size_t i = 0; i < a->n; i++)
        x[i] = a->value;
}

void lk_axpy_ref(const void *args)
{
    const struct lk_axpy_args *a = args;
    const double *x = a->x;
    double *y = a->y;

    for (size_t i = 0; i < a->n; i++)
        y[i] += a->factor * x[i];
}

void lk_clip_ref(const void *args)
{
    const struct lk_clip_args *a = args;
    double *x = a->x, norm = sqrt(*(const double *)a->sum_squares) / a->scale;

    for (size_t i = 0; i < a->n; i++)
        x[i] *= fmin(1, a->most / (norm + LK_CLIP_EPS));
}

void lk_cast_to_wire_ref(const void *args)
{
    const struct lk_cast_to_wire_args *a = args;
    const double *in = a->in;

    for (size_t i = 0; i < a->n; i++)
        lk_dtype_from_f32(a->dtype, &a->out[i], &(float){(float)in[i]}, 1);
}

void lk_cast_from_wire_ref(const void *args)
{
    const struct lk_cast_from_wire_args *a = args;
    double *out = a->out;

    for (size_t i = 0; i < a->n; i++)
        out[i] = lk_dtype_at(a->dtype, a->in, i);
}

/* Ops without arithmetic are the same in float64. */
#define SAME(op)                                                                                   \
    void lk_##op##_ref(const void *args)                                                           \
    {                                                                                              \
        lk_##op##_cpu(args);                                                                       \
    }
SAME(wait)
SAME(hold)
SAME(move)
