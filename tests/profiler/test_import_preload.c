/* Files of the preload library: damaged ones, clocks of several hosts, and what an analysis says of
 * hosts whose computation nobody recorded. tests/preload has the library's own tests. */
#include "base/array.h"
#include "base/file.h"
#include "facts/dtype.h"
#include "facts/foreign_file.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "profiler/import/import_files.h"
#include "profiler/import/preload.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH_NS INT64_C(1700000000000000000)
#define BOOT_NS  INT64_C(5000000000) /* times of the records begin here */
#define MS       INT64_C(1000000)

enum { RECORDS = 512, RANKS = 4 };

/* A file as the library writes it, but short. */
struct file {
    struct lk_foreign_header h;
    struct lk_foreign_group group;
    char names[64];
    struct lk_foreign_record records[RECORDS];
};

static void make(struct file *f, int rank, const char *boot)
{
    memset(f, 0, sizeof *f);
    memcpy(f->h.magic, LK_FOREIGN_FILE_MAGIC, sizeof f->h.magic);
    f->h.version = LK_FOREIGN_FILE_VERSION;
    f->h.order = LK_FOREIGN_FILE_ORDER;
    f->h.header_bytes = sizeof f->h;
    f->h.record_bytes = sizeof *f->records;
    f->h.group_bytes = sizeof f->group;
    f->h.pid = 1000 + (uint32_t)rank;
    f->h.groups_at = offsetof(struct file, group);
    f->h.names_at = offsetof(struct file, names);
    f->h.records_at = offsetof(struct file, records);
    f->h.n_groups = 1;
    f->h.names_bytes = sizeof f->names;
    f->h.n_records = RECORDS;
    snprintf(f->h.host, sizeof f->h.host, "host-%s", boot);
    snprintf(f->h.boot, sizeof f->h.boot, "%s", boot);
    f->h.n_pairs = 1;
    f->h.pairs[0] = (struct lk_foreign_pair){BOOT_NS, BOOT_NS, EPOCH_NS};
    memcpy(f->names, "\0mpi\0world", sizeof "\0mpi\0world");
    f->group = (struct lk_foreign_group){
        .identity = 7, .library = 1, .name = 5, .n_ranks = RANKS, .rank = rank, .ready = 1};
}

/* Append an all-reduce of floats. */
static void add(struct file *f, uint64_t elements, int64_t start_ns, int64_t end_ns)
{
    const uint64_t i = f->h.head++;

    f->records[i % RECORDS] =
        (struct lk_foreign_record){.start_ns = start_ns,
                                   .end_ns = end_ns,
                                   .count = elements,
                                   .lane = 1,
                                   .group = 1,
                                   .sequence = (uint32_t)i,
                                   .peer = -1,
                                   .kind = LK_FOREIGN_COLLECTIVE_CALL,
                                   .function = LK_FOREIGN_FUNCTION(LK_ALL_REDUCE),
                                   .dtype = LK_F32 + 1,
                                   .stamp = i + 1};
}

/* Append what a rank sent to another, of which something was on its way for busy_ns. */
static void add_sent(struct file *f, int to, uint64_t bytes, int64_t start_ns, int64_t busy_ns)
{
    const uint64_t i = f->h.head++;

    f->records[i % RECORDS] = (struct lk_foreign_record){.start_ns = start_ns,
                                                         .end_ns = start_ns + 2 * busy_ns,
                                                         .link = (uint64_t)busy_ns,
                                                         .count = bytes,
                                                         .group = 1,
                                                         .peer = to,
                                                         .kind = LK_FOREIGN_SENT,
                                                         .stamp = i + 1};
}

static enum lk_status read_back(const void *bytes, size_t n, struct lk_events *out)
{
    char *path = scratch_put("x.probe", bytes, n);
    enum lk_status st = lk_preload_read(path, NULL, out);

    free(path);
    return st;
}

/* ---- One file ---- */

