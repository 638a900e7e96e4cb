/* Chart bus bandwidth against size; see collectives.h. */
#include "reports/plot/collectives.h"

#include <math.h>

static enum lk_status put_curve(struct lk_chart_panel *p, const struct lk_plot_collective *curve,
                                enum lk_chart_color color, bool named)
{
    struct lk_chart_layer *band, *expected, *measured;

    LK_PASS(
        lk_chart_layer(p, LK_CHART_BAND, color, named ? "39 of 40 sound machines" : NULL, &band));
    LK_PASS(lk_chart_layer(p, LK_CHART_LINE, color, named ? "expected" : NULL, &expected));
    LK_PASS(lk_chart_layer(p, LK_CHART_POINTS, color, curve->label, &measured));
    expected->style = LK_CHART_DASHED;
    for (size_t i = 0; i < curve->n; i++) {
        const struct lk_plot_size *s = &curve->sizes[i];
        struct lk_chart_mark mark = {.x = s->bytes, .lo = s->lo, .hi = s->hi};

        LK_PASS(lk_chart_mark(band, mark));
        mark.lo = mark.hi = 0;
        mark.y = s->expected;
        LK_PASS(lk_chart_mark(expected, mark));
        mark.y = s->busbw;
        LK_PASS(lk_chart_mark(measured, mark));
    }
    return LK_OK;
}

enum lk_status lk_chart_collectives(struct lk_chart *out, const struct lk_plot_collective *curves,
                                    size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_chart c = {0};
    struct lk_chart_panel *p;
    bool known = false;

    LK_TRY(lk_chart_init(&c, "collectives", "Collectives, measured and expected"));
    LK_TRY(lk_chart_panel(&c, NULL, &p));
    LK_TRY(lk_chart_axis(&p->x, "size", LK_CHART_LOG2, LK_DIM_BYTES));
    LK_TRY(lk_chart_axis(&p->y, "bus bandwidth", LK_CHART_LOG10, LK_DIM_RATE));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(put_curve(p, &curves[i], lk_chart_curves[i % LK_CHART_CURVES], i == 0));
        for (size_t k = 0; k < curves[i].n; k++)
            known |= isfinite(curves[i].sizes[k].expected);
    }
    if (!known)
        LK_TRY(lk_chart_note(&c, "nothing is known to hold these sizes against"));
    if (n > LK_CHART_CURVES)
        LK_TRY(
            lk_chart_note(&c, "more than %d curves: their colours begin again", LK_CHART_CURVES));
    LK_TRY(lk_chart_finish(&c));
    *out = c;
    c = (struct lk_chart){0};
out:
    lk_chart_fini(&c);
    return st;
}
