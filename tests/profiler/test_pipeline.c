/*
 * The stragglers of a pipeline: schedules whose times have a closed form, and tables that make no
 * sense.
 */
#include "base/array.h"
#include "profiler/import/import.h"
#include "tests/rigs/analyzed.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"

/* ---- A schedule of two stages and two data-parallel ranks ---- */

enum { STAGES = 2, DP = 2, MICRO = 3 };

/* ms */
enum { FORWARD = 10, BACKWARD = 20, EMBED = 2, REDUCE = 5, CLIP = 1, OPTIMIZER = 4, DELAY = 3 };
enum { TAIL = EMBED + REDUCE + CLIP + OPTIMIZER };

static struct text {
    char bytes[1 << 16];
    size_t n;
} csv;

static void put(int dp, int stage, int step, const char *type, double start_ms, double end_ms,
                int seq)
{
    csv.n +=
        (size_t)snprintf(csv.bytes + csv.n, sizeof csv.bytes - csv.n,
                         "%d,%d,%d,%d,%s,%.9f,%.9f,%d,0,-1,-1\n", dp, stage, dp * STAGES + stage,
                         step, type, 100 + step + start_ms * 1e-3, (end_ms - start_ms) * 1e-3, seq);
    ck_assert_uint_lt(csv.n, sizeof csv.bytes);
}

static void begin(void)
{
    csv.n = (size_t)sprintf(csv.bytes, HEADER);
}

/*
 * Write the computes, sends and receives of one data-parallel rank by 1F1B, stage 1 `slow` times as
 * slow; a transfer takes wire_ms, and receives are posted as soon as the stage is idle. end_ms: the
 * last compute's of each stage.
 */
static void put_pipeline(int dp, int step, int micro, double slow, double wire_ms, double *end_ms)
{
    static const struct {
        int stage;
        bool forward;
        int micro;
    } order[] = {{0, true, 0},  {1, true, 0}, {0, true, 1},  {1, false, 0},
                 {0, false, 0}, {1, true, 1}, {0, true, 2},  {1, false, 1},
                 {0, false, 1}, {1, true, 2}, {1, false, 2}, {0, false, 2}};
    double done[STAGES][2][MICRO] = {{{0}}};

    end_ms[0] = end_ms[1] = 0;
    for (size_t i = 0; i < LK_COUNT(order); i++) {
        int s = order[i].stage, m = order[i].micro;
        bool forward = order[i].forward, first = forward == (s == 0);
        double time = (forward ? FORWARD : BACKWARD) * (s ? slow : 1), at = end_ms[s];

        if (m >= micro)
            continue;
        if (!(first && forward) && !(s == 1 && !forward)) {
            double sent = done[!s][forward][m];

            put(dp, !s, step, forward ? "forward-send" : "backward-send", sent, sent + wire_ms, m);
            put(dp, s, step, forward ? "forward-recv" : "backward-recv", fmin(at, sent),
                sent + wire_ms, m);
            at = fmax(at, sent + wire_ms);
        }
        put(dp, s, step, forward ? "forward-compute" : "backward-compute", at, at + time, m);
        done[s][forward][m] = end_ms[s] = at + time;
    }
}

/* Write a step; stage 1 of dp rank 1 is `slow` times as slow. */
static void put_step(int step, int micro, double slow, double wire_ms)
{
    double end[DP][STAGES], embedded[DP], reduced;

    for (int dp = 0; dp < DP; dp++)
        put_pipeline(dp, step, micro, dp ? slow : 1, wire_ms, end[dp]);
    for (int dp = 0; dp < DP; dp++)
        embedded[dp] = fmax(end[dp][0], end[dp][1]) + EMBED;
    reduced = fmax(embedded[0], embedded[1]) + REDUCE;
    for (int dp = 0; dp < DP; dp++)
        for (int s = 0; s < STAGES; s++) {
            put(dp, s, step, "embedding-grads-all-reduce", end[dp][s], embedded[dp], 0);
            put(dp, s, step, "grads-reduce-scatter", embedded[dp], reduced, 0);
            put(dp, s, step, "optimizer-clip-main-grad", reduced, reduced + CLIP, 0);
            put(dp, s, step, "optimizer", reduced + CLIP + DELAY,
                reduced + CLIP + DELAY + OPTIMIZER, 0);
        }
}