START_TEST(damaged_headers_are_refused)
{
    static const struct {
        size_t at, n;
        uint64_t value;
        const char *expect;
    } damages[] = {
        {offsetof(struct lk_foreign_header, magic), 1, 'X', "no file of lockstep's preload"},
        {offsetof(struct lk_foreign_header, order), 4, 0x04030201, "byte order"},
        {offsetof(struct lk_foreign_header, version), 4, 99, "another version of lockstep (99"},
        {offsetof(struct lk_foreign_header, header_bytes), 4, 8, "another version"},
        {offsetof(struct lk_foreign_header, record_bytes), 4, 8, "another version"},
        {offsetof(struct lk_foreign_header, groups_at), 8, UINT64_MAX, "less than its header"},
        {offsetof(struct lk_foreign_header, n_groups), 8, UINT64_MAX, "less than its header"},
        {offsetof(struct lk_foreign_header, names_bytes), 8, 1 << 20, "less than its header"},
        {offsetof(struct lk_foreign_header, records_at), 8, 4, "less than its header"},
        {offsetof(struct lk_foreign_header, n_records), 8, 0, "less than its header"},
        {offsetof(struct lk_foreign_header, n_records), 8, UINT64_MAX / 64, "less than its header"},
        {offsetof(struct lk_foreign_header, n_window), 8, UINT64_MAX / 64, "less than its header"},
    };
    struct lk_events e;
    struct file f;

    make(&f, 0, "a");
    memcpy((char *)&f + damages[_i].at, &damages[_i].value, damages[_i].n);
    ck_assert_int_eq(read_back(&f, sizeof f, &e), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), damages[_i].expect) != NULL, "%s", lk_error_text());
    lk_events_fini(&e);
}
END_TEST

START_TEST(short_files_are_refused)
{
    static const size_t sizes[] = {0, 7, sizeof(struct lk_foreign_header) - 1,
                                   sizeof(struct lk_foreign_header), sizeof(struct file) - 1};
    struct lk_events e;
    struct file f;

    make(&f, 0, "a");
    for (size_t i = 0; i < LK_COUNT(sizes); i++) {
        ck_assert_int_eq(read_back(&f, sizes[i], &e), LK_EPARSE);
        lk_events_fini(&e);
    }
}
END_TEST

/* Records that a dying process had begun, and those that make no sense, are left out and counted.
 */
START_TEST(bad_records_are_left_out)
{
    struct lk_events e;
    struct file f;

    make(&f, 2, "a");
    for (int i = 0; i < 6; i++)
        add(&f, 1000, BOOT_NS + i * MS, BOOT_NS + i * MS + 10);
    f.records[1].stamp = LK_FOREIGN_BUSY;
    f.records[2].end_ns = f.records[2].start_ns - 1;
    f.records[3].kind = LK_FOREIGN_KIND_COUNT;
    f.records[4].group = 2; /* the file has one */
    f.records[5].function = f.records[5].dtype = UINT8_MAX;
    must(read_back(&f, sizeof f, &e));
    ck_assert_int_eq(e.source.rank, 2);
    ck_assert_uint_eq(e.source.n_read, 5);
    ck_assert_uint_eq(e.source.n_skipped, 2);
    ck_assert_uint_eq(e.n_events, 3);
    ck_assert_uint_eq(e.details[1].group, 0);
    ck_assert_uint_eq(e.details[1].sequence, 0);
    ck_assert(!e.details[2].dtype_known);
    ck_assert_uint_eq(e.details[2].function, 0);
    ck_assert_uint_eq(e.source.n_notes, 1);
    ck_assert_ptr_nonnull(strstr(e.source.notes[0], "1 record"));
    lk_events_fini(&e);
}
END_TEST

