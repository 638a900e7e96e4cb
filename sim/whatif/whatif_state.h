/* The state of a what-if, private to whatif.c, which forecasts the scenarios, and whatif_result.c,
 * which compares them: scenarios, the machines that they run on, and draws. */
#ifndef LK_SIM_WHATIF_WHATIF_STATE_H
#define LK_SIM_WHATIF_WHATIF_STATE_H

#include "sim/forecast/forecast.h"
#include "sim/forecast/predictor.h"
#include "sim/whatif/altered_cluster.h"
#include "sim/whatif/sweep.h"
#include "sim/whatif/whatif.h"

#include <stdbool.h>
#include <stddef.h>

/* The purpose of a scenario. */
enum lk_whatif_role { LK_WHATIF_CURRENT, LK_WHATIF_EFFECT, LK_WHATIF_GRID, LK_WHATIF_REFERENCE };

struct lk_whatif_item {
    struct lk_scenario s;
    enum lk_whatif_role role;
    enum lk_axis axis;           /* EFFECT: the axis moved, */
    size_t value;                /* and the index of its value */
    size_t index[LK_AXIS_COUNT]; /* GRID: of its value in each axis asked for */
    size_t current, reference;   /* EFFECT and GRID: the items that they are compared with */
    enum lk_status status;
    struct lk_prediction at; /* its draws are borrowed from its machine's sweep */
    bool too_large;          /* for a GPU's memory, as far as is known */
};

/* A machine, as it is or changed, and the items that run on it. */
struct lk_whatif_machine {
    struct lk_change change;
    int gpus; /* the most of its items */
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
    struct lk_whatif_machine *machines;
    size_t n_machines, machines_capacity;
    double anchor;        /* the current forecast over its model; 1: there is no run */
    double *anchor_draws; /* of each draw */
    double *resolution;   /* of each draw: the error of the model's resolution in any gain */
    double *ratios;       /* of each draw: room to compare two items */
    int reference_gpus;
    char *refusal;
    size_t n_refused, done;
    struct lk_whatif *out;
};

/* Adds points and effects with their gains, marks the best of each count, and adds the notes. */
enum lk_status lk_whatif_add_results(struct lk_whatif_state *w);
/* Return true if the axis has a word in the forecast: the point's own numbers do not say it. */
bool lk_whatif_worded(const struct lk_whatif_state *w, enum lk_axis a);

#endif
