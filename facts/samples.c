/* Samples of a calibration; see the header. */
#include "facts/samples.h"

#include <stdlib.h>

void lk_probe_rows_fini(struct lk_probe_rows *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->row[i].time_s);
        free(r->row[i].wire_s);
        free(r->row[i].host_s);
    }
    free(r->row);
    *r = (struct lk_probe_rows){0};
}

void lk_probe_colocation_fini(struct lk_probe_colocation *c)
{
    free(c->alone_s);
    free(c->together_s);
    *c = (struct lk_probe_colocation){0};
}

void lk_probe_overlap_fini(struct lk_probe_overlap *o)
{
    free(o->gamma_wait);
    free(o->gamma_wire);
    free(o->delta);
    free(o->call_s);
    *o = (struct lk_probe_overlap){0};
}

const struct lk_words lk_rate_words = LK_WORDS("a copy or product", LK_RATE_LIST);

void lk_rate_rows_fini(struct lk_rate_rows *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->row[i].time_s);
    free(r->row);
    *r = (struct lk_rate_rows){0};
}

double lk_rate_work(const struct lk_rate_row *r)
{
    const struct lk_product_shape *p = &r->shape;

    return r->kind == LK_RATE_PRODUCT ? 2 * (double)p->rows * (double)p->inner * (double)p->columns
                                      : (double)r->bytes;
}
