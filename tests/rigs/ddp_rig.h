/*
 * Ranks as threads, to test the reducer and --verify: a communicator through shared memory, a model
 * whose gradients are known, and a training loop around the reducer.
 */
#ifndef LK_TESTS_DDP_RIG_H
#define LK_TESTS_DDP_RIG_H

#include "runtime/model/optim.h"
#include "runtime/train/reducer.h"
#include "runtime/train/verify.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { RIG_RANKS_MAX = 8, RIG_PARAMS = 9, RIG_CALLS_MAX = 2048 };

/* One call of the communicator, in order. */
struct rig_call {
    enum lk_coll coll;
    int32_t index;
    size_t count;
};

/* State shared by the ranks. */
struct rig_hub {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int ranks, arrived;
    unsigned round;
    bool broken; /* a rank has failed: no rank waits any more */
    const struct lk_coll_call *calls[RIG_RANKS_MAX];
    bool last_gradient_waits; /* the last gradient's op waits for the first bucket's all-reduce */
    atomic_int first_bucket_done;
};

struct rig_rank;

/* When a model releases its parameters. The op of each reads its weights; with LATE and SOME so
 * does the op of the parameter registered before it, wherever that comes in backward. */
enum rig_release {
    RIG_RELEASE_NONE,
    RIG_RELEASE_AT_ONCE, /* behind its own op */
    RIG_RELEASE_LATE,    /* behind both ops */
    RIG_RELEASE_SOME,    /* as LATE, but every third never */
    RIG_RELEASE_TWICE
};

/* Configuration of a run. Zeroed fields take the value in brackets. */
struct rig_case {
    const char *device; /* ["cpu"] */
    int ranks;          /* [1] */
    int accumulation;   /* [1] */
    int steps;          /* [3] */
    bool no_sync;
    enum lk_ddp_rule rule;
    uint64_t first_bytes; /* [cap_bytes] */
    uint64_t cap_bytes;   /* [everything] */
    enum lk_plant plant;
    int noise_every;
    bool verify;
    bool overlap; /* see last_gradient_waits */
    bool early;   /* buckets are updated early */
    enum rig_release release;
    /* Change a rank's model before the reducer is made. */
    void (*prepare)(struct rig_rank *r);
    /* Called after a step and its verification: streams idle, parameters updated. */
    void (*after_step)(struct rig_rank *r, uint32_t step);
    /* Called after the optimizer and before verification. */
    void (*before_verify)(struct rig_rank *r, uint32_t step);
};

struct rig_rank {
    const struct rig_case *config;
    struct rig_hub *hub;
    int rank;
    struct lk_device *device;
    struct lk_stream *compute, *net, *update;
    size_t n_updates; /* early ones, in the step in progress */
    struct lk_comm *comm;
    struct lk_model *model;
    struct lk_reducer *reducer;
    struct lk_optim *optim;
    struct lk_verify *verify;
    struct lk_dataset *dataset;
    struct lk_loader *loader;
    size_t order[RIG_PARAMS];   /* order in which this rank's backward computes the gradients */
    int skip;                   /* backward omits this parameter; -1: none */
    int twice;                  /* backward reports this parameter twice; -1: none */
    struct lk_bucket_plan plan; /* copy of the first step's plan */
    struct rig_call calls[RIG_CALLS_MAX];
    size_t n_calls;

    enum lk_status st; /* the result */
    char text[1024];
    double max_error, bound;
    void *note; /* free for a test's own use */
};

/* Sizes of the model's parameters, in registration order. */
extern const size_t rig_elems[RIG_PARAMS];
enum { RIG_LOCAL_BATCH = 2, RIG_CONTEXT = 4, RIG_VOCAB = 64, RIG_SAMPLES = 50 };

/* Run all ranks; `ranks` gets their results. The caller calls rig_free. */
void rig_run(const struct rig_case *config, struct rig_rank *ranks);
void rig_free(struct rig_rank *ranks, int n);

/* Return the model's gradient, in double, for a micro-batch and seed 1. */
double rig_gradient(size_t param, size_t i, double weight, const struct lk_batch *batch);

#endif