static enum lk_status try_text(const char *text, size_t n, struct analyzed *a)
{
    char *path = scratch_put("ops.csv", text, n);
    enum lk_status st = analyzed_read(path, a);

    free(path);
    return st;
}

#define assert_ms(seconds, ms) ck_assert_double_eq_tol((seconds)*1e3, ms, 1e-5)

/* Each stage-1 compute of dp rank 1 takes twice as long: 10 + 3 (20 + 40) + 20 ms there, and
 * typical computes, 1.25 times as long, take (3 + 2 - 1) (12.5 + 25) ms. */
START_TEST(one_slow_rank_in_closed_form)
{
    static const struct {
        enum lk_pipe_kind kind;
        int number;
        double step_ms;
    } want[] = {
        {LK_PIPE_BY_STAGE, 1, 12.5 + 180 + 25},
        {LK_PIPE_BY_STAGE, 0, 10 + 3 * 37.5 + 20},
        {LK_PIPE_BY_DP, 1, 210},
        {LK_PIPE_BY_DP, 0, 150},
        {LK_PIPE_BY_WORKER, 3, 12.5 + 180 + 25},
        {LK_PIPE_BY_WORKER, 2, 150},
        {LK_PIPE_BY_TYPE, LK_PIPE_FORWARD, 10 + 3 * (20 + 25) + 25},
        {LK_PIPE_BY_TYPE, LK_PIPE_BACKWARD, 12.5 + 3 * (12.5 + 40) + 20},
        {LK_PIPE_BY_TYPE, LK_PIPE_GRADS, 150},
    };
    struct analyzed a;

    begin();
    put_step(5, MICRO, 2, 0);
    must(try_text(csv.bytes, csv.n, &a));
    ck_assert_uint_eq(a.s.n_steps, 1);
    ck_assert_int_eq(a.s.steps[0].step, 5);
    assert_ms(a.s.measured_s, 210 + TAIL + DELAY);
    assert_ms(a.s.launched_s, 210 + TAIL);
    assert_ms(a.s.ideal_s, 150 + TAIL);
    for (size_t i = 0; i < LK_COUNT(want); i++) {
        const struct lk_pipe_cause *c = analyzed_cause(&a, want[i].kind, want[i].number);

        assert_ms(c->slowdown * a.s.ideal_s, want[i].step_ms + TAIL);
    }
    /* With this rank typical the other stage of its dp rank, still fast, ends early. */
    ck_assert_double_eq_tol(analyzed_cause(&a, LK_PIPE_BY_WORKER, 3)->share,
                            (210 - (10 + 3 * 37.5 + 20)) / (210. - 150), 1e-6);
    ck_assert_int_eq(a.s.causes[0].number, 1);
    analyzed_fini(&a);
}
END_TEST

/* Return a number of a table, or fail the test. */
static double cell(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    ck_assert(c && c->type == LK_CELL_NUMBER);
    return c->number;
}

