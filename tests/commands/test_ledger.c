/* Forecasts are kept beside their job, and the next run of it scores them. */
#include "base/array.h"
#include "base/file.h"
#include "facts/ledger.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB "tests/data/slow_link.job.json"
#define CUT "tests/fuzz/corpus/training_log/torchtitan_cut.log"

static char *dir;

/* Tests of other suites keep nothing; these do. */
static void set_up(void)
{
    ck_assert_int_eq(unsetenv("LOCKSTEP_LEDGER"), 0);
    dir = scratch_create();
}

static void tear_down(void)
{
    scratch_remove(dir);
}

/* Copy the job, with more members. */
static void copy_job_with(const char *members)
{
    struct lk_writer *w;
    char *text, *path = NULL, *behind;
    size_t size;

    ck_assert(lk_asprintf(&path, "%s/job", dir) == LK_OK && lk_mkdirs(path) == LK_OK);
    free(path);
    path = scratch_path(dir, "job/job.json");
    ck_assert(lk_file_read(JOB, &text, &size) == LK_OK && lk_writer_open(path, false, &w) == LK_OK);
    behind = strstr(text, "\"prefetch_depth\"");
    ck_assert_ptr_nonnull(behind);
    ck_assert(lk_writer_put(w, text, (size_t)(behind - text)) == LK_OK);
    ck_assert(lk_writer_put(w, members, strlen(members)) == LK_OK);
    ck_assert(lk_writer_put(w, behind, strlen(behind)) == LK_OK && lk_writer_commit(w) == LK_OK);
    free(text);
    free(path);
}

static void copy_job(void)
{
    copy_job_with("");
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static struct lk_ledger read_ledger(const char *name)
{
    struct lk_ledger l;
    char *path = scratch_path(dir, name);

    ck_assert_msg(lk_ledger_read(path, &l) == LK_OK, "%s", lk_error_text());
    free(path);
    return l;
}

static void says(int code, const char *text, const char *words, ...)
    __attribute__((format(printf, 3, 4)));
static void says(int code, const char *text, const char *words, ...)
{
    struct program p;
    char line[4096];
    va_list args;

    va_start(args, words);
    vsnprintf(line, sizeof line, words, args);
    va_end(args);
    program_run(&p, dir, code, "%s", line);
    ck_assert_msg(!text || strstr(p.out, text) || strstr(p.err, text), "no '%s' of '%s' in: %s%s",
                  text, line, p.out, p.err);
    program_fini(&p);
}

START_TEST(the_next_run_scores_a_forecast)
{
    struct lk_ledger l;
    const struct lk_ledger_forecast *f;
    const struct lk_ledger_score *s;
    struct program run;
    const char *said;

    copy_job();
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2,4", dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 2);
    f = &l.lines[0].forecast;
    ck_assert_int_eq(f->config.world_size, 2);
    ck_assert_ptr_nonnull(strstr(f->question, "predict"));
    ck_assert_ptr_nonnull(strstr(f->question, "--gpus=2,4"));
    ck_assert_uint_eq(strlen(f->job_sha256), 64);
    ck_assert_str_eq(f->cluster, "ethernet-25g-8gpu");
    ck_assert(f->lo_s <= f->step_s && f->step_s <= f->hi_s && f->site_factor == 1);
    lk_ledger_fini(&l);
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 4,2 --seed 1",
         dir); /* the same */
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 2);
    lk_ledger_fini(&l);
    program_run(&run, dir, 0, "replay %s/job/job.json -n 2 --steps 6 --warmup 1 --out %s/run", dir,
                dir);
    said = strstr(run.out, "Last forecast for 2 GPUs");
    ck_assert_ptr_nonnull(said);
    ck_assert_ptr_null(
        strstr(said + 1, "Last forecast")); /* its folder lies beside the run's, too */
    program_fini(&run);
    says(0, "Last forecast for 2 GPUs", "analyze %s/run",
         dir); /* says it again, and adds nothing */
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 3);
    s = lk_ledger_score_of(&l, l.lines[0].forecast.id);
    ck_assert_ptr_nonnull(s);
    ck_assert(s->measured_s > 0 && s->n_runs == 1 && strstr(s->run, "/run") != NULL);
    ck_assert_ptr_null(lk_ledger_score_of(&l, l.lines[1].forecast.id));
    lk_ledger_fini(&l);
    says(0, "1 of 2 forecasts were scored", "validate --ledger %s/job", dir);
}
END_TEST

/* Count a ledger's forecasts on so many GPUs. */
static size_t count_forecasts(const char *name, int gpus)
{
    struct lk_ledger l = read_ledger(name);
    size_t n = 0;

    for (size_t i = 0; i < l.n; i++)
        n += l.lines[i].forecast.id && l.lines[i].forecast.config.world_size == gpus;
    lk_ledger_fini(&l);
    return n;
}

