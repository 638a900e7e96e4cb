/* The state of sharded training. Private to its set-up (sharded.c), its steps (sharded_step.c) and
 * what makes it whole (sharded_whole.c). */
#ifndef LK_RUNTIME_SHARDED_IMPL_H
#define LK_RUNTIME_SHARDED_IMPL_H

#include "facts/sharding.h"
#include "runtime/train/exchange.h"
#include "runtime/train/reducer.h"

/* A buffer that holds one unit at a time. */
struct slot {
    char *at;
    bool held;             /* by a unit, in the order of the host's work */
    struct lk_event *free; /* recorded where the last unit's work on it ends */
    uint64_t freed;        /* number of that release, from 1; 0: never used */
};

struct pool {
    struct slot *slots; /* room for one a unit; the first n are there */
    size_t n;
    size_t spare; /* released slots that are left to finish before one is taken again */
    uint64_t releases;
};

struct unit {
    size_t elems;           /* of its parameters */
    size_t shard;           /* elements of a shard; ranks of the group times that is the unit */
    size_t whole_at, at;    /* its first element among whole units, and its shard's among shards */
    size_t open;            /* parameters that the pass in progress is not done with; 0: closed */
    size_t pending;         /* gradients not yet ready in this backward */
    bool launched;          /* its gather, for this pass */
    struct slot *values;    /* NULL: whole in place, or not gathered */
    struct slot *gradients; /* NULL: whole in place, or none */
    struct lk_event *asked, *gathered, *ready;
};

struct sharded {
    struct lk_exchange base;
    struct lk_reducer_config config;
    const struct lk_sharding_traits *traits;
    struct lk_model *model;
    struct lk_device *device;
    enum lk_dtype dtype;
    size_t real_bytes, wide_bytes;
    int ranks;
    size_t sharers, own;                 /* ranks of a group; this one's place, that is its shard */
    struct lk_rank_group group, replica; /* replica.n 1: no shard has another copy */
    uint32_t step;
    int micro_batch, micro_batches; /* the one in progress, and those of the step */

    struct lk_bucket_plan plan; /* bucket: unit */
    struct unit *units;
    size_t *unit_of, *offset_of; /* by parameter: its unit, and its first element there */
    size_t whole_elems, shard_elems;
    bool values_whole, gradients_whole; /* in place, not in slots */
    char *values, *gradients, *sums; /* gradients NULL: in slots, and then sums are the shards' */
    char *masters;                   /* exact weights of own shards; NULL: values are exact */
    struct pool value_slots, gradient_slots;

    struct lk_param *params; /* owned pieces */
    struct lk_piece *pieces;
    size_t n_pieces;

    bool backward; /* the pass in progress */
    bool reduces;  /* this micro-batch's gradients are reduced, in the group, */
    bool crosses;  /* and among replicas */
    size_t n_ready;
    size_t next; /* unit that is reduced next */
    bool *seen;
    struct lk_event *before; /* the collective before (PARTIAL); the backward's end (NONE) */
    struct lk_event *done;   /* on the net stream */
    bool launched_any;       /* in this step */

    /* lk_exchange_whole gathered these. */
    char *whole_values, *whole_masters, *whole_gradients, *whole_states;
};

/* Whole units' elements, and own shards', of values and of gradients. pre: a unit in slots has
 * one. */
char *lk_sharded_whole_values(const struct sharded *s, const struct unit *u);
char *lk_sharded_own_values(const struct sharded *s, const struct unit *u);
char *lk_sharded_whole_gradients(const struct sharded *s, const struct unit *u);
char *lk_sharded_own_gradients(const struct sharded *s, const struct unit *u);
/* Point the parameters of a unit to its whole values, exact weights and gradients; NULL: nowhere.
 */
void lk_sharded_point_values(struct sharded *s, size_t unit, char *whole);
void lk_sharded_point_masters(struct sharded *s, size_t unit, char *whole);
void lk_sharded_point_gradients(struct sharded *s, size_t unit, char *whole);
void lk_sharded_destroy(struct lk_exchange *e);

/* ---- sharded_step.c ---- */
enum lk_status lk_sharded_step_begin(struct lk_exchange *e, uint32_t step, int n);
enum lk_status lk_sharded_forward_begin(struct lk_exchange *e, int micro_batch);
enum lk_status lk_sharded_backward_begin(struct lk_exchange *e, int micro_batch);
struct lk_grad_hook lk_sharded_hook(struct lk_exchange *e);
struct lk_use_hook lk_sharded_uses(struct sharded *s);
/* pre: the scheme's passes gather nothing. */
enum lk_status lk_sharded_shadow(struct lk_exchange *e);
enum lk_status lk_sharded_backward_end(struct lk_exchange *e);
enum lk_status lk_sharded_updated(struct lk_exchange *e);
enum lk_status lk_sharded_add_up(struct lk_exchange *e, lk_wide *x);

/* ---- sharded_whole.c ---- */
enum lk_status lk_sharded_whole(struct lk_exchange *e, int what, const struct lk_optim *o);
void lk_sharded_part(struct lk_exchange *e);
const void *lk_sharded_weights(const struct lk_exchange *e, size_t *out_bytes);
lk_wide *lk_sharded_state(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                          size_t param);

#endif