/* One step of three is slow: the mean of 12 workers' computes is 13/12 of the usual. */
START_TEST(a_slow_step_is_transient)
{
    struct analyzed a;
    struct lk_table *t;
    const struct lk_pipe_cause *c;

    begin();
    put_step(7, MICRO, 1, 0);
    put_step(5, MICRO, 2, 0);
    put_step(9, MICRO, 1, 0);
    must(try_text(csv.bytes, csv.n, &a));
    ck_assert_uint_eq(a.s.n_steps, 3);
    ck_assert_int_eq(a.s.steps[0].step, 5);
    assert_ms(a.s.steps[0].launched_s, 210 + TAIL);
    assert_ms(a.s.steps[2].launched_s, 120 + TAIL);
    assert_ms(a.s.ideal_s, 130 + TAIL);
    assert_ms(a.s.launched_s, 150 + TAIL);
    c = analyzed_cause(&a, LK_PIPE_BY_WORKER, 3);
    ck_assert_uint_eq(c->n_worst, 1);
    ck_assert_int_eq(a.s.steps[0].worst[LK_PIPE_BY_WORKER], 3);
    ck_assert_int_eq(a.s.steps[1].worst[LK_PIPE_BY_WORKER], -1);
    ck_assert_double_gt(c->most, c->slowdown);
    must(lk_pipe_stragglers_table(&a.s, LK_PIPE_TABLE_STEP, &t));
    ck_assert_uint_eq(t->n_rows, 3);
    assert_ms(cell(t, 1, "mean_s"), 150 + TAIL);
    assert_ms(cell(t, 1, "min_s"), 120 + TAIL);
    ck_assert_double_eq_tol(cell(t, 1, "lost"), 20. / (150 + TAIL), 1e-9);
    lk_table_destroy(t);
    must(lk_pipe_stragglers_table(&a.s, LK_PIPE_TABLE_CAUSES, &t));
    ck_assert_str_eq(lk_table_cell(t, 0, "cause")->text, "1");
    ck_assert_str_eq(lk_table_cell(t, 0, "behaviour")->text, "transient");
    lk_table_destroy(t);
    must(lk_pipe_stragglers_table(&a.s, LK_PIPE_TABLE_STEPS, &t));
    ck_assert_str_eq(lk_table_cell(t, 0, "rank")->text, "3");
    ck_assert_int_eq(lk_table_cell(t, 2, "rank")->type, LK_CELL_EMPTY);
    lk_table_destroy(t);
    lk_pipe_stragglers_fini(&a.s);
    must(lk_pipe_stragglers(&a.replay, 5, &a.s));
    assert_ms(a.s.launched_s, 210 + TAIL);
    lk_pipe_stragglers_fini(&a.s);
    ck_assert_int_eq(lk_pipe_stragglers(&a.replay, 6, &a.s), LK_EUSAGE);
    analyzed_fini(&a);
}
END_TEST

/* A micro-batch passes the wire twice; what receives and collectives wait before is no transfer. */
START_TEST(transfers_are_without_waiting)
{
    struct analyzed a;

    begin();
    put_step(1, 1, 1, 7);
    must(try_text(csv.bytes, csv.n, &a));
    assert_ms(a.s.launched_s, 2 * (FORWARD + BACKWARD) + 2 * 7 + TAIL);
    assert_ms(a.s.ideal_s, 2 * (FORWARD + BACKWARD) + 2 * 7 + TAIL);
    for (size_t i = 0; i < a.ops.n; i++)
        if (lk_pipe_types[a.ops.ops[i].type].scope == LK_PIPE_PAIR)
            assert_ms(a.replay.actual_s[i], 7);
        else if (a.ops.ops[i].type == LK_PIPE_GRADS)
            assert_ms(a.replay.actual_s[i], REDUCE);
        else if (a.ops.ops[i].type == LK_PIPE_CLIP)
            assert_ms(a.replay.actual_s[i], CLIP);
    analyzed_fini(&a);
}
END_TEST

/* Typical communication is the median, so that a long transfer does not become typical. */
START_TEST(one_long_transfer_is_not_typical)
{
    struct analyzed a;

    begin();
    put_step(1, 1, 1, 7);
    put_step(2, 1, 1, 70);
    put_step(3, 1, 1, 7);
    must(try_text(csv.bytes, csv.n, &a));
    assert_ms(a.s.ideal_s, 2 * (FORWARD + BACKWARD) + 2 * 7 + TAIL);
    assert_ms(a.s.steps[1].launched_s, 2 * (FORWARD + BACKWARD) + 2 * 70 + TAIL);
    analyzed_fini(&a);
}
END_TEST