#define ON "ethernet-25g-8gpu"

/* Each command is asked for the job's own settings on two GPUs. */
static const char *const askings[] = {
    "predict %s/job " ON " --draws 40 --gpus 2",
    "whatif %s/job " ON " --gpus 2 --local-batch 8",
    "plan %s/job " ON
    " --gpus 2 --local-batch 8 --accumulation 1 --bucket-cap 64KiB --sharding ddp "
    "--target-throughput 1",
    "plan %s/job " ON " --narrow 2",
    "compare %s/job " ON " " ON " --gpus 2 --format json",
    "report %s/job/job.json " ON " --out %s/report",
};

static void ask(const char *asking)
{
    char line[1024];

    snprintf(line, sizeof line, asking, dir, dir);
    says(0, NULL, "%s", line);
}

/* Whoever asks first keeps the forecast, the others find it. */
START_TEST(a_question_is_kept_once_whoever_asks)
{
    struct lk_ledger l;

    copy_job();
    for (size_t i = 0; i < LK_COUNT(askings); i++) {
        ask(askings[((size_t)_i + i) % LK_COUNT(askings)]);
        ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 1);
    }
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(strlen(l.lines[0].forecast.cluster_sha256), 64); /* of the preset's file */
    lk_ledger_fini(&l);
}
END_TEST

/* Every command's forecast is scored by the next run, in its sentences and in numbers, and counts
 * once. */
START_TEST(whoever_asked_is_scored)
{
    struct program run;

    copy_job();
    ask(askings[_i]);
    program_run(&run, dir, 0,
                "replay %s/job/job.json -n 2 --steps 6 --warmup 1 --out %s/run --format json", dir,
                dir);
    ck_assert_ptr_nonnull(strstr(run.out, "Last forecast for 2 GPUs"));
    ck_assert_ptr_nonnull(strstr(run.out, "\"forecast_inside\""));
    ck_assert_ptr_nonnull(strstr(run.out, "\"forecast_measured_s\""));
    program_fini(&run);
    says(0, "\"forecast_inside\"", "analyze %s/run --format json", dir);
    says(0, "1 of ", "validate --ledger %s/job", dir);
}
END_TEST

/* Commands that ask at once keep it once, too: the second to append finds the first one's line. */
START_TEST(commands_at_once_keep_it_once)
{
    enum { AT_ONCE = 4 };
    struct program p[AT_ONCE];

    copy_job();
    for (int i = 0; i < AT_ONCE; i++)
        program_start(&p[i], dir, NULL, NULL, "predict %s/job " ON " --draws 40 --gpus 2,4", dir);
    for (int i = 0; i < AT_ONCE; i++) {
        program_wait(&p[i]);
        ck_assert_int_eq(p[i].code, 0);
        program_fini(&p[i]);
    }
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 1);
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 4), 1);
}
END_TEST

/* A run tells machines apart by their GPUs, and by nothing else. */
START_TEST(a_comparison_is_kept_where_runs_tell_its_machines_apart)
{
    copy_job();
    says(0, "not kept for later runs to score: forecasts on machines",
         "compare %s/job ethernet-25g-8gpu ethernet-100g-8gpu --gpus 2", dir);
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 0);
    says(0, NULL, "compare %s/job dgx-a100 dgx-h100 --gpus 2", dir);
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 2);
    says(0, NULL, "predict %s/job dgx-h100 --gpus 2", dir); /* whose draws are others */
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 2);
}
END_TEST

START_TEST(no_command_keeps_where_nobody_wants_it)
{
    copy_job();
    ck_assert_int_eq(setenv("LOCKSTEP_LEDGER", "none", 1), 0);
    for (size_t i = 0; i < LK_COUNT(askings); i++)
        ask(askings[i]);
    ck_assert_int_eq(unsetenv("LOCKSTEP_LEDGER"), 0);
    ck_assert_uint_eq(count_forecasts("job/forecasts.jsonl", 2), 0);
}
END_TEST

START_TEST(a_run_that_was_before_scores_nothing)
{
    copy_job();
    says(0, NULL, "replay %s/job/job.json -n 2 --steps 6 --warmup 1 --out %s/run", dir, dir);
    sleep(1); /* dates have seconds */
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2", dir);
    says(0, NULL, "analyze %s/run", dir);
    says(1, "none of its 1 forecasts was scored", "validate --ledger %s/job", dir);
}
END_TEST

