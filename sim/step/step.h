/*
 * The step model describes the training step of one configuration: compute times, collectives with
 * their cost, slowdowns and the straggler law. The event engine (sim/step/engine.h) and the closed
 * form (sim/step/closed_form.h) compute step times from it.
 *
 * A position says how far a rank is in a micro-batch: its forward runs from 0 to 1, its backward
 * from 1 to 2, and in the last micro-batch of a step the optimizer from 2 to 3, after which comes
 * the host gap. Position 3 + p is position p of the next step's first micro-batch. A rank waits for
 * its input before position 0. A collective may start on a rank when its compute has reached the
 * collective's `ready`; compute blocks at `need` until the collective has ended. Examples:
 *
 *   gradient bucket (DDP)                   ready 1 + share of backward       need 2
 *   SyncBatchNorm at a, blocking            ready a                           need a
 *   find_unused_parameters, after the last  ready 2                           need 2
 *   ZeRO-1: parameters after the optimizer  ready 3                           need 3 or 3 + p
 *   FSDP: a unit's parameters, prefetched   ready where its predecessor runs  need where it runs
 *   FSDP: a unit's gradients                ready where it has run            need 2
 *   late gradients (async)                  ready 1 + share of backward       need 3 + p, late
 *
 * All ranks have one communication stream, which runs the collectives in the order of their list.
 * gamma_wait is the slowdown of compute while a collective waits for its last rank, gamma_wire
 * while the collective moves bytes; delta is that of the collective by compute, kappa that of
 * compute by other ranks on the same node. For rank r, step s and collective k:
 *
 *   start(r,s)  = done(r,s-1) + input wait
 *   arrival     = max(ready(r,k), end(k-1));  begin(k) = max over r of arrival
 *   end(k)      = begin(k) + cost(k), which advances at 1/(1+delta) until the last rank is blocked
 *   cost(k)     = max(alone, (1+behind) alone - idle/(1+delta)), where the stream was idle for so
 *                 long since another collective of the micro-batch ended; without one, alone
 *   compute     advances at 1/(1+gamma_wait) from arrival to begin, 1/(1+gamma_wire) from begin to
 *                 end, and at 1/(1+kappa) always
 *   done(r,s)   = end of the optimizer (1+kappa) and of what is needed after it + host gap
 *   F_r, B_r    = forward and backward times (1 + rank + node + transient + common effect)
 *
 * Time is integer ns: a duration is rounded once, when the plan is made or drawn. A slowdown 1 + g
 * is a multiple of 2^-20, so that work and time convert without rounding twice.
 */
#ifndef LK_SIM_STEP_H
#define LK_SIM_STEP_H

#include "base/rng.h"
#include "base/status.h"
#include "facts/coll.h"
#include "facts/forecast.h"
#include "facts/straggler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The straggler law of facts/straggler.h. The tail's mean is subtracted from all micro-batches,
 * since measured compute times contain it.
 */
struct lk_straggler_law {
#define LK_STRAGGLER_FIELD_(field, text, max, help) double field;
    LK_STRAGGLER_LIST(LK_STRAGGLER_FIELD_)
#undef LK_STRAGGLER_FIELD_
    int link_nodes; /* number of nodes that the costs were measured on: they already contain the
                     * slowest of these nodes' links. 0: costs are those of equal links */
};

/* Where backward and optimizer begin, and where a step ends. */
#define LK_STEP_BACKWARD  1.0
#define LK_STEP_OPTIMIZER 2.0
#define LK_STEP_END       3.0

struct lk_step_coll {
    enum lk_coll coll;
    uint64_t bytes; /* see facts/coll.h */
    double ready;   /* position 0..3 */
    double need;    /* position 0..5, at most ready + 3 */
    double cost_s;  /* alone, without delta */
    double behind;  /* how much more right behind another, relatively; 0 or more */
    bool late;      /* need, 3 or more, is of the next step's last micro-batch, not its first */
    bool every_micro_batch; /* else on the step's last one only; pre: need <= 2 */
    bool inside;            /* its ranks share a node: links between nodes do not slow it */
    int bucket;             /* number of the gradient bucket in traces; -1: it is none */
    int tensors;            /* that the host copies in or out; 0 of DDP's buckets, whose hooks do */
};

