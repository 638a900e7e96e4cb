/* Which measurement to make next; see the header. */
#include "sim/forecast/next_run.h"

#include "base/array.h"
#include "sim/forecast/hypothesis.h"

#include <math.h>
#include <stdlib.h>

/* Promises are compared in steps of this share. */
static const double ALIKE = 0.02;

/* Forecasts the target with one more measurement. */
static enum lk_status promise(const struct lk_evidence_source *e, const struct lk_config *target,
                              const struct lk_hypothesis *h, struct lk_next_run *out)
{
    enum lk_status st = LK_OK;
    struct lk_forecast unused = {0};
    struct lk_prediction p = {0};
    void *with = NULL;

    LK_TRY(e->ops->with(e->self, h, &with));
    LK_TRY(e->ops->prepare(with, &unused));
    LK_TRY(e->ops->at(with, target, &p));
    out->step_s = p.step_s;
    out->lo_s = p.lo_s;
    out->hi_s = p.hi_s;
    out->width = log(p.hi_s / p.lo_s);
out:
    lk_prediction_fini(&p);
    lk_forecast_fini(&unused);
    if (with)
        e->ops->close(with);
    return st;
}

/* Sets *made if the measurement was made, or is the target itself. */
static enum lk_status judge(const struct lk_evidence_source *e, const struct lk_config *target,
                            struct lk_next_run *r, bool *made)
{
    struct lk_hypothesis h = {.config = r->config, .collectives = r->collectives};
    struct lk_prediction p = {0};

    *made = false;
    if (!h.collectives) {
        LK_PASS(e->ops->at(e->self, &r->config, &p));
        h.step_s = p.step_s;
        *made = !isnan(p.measured_s) || lk_config_equal(&r->config, target);
        lk_prediction_fini(&p);
    }
    return *made ? LK_OK : promise(e, target, &h, r);
}

static int by_promise(const void *x, const void *y)
{
    const struct lk_next_run *a = x, *b = y;
    int order = LK_ORDER(floor(log(a->width) / ALIKE), floor(log(b->width) / ALIKE));

    order = order ? order : LK_ORDER(a->gpu_hours, b->gpu_hours);
    order = order ? order : LK_ORDER(a->width, b->width);
    return order ? order : LK_ORDER(a->config.world_size, b->config.world_size);
}

enum lk_status lk_next_runs(const struct lk_evidence_source *e, const struct lk_config *target,
                            struct lk_next_run *v, size_t n, size_t *out_n,
                            struct lk_prediction *now)
{
    size_t kept = 0;

    if (!e->ops->with)
        return lk_fail(LK_EEVIDENCE, "nothing can be added to this evidence");
    LK_PASS(e->ops->at(e->self, target, now));
    for (size_t i = 0; i < n; i++) {
        bool made;
        enum lk_status st = judge(e, target, &v[i], &made);

        if (st == LK_EEVIDENCE || st == LK_EUSAGE || (st == LK_OK && made))
            continue;
        LK_PASS(st);
        v[kept++] = v[i];
    }
    if (kept)
        qsort(v, kept, sizeof *v, by_promise);
    *out_n = kept;
    return LK_OK;
}
