/* Calibration: slowdowns, tables and cluster numbers from made-up times, exactly. */
#include "base/array.h"
#include "commands/calibrate.h"
#include "runtime/probe/probe_impl.h"
#include "sim/calibration.h"
#include "sim/collective/coll_points.h"
#include "sim/prior.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tol = 1e-12;

/* ---- Overlap ---- */

START_TEST(units_inside_the_window_count)
{
    static const uint64_t points[] = {100, 200, 320, 440, 560, 660, 760};
    static const struct {
        uint64_t from, to;
        double unit_ns; /* 0: none */
    } windows[] = {
        {200, 560, 120}, {190, 570, 120},                /* the units at its ends are not whole */
        {210, 570, 120}, {100, 760, 110}, {330, 430, 0}, /* within a unit */
        {600, 761, 0},                                   /* the units end before it */
        {200, 320, 120},
    };

    for (size_t i = 0; i < LK_COUNT(windows); i++) {
        double s = lk_overlap_unit_s(points, LK_COUNT(points), windows[i].from, windows[i].to);

        if (windows[i].unit_ns > 0)
            ck_assert_double_eq_tol(s, windows[i].unit_ns * 1e-9, 1e-15);
        else
            ck_assert_msg(isnan(s), "window %zu", i);
    }
    ck_assert(isnan(lk_overlap_unit_s(points, 1, 100, 100)));
}
END_TEST

/* Two repetitions of known slowdowns: 25 % while waiting, 50 % and 10 % while moving bytes. */
struct script {
    int calls[5];  /* quiet, wait, traffic, both, lengthen */
    int short_for; /* repetitions that come out too short */
    int fail_at;   /* this call of any kind fails, from 1 */
    int late;
    double quiet_s;
};

static enum lk_status scripted(struct script *s, int kind)
{
    int n = 0;

    s->calls[kind]++;
    for (int i = 0; i < 4; i++)
        n += s->calls[i];
    return n == s->fail_at ? lk_fail(LK_EPEER, "rank 1 was lost") : LK_OK;
}

static enum lk_status quiet(void *ctx, double *out_s)
{
    struct script *s = ctx;

    s->quiet_s += 0.01; /* of another length each time */
    *out_s = s->quiet_s;
    return scripted(s, 0);
}

static enum lk_status waiting(void *ctx, int late, double *out_s)
{
    struct script *s = ctx;

    s->late = late;
    *out_s = 1.25 * s->quiet_s;
    return scripted(s, 1);
}

static enum lk_status traffic(void *ctx, size_t calls, double *out_s)
{
    *out_s = 0.001 * (double)calls;
    return scripted(ctx, 2);
}

static enum lk_status both(void *ctx, size_t calls, double *out_traffic_s, double *out_compute_s)
{
    struct script *s = ctx;

    *out_traffic_s = 0.0011 * (double)calls;
    *out_compute_s = s->short_for > 0 ? NAN : 1.5 * s->quiet_s;
    return scripted(s, 3);
}

static void lengthen(void *ctx)
{
    struct script *s = ctx;

    s->calls[4]++;
    s->short_for--;
}

static const struct lk_overlap_ops by_script = {
    .quiet = quiet, .wait = waiting, .traffic = traffic, .both = both, .lengthen = lengthen};
static const struct lk_overlap_plan two_repetitions = {
    .effort.repetitions = 2, .effort.warmup = 1, .target_s = 0.02, .bytes = 4096};

static struct lk_comm *open_self(void)
{
    struct lk_comm *c = NULL;

    ck_assert_int_eq(lk_comm_open("self", &(struct lk_comm_config){.world_size = 1}, &c), LK_OK);
    return c;
}

