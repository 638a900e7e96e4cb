/* Importing data bases of Nsight Systems. */
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Views are not run: this one would make rows for ever. */
START_TEST(views_of_a_data_base_are_not_run)
{
    struct lk_import run = {0};
    char *path = scratch_path(scratch_dir, "v.sqlite");
    int code = shell_run("python3 -c \"import sys\ntry:\n import sqlite3\nexcept ImportError:\n "
                         "sys.exit(77)\ndb = sqlite3.connect('%s')\ndb.execute('create view "
                         "CUPTI_ACTIVITY_KIND_KERNEL as with recursive c(x) as (select 1 union all "
                         "select x + 1 from c) select x as start, x as end, x as deviceId, x as "
                         "streamId, x as correlationId, x as globalPid, x as demangledName, x as "
                         "shortName, x as graphId from c')\ndb.commit()\"",
                         path)
                   .code;

    if (code == 77) {
        skip("this Python has no sqlite3");
        free(path);
        return;
    }
    ck_assert_int_eq(code, 0);
    ck_assert_int_eq(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), "v.sqlite: ") != NULL, "%s", lk_error_text());
    free(path);
}
END_TEST

/* Two ranks in one data base, plain and gzipped, and one that is none. */
START_TEST(data_bases_of_nsight)
{
    char *path = scratch_path(scratch_dir, _i == 0 ? "n.sqlite" : "n.sqlite.gz");
    struct lk_import run = {0};
    int code = shell_run("python3 tests/data/nsys.py %s/n.sqlite && gzip -k %s/n.sqlite",
                         scratch_dir, scratch_dir)
                   .code;
    const struct lk_span *s;

    if (code == 77) {
        skip("this Python has no sqlite3");
        free(path);
        return;
    }
    ck_assert_int_eq(code, 0);
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.n, 2);
    ck_assert_str_eq(run.files[0].source.format, "Nsight Systems");
    ck_assert_uint_eq(run.n_files, 1);
    ck_assert_uint_eq(run.files[0].source.n_skipped, 1);
    for (size_t k = 0; k < 2; k++) {
        ck_assert_int_eq(run.rows[k].rank, (int)k);
        ck_assert_int_eq(run.rows[k].device, (int64_t)k);
        ck_assert_uint_eq(run.rows[k].all.n, 11);
        s = kineto_span(&run.traces[k], LK_SPAN_COPY, 1, -1);
        ck_assert_str_eq(lk_trace_span_name(&run.traces[k], s), "DtoH");
        ck_assert_uint_eq(s->bytes, 64);
        ck_assert_uint_eq(run.rows[k].all.n_unlinked, 2);
        ck_assert_int_eq(run.rows[k].all.comm_ns, 2000 * (6 + (int64_t)k));
        ck_assert_int_eq(run.rows[k].linked.compute_ns, 2000 * 73);
        ck_assert_int_eq(run.traces[k].info.world_size, 2);
        s = kineto_span(&run.traces[k], LK_SPAN_COLLECTIVE, 1, 0);
        ck_assert_uint_eq(s->start_ns, 304000);
        ck_assert_uint_eq(s->ready_ns, 300000);
        s = kineto_span(&run.traces[k], LK_SPAN_BACKWARD, 0, 0);
        ck_assert_uint_eq(s->start_ns, 60000);
        ck_assert_uint_eq(s->end_ns, 100000);
    }
    ck_assert_int_eq(run.traces[1].clock.offset_ns, -1000); /* ends that differ by 1 us */
    lk_import_fini(&run);
    free(path);
    path = scratch_put("other.sqlite", "SQLite format 3\0 and no more", 29);
    ck_assert_int_eq(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "other.sqlite: "));
    free(path);
}
END_TEST

/* Two processes on one GPU are two ranks, whose streams have the same numbers; a memset on another
 * GPU makes no third. The analysis says that they share it. */
START_TEST(processes_share_a_gpu)
{
    char *path = scratch_path(scratch_dir, "n.sqlite");
    struct lk_import run = {0};
    struct lk_analysis a = {0};
    struct lk_run r = {0};
    int code = shell_run("python3 tests/data/nsys.py %s/n.sqlite shared", scratch_dir).code;

    if (code == 77) {
        skip("this Python has no sqlite3");
        free(path);
        return;
    }
    ck_assert_int_eq(code, 0);
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    ck_assert_uint_eq(run.n, 2);
    for (size_t k = 0; k < 2; k++) {
        ck_assert_int_eq(run.rows[k].device, 0);
        ck_assert_int_eq(run.rows[k].all.comm_ns, 2000 * (6 + (int64_t)k));
        ck_assert_uint_eq(kineto_span(&run.traces[k], LK_SPAN_COLLECTIVE, 1, 0)->start_ns, 304000);
    }
    must(lk_run_take("imported", run.traces, run.n, &r));
    run.traces = NULL;
    must(lk_analyze(&r, NULL, 0, &a));
    ck_assert_uint_eq(a.findings[0].id, LK_FINDING_SHARED_GPU);
    ck_assert_ptr_nonnull(strstr(a.findings[0].text, "ranks 0-1"));
    lk_analysis_fini(&a);
    lk_run_fini(&r);
    lk_import_fini(&run);
    free(path);
}
END_TEST

/* The payload of NCCL's range is in bytes; the kernel's name says of what: 1,000 of float32. A
 * payload that is cut off says nothing. */
START_TEST(payloads_have_sizes)
{
    char *path = scratch_path(scratch_dir, "n.sqlite");
    struct lk_import run = {0};
    int code = shell_run("python3 tests/data/nsys.py %s/n.sqlite sizes", scratch_dir).code;

    if (code == 77) {
        skip("this Python has no sqlite3");
        free(path);
        return;
    }
    ck_assert_int_eq(code, 0);
    if (_i)
        ck_assert_int_eq(
            shell_run("python3 -c \"import sqlite3; d = sqlite3.connect('%s/n.sqlite'); "
                      "d.execute('UPDATE NVTX_EVENTS SET binaryData = "
                      "substr(binaryData, 1, 47)'); d.commit()\"",
                      scratch_dir)
                .code,
            0);
    must(lk_import_run(&path, 1, &(struct lk_import_options){0}, &run));
    for (size_t k = 0; k < 2; k++) {
        const struct lk_run_info *info = &run.traces[k].info;

        ck_assert_uint_eq(kineto_span(&run.traces[k], LK_SPAN_COLLECTIVE, 1, 0)->bytes,
                          _i ? 0 : 4000);
        ck_assert_uint_eq(info->n_tensors, _i ? 0 : 1);
        ck_assert(_i || (info->tensors[0].elems == 1000 && info->tensors[0].dtype == LK_F32));
    }
    lk_import_fini(&run);
    free(path);
}
END_TEST

SUITE(import_nsys, t)
{
    tcase_add_loop_test(t, payloads_have_sizes, 0, 2);
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, data_bases_of_nsight, 0, 2);
    tcase_add_test(t, views_of_a_data_base_are_not_run);
    tcase_add_test(t, processes_share_a_gpu);
}
