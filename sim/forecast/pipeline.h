/*
 * A forecast on its way (sim/forecast/forecast.h), private to the files that it passes, in this
 * order:
 *
 *     grid.c          the scenarios asked for, the current ones, and the references of all
 *     scenarios.c     equal scenarios are one; each is predicted once, on its machine
 *     efficiency.c    a prediction and its reference become a point
 *     goal_seek.c     the settings that reach what `plan` is asked for, of goal_screen.c's
 *     gains.c         gains, certainty, the best of a machine's settings at a count
 *     answer.c        sentences and notes; knee.c: where scaling ends
 */
#ifndef LK_SIM_FORECAST_PIPELINE_H
#define LK_SIM_FORECAST_PIPELINE_H

#include "base/status.h"
#include "facts/forecast.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_gains;
struct lk_goal_answer;

/* ---- Scenarios ---- */

/* The machine as it is, or an altered one. */
struct lk_machine {
    struct lk_change change;
    int most_gpus; /* of the scenarios on it */
    bool made;
    void *self;            /* the source's state for it: its own, or one to be closed */
    enum lk_status status; /* not LK_OK: it cannot be made, and refusal says why */
    char *refusal;
};

struct lk_item {
    struct lk_config config;
    size_t machine;
    enum lk_status status; /* not LK_OK: refused, there is no prediction, and refusal says why */
    char *refusal;
    struct lk_prediction at;
    bool is_point;  /* of the forecast */
    bool too_large; /* for a GPU's memory, as far as is known */
    bool skipped;   /* by a search: it is not predicted */
    bool hidden;    /* contradicted: its point has no numbers */
    size_t choice;  /* of a point: w->choices */
    double worth;   /* of a sample, over that of one in small batches; 1: not counted */
};

struct lk_scenarios {
    const struct lk_evidence_source *source;
    int64_t global_batch;
    struct lk_item *v;
    size_t n, capacity;
    size_t *slots, n_slots; /* a hash table of 1 + the index of each; a power of 2 */
    struct lk_machine *machines;
    size_t n_machines, machines_capacity;
};

/* Return true if the status refuses one scenario; others may still be predicted. */
bool lk_refuses(enum lk_status st);
/* Find a scenario or add it, with its nodes, unless it has them, and the accumulation that a global
 * batch gives. One that makes no sense is refused. *out: its index. */
enum lk_status lk_scenarios_add(struct lk_scenarios *w, const struct lk_scenario *s, bool has_nodes,
                                size_t *out);
enum lk_status lk_scenarios_predict(struct lk_scenarios *w, const struct lk_forecast_request *q);
/* Set *self to the source's state for the machine of a scenario, made when first asked for. */
enum lk_status lk_scenarios_machine(struct lk_scenarios *w, const struct lk_item *i, void **self);
void lk_scenarios_fini(struct lk_scenarios *w);

/* ---- The grid ---- */

struct lk_grid_point {
    size_t item, current;        /* current: what its gain refers to, where the request compares */
    size_t reference;            /* what its efficiency refers to; SIZE_MAX: none is known */
    size_t index[LK_AXIS_COUNT]; /* of its value in each axis asked for */
    bool is_current;             /* added as the current configuration: it has none of the values */
};

/* An axis moved alone. */
struct lk_grid_effect {
    size_t item, current, value;
    enum lk_axis axis;
};

/* A choice is made among the settings of one machine at one count, items from..to of
 * w->sorted. */
struct lk_choice {
    size_t from, to;
};

struct lk_pipeline {
    const struct lk_evidence_source *source;
    const struct lk_forecast_request *request;
    struct lk_scenarios all;
    struct lk_grid_point *points; /* once predicted, those of out->points */
    size_t n_points, points_capacity;
    size_t n_searched; /* points that a goal was sought among */
    struct lk_grid_effect *effects;
    size_t n_effects, effects_capacity;
    size_t n_refused; /* points asked for that are left out, */
    char *refusal;    /* why the first one is, */
    enum lk_status refused;
    char *no_reference; /* why an efficiency is not known; NULL: all are */
    size_t *sorted;     /* the points by count and machine */
    struct lk_choice *choices;
    size_t n_choices;
    bool by_target;     /* the objective is the time to the target, else throughput */
    double *resolution; /* of each draw: the error of the model's resolution in any gain */
    double *ratios;     /* of each draw: room to compare two items */
    struct lk_forecast *out;
};

/* Make points and effects. LK_EUSAGE: too many points, or an axis without meaning. */
enum lk_status lk_pipeline_add_grid(struct lk_pipeline *w);
/* Set each point's reference. pre: the source is prepared. */
enum lk_status lk_pipeline_add_references(struct lk_pipeline *w);
/* Return true if the axis has a word in the forecast: the point's own numbers do not say it. */
bool lk_pipeline_worded(const struct lk_pipeline *w, enum lk_axis a);
/* Return the word of a point's value on an axis that was asked for. */
const char *lk_pipeline_word(const struct lk_pipeline *w, const struct lk_grid_point *p,
                             enum lk_axis a);
