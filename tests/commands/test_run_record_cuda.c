/*
 * GPU records of run --device=cuda: the trace's description tells the recorder's name, or why there
 * are none. On the machine of tests/fakes/fake_cuda.h, with the real CUPTI library: here it has no
 * driver, or is missing; on a machine with a GPU it works.
 */
#include "commands/command.h"
#include "commands/run_rank.h"
#include "profiler/record/span_file.h"
#include "runtime/rendezvous/rank_env.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *directory;

static void setup(void)
{
    directory = scratch_create_for_gpus();
    fake_cuda_reset(1);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(directory);
}

/* Recording by one rank, without a step. */
struct recording {
    const char *options;
    bool works; /* CUPTI does */
};

static enum lk_status record(struct rank *me)
{
    struct recording *what = me->ctx;
    const struct lk_rank_env env = {.world_size = 1, .nodes = 1};
    struct run_record r = {0};
    struct run_options o;
    struct lk_train_config c;
    struct lk_store *store = NULL;
    enum lk_status st = LK_OK;
    char line[256], *argv[16], *rest = line;
    int n = 0, none;

    snprintf(line, sizeof line, "--device=cuda --model=mlp --channels=32 --layers=1 %s",
             what->options);
    while ((argv[n] = strsep(&rest, " ")) != NULL)
        n++;
    LK_TRY(lk_command_parse(&lk_command_run, n, argv, &o, NULL, &none));
    LK_TRY(run_options_complete(&lk_command_run, NULL, &o));
    LK_TRY(run_options_train(&o, 0, 1, 0, &c));
    c.device_config.cuda_calls = &fake_cuda_calls;
    LK_TRY(rank_connect(me, &store));
    st = run_record_start(&r, &o, &env, store, directory, &c);
    what->works = r.gpu != NULL;
out:
    st = run_record_stop(&r, st);
    lk_store_close(store);
    return st;
}

/* Return the description's text; the caller frees it. */
static char *recorded_by(void)
{
    char *path = scratch_path(directory, "rank0.spans"), *text = NULL;
    struct lk_trace t = {0};

    ck_assert_msg(lk_spans_read(path, &t) == LK_OK, "%s", lk_error_text());
    for (size_t i = 0; i < t.info.n_config; i++)
        if (!strcmp(t.info.config[i].key, LK_CUPTI_CONFIG_KEY))
            text = strdup(t.info.config[i].value);
    lk_trace_fini(&t);
    free(path);
    return text;
}

START_TEST(auto_says_what_came_of_it)
{
    struct recording what = {.options = "--gpu-state=no"};
    struct rank rank;
    char *text;

    ranks_run_threads(1, WAIT_PLENTY_NS, record, &what, &rank);
    ck_assert_msg(rank.status == LK_OK, "%s", rank.text);
    text = recorded_by();
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(!strncmp(text, what.works ? "CUPTI API " : "none: ", 6), "%s", text);
    free(text);
}
END_TEST

START_TEST(no_is_said)
{
    struct recording what = {.options = "--gpu-state=no --gpu-records=no"};
    struct rank rank;
    char *text;

    ranks_run_threads(1, WAIT_PLENTY_NS, record, &what, &rank);
    ck_assert_msg(rank.status == LK_OK, "%s", rank.text);
    ck_assert(!what.works);
    text = recorded_by();
    ck_assert_str_eq(text, "none: --gpu-records=no");
    free(text);
}
END_TEST

/* If records are requested they are made, or the run fails before it starts. */
START_TEST(yes_is_meant)
{
    struct recording what = {.options = "--gpu-state=no --gpu-records=yes"};
    struct rank rank;

    ranks_run_threads(1, WAIT_PLENTY_NS, record, &what, &rank);
    ck_assert_int_eq(rank.status, what.works ? LK_OK : LK_EUNSUPPORTED);
    if (!what.works)
        ck_assert_msg(strstr(rank.text, "--gpu-records: CUPTI") != NULL ||
                          strstr(rank.text, "no CUPTI") != NULL,
                      "%s", rank.text);
}
END_TEST

SUITE(run_record_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, auto_says_what_came_of_it);
    tcase_add_test(tc, no_is_said);
    tcase_add_test(tc, yes_is_meant);
}