/*
 * Stage 1 receives its second micro-batch behind the forward of its first, which begins after 10 +
 * 70 ms and takes 20: 80 + 20 + 70 + 20 + 40 + 70 + 20 ms.
 */
START_TEST(receives_wait_for_the_compute_before)
{
    struct analyzed a;

    begin();
    put_step(1, 2, 2, 70);
    must(try_text(csv.bytes, csv.n, &a));
    assert_ms(a.s.launched_s, 320 + TAIL);
    analyzed_fini(&a);
}
END_TEST

/* Where clocks differ, a receive may end before its send begins: by 4 ms, which counts, since
 * another's time is too long by that; by 40 ms, which is a mistake. */
START_TEST(negative_transfers)
{
    static const char table[] =
        HEADER "0,0,0,1,forward-compute,0,1,0,0,0,0\n0,0,0,1,forward-send,1,0.1,0,-1,-1,-1\n"
               "0,1,1,1,forward-recv,0,0.996,0,-1,-1,-1\n0,1,1,1,forward-compute,2,1,0,0,0,1\n"
               "0,0,0,2,forward-compute,0,1,0,0,0,0\n0,0,0,2,forward-send,1,0.1,0,-1,-1,-1\n"
               "0,1,1,2,forward-recv,0,0.96,0,-1,-1,-1\n0,1,1,2,forward-compute,2,1,0,0,0,1\n";
    struct analyzed a;

    must(try_text(table, sizeof table - 1, &a));
    ck_assert_uint_eq(a.replay.n_negative, 1);
    assert_ms(a.s.steps[0].launched_s, 1996);
    assert_ms(a.s.steps[1].launched_s, 2000);
    analyzed_fini(&a);
}
END_TEST

/* A step whose operations do not fit is left out; the others are as before. */
START_TEST(incomplete_steps_are_counted)
{
    struct analyzed a;
    size_t n;

    begin();
    put_step(1, MICRO, 1, 0);
    n = csv.n;
    put_step(2, MICRO, 1, 0);
    csv.n = n;
    put(0, 0, 2, "forward-compute", 0, 1, 0);
    put(0, 0, 2, "data-load", 0, 1, 0);
    must(try_text(csv.bytes, csv.n, &a));
    ck_assert_uint_eq(a.s.n_steps, 1);
    ck_assert_uint_eq(a.replay.n_left_out, 1);
    ck_assert_str_eq(a.replay.left_out, "step 2: rank 1 has no operation");
    ck_assert_uint_eq(a.ops.n_unknown, 1);
    ck_assert_ptr_nonnull(strstr(a.ops.unknown, "'data-load' in line "));
    assert_ms(a.s.launched_s, 120 + TAIL);
    analyzed_fini(&a);
}
END_TEST

/* ---- Several chunks of the model on a stage ---- */

/* Write an operation of stage s and chunk c of two, which is chunk 2 c + s of the model. */
static void put_chunk(int s, int c, const char *type, double start_ms, double end_ms, int seq)
{
    csv.n += (size_t)snprintf(csv.bytes + csv.n, sizeof csv.bytes - csv.n,
                              "0,%d,%d,0,%s,%.9f,%.9f,%d,%d,0,%d\n", s, s, type, start_ms * 1e-3,
                              (end_ms - start_ms) * 1e-3, seq, c, 2 * c + s);
}

/*
 * One micro-batch passes four chunks on two stages and back. The parameters of stage 0's second
 * chunk arrive late, after 101 ms; gradients of a chunk are reduced, 30 ms, under other backwards.
 * With `borders` the profiler also has sends and receives at the ends of the model, and such before
 * the first backward and behind the last forward.
 */
