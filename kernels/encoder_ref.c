/* Embeddings, and conversion of bytes to numbers, float64. */
#include "kernels/impl.h"

#include <string.h>

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
