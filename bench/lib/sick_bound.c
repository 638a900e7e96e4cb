/* The best possible answer about planted causes; see sick_bound.h. */
#include "bench/lib/sick_bound.h"

#include <math.h>

static enum lk_status weigh(const struct sick *s, const struct lk_doctor_row *rows, size_t n_rows,
                            double *weight)
{
    double log_likelihood = 0;

    for (size_t i = 1; i < n_rows; i++) { /* the first is met by all draws */
        double rate;

        LK_PASS(sick_rate(s, &rows[i].trial, &rate));
        log_likelihood += sick_log_likelihood(rows[i].measured[LK_MEASURE_RATE], rate);
    }
    *weight *= exp(log_likelihood);
    return LK_OK;
}

enum lk_status sick_posterior(const struct sick *s, const struct lk_doctor_row *rows, size_t n_rows,
                              size_t draws, double odds[LK_CAUSE_COUNT])
{
    double all = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        odds[c] = 0;
        if ((c == LK_CAUSE_NODES && s->most.nodes == 1) ||
            (c == LK_CAUSE_SYNC && s->most.accumulation == 1))
            continue;
        for (size_t i = 0; i < draws; i++) {
            enum lk_status st;
            struct sick like;
            double weight;

            st = sick_draw_like(s, &rows[0], (enum lk_cause)c, 1000000 + i, &like, &weight);
            if (st == LK_OK && weight > 0)
                st = weigh(&like, rows, n_rows, &weight);
            sick_fini(&like);
            LK_PASS(st);
            odds[c] += weight;
        }
        all += odds[c];
    }
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        odds[c] = all > 0 ? odds[c] / all : 1.0 / LK_CAUSE_COUNT;
    return LK_OK;
}