struct lk_step_model {
    int ranks, nodes;
    int accumulation;             /* micro-batches a step */
    double forward_s, backward_s; /* of a micro-batch */
    double optimizer_s, gap_s;    /* of a step */
    double input_s;               /* fixed input wait of a micro-batch */
    double load_s;                /* loader's time to prepare one; depth 0: the rank waits for it */
    int prefetch_depth;           /* micro-batches prepared ahead */
    double gamma_wait, gamma_wire; /* see above */
    double delta, kappa;
    struct lk_straggler_law law;
    /*
     * (optional, borrowed) Known effects, one for each rank or node, which replace the law's draws;
     * NaN: unknown. A slowness is a relative effect on compute time; a rank's known slowness
     * replaces that of its node, too. node_link is the factor on the time of a node's link, which
     * the costs already contain.
     */
    const double *rank_slowness, *node_slowness, *node_link;
    bool ranks_vary; /* a known slowness is the mean of what rank_sd draws: batches differ */
    /*
     * (borrowed) The collectives in the order of the stream. pre: `need` of each is at or after its
     * own `ready` and that of all before it, else compute and stream would deadlock.
     */
    const struct lk_step_coll *colls;
    size_t n_colls;
};

#define LK_STEP_DURATION_MAX 1e6  /* s: no part and no collective of a step takes longer */
enum { LK_STEP_SLOW_MAX = 1000 }; /* gamma, delta, kappa and behind are no greater */

struct lk_sim_request {
    int steps;     /* that count; LK_SIM_WARMUP more go before them */
    uint64_t seed; /* of all draws */
    bool steady;   /* nothing is random and no loader works ahead: the first step is as any other,
                      and the closed form leaves the warm-up out */
};
enum { LK_SIM_WARMUP = 2 }; /* steady state from step 3 */

struct lk_sim_result {
    double *step_s; /* counted steps, mean over ranks */
    size_t n;
    double mean_s;
    double losses_s[LK_LOSS_COUNT]; /* mean over counted steps and ranks; they sum to mean_s */
};
void lk_sim_result_fini(struct lk_sim_result *r); /* zeroes it; safe on a zeroed result */

/* ---- What engine and closed form share ---- */

/* A slowdown 1 + g is an integer in units of 2^-20: LK_SLOWDOWN_ONE is no slowdown. */
enum { LK_SLOWDOWN_BITS = 20 };
enum { LK_SLOWDOWN_ONE = 1 << LK_SLOWDOWN_BITS };

__extension__ typedef unsigned __int128 lk_step_wide_;

/* Work and slowdowns below these limits (18 minutes, 16) have products within 64 bits. */
#define LK_STEP_NARROW_WORK_     (1ULL << 40)
#define LK_STEP_NARROW_SLOWDOWN_ (16ULL << LK_SLOWDOWN_BITS)

/*
 * Return the ns that work takes under a slowdown, rounded up. lk_slowdown_work_ns is the inverse:
 * it returns the work done in a time, rounded down, so that w = work(time(w)). Both are inline,
 * since engine and closed form spend their time here.
 */
static inline uint64_t lk_slowdown_time_ns(uint64_t work_ns, uint64_t slow)
{
    if (slow == LK_SLOWDOWN_ONE)
        return work_ns;
    if (work_ns < LK_STEP_NARROW_WORK_ && slow < LK_STEP_NARROW_SLOWDOWN_)
        return (work_ns * slow + LK_SLOWDOWN_ONE - 1) >> LK_SLOWDOWN_BITS;
    return (uint64_t)(((lk_step_wide_)work_ns * slow + LK_SLOWDOWN_ONE - 1) >> LK_SLOWDOWN_BITS);
}

static inline uint64_t lk_slowdown_work_ns(uint64_t elapsed_ns, uint64_t slow)
{
    if (slow == LK_SLOWDOWN_ONE)
        return elapsed_ns;
    if (elapsed_ns < LK_STEP_NARROW_WORK_)
        return (elapsed_ns << LK_SLOWDOWN_BITS) / slow;
    return (uint64_t)(((lk_step_wide_)elapsed_ns << LK_SLOWDOWN_BITS) / slow);
}

/* Return a share of a duration, rounded to ns and at most the duration. */
static inline uint64_t lk_step_share_ns(uint64_t duration_ns, double share)
{
    uint64_t ns = (uint64_t)(int64_t)((double)(int64_t)duration_ns * share + 0.5);

    return ns < duration_ns ? ns : duration_ns;
}

/*
 * The collectives of one kind of micro-batch. There are two kinds: the last of a step, and all
 * others, which a model with accumulation 1 does not have.
 */
struct lk_step_list {
    size_t *coll; /* n indices, in the order of the stream */
    size_t n;
    double *block;    /* n + 1: while collective i is the next to end, no rank's compute passes
                       * position block[i], the smallest need from i on; infinite at n */
    double *late;     /* n + 1: likewise, in the next step's last micro-batch; not in block */
    size_t *by_ready; /* the same indices by ready, ties in the order of the stream */
};

/*
 * The loader of one rank. With prefetch depth d it starts batch i once the rank has taken batch
 * i - d; the ring taken_ns holds the last d times at which the rank took one.
 */
struct lk_step_loader {
    uint64_t done_ns; /* when the loader finished its last batch */
    uint64_t *taken_ns;
};