START_TEST(the_drift_is_that_of_the_wall_clock)
{
    static const struct {
        int64_t passed_ns, gained_ns;
        double ppb;
    } cases[] = {
        {100000 * MS, MS, 10000},         /* 1 ms in 100 s */
        {9999 * MS, MS, NAN},             /* too short to tell */
        {100000 * MS, 3600000 * MS, NAN}, /* the clock was set */
    };
    struct lk_events e;
    struct file f;

    make(&f, 0, "a");
    f.h.n_pairs = 2;
    f.h.pairs[LK_FOREIGN_PAIR_AT(1)] =
        (struct lk_foreign_pair){BOOT_NS + cases[_i].passed_ns, BOOT_NS + cases[_i].passed_ns,
                                 EPOCH_NS + cases[_i].passed_ns + cases[_i].gained_ns};
    must(read_back(&f, sizeof f, &e));
    if (isnan(cases[_i].ppb))
        ck_assert_double_nan(e.source.clock.drift_ppb);
    else
        ck_assert_double_eq_tol(e.source.clock.drift_ppb, cases[_i].ppb, 1e-3);
    ck_assert_int_eq(e.source.clock.epoch_ns, EPOCH_NS - BOOT_NS);
    lk_events_fini(&e);
}
END_TEST

/* The file's start says how CUPTI fared, and whether the process was a rank. */
START_TEST(the_start_says_what_is_missing)
{
    static const struct {
        uint32_t state, error;
        const char *says, *note;
    } cases[] = {
        {LK_FOREIGN_CUPTI_OFF, 0, "", NULL},
        {LK_FOREIGN_CUPTI_TAKEN, 0, "another profiler", "no kernels: CUPTI was held by another"},
        {LK_FOREIGN_CUPTI_REFUSED, 999, "CUPTI refused", "CUPTI refused (CUPTI error 999)"},
        {LK_FOREIGN_CUPTI_RECORDED, 0, "gave no records", "no kernels: CUPTI gave no records"},
        {LK_FOREIGN_CUPTI_COUNT, 0, "", NULL},
    };

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        struct lk_events e;
        struct file f;
        char *path;

        make(&f, 0, "a");
        f.h.cupti = cases[i].state;
        f.h.cupti_error = cases[i].error;
        f.group.ready = i != 0;
        path = scratch_put("x.probe", &f, sizeof f);
        ck_assert_ptr_nonnull(strstr(lk_preload_no_kernels(path), cases[i].says));
        ck_assert_int_eq(*lk_preload_no_kernels(path) != '\0', cases[i].note != NULL);
        ck_assert_int_eq(lk_preload_is_of_rank(path), i != 0);
        must(lk_preload_read(path, NULL, &e));
        ck_assert_uint_eq(e.source.n_notes, cases[i].note ? 1 : 0);
        if (cases[i].note)
            ck_assert_ptr_nonnull(strstr(e.source.notes[0], cases[i].note));
        lk_events_fini(&e);
        free(path);
    }
    ck_assert(lk_preload_is_of_rank("/none"));
    ck_assert_str_eq(lk_preload_no_kernels("/none"), "");
}
END_TEST

/* ---- A run ---- */

/* Ranks 0 and 1 are of one host, 2 and 3 of another, whose clock is `ahead` and gains `drift`. A
 * step is 100 ms and has an all-reduce of 10 ms after 40 and one after 60; rank 3 comes 5 ms late
 * to the first one. */
struct hosts {
    int64_t ahead_ns;
    double drift_ppb;
    int first_step[RANKS]; /* records of earlier ones are lost */
    bool unnumbered;       /* collectives have no number in their group */
    double rate[RANKS]; /* at which a rank sends to the one opposite, bytes/ns; 0: not recorded */
};

static int64_t on_clock(const struct hosts *h, int rank, int64_t at)
{
    int64_t since = at - BOOT_NS;

    return rank < 2 ? at : at + h->ahead_ns + (int64_t)((double)since * h->drift_ppb * 1e-9);
}