static void put_chunks(bool borders)
{
    static const double at[] = {1, 11, 101, 111}; /* forward of a chunk of the model, ms */
    int n[2][4] = {{0}};
    double end = 121;

    begin();
    put_chunk(0, 0, "params-all-gather", 0, 1, 0);
    put_chunk(0, 1, "params-all-gather", 1, 101, 1);
    for (int g = 0; g < 4; g++)
        put_chunk(g % 2, g / 2, "forward-compute", at[g], at[g] + FORWARD, g / 2);
    for (int g = 0; g < 4; g++) {
        double sent = at[g] + FORWARD;

        if (borders && g == 0)
            put_chunk(0, 0, "forward-recv", 0, 0, n[0][0]++);
        if (borders || g < 3)
            put_chunk(g % 2, g / 2, "forward-send", sent, sent, n[g % 2][1]++);
        if (g < 3)
            put_chunk((g + 1) % 2, 0, "forward-recv", sent, sent, n[(g + 1) % 2][0]++);
    }
    if (borders) {
        put_chunk(1, 0, "forward-recv", end, end + 1, n[1][0]++);
        put_chunk(0, 0, "backward-send", 0, 1, n[0][3]++);
    }
    for (int g = 3; g >= 0; g--, end += BACKWARD) {
        put_chunk(g % 2, g / 2, "backward-compute", end, end + BACKWARD, 1 - g / 2);
        if (borders && g == 3)
            put_chunk(1, 1, "backward-recv", end, end, n[1][2]++);
        if (borders || g > 0)
            put_chunk(g % 2, g / 2, "backward-send", end + BACKWARD, end + BACKWARD, n[g % 2][3]++);
        if (g > 0)
            put_chunk((g + 1) % 2, 0, "backward-recv", end + BACKWARD, end + BACKWARD,
                      n[(g + 1) % 2][2]++);
    }
    for (int s = 0; s < 2; s++) {
        double last = end - (s ? BACKWARD : 0);

        put_chunk(s, 1, "grads-reduce-scatter", last - 2 * BACKWARD, last - 2 * BACKWARD + 30, 0);
        put_chunk(s, 0, "grads-reduce-scatter", last, last + 30, 1);
        put_chunk(s, 0, "gc", last, last, 0);
        put_chunk(s, 0, "layernorm-grads-all-reduce", last + 30, last + 31, 0);
        put_chunk(s, 0, "separate-grads-all-reduce", last + 31, last + 33, 0);
        put_chunk(s, 0, "optimizer", last + 33, last + 37, 0);
    }
}

START_TEST(chunks_take_turns)
{
    struct analyzed a;

    put_chunks(_i == 1);
    must(try_text(csv.bytes, csv.n, &a));
    ck_assert_uint_eq(a.ops.n_chunks, 2);
    assert_ms(a.s.measured_s, 101 + 2 * FORWARD + 4 * BACKWARD + 30 + 1 + 2 + OPTIMIZER);
    assert_ms(a.s.launched_s, 101 + 2 * FORWARD + 4 * BACKWARD + 30 + 1 + 2 + OPTIMIZER);
    analyzed_fini(&a);
}
END_TEST

/* ---- Tables that make no sense ---- */

#define OP "0,0,0,1,forward-compute,0,1,0,0,0,0\n"