/* The table grows by the row that was forecast. */
START_TEST(the_next_import_scores_a_forecast)
{
    says(0, NULL, "import " CUT " --gpus 8 --local-batch 8192 --out %s/t.csv", dir);
    says(0, NULL, "predict --throughput %s/t.csv --gpus 16 --gpus-per-node 16", dir);
    says(0, "Last forecast for 16 GPUs",
         "import " CUT " " CUT " --gpus 8,16 --local-batch 8192 --out %s/t.csv", dir);
    says(0, "1 of 1 forecasts were scored", "validate --ledger %s", dir);
}
END_TEST

START_TEST(nothing_is_kept_where_nobody_wants_it)
{
    struct lk_ledger l;

    copy_job();
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2 --ledger none", dir);
    says(0, "is not kept",
         "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2 --ledger %s/no/f.jsonl", dir, dir);
    says(0, "not kept for later runs to score: forecasts on a machine that is altered",
         "whatif %s/job ethernet-25g-8gpu --draws 20 --gpus 2 --nic-bandwidth x2", dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 0); /* a machine that nobody has is not kept either */
    lk_ledger_fini(&l);
    says(0, NULL, "whatif %s/job ethernet-25g-8gpu --draws 20 --gpus 2 --bucket-cap 64KiB,1MiB",
         dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 1); /* the best */
    lk_ledger_fini(&l);
    says(2, "--ledger takes the place", "validate --ledger %s/job --cluster ethernet-25g", dir);
}
END_TEST

/* Every member of a configuration comes back from a ledger: a new one needs a row in
 * facts/config_rows.h. Forecasts with another dtype are not kept. */
START_TEST(a_configuration_is_kept_whole)
{
    const int other = 2; /* no member's value when its key is absent */
    struct lk_ledger l;
    struct lk_ledger_line line = {.forecast = {.id = "1",
                                               .date = "d",
                                               .program = "p",
                                               .question = "q",
                                               .job = "j",
                                               .job_file = "f",
                                               .step_s = 1,
                                               .lo_s = 1,
                                               .hi_s = 1,
                                               .level = 0.9,
                                               .site_factor = 1}};
    struct lk_config *c = &line.forecast.config;
    char *path = scratch_path(dir, "l.jsonl");

    for (size_t at = 0; at + sizeof other <= sizeof *c; at += sizeof other)
        memcpy((char *)c + at, &other, sizeof other);
    c->grad_dtype = LK_GRAD_OWN;
    ck_assert_msg(lk_ledger_append(path, &line, 1) == LK_OK, "%s", lk_error_text());
    l = read_ledger("l.jsonl");
    ck_assert_uint_eq(l.n, 1);
    ck_assert(lk_config_equal(&l.lines[0].forecast.config, c));
    lk_ledger_fini(&l);
    free(path);
}
END_TEST

static const struct {
    const char *members, *gpus;
} schemes[] = {
    {"\"tensor_parallel\": 2,\n", "4"},
    {"\"overlap\": \"partial\",\n", "2"},
    {"\"sharding\": \"local-sgd\", \"period\": 4,\n", "2"},
    {"\"compression\": \"fp16\",\n", "2"},
    {"\"algorithm\": \"ring\",\n", "2"},
};

/* A forecast is kept whatever the job's scheme is, and is found again when it is made again. */
START_TEST(schemes_of_jobs_are_kept)
{
    struct lk_ledger l;

    copy_job_with(schemes[_i].members);
    for (int i = 0; i < 2; i++) {
        says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus %s", dir,
             schemes[_i].gpus);
        l = read_ledger("job/forecasts.jsonl");
        ck_assert_uint_eq(l.n, 1);
        lk_ledger_fini(&l);
    }
}
END_TEST

static enum lk_status copy_lines(void *user, const char *text, size_t size, char **lines)
{
    (void)text;
    (void)size;
    return lk_strdup(lines, user);
}

static void append_text(const char *name, char *text)
{
    char *path = scratch_path(dir, name);

    ck_assert_msg(lk_file_extend(path, copy_lines, text) == LK_OK, "%s", lk_error_text());
    free(path);
}

START_TEST(a_damaged_line_is_left_out)
{
    char damaged[] = "{\"schema\": \"lockstep-ledger\", \"version\": 1}\n"
                     "{\"schema\": \"lockstep-ledger\", \"version\": 9}\n{torn";
    struct lk_ledger l;
    char *text;

    copy_job();
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2", dir);
    append_text("job/forecasts.jsonl", damaged);
    says(0, "forecasts.jsonl, line 4", "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 4", dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 2); /* the new one is not part of the torn line */
    ck_assert_uint_eq(l.n_damaged, 3);
    ck_assert_int_eq(l.lines[1].forecast.config.world_size, 4);
    lk_ledger_fini(&l);
    text = scratch_read(dir, "job/forecasts.jsonl");
    ck_assert_uint_eq(count_lines(text), 5);
    free(text);
}
END_TEST