static void put_rank(const struct hosts *h, int rank)
{
    enum { STEPS = 200 };
    char name[32];
    struct file *f;

    must(lk_alloc(&f, 1, sizeof *f));
    make(f, rank, rank < 2 ? "a" : "b");
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < 2; k++) {
            int64_t begin = BOOT_NS + (i * 100 + 40 + 20 * k) * MS,
                    late = rank == 3 && !k ? 5 * MS : 0;

            add(f, k ? 1000 : 1000000, on_clock(h, rank, begin + late),
                on_clock(h, rank, begin + 10 * MS));
        }
    for (int i = 0; i < STEPS && h->rate[rank] > 0; i += 2)
        add_sent(f, RANKS - 1 - rank, 2000000, on_clock(h, rank, BOOT_NS + (i * 100 + 45) * MS),
                 (int64_t)(2000000 / h->rate[rank]));
    for (int i = 0; i < 2 * h->first_step[rank]; i++)
        f->records[i].stamp = 0;
    for (int i = 0; i < 2 * STEPS && h->unnumbered; i++)
        f->records[i].sequence = LK_FOREIGN_NO_SEQUENCE;
    if (rank >= 2)
        f->h.pairs[0].before_ns = f->h.pairs[0].after_ns = on_clock(h, rank, BOOT_NS);
    f->h.n_pairs = 2;
    f->h.pairs[LK_FOREIGN_PAIR_AT(1)] =
        (struct lk_foreign_pair){on_clock(h, rank, BOOT_NS + 20000 * MS),
                                 on_clock(h, rank, BOOT_NS + 20000 * MS), EPOCH_NS + 20000 * MS};
    snprintf(name, sizeof name, "h.%d.probe", rank);
    free(scratch_put(name, f, sizeof *f));
    free(f);
}

static void import_hosts(const struct hosts *h, struct lk_import *out)
{
    const struct lk_import_options options = {0};
    char **files = NULL;
    size_t n = 0;

    for (int rank = 0; rank < RANKS; rank++)
        put_rank(h, rank);
    must(lk_import_files((const char *const *)&scratch_dir, 1, &files, &n));
    must(lk_import_run(files, n, &options, out));
    ck_assert_msg(out->traces != NULL, "%s", out->no_steps);
    lk_names_free(files, n);
}

/* A host's ranks share its clock; between hosts the ends of collectives tell, and NTP the drift. */
START_TEST(clocks_are_compared_between_hosts_alone)
{
    const struct hosts hosts = {.ahead_ns = 123456789, .drift_ppb = 20000};
    struct lk_import i;

    import_hosts(&hosts, &i);
    ck_assert_int_eq(i.traces[1].clock.offset_ns, 0);
    ck_assert_uint_eq(i.traces[1].clock.uncertainty_ns, 0);
    ck_assert_double_eq_tol(i.traces[2].clock.drift_ppb, -20000, 1);
    ck_assert_uint_lt(i.traces[2].clock.uncertainty_ns, 100);
    ck_assert_mem_eq(&i.traces[2].clock, &i.traces[3].clock, sizeof i.traces[2].clock);
    for (size_t k = 1; k < RANKS; k++) {
        const struct lk_trace *zero = &i.traces[0], *t = &i.traces[k];

        for (size_t s = 0; s < t->n_spans; s++) /* ends meet, over 20 s */
            if (t->spans[s].span.kind == LK_SPAN_COLLECTIVE)
                ck_assert_int_le(
                    llabs((long long)(lk_clock_apply(&t->clock, t->spans[s].span.end_ns) -
                                      zero->spans[s].span.end_ns)),
                    100);
    }
    lk_import_fini(&i);
}
END_TEST

/* Ranks whose rings lost their first steps have the same numbers for the others: by those of the
 * collectives, or else by time, on one host. */