START_TEST(known_slowdowns_come_back)
{
    struct script s = {.short_for = 2};
    struct lk_probe_overlap o = {0};
    struct lk_comm *c = open_self();

    ck_assert_int_eq(lk_overlap_measure(c, &by_script, &s, &two_repetitions, &o), LK_OK);
    ck_assert_uint_eq(o.n, 3);
    ck_assert_uint_eq(o.warmup, 1);
    ck_assert_uint_eq(o.bytes, 4096);
    for (size_t i = 0; i < o.n; i++) {
        ck_assert_double_eq_tol(o.gamma_wait[i], 0.25, tol);
        ck_assert_double_eq_tol(o.gamma_wire[i], 0.5, tol);
        ck_assert_double_eq_tol(o.delta[i], 0.1, 1e-9);
        ck_assert_double_eq_tol(o.call_s[i], 0.001, tol);
    }
    ck_assert_int_eq(s.late, -1);
    ck_assert_int_eq(s.calls[4], 2);     /* lengthened once for each that was too short... */
    ck_assert_int_eq(s.calls[0], 3 + 2); /* ...and done again */
    lk_probe_overlap_fini(&o);
    lk_comm_close(c);
}
END_TEST

START_TEST(overlap_that_cannot_be_had_is_an_error)
{
    struct script s = {.short_for = 1000};
    struct lk_overlap_ops once = by_script;
    struct lk_probe_overlap o = {0};
    struct lk_comm *c = open_self();

    ck_assert_int_eq(lk_overlap_measure(c, &by_script, &s, &two_repetitions, &o), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "overlap"));
    once.lengthen = NULL;
    s = (struct script){.short_for = 1};
    ck_assert_int_eq(lk_overlap_measure(c, &once, &s, &two_repetitions, &o), LK_EEVIDENCE);
    for (int n = 1; n <= 2 + 4 * 3; n++) { /* two to choose the calls, then every phase */
        s = (struct script){.fail_at = n};
        ck_assert_int_eq(lk_overlap_measure(c, &by_script, &s, &two_repetitions, &o), LK_EPEER);
        ck_assert_ptr_null(o.gamma_wait);
    }
    lk_comm_close(c);
}
END_TEST

/* The late rank never waited; for the other figures all ranks count. */
START_TEST(slowdowns_are_means_over_ranks)
{
    enum { WORLD = 3, LATE = 1 };
    double wait[1], wire[1], delta[1], call[1];
    struct lk_probe_overlap o = {
        .gamma_wait = wait, .gamma_wire = wire, .delta = delta, .call_s = call};
    double all[WORLD][LK_OVERLAP_PHASES] = {
        {1, 1.1, 2, 2.4, 1.3, 0}, {2, 9, 2, 2.2, 2.4, 0}, {4, 4.8, 2, 2.0, 4.0, 0}};

    ck_assert(lk_overlap_keep(&o, &all[0][0], WORLD, LATE, 4));
    ck_assert_double_eq_tol(wait[0], (0.1 + 0.2) / 2, tol);
    ck_assert_double_eq_tol(wire[0], (0.3 + 0.2 + 0) / 3, tol);
    ck_assert_double_eq_tol(delta[0], (0.2 + 0.1 + 0) / 3, tol);
    ck_assert_double_eq_tol(call[0], 2.0 / 4, tol);
    ck_assert_uint_eq(o.n, 1);
    all[LATE][LK_OVERLAP_WAIT] = NAN; /* it does not matter... */
    o.n = 0;
    ck_assert(lk_overlap_keep(&o, &all[0][0], WORLD, LATE, 4));
    all[0][LK_OVERLAP_WAIT] = NAN; /* ...but of the others it does */
    o.n = 0;
    ck_assert(!lk_overlap_keep(&o, &all[0][0], WORLD, LATE, 4));
    ck_assert_uint_eq(o.n, 0);
}
END_TEST

/* ---- Tables ---- */

static double number(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    ck_assert_msg(c && c->type == LK_CELL_NUMBER, "%s of row %zu", column, row);
    return c->number;
}

static const char *word(const struct lk_table *t, size_t row, const char *column)
{
    const struct lk_cell *c = lk_table_cell(t, row, column);

    ck_assert_msg(c && c->type == LK_CELL_TEXT, "%s of row %zu", column, row);
    return c->text;
}