/* Sums over ranks and counted steps, in ns, from which the waterfall is made. */
struct lk_step_sums {
    uint64_t compute_ns; /* forward and backward with the rank's effects and kappa */
    uint64_t kappa_ns;
    uint64_t overlap_ns; /* what gamma_wait and gamma_wire added to compute */
    uint64_t input_ns;
    uint64_t straggler_ns, wire_ns; /* exposed: a rank was blocked until a collective ended */
    uint64_t *step_ns;              /* each counted step, summed over ranks */
};

/*
 * A plan is the model in ns with the effects drawn that last the whole run, and that state of the
 * run that both engine and closed form need.
 */
struct lk_step_plan {
    const struct lk_step_model *model; /* borrowed, outlives the plan */
    uint64_t seed;
    int steps; /* counted ones */
    uint64_t optimizer_ns, gap_ns, input_ns, load_ns;
    uint64_t slowdown_wait, slowdown_wire, slowdown_delta;
    uint64_t *cost_ns, *behind_ns; /* n_colls: alone, and right behind another */
    struct lk_step_list lists[2];  /* [0]: of micro-batches that end no step; [1]: that do */
    double *rank_effect;           /* ranks */
    /* The random streams of a micro-batch's draws, and the parameters of their laws. */
    uint64_t transient_stream, tail_stream, common_stream;
    double tail_scale, tail_mean; /* the Pareto law's scale; mean tail effect of a micro-batch */
    double transient_sigma, common_sigma; /* sigmas of the lognormal transient and common effects */
    uint64_t common_micro_batch; /* the one that `common` was drawn for; UINT64_MAX: none */
    double common;
    struct lk_step_loader *loaders; /* one for each rank; NULL: no loader runs ahead */
    uint64_t *taken_ns;             /* of all loaders */
    struct lk_step_sums sums;
};
/*
 * Make the plan. LK_EUSAGE names a value out of range, or a collective whose `need` would deadlock.
 */
enum lk_status lk_step_plan_init(struct lk_step_plan *p, const struct lk_step_model *m,
                                 const struct lk_sim_request *request);
void lk_step_plan_fini(struct lk_step_plan *p);

/* Return true if a micro-batch (counted from 0 over the whole run) is its step's last one. */
bool lk_step_plan_last(const struct lk_step_plan *p, uint64_t micro_batch);

/* Return the work of a collective that begins idle_ns after the end of the one before it;
 * UINT64_MAX: there is none. What it takes more behind another fades with the time between, so that
 * one that begins earlier does not end later. */
static inline uint64_t lk_step_cost_ns(const struct lk_step_plan *p, size_t coll, uint64_t idle_ns)
{
    uint64_t alone = p->cost_ns[coll], behind = p->behind_ns[coll], faded;

    if (behind <= alone || idle_ns == UINT64_MAX)
        return alone;
    faded = lk_slowdown_work_ns(idle_ns, p->slowdown_delta);
    return faded < behind - alone ? behind - faded : alone;
}

/*
 * Draw the compute times of a rank's micro-batch, with kappa; optimizer_ns is 0 except in a step's
 * last micro-batch.
 */
struct lk_step_compute {
    uint64_t forward_ns, backward_ns, optimizer_ns;
    uint64_t kappa_ns; /* what kappa added to forward and backward */
};
struct lk_step_compute lk_step_plan_compute(struct lk_step_plan *p, int rank, uint64_t micro_batch);
/* Draw forward and backward of the n ranks from `first` on; return the sum of their kappa_ns. */
uint64_t lk_step_plan_draw(struct lk_step_plan *p, uint64_t micro_batch, int first, size_t n,
                           uint64_t *forward_ns, uint64_t *backward_ns);
/* Return the ns of compute before a position; UINT64_MAX for one after the optimizer's end. */
static inline uint64_t lk_step_position_ns(const struct lk_step_compute *c, double position)
{
    if (position <= LK_STEP_BACKWARD)
        return lk_step_share_ns(c->forward_ns, position);
    if (position <= LK_STEP_OPTIMIZER)
        return c->forward_ns + lk_step_share_ns(c->backward_ns, position - LK_STEP_BACKWARD);
    if (position <= LK_STEP_END)
        return c->forward_ns + c->backward_ns +
               lk_step_share_ns(c->optimizer_ns, position - LK_STEP_OPTIMIZER);
    return UINT64_MAX;
}

/* Make the result of the counted steps from p->sums: their times, mean and losses. */
enum lk_status lk_step_finish(const struct lk_step_plan *p, struct lk_sim_result *out);

/* Let a rank take micro-batch i, which it asks for at now_ns; return when it has it. */
uint64_t lk_step_input_ns(struct lk_step_plan *p, size_t rank, uint64_t i, uint64_t now_ns);

#endif
