/* Embeddings, and conversion of bytes to numbers, float32. Limited by memory bandwidth: plain loops
 * over rows. */
#include "kernels/impl.h"

#include <string.h>

static void add_row(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t c = 0; c < n; c++)
        to[c] += from[c];
}

void lk_encoder_forward_cpu(const void *args)
{
    const struct lk_encoder_forward_args *a = args;
    const float *wte = a->wte, *wpe = a->wpe;
    size_t c_n = a->channels;

    for (size_t i = 0; i < a->samples * a->context; i++) {
        const float *restrict token = wte + (size_t)a->tokens[i] * c_n;
        const float *restrict position = wpe + i % a->context * c_n;
        float *restrict out = (float *)a->out + i * c_n;

        for (size_t c = 0; c < c_n; c++)
            out[c] = token[c] + position[c];
    }
}

void lk_encoder_backward_position_cpu(const void *args)
{
    const struct lk_encoder_backward_position_args *a = args;
    const float *dout = a->dout;
    float *dwpe = a->dwpe;
    size_t n = a->context * a->channels;

    if (!a->accumulate)
        memset(dwpe, 0, a->wpe_rows * a->channels * sizeof *dwpe);
    for (size_t s = 0; s < a->samples; s++)
        add_row(dwpe, dout + s * n, n);
}

void lk_encoder_backward_token_cpu(const void *args)
{
    const struct lk_encoder_backward_token_args *a = args;
    const float *dout = a->dout;
    float *dwte = a->dwte;
    size_t c_n = a->channels;

    if (!a->accumulate)
        memset(dwte, 0, a->vocab * c_n * sizeof *dwte);
    for (size_t i = 0; i < a->samples * a->context; i++)
        add_row(dwte + (size_t)a->tokens[i] * c_n, dout + i * c_n, c_n);
}

void lk_bytes_forward_cpu(const void *args)
{
    const struct lk_bytes_forward_args *a = args;
    const int32_t *restrict tokens = a->tokens;
    float *restrict out = a->out;
    float factor = (float)a->factor, shift = (float)a->shift;

    for (size_t i = 0; i < a->n; i++)
        out[i] = (float)tokens[i] * factor + shift;
}
