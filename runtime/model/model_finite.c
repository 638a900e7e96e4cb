/* Finds the first value of a forward pass that is not finite; see lk_model_not_finite. */
#include "base/array.h"
#include "runtime/model/model.h"

#include <math.h>
#include <stdio.h>

enum { PIECE_ELEMS = 1 << 14 };

static const uint64_t copy_timeout_ns = 60 * LK_NS_PER_S;

/* Copy an output to the host piece by piece and look at each value. *out_at: elems if all are
 * finite. */
static enum lk_status scan(struct lk_model *m, const struct lk_model_output *o, void *piece,
                           size_t *out_at, double *out_value)
{
    size_t bytes = lk_device_real_bytes(m->device);

    for (size_t at = 0, n; at < o->elems; at += n) {
        n = o->elems - at < PIECE_ELEMS ? o->elems - at : PIECE_ELEMS;
        LK_PASS(lk_stream_copy(m->stream, piece, (const char *)o->at + at * bytes, n * bytes));
        LK_PASS(lk_stream_sync(m->stream, lk_deadline_in(copy_timeout_ns)));
        for (size_t i = 0; i < n; i++) {
            *out_value = lk_dtype_at(lk_device_real_dtype(m->device), piece, i);
            *out_at = at + i;
            if (!isfinite(*out_value))
                return LK_OK;
        }
    }
    *out_at = o->elems;
    return LK_OK;
}

enum lk_status lk_model_not_finite(struct lk_model *m, char *buf, size_t size)
{
    enum lk_status st = LK_OK;
    void *piece = NULL;

    buf[0] = '\0';
    LK_TRY(lk_device_alloc_host(m->device, PIECE_ELEMS * sizeof(double), &piece));
    for (size_t i = 0; i < m->n_outputs && !buf[0]; i++) {
        const struct lk_model_output *o = &m->outputs[i];
        char layer[32] = "";
        size_t at;
        double value = 0;

        LK_TRY(scan(m, o, piece, &at, &value));
        if (at == o->elems)
            continue;
        if (o->layer)
            snprintf(layer, sizeof layer, "layer %d's ", o->layer);
        snprintf(buf, size, "the output of %s%s has %s at element %zu of %zu", layer, o->name,
                 isnan(value) ? "nan"
                 : value > 0  ? "inf"
                              : "-inf",
                 at, o->elems);
    }
out:
    lk_device_free_host(m->device, piece);
    return st;
}