/* Return the memory of the GPU that a scenario runs on; NaN: not known. */
double lk_pipeline_device_bytes(const struct lk_pipeline *w, const struct lk_item *i);

/* ---- Points ---- */

/* Return true if a scenario takes more memory than its GPU has, as far as is known. */
bool lk_pipeline_too_large(const struct lk_pipeline *w, const struct lk_item *i);
/* Make the point of a prediction. reference NULL: its efficiency is not known (NaN). */
enum lk_status lk_point_make(const struct lk_prediction *p, const struct lk_prediction *reference,
                             double most, double level, struct lk_forecast_point *out);
/* Return the highest efficiency that was measured against a reference of the same batch, 1 at the
 * least: no forecast of that batch is above it. */
double lk_most_efficient(const struct lk_evidence_source *e, const struct lk_prediction *reference);

/* ---- Comparison ---- */

/* Sort the points into choices, and make room to compare them. */
enum lk_status lk_gains_init(struct lk_pipeline *w);
/* Return the probability that `worth` times a's throughput is above b's, over draws and the model's
 * resolution. */
double lk_certainty(const struct lk_pipeline *w, const struct lk_item *a, const struct lk_item *b,
                    double worth);
/* Return the gain of a over b in the throughput of a GPU. */
struct lk_gain lk_gain_of(const struct lk_pipeline *w, const struct lk_item *a,
                          const struct lk_item *b);
/* Return true if a probability leaves no more doubt than the intervals do. */
bool lk_is_sure(const struct lk_pipeline *w, double certainty);

/* A choice among points. */
typedef bool lk_point_filter(const struct lk_pipeline *w, size_t point);
/* Accept a point that can be chosen: it is not contradicted, fits in memory, as far as is known,
 * and its local batch is within the measured ones. */
lk_point_filter lk_may_be_best;
/* Accept one of these that may be named the best: no sharding before a sharded run was seen, unless
 * the current configuration does not fit in memory. */
lk_point_filter lk_may_win;
/* Accept of these, in a comparison, those whose steps can be compared with the current one: they
 * have exact, synchronous gradients and, unless the objective is the target, as many samples. */
lk_point_filter lk_learns_alike;
/* Return the point of a choice with the highest throughput, or with by_target the least time to the
 * target, that the filter accepts, other than `except`; the order of points does not count.
 * n_points: none.
 */
size_t lk_fastest(const struct lk_pipeline *w, size_t choice, lk_point_filter *take, bool by_target,
                  size_t except);
/* Return the throughput of a point; what is contradicted has one here, too. */
double lk_pipeline_speed(const struct lk_pipeline *w, size_t point);
/* Return the probability that one point serves the objective better than the other. */
double lk_certainty_of_points(const struct lk_pipeline *w, size_t a, size_t b);
/* Mark the best settings of each machine at each count, and those that tie with them. The current
 * ones stay where no others are surely better. */
void lk_mark_best(struct lk_pipeline *w);
/* Compare the machines that were asked for at each count, by their best settings. */
enum lk_status lk_compare_machines(const struct lk_pipeline *w, struct lk_gains *out);

/* ---- The goal ---- */

/* Estimate all points, and keep those that can be an answer. pre: the source is prepared. */
enum lk_status lk_goal_screen(struct lk_pipeline *w);
/* Return what keeps a scenario from being chosen, before it is predicted: enum lk_goal_limit,
 * COUNT: nothing does; or LK_GOAL_NEVER. */
enum { LK_GOAL_NEVER = -1 };
int lk_goal_bar(const struct lk_pipeline *w, const struct lk_item *i);
/* Return how many of the current settings a configuration changes. */
int lk_goal_changes(const struct lk_pipeline *w, const struct lk_config *c);

/* Set the probability of each point that can be chosen, and find those that reach the request's
 * goal. pre: the points are planned. */
enum lk_status lk_goal_seek(const struct lk_pipeline *w, struct lk_goal_answer *out);
/* Say what reaches the goal, or that nothing does and why. */
enum lk_status lk_goal_tell(const struct lk_pipeline *w, const struct lk_goal_answer *a);

/* ---- The answer ---- */

/* Say what the points say, and note what they rest on. */
enum lk_status lk_pipeline_tell(struct lk_pipeline *w, const struct lk_gains *gains);
/* Note which kinds of a mix of GPUs the others wait for. */
enum lk_status lk_pipeline_note_mixes(const struct lk_pipeline *w);
/* Note what the points of a comparison rest on. */
enum lk_status lk_pipeline_note_gains(const struct lk_pipeline *w);
/* Write the machine of a point: "inter bandwidth x2, slow rank 3:1.1"; "as it is". */
void lk_pipeline_machine_words(const struct lk_pipeline *w, size_t point, char *out, size_t size);
/* Write the settings of a point in which it differs from others at its count; "as they are". */
void lk_pipeline_setting_words(const struct lk_pipeline *w, size_t point, char *out, size_t size);
/* Say where the knee of weak scaling is, from the first point's configuration and on its machine; a
 * comparison has one where all that was asked for differs in GPUs alone, in a note. */
enum lk_status lk_pipeline_tell_knee(const struct lk_pipeline *w);

#endif
