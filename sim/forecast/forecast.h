/*
 * A forecast: the configurations asked for, each with interval, evidence, efficiency and losses,
 * with notes on all of them. `predict` and `whatif` are requests to it (sim/forecast/axis.h), with
 * one or the other source of evidence.
 *
 *     request -> grid of scenarios: a configuration on a machine, as it is or altered
 *             -> evidence: a prediction of each, equal ones once    (sim/forecast/evidence.h)
 *             -> points, with efficiency over their reference
 *             -> comparison: gains, the best of a count and its ties
 *             -> answer: sentences, knee, notes                     (facts/forecast_answer.h)
 *
 * Efficiency is throughput a GPU over the reference's: the current configuration (the job's
 * buckets, plain DDP) on the same machine at the smallest measured count, with the same local batch
 * and accumulation, in strong scaling with the same global batch. It is formed draw by draw where
 * both have draws; against a reference without draws the ends of the interval are taken. Where the
 * reference cannot be forecast, the points are, and a note says why they have no efficiency.
 *
 * The best is a setting (batch, accumulation, buckets, sharding, ...) of one machine at one count
 * of GPUs: the one with the least time to the target, where noise scale and target are known, else
 * the one with the highest throughput of those whose step learns as the current one does: as many
 * samples, and exact, synchronous gradients. Machines are compared, each by its best settings, and
 * what is broken on one is priced; none is "best". Points that do not fit in memory, as far as that
 * is known, or whose local batch is outside the measured ones, are not considered, and the current
 * settings stay where no others are surely better. Scenarios that come to the same are one, whose
 * gain is exactly 0, and the order of the lists changes nothing. How sure it is comes from the
 * ratios of throughputs: Monte Carlo draw i uses the same random numbers in all points, so they are
 * formed draw by draw; each also gets a random error with a relative sd of LK_PRIOR_RESOLUTION, the
 * smallest difference that the model resolves. A source without draws does not tell which errors
 * two points share, so there a ratio has the error of the less certain point, and the same sd.
 *
 * A request that compares adds the current configuration to the points of each count, asked for or
 * not. Each point then has its gain, its
 * throughput over that of the current configuration on as many GPUs, and each axis is moved alone,
 * too.
 */
#ifndef LK_SIM_FORECAST_FORECAST_H
#define LK_SIM_FORECAST_FORECAST_H

#include "base/status.h"
#include "base/table.h"
#include "facts/forecast.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/evidence.h"
#include "sim/forecast/goal.h"

#include <stddef.h>

enum { LK_FORECAST_POINTS_MAX = 20000 };

/* One axis moved alone from the current configuration. */
struct lk_effect {
    int world_size;
    enum lk_axis axis;
    char word[32];
    double step_s;
    struct lk_gain gain; /* without a verdict */
};

/* A machine at a count, by its best settings against those of the machine as it is. */
struct lk_machine_gain {
    int world_size;
    char machine[128], settings[256]; /* in words */
    bool is_damage;                   /* something is broken, or mended, on it */
    double step_s, throughput_per_s;
    struct lk_gain gain; /* without a verdict */
};

/* A request that compares fills these beside its points. */
struct lk_gains {
    struct lk_effect *effects;
    size_t n_effects;
    struct lk_machine_gain *machines; /* none where one machine alone was asked for */
    size_t n_machines, machines_capacity;
    struct lk_goal_answer goal; /* where the request has a goal */
    size_t n_refused;           /* points of the grid that were left out */
    double *draws_s; /* steps of each point of the forecast in each draw; NaN: it has no draws */
    size_t n_draws;  /* of a point */
};

/*
 * Forecast the grid from the evidence. compared (optional): filled for any request; NULL drops it.
 * A point that has no evidence or makes no sense is left out and counted; a note gives the first
 * one's reason, which is the failure when no point is left: LK_EEVIDENCE, which names what is
 * missing and the cheapest run that would supply it, or LK_EUSAGE. LK_EUSAGE, too, for a grid above
 * LK_FORECAST_POINTS_MAX, for no count of GPUs, for an axis that the source knows too little for,
 * for an axis that has no meaning at any point, and for a global batch beside the accumulation
 * axis.
 */
enum lk_status lk_forecast_run(const struct lk_evidence_source *evidence,
                               const struct lk_forecast_request *request, struct lk_forecast *out,
                               struct lk_gains *compared);

void lk_gains_fini(struct lk_gains *c); /* zeroes it; safe on a zeroed one */
/* Tabulate the gain of each axis moved alone. */
enum lk_status lk_gains_table(const struct lk_gains *c, struct lk_table **out);
/* Tabulate the machines; *out is NULL where there is none. */
enum lk_status lk_machines_table(const struct lk_gains *c, struct lk_table **out);

/*
 * Find the knee of weak scaling in full nodes: the largest number of nodes, up to `most`, to which
 * the last ones add at least half of the throughput that the first one delivers, each on average,
 * however many are counted. What falls and rises again thus has its knee behind the rise. The
 * rest of the configuration is as in `like`. The nodes tried grow by a quarter, and measured counts
 * are among them, so above eight nodes the knee is found to a quarter.
 */
enum lk_status lk_knee_find(const struct lk_evidence_source *e, const struct lk_config *like,
                            int most, int *out_nodes);

#endif
