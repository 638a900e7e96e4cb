/* The state of a what-if, private to whatif.c, which makes and predicts the scenarios, and
 * whatif_result.c, which compares them. */
#ifndef LK_SIM_WHATIF_WHATIF_STATE_H
#define LK_SIM_WHATIF_WHATIF_STATE_H

#include "sim/forecast/altered_cluster.h"
#include "sim/forecast/evidence.h"
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
    bool is_current;             /* GRID: the current configuration, which has none of the values */
    size_t current, reference;   /* EFFECT and GRID: the items that they are compared with;
                                    reference SIZE_MAX: none is known */
    enum lk_status status;       /* not LK_OK: refused, and there is no prediction */
    struct lk_prediction at;
    bool too_large; /* for a GPU's memory, as far as is known */
};

/* An altered machine. */
struct lk_whatif_machine {
    struct lk_change change;
    void *self;            /* the source's state for it: its own, or one to be closed */
    enum lk_status status; /* not LK_OK: it cannot be made, and refusal says why */
    char *refusal;
};

struct lk_whatif_state {
    const struct lk_evidence_source *source;
    const struct lk_whatif_request *request;
    struct lk_whatif_item *items;
    size_t n_items, capacity;
    size_t *point_items; /* of the points */
    struct lk_whatif_machine *machines;
    size_t n_machines, machines_capacity;
    double *resolution; /* of each draw: the error of the model's resolution in any gain */
    double *ratios;     /* of each draw: room to compare two items */
    char *refusal;
    size_t n_refused;
    char *no_reference; /* why an efficiency is not known; NULL: all are */
    struct lk_whatif *out;
};

/* Adds points and effects with their gains, marks the best of each count, and adds the notes. */
enum lk_status lk_whatif_add_results(struct lk_whatif_state *w);
/* Return true if the axis has a word in the forecast: the point's own numbers do not say it. */
bool lk_whatif_worded(const struct lk_whatif_state *w, enum lk_axis a);

#endif