enum { RANKS = 8, SAMPLES = 4 };
static const double BYTES = 1 << 20;

/* Fill a row with equal samples but for the first, the warm-up. */
static void fill_row(struct lk_probe_row *r, enum lk_coll coll, bool out_of_place, double time_s)
{
    *r = (struct lk_probe_row){.coll = coll,
                               .timing = LK_TIMING_BACK_TO_BACK,
                               .dtype = LK_BF16,
                               .out_of_place = out_of_place,
                               .bytes = (uint64_t)BYTES,
                               .ranks = RANKS,
                               .estimate_s = out_of_place ? NAN : 42e-6,
                               .burst = 3,
                               .warmup = 1,
                               .n = SAMPLES,
                               .n_late = 2};
    r->time_s = calloc(SAMPLES, sizeof(double));
    r->wire_s = calloc(SAMPLES, sizeof(double));
    r->host_s = calloc(SAMPLES, sizeof(double));
    for (int i = 0; i < SAMPLES; i++) {
        r->time_s[i] = i ? time_s : 1;
        r->host_s[i] = i ? 2 * time_s : 1;
        r->wire_s[i] = time_s / 4; /* only of rows that are timed alone, or on streams */
    }
}

/* only for rows that are timed alone, or on streams */
static const struct {
    enum lk_coll coll;
    double factor;
} busbw[] = {
    {LK_ALL_REDUCE, 2.0 * (RANKS - 1) / RANKS},
    {LK_REDUCE_SCATTER, 1.0 * (RANKS - 1) / RANKS},
    {LK_ALL_GATHER, 1.0 * (RANKS - 1) / RANKS},
    {LK_BROADCAST, 1},
};
enum { COLLS = sizeof busbw / sizeof *busbw };

static struct lk_probe_rows make_rows(void)
{
    struct lk_probe_rows rows = {.n = (size_t)2 * COLLS};

    rows.row = calloc(rows.n, sizeof *rows.row);
    for (size_t i = 0; i < COLLS; i++) {
        fill_row(&rows.row[2 * i], busbw[i].coll, false, 10e-6);
        fill_row(&rows.row[2 * i + 1], busbw[i].coll, true, 20e-6);
    }
    return rows;
}

static void check_collectives(const struct lk_table *t, size_t first)
{
    for (size_t i = 0; i < COLLS; i++) {
        size_t row = first + i;

        ck_assert_str_eq(word(t, row, "collective"), lk_coll_name(busbw[i].coll));
        ck_assert_str_eq(word(t, row, "dtype"), "bfloat16");
        ck_assert_double_eq_tol(number(t, row, "in_time_s"), 10e-6, tol);
        ck_assert_double_eq_tol(number(t, row, "in_algbw_Bps"), BYTES / 10e-6, 1);
        ck_assert_double_eq_tol(number(t, row, "in_busbw_Bps"), BYTES / 10e-6 * busbw[i].factor, 1);
        ck_assert_double_eq_tol(number(t, row, "out_time_s"), 20e-6, tol);
        ck_assert_double_eq_tol(number(t, row, "out_algbw_Bps"), BYTES / 20e-6, 1);
        ck_assert_double_eq_tol(number(t, row, "out_busbw_Bps"), BYTES / 20e-6 * busbw[i].factor,
                                1);
        ck_assert_double_eq_tol(number(t, row, "host_s"), 20e-6, tol);
        ck_assert_double_eq_tol(number(t, row, "estimate_s"), 42e-6, tol);
        ck_assert_double_eq(number(t, row, "n"), SAMPLES - 1);
        ck_assert_double_eq(number(t, row, "host_late"), 2);
    }
}

