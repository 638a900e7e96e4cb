/* What the parts of sim/whatif.c share: the scenarios, the machines they run on and the draws. Not
 * for others. */
#ifndef LK_SIM_WHATIF_STATE_H
#define LK_SIM_WHATIF_STATE_H

#include "sim/change.h"
#include "sim/predictor.h"
#include "sim/sweep.h"
#include "sim/whatif.h"

#include <stdbool.h>
#include <stddef.h>

/* Why a scenario is looked at. */
enum lk_whatif_role { LK_WHATIF_CURRENT, LK_WHATIF_EFFECT, LK_WHATIF_GRID, LK_WHATIF_REFERENCE };

struct lk_whatif_item {
    struct lk_scenario s;
    enum lk_whatif_role role;
    enum lk_axis axis;           /* of an effect */
    size_t value;                /* of an effect, in its axis */
    size_t index[LK_AXIS_COUNT]; /* of a grid point, in each axis asked for */
    size_t current, reference;   /* items; of effects and grid points */
    enum lk_status status;
    struct lk_sweep_point at;
    double *draws_s; /* borrowed from its world's sweep */
    bool too_large;  /* for a GPU's memory, as far as is known */
};

/* A machine, as it is or changed, and all that is asked of it. */
struct lk_whatif_world {
    struct lk_change change;
    int gpus; /* most that are asked for */
    struct lk_changed changed;
    struct lk_predictor *predictor;
    size_t *items;
    size_t n_items, capacity;
    struct lk_sweep sweep; /* of the items, in their order */
};

struct lk_whatif_state {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_whatif_request *request;
    struct lk_predictor_options options;
    struct lk_whatif_item *items;
    size_t n_items, capacity;
    size_t *point_items; /* of the points */
    struct lk_whatif_world *worlds;
    size_t n_worlds, worlds_capacity;
    double anchor;        /* the current forecast over its model; 1: no run to say */
    double *anchor_draws; /* the same draw by draw */
    double *resolution;   /* a draw's factor on any gain: what the model does not resolve */
    double *ratios;       /* a draw's; room to compare two items */
    int reference_gpus;
    char *refusal;
    size_t n_refused, done;
    struct lk_whatif *out;
};

/* Marks an item as one that cannot be forecast; the first of the grid's reasons is kept. */
enum lk_status lk_whatif_refuse(struct lk_whatif_state *w, struct lk_whatif_item *i,
                                enum lk_status why);
/* Samples of one step. */
double lk_whatif_samples(const struct lk_config *c);

/* The current configuration at each GPU count, each axis moved alone, and the grid. */
enum lk_status lk_whatif_add_grid(struct lk_whatif_state *w);
/* What the efficiency of the grid's points refers to. */
enum lk_status lk_whatif_add_references(struct lk_whatif_state *w);

/* Forecasts every item on its machine. */
enum lk_status lk_whatif_run_worlds(struct lk_whatif_state *w);

/* Points and effects, with their gains, from the items. */
enum lk_status lk_whatif_add_results(struct lk_whatif_state *w);
/* The best point of this GPU count and those that tie with it. */
void lk_whatif_mark_best(struct lk_whatif_state *w, int gpus);
/* What a point was made of. */
const struct lk_whatif_item *lk_whatif_item_of(const struct lk_whatif_state *w, size_t point);
/* Has the axis a word in the forecast: do the point's own numbers not say it? */
bool lk_whatif_worded(const struct lk_whatif_state *w, enum lk_axis a);
/* Is this share of the draws enough to say that a gain is one? */
bool lk_whatif_surely(const struct lk_whatif_state *w, double certainty);
enum lk_status lk_whatif_add_notes(struct lk_whatif_state *w);

#endif
