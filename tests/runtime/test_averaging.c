/* Averaging of parameters: when it is due, and what it makes of given weights, over tcp. */
#include "runtime/train/averaging.h"

#include "base/array.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <string.h>

/* PyTorch 2's PeriodicModelAverager: step >= warmup_steps and (step - warmup_steps) % period == 0;
 * DiLoCo's rounds have `period` steps. The last step averages too. */
static const struct {
    enum lk_sharding scheme;
    int period;
    int64_t warmup;
    const char *due; /* of 10 steps */
} rules[] = {
    {LK_SHARDING_DDP, 1, 0, ".........."},       {LK_SHARDING_ZERO1, 1, 0, ".........."},
    {LK_SHARDING_LOCAL_SGD, 1, 0, "xxxxxxxxxx"}, {LK_SHARDING_LOCAL_SGD, 4, 0, "x...x...xx"},
    {LK_SHARDING_LOCAL_SGD, 3, 2, "..x..x..xx"}, {LK_SHARDING_LOCAL_SGD, 1, 7, ".......xxx"},
    {LK_SHARDING_DILOCO, 1, 0, "xxxxxxxxxx"},    {LK_SHARDING_DILOCO, 4, 0, "...x...x.x"},
    {LK_SHARDING_DILOCO, 3, 2, "....x..x.x"},
};

START_TEST(is_due_by_the_rule)
{
    const struct lk_averaging_config c = {rules[_i].scheme, rules[_i].period, rules[_i].warmup, 1,
                                          0};

    for (int step = 0; step < 10; step++)
        ck_assert_msg(lk_averaging_is_due(&c, step, 10) == (rules[_i].due[step] == 'x'), "step %d",
                      step);
}
END_TEST

enum { ELEMS = 37, ROUNDS = 5 };

/* Return by how much a rank's training moves a weight in a round. */
static double moved(int rank, int round, int i)
{
    return 0.01 * sin(1.0 + rank + 3.0 * round + 0.7 * i);
}

static const struct {
    struct lk_averaging_config config;
    int ranks;
} cases[] = {
    {{LK_SHARDING_LOCAL_SGD, 2, 0, 0, 0}, 1},  {{LK_SHARDING_LOCAL_SGD, 2, 0, 0, 0}, 2},
    {{LK_SHARDING_LOCAL_SGD, 1, 0, 0, 0}, 3},  {{LK_SHARDING_DILOCO, 2, 0, 0.7, 0.9}, 1},
    {{LK_SHARDING_DILOCO, 2, 0, 0.7, 0.9}, 3}, {{LK_SHARDING_DILOCO, 2, 0, 1, 0}, 2},
};

static enum lk_status average(struct rank *me)
{
    const struct lk_averaging_config *c = &cases[*(int *)me->ctx].config;
    const struct lk_device_config dc = {.slowdown = 1};
    const struct lk_track_info track = {.name = "stream", .kind = LK_TRACK_COMPUTE};
    struct lk_store *store = NULL;
    struct lk_comm *comm = NULL;
    struct lk_device *d = NULL;
    struct lk_stream *compute = NULL, *net = NULL;
    struct lk_averaging *a = NULL;
    void *memory = NULL;
    double want[ELEMS], momentum[ELEMS] = {0};
    float *weights;
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_open("cpu", &dc, &d));
    LK_TRY(lk_stream_create(d, &track, &compute));
    LK_TRY(lk_stream_create(d, &track, &net));
    LK_TRY(rank_open_tcp(me, 0, WAIT_PLENTY_NS, &store, &comm));
    LK_TRY(lk_device_alloc(d, sizeof(float[ELEMS]), &memory));
    weights = memory;
    for (int i = 0; i < ELEMS; i++)
        want[i] = weights[i] = (float)i;
    LK_TRY(lk_averaging_create(c, comm, compute, net, weights, sizeof(float[ELEMS]), false, &a));
    LK_TRY(lk_stream_sync(compute, lk_deadline_in(WAIT_PLENTY_NS)));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ELEMS; i++) {
            double mean = 0, d_i;

            for (int r = 0; r < me->world_size; r++)
                mean += (want[i] + moved(r, round, i)) / me->world_size;
            weights[i] = (float)(want[i] + moved(me->rank, round, i));
            d_i = want[i] - mean;
            momentum[i] = c->outer_momentum * momentum[i] + d_i;
            want[i] = c->scheme == LK_SHARDING_DILOCO
                          ? want[i] - c->outer_rate * (d_i + c->outer_momentum * momentum[i])
                          : mean;
        }
        LK_TRY(lk_averaging_enqueue(a));
        LK_TRY(lk_stream_sync(compute, lk_deadline_in(WAIT_PLENTY_NS)));
        for (int i = 0; i < ELEMS; i++) /* roundings of numbers up to 37, some a round */
            if (fabs((double)weights[i] - want[i]) > 37 * 0x1p-23 * (round + 2))
                LK_TRY(lk_fail(LK_EVERIFY, "round %d: weight %d is %.9g, not %.9g", round, i,
                               (double)weights[i], want[i]));
    }
out:
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_averaging_destroy(a);
    lk_comm_close(comm);
    if (d)
        lk_device_free(d, memory);
    lk_device_close(d);
    lk_store_close(store);
    return st;
}

START_TEST(averages_by_the_formula)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(cases[_i].ranks, WAIT_PLENTY_NS, average, &_i, ranks);
    for (int r = 0; r < cases[_i].ranks; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}
END_TEST

static const struct {
    struct lk_averaging_config config;
    bool masters;
    enum lk_status st;
} bad[] = {
    {{LK_SHARDING_LOCAL_SGD, 0, 0, 0, 0}, false, LK_EUSAGE},
    {{LK_SHARDING_LOCAL_SGD, 1, -1, 0, 0}, false, LK_EUSAGE},
    {{LK_SHARDING_DILOCO, 1, 0, 0, 0.9}, false, LK_EUSAGE},
    {{LK_SHARDING_DILOCO, 1, 0, 0.7, 1}, false, LK_EUSAGE},
    {{LK_SHARDING_LOCAL_SGD, 1, 0, 0, 0}, true, LK_EUNSUPPORTED},
};

START_TEST(refuses_bad_values)
{
    struct lk_averaging *a = NULL;

    ck_assert_int_eq(
        lk_averaging_create(&bad[_i].config, NULL, NULL, NULL, NULL, 0, bad[_i].masters, &a),
        bad[_i].st);
    ck_assert_ptr_null(a);
}
END_TEST

SUITE(averaging, tc)
{
    tcase_add_loop_test(tc, is_due_by_the_rule, 0, LK_COUNT(rules));
    tcase_add_loop_test(tc, averages_by_the_formula, 0, LK_COUNT(cases));
    tcase_add_loop_test(tc, refuses_bad_values, 0, LK_COUNT(bad));
}