/* The interval of the next forecast is as wide as the site's factor says, on logarithms. */
START_TEST(errors_of_the_site_widen_what_is_forecast)
{
    struct lk_ledger l;
    struct lk_ledger_line score = {0};
    char *path = scratch_path(dir, "job/forecasts.jsonl");
    const struct lk_ledger_forecast *f;
    double before, after;

    copy_job();
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2", dir);
    l = read_ledger("job/forecasts.jsonl");
    f = &l.lines[0].forecast;
    before = log(f->hi_s / f->step_s);
    score.score = (struct lk_ledger_score){.forecast = f->id,
                                           .date = f->date,
                                           .program = f->program,
                                           .run = f->question,
                                           .n_runs = 1,
                                           .measured_s = 3 * f->hi_s};
    ck_assert(lk_ledger_append(path, &score, 1) == LK_OK);
    lk_ledger_fini(&l);
    says(0, "times what they would be", "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2",
         dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 3);
    f = &l.lines[2].forecast;
    after = log(f->hi_s / f->step_s);
    ck_assert_double_eq_tol(f->site_factor, sqrt(33.0 / 9), 1e-12); /* 8 of 1 and one of 25 */
    ck_assert_double_eq_tol(after / before, f->site_factor, 1e-9);
    lk_ledger_fini(&l);
    free(path);
}
END_TEST

/* Lines of writers that append at once stay whole. */
START_TEST(writers_do_not_mix)
{
    enum { WRITERS = 6, TIMES = 40, LINE = 3000 };
    char *path = scratch_path(dir, "lines"), *text;
    size_t size;

    for (int i = 0; i < WRITERS; i++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (!pid) {
            char line[LINE + 1];

            memset(line, 'a' + i, LINE);
            line[LINE - 1] = '\n';
            line[LINE] = '\0';
            for (int k = 0; k < TIMES; k++)
                if (lk_file_extend(path, copy_lines, line) != LK_OK)
                    _exit(1);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;

        ck_assert(wait(&status) > 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert(lk_file_read(path, &text, &size) == LK_OK);
    ck_assert_uint_eq(size, WRITERS * TIMES * LINE);
    for (size_t i = 0; i < size; i++)
        ck_assert_int_eq(text[i], i % LINE == LINE - 1 ? '\n' : text[i / LINE * LINE]);
    free(text);
    free(path);
}
END_TEST

/* A folder that has a ledger alone is as good as empty, and --force leaves it. */
START_TEST(runs_leave_the_ledger)
{
    struct lk_ledger l;
    char empty[] = "";
    char *job = scratch_path(dir, "job/job.json");

    copy_job();
    ck_assert_int_eq(unlink(job), 0);
    free(job);
    append_text("job/forecasts.jsonl", empty);
    says(0, NULL, "replay " JOB " -n 1 --steps 4 --warmup 1 --out %s/job", dir);
    says(0, NULL, "predict %s/job ethernet-25g-8gpu --draws 20 --gpus 2", dir);
    says(0, NULL, "replay " JOB " -n 1 --steps 4 --warmup 1 --force --out %s/job", dir);
    l = read_ledger("job/forecasts.jsonl");
    ck_assert_uint_eq(l.n, 1);
    lk_ledger_fini(&l);
}
END_TEST

SUITE(ledger, c)
{
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, the_next_run_scores_a_forecast);
    tcase_add_loop_test(c, a_question_is_kept_once_whoever_asks, 0, (int)LK_COUNT(askings));
    tcase_add_loop_test(c, whoever_asked_is_scored, 0, (int)LK_COUNT(askings));
    tcase_add_test(c, commands_at_once_keep_it_once);
    tcase_add_test(c, a_comparison_is_kept_where_runs_tell_its_machines_apart);
    tcase_add_test(c, no_command_keeps_where_nobody_wants_it);
    tcase_add_test(c, a_run_that_was_before_scores_nothing);
    tcase_add_test(c, the_next_import_scores_a_forecast);
    tcase_add_test(c, nothing_is_kept_where_nobody_wants_it);
    tcase_add_test(c, a_configuration_is_kept_whole);
    tcase_add_loop_test(c, schemes_of_jobs_are_kept, 0, (int)LK_COUNT(schemes));
    tcase_add_test(c, a_damaged_line_is_left_out);
    tcase_add_test(c, errors_of_the_site_widen_what_is_forecast);
    tcase_add_test(c, writers_do_not_mix);
    tcase_add_test(c, runs_leave_the_ledger);
}
