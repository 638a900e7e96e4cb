/* lockstep import of NCCL Inspector's folder, as a stranger gives it: each form of the format makes
 * the same cluster file, and the answer says what is not in it. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/inspector_log.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, SIZES = 6, ROUNDS = 20, COLLS = SIZES * ROUNDS };

/* All-reduces of 64 KiB to 2 GiB, 30 us and 100 GB/s, to which each rank but one adds a wait. */
static void put_rank(const struct inspector_rank *r, int skip)
{
    struct inspector_coll c[COLLS];
    size_t n = 0;

    for (int i = 0; i < COLLS; i++) {
        const uint64_t bytes = UINT64_C(1) << (16 + 3 * (i % SIZES));
        const int wait = (i + r->rank) % RANKS;

        if (skip && i % skip)
            continue;
        c[n++] =
            (struct inspector_coll){"AllReduce", (uint64_t)i, bytes,
                                    (unsigned)(30 + bytes / 100000 + (unsigned)(7 * wait)), NULL};
    }
    inspector_put(scratch_dir, r, c, n);
}

static void put_job(struct inspector_rank r, int skip)
{
    r.ranks = RANKS;
    r.nodes = 1;
    for (r.rank = 0; r.rank < RANKS; r.rank++)
        put_rank(&r, skip);
}

/* Import the folder; the cluster file's text is the caller's. */
static char *import(struct program *p, const char *words)
{
    char *out = scratch_path(scratch_dir, "out");

    must(lk_mkdirs(out));
    program_run(p, out, 0, "import %s --out=%s/c.json %s", scratch_dir, out, words);
    free(out);
    return scratch_read(scratch_dir, "out/c.json");
}

#define SAYS(p, text)     ck_assert_msg(strstr((p).out, text) != NULL, "%s", (p).out)
#define DOES_NOT(p, text) ck_assert_msg(!strstr((p).out, text), "%s", (p).out)

START_TEST(each_form_makes_the_same_cluster_file)
{
    struct program p;
    char *first, *text;

    put_job((struct inspector_rank){.form = INSPECTOR_V40_OLD}, 0);
    first = import(&p, "");
    SAYS(p, "All-reduce of 2.00 GiB on 8 GPUs: 175 GB/s bus bandwidth");
    SAYS(p, "NCCL Inspector recorded all 960 collectives of its ranks (format v4.0).");
    DOES_NOT(p, "ranks' times are here");
    program_fini(&p);
    for (int form = INSPECTOR_V40; form < INSPECTOR_FORMS; form++) {
        put_job((struct inspector_rank){.form = (enum inspector_form)form}, 0);
        text = import(&p, "");
        ck_assert_str_eq(text, first);
        program_fini(&p);
        free(text);
    }
    free(first);
}
END_TEST

/* What the defaults leave out is a sentence and numbers of the answer. */
START_TEST(what_is_missing_is_in_the_answer)
{
    const char *value;
    struct program p;

    put_job((struct inspector_rank){.form = INSPECTOR_V41, .lost = 100}, 5);
    free(import(&p, ""));
    SAYS(p, "NCCL Inspector recorded 192 of 928 collectives of its ranks (20.7 %, format");
    SAYS(p, "v4.1): by default it keeps none below 8 KiB");
    SAYS(p, "Inspector counts 800 collectives that it overwrote");
    program_fini(&p);
    free(import(&p, "--format=json"));
    value = strstr(p.out, "\"missing_collectives\"");
    ck_assert_ptr_nonnull(value);
    ck_assert_ptr_nonnull(strstr(value, "736"));
    program_fini(&p);
    put_job((struct inspector_rank){.form = INSPECTOR_V40_OLD}, 5);
    free(import(&p, ""));
    SAYS(p, "before NCCL 2.30 it writes of a communicator only");
    program_fini(&p);
}
END_TEST

START_TEST(what_cannot_be_relied_on_is_noted)
{
    const struct inspector_coll by_host = {"AllReduce", COLLS, 1 << 20, 100, "kernel_cpu"};
    struct inspector_rank r = {
        .form = INSPECTOR_V43, .version = "v4.7", .ranks = RANKS, .nodes = 1};
    struct program p;

    put_rank(&r, 0);
    r.rank = 1;
    inspector_put(scratch_dir, &r, &by_host, 1);
    free(import(&p, ""));
    SAYS(p, "of a collective 12.5 % of its ranks' times are here");
    SAYS(p, "1 records are left out: the host's clock timed them");
    SAYS(p, "format v4.7 is newer than this program");
    program_fini(&p);
}
END_TEST

/* Inspector's other output, "v5.1", is told, and the message says what to set. */
START_TEST(metrics_are_no_collectives)
{
    static const char text[] =
        "nccl_bus_bandwidth_gbs{version=\"v5.1\",slurm_job_id=\"unknown\",node=\"node-1\","
        "gpu=\"GPU0\",comm_name=\"unknown\",n_nodes=\"1\",nranks=\"8\",collective=\"AllReduce\","
        "message_size=\"2-3GB\",algo_proto=\"RING_SIMPLE\"} 175.1\n"
        "nccl_collective_exec_time_microseconds{version=\"v5.1\",slurm_job_id=\"unknown\"} "
        "21526.2\n";
    char *path = scratch_put("nccl_inspector_metrics_GPU-1.prom", text, sizeof text - 1);
    struct program p;

    program_run(&p, scratch_dir, 1, "import %s --out=%s/c.json", path, scratch_dir);
    ck_assert_msg(strstr(p.err, "looks like metrics of NCCL Inspector: they are means") != NULL,
                  "%s", p.err);
    ck_assert_msg(strstr(p.err, "NCCL_INSPECTOR_PROM_DUMP") != NULL, "%s", p.err);
    program_fini(&p);
    /* Beside collectives they are passed over. */
    put_job((struct inspector_rank){.form = INSPECTOR_V44}, 0);
    free(import(&p, ""));
    SAYS(p, "recorded all 960 collectives");
    program_fini(&p);
    free(path);
}
END_TEST

SUITE(import_inspector, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, each_form_makes_the_same_cluster_file);
    tcase_add_test(t, what_is_missing_is_in_the_answer);
    tcase_add_test(t, what_cannot_be_relied_on_is_noted);
    tcase_add_test(t, metrics_are_no_collectives);
}
