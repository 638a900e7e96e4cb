/*
 * Goodput: the share of a long run's time that is training, when GPUs fail and the job restarts
 * from its last checkpoint.
 *
 * Failures are memoryless, and any one stops the whole job, because training is synchronous: their
 * mean distance is M = mtbf / gpus. Every `period` of training a checkpoint stops it for `write`. A
 * failure loses what came after the last checkpoint and costs `restart` (to notice, replace the
 * device, start and load), in which failures come as well. A period then takes on average
 *
 *     M exp(restart / M) (exp((period + write) / M) - 1)
 *
 * (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
 * Future Generation Computer Systems 22, 2006). The best period does not depend on `restart`; to
 * first order it is sqrt(2 write M) (J. W. Young, CACM 17, 1974). Not in it: failures that come in
 * bursts, machines that run on with fewer GPUs, slow devices that do not fail.
 */
#ifndef LK_SIM_GOODPUT_H
#define LK_SIM_GOODPUT_H

struct lk_goodput {
    double mtbf_s;    /* of one GPU, with all that makes a job on it stop; > 0 */
    double write_s;   /* that a checkpoint stops training for; >= 0 */
    double restart_s; /* from the failure to the first step; >= 0 */
};

/* Mean time between failures of a job of this many GPUs. pre: gpus > 0. */
double lk_goodput_mtbf_s(const struct lk_goodput *g, int gpus);

/*
 * The period of training between two checkpoints that loses least, solved, not approximated. 0 when
 * a checkpoint costs nothing.
 */
double lk_goodput_best_period_s(const struct lk_goodput *g, int gpus);

/* Young's first-order period, sqrt(2 write M): what most people use; for comparison. */
double lk_goodput_young_period_s(const struct lk_goodput *g, int gpus);

/*
 * Training over elapsed time, 0..1, with a checkpoint every period_s of training. It is 0 where
 * failures come so often that nothing is ever finished (to the range of a double).
 */
double lk_goodput_share(const struct lk_goodput *g, int gpus, double period_s);

#endif