static const struct {
    const char *text, *error; /* behind the path */
} bad[] = {
    {HEADER, ": there is no operation of a type that is known"},
    {HEADER "0,0,0,1,load,0,1,0,0,0,0\n",
     ": there is no operation of a type that is known ('load' in line 2)"},
    {"dp_rank,rank,step,optype,start_ts,duration,seq_id\n", ":1: there is no column 'stage'"},
    {HEADER "0,0,0,1,optimizer,nan,1,0,0,0,0\n",
     ":2: column 'start_ts': 'nan' is not a finite decimal number"},
    {HEADER "0,0,0,1,optimizer,0,-1,0,0,0,0\n", ":2: column 'duration': -1 is not from 0 to 1e+11"},
    {HEADER "0,0,0,1,optimizer,0,,0,0,0,0\n", ":2: column 'duration': "},
    {HEADER "0,0,0,1,optimizer,0,1,-1,0,0,0\n", ":2: column 'seq_id': "},
    {HEADER "0,70000,0,1,optimizer,0,1,0,0,0,0\n", ":2: column 'stage': "},
    {HEADER OP OP, ":3: operation 'forward-compute' 0 of rank 0 in step 1 is in line 2, too"},
    {HEADER OP "0,0,1,1,optimizer,0,1,0,0,0,0\n",
     ":3: ranks 1 and 0 (line 2) are both of dp rank 0, stage 0"},
    {HEADER OP "1,0,0,1,optimizer,0,1,0,0,0,0\n",
     ": rank 0 is of dp rank 0, stage 0, and of dp rank 1, stage 0"},
    {HEADER OP "0,2,2,1,optimizer,0,1,0,0,0,0\n0,0,0,1,optimizer,0,1,0,0,0,0\n",
     ": there is no operation of dp rank 0, stage 1"},
    {HEADER OP "0,60000,2,1,optimizer,0,1,0,0,0,0\n",
     ": has 1 dp ranks, 60001 stages, and only 2 operations"},
    {HEADER "0,0,0,1,gc,0,0,0,0,0,0\n", ": its typical step takes no time"},
    {HEADER OP "0,0,0,1,forward-send,1,1,0,0,0,0\n",
     ": no step fits together; step 1: rank 0 has 1 'forward-send' for 0 computes"},
    {HEADER OP "1,0,1,1,forward-compute,0,1,0,0,0,0\n0,0,0,1,params-all-gather,0,1,0,0,0,0\n",
     ": no step fits together; step 1: rank 1 has 0 'params-all-gather', rank 0 has 1"},
    {HEADER "0,0,0,1,forward-compute,5,1,0,0,0,0\n0,0,0,1,forward-send,6,1,0,-1,-1,-1\n"
            "0,0,0,1,backward-compute,0,1,0,0,0,0\n0,0,0,1,backward-recv,0,1,0,-1,-1,-1\n"
            "0,1,1,1,forward-compute,1,1,0,0,0,1\n0,1,1,1,forward-recv,0,1,0,-1,-1,-1\n"
            "0,1,1,1,backward-compute,3,1,0,0,0,1\n0,1,1,1,backward-send,4,1,0,-1,-1,-1\n",
     ": no step fits together; step 1: 'forward-compute' in line 2 waits for itself"},
};

START_TEST(bad_tables_are_refused)
{
    char *start;
    struct analyzed a;

    ck_assert_int_ne(try_text(bad[_i].text, strlen(bad[_i].text), &a), LK_OK);
    start = strstr(lk_error_text(), "ops.csv");
    ck_assert_msg(start && !strncmp(start + 7, bad[_i].error, strlen(bad[_i].error)), "%s",
                  lk_error_text());
    analyzed_fini(&a);
}
END_TEST

/* The table is told by its header, and import says what to do with it. */
START_TEST(format_is_told)
{
    char *path = scratch_put("ops.csv.gz", HEADER OP, strlen(HEADER OP));
    const char *paths[] = {path};
    char **files;
    size_t n;

    ck_assert(lk_import_is_pipeline(path));
    ck_assert_int_eq(lk_import_files(paths, 1, &files, &n), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "lockstep analyze"));
    free(path);
    path = scratch_put("coll.csv", "collective,gpus,nodes,bytes,seconds\n", 36);
    ck_assert(!lk_import_is_pipeline(path));
    free(path);
}
END_TEST

SUITE(pipeline, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, one_slow_rank_in_closed_form);
    tcase_add_test(tests, a_slow_step_is_transient);
    tcase_add_test(tests, transfers_are_without_waiting);
    tcase_add_test(tests, one_long_transfer_is_not_typical);
    tcase_add_test(tests, receives_wait_for_the_compute_before);
    tcase_add_test(tests, negative_transfers);
    tcase_add_test(tests, incomplete_steps_are_counted);
    tcase_add_loop_test(tests, chunks_take_turns, 0, 2);
    tcase_add_loop_test(tests, bad_tables_are_refused, 0, (int)LK_COUNT(bad));
    tcase_add_test(tests, format_is_told);
}