START_TEST(collectives_are_shown_as_nccl_tests_does)
{
    struct lk_probe_rows rows = make_rows();
    struct calibrate_tables t, all;
    char *text;
    size_t size;

    ck_assert_int_eq(calibrate_tables_create(&t), LK_OK);
    ck_assert_int_eq(calibrate_show_collectives(&t, &rows), LK_OK);
    ck_assert_uint_eq(t.table[CALIBRATE_COLLECTIVES]->n_rows, COLLS);
    check_collectives(t.table[CALIBRATE_COLLECTIVES], 0);
    /* Passed to the launcher twice: rows add up, notes do not. */
    ck_assert_int_eq(calibrate_tables_create(&all), LK_OK);
    ck_assert_int_eq(calibrate_tables_write(&t, &text, &size), LK_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(calibrate_tables_append(&all, text, size) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(all.table[CALIBRATE_COLLECTIVES]->n_rows, 2 * COLLS);
    ck_assert_uint_eq(all.table[CALIBRATE_COLLECTIVES]->n_notes,
                      t.table[CALIBRATE_COLLECTIVES]->n_notes);
    check_collectives(all.table[CALIBRATE_COLLECTIVES], COLLS);
    calibrate_tables_fini(&t);
    calibrate_tables_fini(&all);
    lk_probe_rows_fini(&rows);
    free(text);
}
END_TEST

/* DDP reduces in place, and a cluster file's points have no element type. */
START_TEST(points_are_those_in_place_of_the_first_type)
{
    struct lk_probe_rows rows = make_rows();
    struct lk_cluster c;

    rows.row[2].dtype = LK_F32; /* of the second collective */
    lk_cluster_init(&c);
    ck_assert_int_eq(lk_calibration_add_points(&rows, 1, &c), LK_OK);
    ck_assert_uint_eq(c.n_points, COLLS - 1);
    for (size_t i = 0; i < c.n_points; i++)
        ck_assert_double_eq_tol(c.points[i].time_s.value, 10e-6, tol);
    ck_assert_int_eq(c.points[1].coll, LK_ALL_GATHER);
    lk_cluster_fini(&c);
    lk_probe_rows_fini(&rows);
}
END_TEST

START_TEST(the_samples_of_a_row)
{
    struct lk_probe_row r;

    fill_row(&r, LK_ALL_REDUCE, false, 8e-6);
    ck_assert_ptr_eq(lk_calibration_samples(&r), r.time_s + r.warmup);
    r.on_stream = true;
    ck_assert_ptr_eq(lk_calibration_samples(&r), r.wire_s + r.warmup);
    r.on_stream = false;
    r.timing = LK_TIMING_ALONE;
    ck_assert_ptr_eq(lk_calibration_samples(&r), r.wire_s + r.warmup);
    free(r.time_s);
    free(r.wire_s);
    free(r.host_s);
}
END_TEST

/* What other work may have slowed gets as wide an interval, what it made up is unknown. */
START_TEST(a14_a_disturbed_calibration_is_wider)
{
    struct lk_cluster c;

    lk_cluster_init(&c);
    ck_assert_int_eq(lk_alloc(&c.points, 1, sizeof *c.points), LK_OK);
    c.n_points = 1;
    c.points[0].time_s = lk_quantity_none();
    ck_assert_int_eq(lk_quantity_set(&c.points[0].time_s, 3e-3, 2.8e-3, 3.2e-3, 9, "test"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&c.rank_sd, 0.7, 0.5, 0.9, 9, "test"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&c.gamma_wire, 0.7, 0.5, 0.9, 9, "test"), LK_OK);
    ck_assert_int_eq(lk_calibration_disturbed(&c, 0.5), LK_OK);
    ck_assert_double_eq_tol(c.points[0].time_s.value, 3e-3, 1e-12);
    ck_assert_double_eq_tol(c.points[0].time_s.lo, 1.4e-3, 1e-12);
    ck_assert_double_eq_tol(c.points[0].time_s.hi, 6.4e-3, 1e-12);
    ck_assert_ptr_nonnull(strstr(c.points[0].time_s.source, "other work took 50 %"));
    ck_assert(!lk_quantity_known(&c.rank_sd) && !lk_quantity_known(&c.gamma_wire));
    lk_cluster_fini(&c);
}
END_TEST

/* One sample has no interval: who reads it assumes one. */
START_TEST(a14_one_sample_has_no_interval)
{
    double samples[] = {5e-3};
    struct lk_probe_row row = {.coll = LK_ALL_REDUCE,
                               .timing = LK_TIMING_ALONE,
                               .bytes = 4096,
                               .ranks = 2,
                               .wire_s = samples,
                               .time_s = samples,
                               .n = 1};
    const struct lk_probe_rows rows = {&row, 1};
    struct lk_cluster c;

    lk_cluster_init(&c);
    ck_assert_int_eq(lk_calibration_add_points(&rows, 1, &c), LK_OK);
    ck_assert_uint_eq(c.points[0].time_s.n, 1);
    ck_assert_double_nan(c.points[0].time_s.lo);
    ck_assert_double_nan(c.points[0].time_s.hi);
    ck_assert_double_eq_tol(lk_prior_log_sd(&c.points[0].time_s),
                            lk_prior_value(LK_PRIOR_SAMPLE_SD), 1e-12);
    lk_cluster_fini(&c);
}
END_TEST

static struct lk_rate_row rate_row(enum lk_rate_kind kind, uint64_t bytes, double time_s)
{
    struct lk_rate_row r = {.kind = kind,
                            .bytes = bytes,
                            .shape = {"square", 100, 200, 300},
                            .dtype = LK_BF16,
                            .burst = 1,
                            .n = 3};

    r.time_s = calloc(3, sizeof(double));
    for (int i = 0; i < 3; i++)
        r.time_s[i] = time_s;
    return r;
}

START_TEST(rates_are_work_over_time)
{
    struct lk_rate_row row[] = {rate_row(LK_RATE_DEVICE_TO_DEVICE, 1000, 1e-9),
                                rate_row(LK_RATE_DEVICE_TO_DEVICE, 4000, 2e-6),
                                rate_row(LK_RATE_HOST_TO_DEVICE, 4000, 1e-9),
                                rate_row(LK_RATE_PRODUCT, 0, 1e-3),
                                rate_row(LK_RATE_PRODUCT, 0, 2e-3)};
    struct lk_rate_rows rows = {row, LK_COUNT(row)};
    struct calibrate_tables t;
    struct lk_cluster c;

    row[4].n = 0; /* did not fit */
    lk_cluster_init(&c);
    ck_assert_int_eq(calibrate_tables_create(&t), LK_OK);
    ck_assert_int_eq(lk_calibration_add_rates(&rows, &c), LK_OK);
    ck_assert_double_eq_tol(c.device.flops.value, 2 * 100 * 200 * 300 / 1e-3, 1e-3);
    ck_assert_ptr_nonnull(strstr(c.device.flops.source, "square, 100 x 200 x 300, in bfloat16"));
    /* The rate counts a read and a write per byte copied, and excludes
     * copies that stay in a cache. */
    ck_assert_double_eq_tol(c.device.memory_Bps.value, 2 * 4000 / 2e-6, 1e-3);
    ck_assert_ptr_nonnull(strstr(c.device.memory_Bps.source, "4000 bytes"));
    ck_assert_int_eq(calibrate_show_rates(&t, &rows), LK_OK);
    ck_assert_uint_eq(t.table[CALIBRATE_COPIES]->n_rows, 3);
    ck_assert_double_eq_tol(number(t.table[CALIBRATE_COPIES], 1, "rate_Bps"), 4000 / 2e-6, 1e-3);
    ck_assert_uint_eq(t.table[CALIBRATE_PRODUCTS]->n_rows, 1);
    ck_assert_double_eq_tol(number(t.table[CALIBRATE_PRODUCTS], 0, "rate_flops"), 12e6 / 1e-3,
                            1e-3);
    ck_assert_ptr_nonnull(strstr(t.table[CALIBRATE_PRODUCTS]->notes[0], "not enough memory"));
    for (size_t i = 0; i < LK_COUNT(row); i++)
        free(row[i].time_s);
    calibrate_tables_fini(&t);
    lk_cluster_fini(&c);
}
END_TEST

/* No device has a collective or a bucket of zero bytes among its defaults. */
START_TEST(every_device_has_defaults)
{
    static const uint64_t overlap[] = {[CALIBRATE_CPU] = 4 << 20, [CALIBRATE_CUDA] = 25 << 20};
    static const uint64_t largest[] = {[CALIBRATE_CPU] = 64 << 20, [CALIBRATE_CUDA] = 1 << 30};
    struct calibrate_options o;
    struct calibrate_plan p;
    int operands;

    ck_assert_int_eq(lk_command_parse(&lk_command_calibrate, 0, NULL, &o, NULL, &operands), LK_OK);
    o.device = _i;
    ck_assert_msg(calibrate_plan(&o, &p) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(p.overlap_bytes, overlap[_i]);
    ck_assert_uint_gt(p.n_colls, 0);
    ck_assert_uint_gt(p.n_algos, 0);
    ck_assert_int_gt(p.sizes.n, 0);
    ck_assert_uint_eq(p.sizes.v[p.sizes.n - 1], largest[_i]);
}
END_TEST

/* With several numbers of ranks the first one's device is kept. */
START_TEST(the_device_comes_from_a_part)
{
    struct lk_cluster c, part;

    lk_cluster_init(&c);
    for (int i = 0; i < 2; i++) {
        lk_cluster_init(&part);
        ck_assert_int_eq(lk_strdup(&part.gpu, i ? "other" : "fake"), LK_OK);
        part.gpus_per_node = 8 >> i;
        part.device.compute_capability = 90;
        part.topology.gpu_link = LK_GPU_LINK_NVSWITCH;
        part.topology.network = i ? LK_NETWORK_TCP : LK_NETWORK_INFINIBAND;
        part.topology.cpu = LK_CPU_AMD;
        ck_assert_int_eq(lk_cluster_add_fact(&part, "numa_nodes", i ? "1" : "2"), LK_OK);
        ck_assert_int_eq(
            lk_quantity_set(&part.device.flops, 1e15 * (i + 1), NAN, NAN, 3, "calibrate: test"),
            LK_OK);
        ck_assert_int_eq(lk_calibration_merge(&c, &part), LK_OK);
        lk_cluster_fini(&part);
    }
    ck_assert_str_eq(c.gpu, "fake");
    ck_assert_int_eq(c.gpus_per_node, 8);
    ck_assert_int_eq(c.topology.gpu_link, LK_GPU_LINK_NVSWITCH);
    ck_assert_int_eq(c.topology.network, LK_NETWORK_INFINIBAND);
    ck_assert_int_eq(c.topology.cpu, LK_CPU_AMD);
    ck_assert_uint_eq(c.n_machine, 1);
    ck_assert_str_eq(c.machine[0].value, "2");
    ck_assert_double_eq(c.device.flops.value, 1e15);
    lk_cluster_fini(&c);
}
END_TEST

SUITE(calibrate, c)
{
    tcase_add_test(c, a14_a_disturbed_calibration_is_wider);
    tcase_add_test(c, a14_one_sample_has_no_interval);
    tcase_add_test(c, units_inside_the_window_count);
    tcase_add_test(c, known_slowdowns_come_back);
    tcase_add_test(c, overlap_that_cannot_be_had_is_an_error);
    tcase_add_test(c, slowdowns_are_means_over_ranks);
    tcase_add_test(c, collectives_are_shown_as_nccl_tests_does);
    tcase_add_test(c, points_are_those_in_place_of_the_first_type);
    tcase_add_test(c, the_samples_of_a_row);
    tcase_add_test(c, rates_are_work_over_time);
    tcase_add_test(c, the_device_comes_from_a_part);
    tcase_add_loop_test(c, every_device_has_defaults, 0, 2);
}