START_TEST(ranks_number_steps_alike)
{
    const struct hosts hosts = {.first_step = {_i == 2 ? 9 : 0, 7, 3, 0}, .unnumbered = _i > 0};
    struct lk_import i;

    import_hosts(&hosts, &i);
    for (size_t k = 1; k < (_i > 0 ? 2 : RANKS); k++) {
        const struct lk_trace *zero = &i.traces[0], *t = &i.traces[k];
        size_t same = 0;

        for (size_t a = 0; a < zero->n_spans; a++)
            for (size_t b = 0; b < t->n_spans; b++)
                if (zero->spans[a].span.kind == LK_SPAN_COLLECTIVE &&
                    t->spans[b].span.kind == LK_SPAN_COLLECTIVE &&
                    zero->spans[a].span.seq == t->spans[b].span.seq) {
                    ck_assert_uint_eq(zero->spans[a].span.end_ns, t->spans[b].span.end_ns);
                    same++;
                }
        ck_assert_uint_ge(same, 2 * 190);
    }
    lk_import_fini(&i);
}
END_TEST

/* The late rank comes out, and what nobody recorded is unknown: no number stands for it. */
START_TEST(the_analysis_says_what_is_not_known)
{
    const struct hosts hosts = {0};
    struct lk_import i;
    struct lk_analysis a;
    struct lk_table *t = NULL;
    struct lk_run run;

    import_hosts(&hosts, &i);
    must(lk_run_take("x", i.traces, i.n, &run));
    i.traces = NULL;
    ck_assert(!lk_run_has_compute(&run));
    must(lk_analyze(&run, NULL, 0, &a));
    ck_assert_uint_eq(a.n_buckets, 2);
    ck_assert_double_eq_tol(a.buckets[0].wire_s, 0.005, 1e-6);
    ck_assert_double_eq_tol(a.buckets[0].wait_s, 0.005 * 3 / 4, 1e-6);
    ck_assert_int_eq(a.buckets[0].late_rank, 3);
    ck_assert_double_eq_tol(a.buckets[1].wire_s, 0.010, 1e-6);
    ck_assert_double_eq_tol(a.ranks[0].split.s[LK_PART_GAP], 0.080, 1e-4);
    for (size_t k = 0; k < a.n_findings; k++)
        ck_assert_int_ne(a.findings[k].id, LK_FINDING_POOR_OVERLAP);
    must(lk_analysis_table(&a, LK_ANALYSIS_OVERLAP, &t));
    ck_assert_int_eq(lk_table_cell(t, 0, "compute_s")->type, LK_CELL_EMPTY);
    ck_assert_int_eq(lk_table_cell(t, 0, "overlap")->type, LK_CELL_EMPTY);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
    lk_import_fini(&i);
}
END_TEST

/* A slow way between two ranks of the hosts is named by what NCCL's proxy sent; equal ones are not.
 */
START_TEST(a_slow_way_is_named)
{
    const struct hosts hosts = {.rate = {1, _i ? 0.25 : 1, 1.1, 0.9}};
    const struct lk_finding *found = NULL;
    struct lk_import i;
    struct lk_analysis a;
    struct lk_run run;

    import_hosts(&hosts, &i);
    must(lk_run_take("x", i.traces, i.n, &run));
    i.traces = NULL;
    must(lk_analyze(&run, NULL, 0, &a));
    for (size_t k = 0; k < a.n_findings; k++)
        if (a.findings[k].id == LK_FINDING_SLOW_LINK)
            found = &a.findings[k];
    ck_assert((found != NULL) == (_i == 1));
    if (found)
        ck_assert_msg(strstr(found->text, "rank 1 (host-a) -> rank 2 (host-b) moves 250 MB/s") !=
                          NULL,
                      "%s", found->text);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
    lk_import_fini(&i);
}
END_TEST

SUITE(import_preload, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, damaged_headers_are_refused, 0, 12);
    tcase_add_test(tests, short_files_are_refused);
    tcase_add_test(tests, bad_records_are_left_out);
    tcase_add_loop_test(tests, the_drift_is_that_of_the_wall_clock, 0, 3);
    tcase_add_test(tests, the_start_says_what_is_missing);
    tcase_add_test(tests, clocks_are_compared_between_hosts_alone);
    tcase_add_loop_test(tests, ranks_number_steps_alike, 0, 3);
    tcase_add_test(tests, the_analysis_says_what_is_not_known);
    tcase_add_loop_test(tests, a_slow_way_is_named, 0, 2);
}
