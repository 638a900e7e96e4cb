/*
 * The parts of the doctor, private to sim/throughput/doctor*.c: draws of what is wrong, and what
 * runs tell in them (doctor_draw.c); experiments (doctor_trials.c); their weights (doctor.c).
 */
#ifndef LK_SIM_THROUGHPUT_DOCTOR_IMPL_H
#define LK_SIM_THROUGHPUT_DOCTOR_IMPL_H

#include "sim/throughput/doctor.h"

struct lk_step_prior;

/* A draw says what is wrong, and what the rates then say of the compute. */
struct doctor_draw {
    size_t prior;     /* number of the step prior's draw */
    double noise;     /* of the rate of fewest GPUs, of ln */
    double floor;     /* of a micro-batch's compute, what more samples do not lengthen */
    double batch;     /* samples of a micro-batch over those that the rows say */
    double sample_s;  /* INPUT: a rank's loader takes so long for a sample; 0: no time */
    bool hidden;      /* and that beside the step */
    double share;     /* INPUT: of the step of fewest GPUs that is loading, or not */
    bool of_node;     /* INPUT: loaders of a node are too slow together */
    double node_rate; /* INPUT: samples a second that a node's loaders make; 0: any number */
    double host;      /* HOST: its time for a micro-batch over the compute, on one rank */
    double crowding;  /* HOST: each other rank of its node makes that longer by so much */
    double collectives, between; /* times as long as they should take */
    double slow;                 /* STRAGGLER: its time over that of the others */
    int slow_gpu;
    bool sync;
    double size;      /* of the cause, for people; NaN: it has none */
    double compute_s; /* of a micro-batch of the row of fewest GPUs; 0: none explains its rate */
    double weight;    /* likelihood of all rows; 0: it explains nothing */
};

struct doctor {
    const struct lk_doctor_question *q;
    struct lk_step_prior *prior;
    const struct lk_doctor_row *least, *most;  /* rows of fewest and most GPUs */
    double step_s;                             /* of the row of most GPUs */
    struct doctor_draw *draws[LK_CAUSE_COUNT]; /* q->draws of each; NULL: not possible */
    double mean_weight[LK_CAUSE_COUNT];
};

/* Make draw i of a cause. */
struct doctor_draw doctor_draw_make(const struct doctor *w, enum lk_cause c, size_t i);
/* Set the compute of a draw, and what is relative to it, so that the row of fewest GPUs is met. */
enum lk_status doctor_draw_meet(const struct doctor *w, struct doctor_draw *d);
/* Return the draw with nothing wrong. */
struct doctor_draw doctor_draw_healthy(const struct doctor_draw *d);
/* Compute what a run tells in a draw; NaN: nothing of that kind. */
enum lk_status doctor_predict(const struct doctor *w, const struct doctor_draw *d,
                              const struct lk_trial *t, double out[LK_MEASURE_COUNT]);
/* Return a measure so that its noise is 1: (ln of it, at least about its floor) / noise. */
double doctor_scaled(const struct doctor *w, enum lk_measure m, double value);
/* Return the likelihood of a scaled difference, up to a factor that all causes share. */
double doctor_likelihood(double z);

/* Return the GPUs of a node. */
int doctor_ranks_of_node(const struct lk_config *c);
/* Judge all experiments that were not made, into out->experiments. */
enum lk_status doctor_judge(const struct doctor *w, struct lk_diagnosis *out);

#endif
