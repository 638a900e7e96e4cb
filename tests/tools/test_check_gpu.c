/*
 * tools/check-gpu without a GPU: it must report that there is none; its parts on the CPU are
 * compared with PyTorch's numbers; parts that fail, hang or are ended; docs/support.md against
 * result files. Also the bundle for GPU machines: programs that need only the C library.
 */
#include "base/array.h"
#include "base/json.h"
#include "facts/job.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The table of docs/support.md as it was before any GPU ran anything. */
#define CLAIMS_NOTHING                                                                             \
    "sed 's;| run on [^|]*|;| built, not yet run on a GPU |;' docs/support.md > "                  \
    "$dir/docs/support.md && "

enum { SKIPPED = 77 };

/* Builds that have the programs of tests/dry. */
#if defined(LK_HAVE_CUDA) && defined(LK_HAVE_CUPTI) && defined(LK_HAVE_NCCL) &&                    \
    defined(LK_HAVE_NVTX)
#define DRY
#endif

/* Run a line of shell in which $dir and $build are set; its output goes to dir/said. */
static int shell(const char *line)
{
    char *command;
    int status;

    ck_assert_int_eq(lk_asprintf(&command,
                                 "{ dir='%s'; root=$PWD; build=$(realpath '" LK_BUILD_DIR
                                 "'); %s; } > '%s/said' 2>&1",
                                 scratch_dir, line, scratch_dir),
                     LK_OK);
    status = system(command);
    free(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void assert_said(const char *what)
{
    char *said = scratch_read(scratch_dir, "said");

    ck_assert_msg(strstr(said, what) != NULL, "no '%s' in what it said:\n%s", what, said);
    free(said);
}

static void assert_code(int got, int wanted)
{
    char *said = scratch_read(scratch_dir, "said");

    ck_assert_msg(got == wanted, "exit code %d, not %d; it said:\n%s", got, wanted, said);
    free(said);
}

/* Return the result file that a dry run left in dir/out, renamed to have no date. */
static struct lk_json_doc *result(void)
{
    struct lk_json_doc *doc = NULL;
    char *text;

    ck_assert_int_eq(shell("cd $dir/out && cat gpu-cpu-*-[0-9][0-9].json"), 0);
    text = scratch_read(scratch_dir, "said");
    ck_assert_msg(lk_json_parse("result", text, strlen(text), &doc) == LK_OK, "%s",
                  lk_error_text());
    free(text);
    return doc;
}

/* Return a text of a part's row, "" when it has none. */
static const char *of_part(struct lk_json_doc *doc, const char *part, const char *key)
{
    struct lk_json *parts, *v;
    const char *name, *text = "";

    ck_assert_int_eq(lk_json_array(lk_json_root(doc), "parts", &parts), LK_OK);
    for (size_t i = 0; i < lk_json_count(parts); i++) {
        struct lk_json *row = lk_json_item(parts, i);

        ck_assert_int_eq(lk_json_text(row, "name", &name), LK_OK);
        v = lk_json_optional(row, key);
        if (!strcmp(name, part) && v)
            ck_assert_int_eq(lk_json_as_text(v, &text), LK_OK);
    }
    return text;
}

static void assert_file(const char *pattern)
{
    char line[256];

    snprintf(line, sizeof line, "test -s $dir/out/%s", pattern);
    ck_assert_msg(shell(line) == 0, "no %s", pattern);
}

/* ---- The script ---- */

START_TEST(no_gpu_is_said)
{
    if (access("/dev/nvidia0", F_OK) == 0)
        return; /* make check-gpu tests this machine */
    assert_code(shell("tools/check-gpu --out $dir/out"), SKIPPED);
    assert_said("no GPU here");
    ck_assert_int_ne(shell("test -e $dir/out"), 0);
}
END_TEST

START_TEST(parts_fit_into_nine_minutes)
{
    assert_code(shell("tools/check-gpu --list"), 0);
    assert_said("s of 530");
}
END_TEST

/* These cases need neither a GPU nor a whole check. */
START_TEST(pieces)
{
    assert_code(shell("python3 tests/tools/check_gpu_units.py $dir"), 0);
}
END_TEST

/* Choose a python3 with PyTorch, from PATH or the system; without one the part says that. */
#define PYTHON                                                                                     \
    "python=python3; python3 -c 'import importlib.util as u; exit(not u.find_spec(\"torch\"))' "   \
    "2> /dev/null || python=/usr/bin/python3; "

/* No part is about time here, except those that hang. */
#define PLENTY "--limit all=500"

START_TEST(every_part_on_the_cpu)
{
    static const char *const parts[] = {"ddp", "job", "records", "shared"};
    struct lk_job job = {0};
    struct lk_json_doc *doc;
    char *path;

    assert_code(shell(PYTHON
                      "tools/check-gpu --device cpu --build $build --python $python "
                      "--out $dir/out --parts ddp,losses,job,records,shared,kernels " PLENTY),
                0);
    doc = result();
    for (size_t i = 0; i < LK_COUNT(parts); i++)
        ck_assert_str_eq(of_part(doc, parts[i], "status"), "pass");
    ck_assert_str_eq(of_part(doc, "kernels", "status"), "skipped");
    if (strcmp(of_part(doc, "losses", "status"), "pass") != 0)
        ck_assert_ptr_nonnull(strstr(of_part(doc, "losses", "reason"), "no PyTorch"));
    lk_json_free(doc);
    assert_file("gpu-cpu-*.forecast.json");
    ck_assert_int_eq(shell("mv $dir/out/*.job.json $dir/job.json"), 0);
    path = scratch_path(scratch_dir, "job.json");
    ck_assert_msg(lk_job_read(path, &job) == LK_OK, "%s", lk_error_text());
    lk_job_fini(&job);
    free(path);
}
END_TEST

/*
 * The parts of a second call join those of the first, if the programs are the same; a part for
 * which no time is left was not run, which is another thing than skipped. The page has figures and
 * parts.
 */
START_TEST(parts_of_a_day_come_together)
{
#define BUNDLE "tools/check-gpu --device cpu --from $dir/b --python $python --out $dir/out "
    struct lk_json_doc *doc;

    assert_code(shell(PYTHON "mkdir -p $dir/b/build && ln -s $build/lockstep $dir/b/build/ && "
                             "echo one > $dir/b/COMMIT && " BUNDLE "--parts ddp,nsys " PLENTY),
                0);
    assert_code(shell(PYTHON BUNDLE "--more " PLENTY), 0);
    doc = result();
    ck_assert_str_eq(of_part(doc, "ddp", "status"), "pass");
    ck_assert_str_eq(of_part(doc, "sanitizer", "status"), "skipped");
    if (strcmp(of_part(doc, "fixtures", "status"), "pass") != 0)
        ck_assert_str_eq(of_part(doc, "fixtures", "reason"), "no PyTorch here");
    else
        assert_code(shell("tar tf $dir/out/gpu-cpu-*.fixtures.tar.gz | grep -qx "
                          "2-rank/rank1.pt.trace.json.gz"),
                    0);
    lk_json_free(doc);
    assert_code(shell("tar tf $dir/out/gpu-cpu-*.logs.tar.gz | sort | tr '\\n' ' '"), 0);
    assert_said("check.log ddp.log fixtures.log nsys.log sanitizer.log ");
    assert_code(shell("grep -q '^| verified training: [^|]*| [0-9.e-]* | <= 1 | met |$' "
                      "$dir/out/gpu-cpu-*.md && grep -q '^| ddp | pass |' $dir/out/gpu-cpu-*.md"),
                0);
    assert_code(shell(PYTHON BUNDLE "--parts nsys,nvml --limit all=0.5"), 0);
    assert_said("2 not run");
    doc = result();
    ck_assert_str_eq(of_part(doc, "nvml", "status"), "not run");
    ck_assert_str_eq(of_part(doc, "ddp", "status"), "pass");
    lk_json_free(doc);
    /* An earlier result that a fresh machine does not have; what cannot run leaves its rows. */
    assert_code(shell("mv $dir/out $dir/first && cd $dir && " PYTHON
                      "b=$(ls first/*-[0-9][0-9].json) && $root/" BUNDLE
                      "--parts nsys,ddp --merge $b --limit all=0.5"),
                0);
    doc = result();
    ck_assert_str_eq(of_part(doc, "ddp", "status"), "pass");
    ck_assert_str_eq(of_part(doc, "nsys", "status"), "skipped");
    ck_assert_str_eq(of_part(doc, "sanitizer", "status"), "skipped");
    lk_json_free(doc);
    assert_code(shell(PYTHON "echo two > $dir/b/COMMIT && " BUNDLE "--parts nsys " PLENTY), 0);
    doc = result();
    ck_assert_str_eq(of_part(doc, "ddp", "status"), "");
    lk_json_free(doc);
    assert_code(shell(PYTHON BUNDLE "--parts nsys --merge $dir/first/*-[0-9][0-9].json"), 2);
    assert_said("its commit is one, and here it is two");
}
END_TEST

START_TEST(options_that_do_not_fit)
{
    assert_code(shell("tools/check-gpu --quick"), 2);
    assert_said("--quick wants --out");
    assert_code(shell("tools/check-gpu --quick --device cpu --out $dir/out"), 2);
    assert_code(shell("touch $dir/file && tools/check-gpu --keep $dir --out $dir/out"), 2);
    assert_said("is not empty");
    assert_code(shell("tools/check-gpu --device cpu --out $dir/file --parts nvml"), 1);
    assert_said("check-gpu: [Errno");
}
END_TEST

/* A file of that name in the current folder says nothing of the programs. */
START_TEST(commit_is_of_the_programs)
{
    assert_code(shell("echo others > $dir/COMMIT && cd $dir && $root/tools/check-gpu --device cpu "
                      "--build $build --out $dir/out --parts nvml"),
                0);
    assert_code(shell("grep '\"commit\": \"others' $dir/out/*.json"), 1);
}
END_TEST

#ifdef DRY

/*
 * Run every part on the fake machine (tests/dry): the real programs with check-gpu's command lines,
 * over fakes of CUDA and its libraries.
 */
#define ON_MACHINE                                                                                 \
    "tests/dry/make_machine $dir/gpu $build && . $dir/gpu/environment && cd $dir && "              \
    "gpu/tools/check-gpu --from gpu --out out "
/* The fake GPU's name in file names, and a date. */
#define NAME "gpu-h100-80gb-hbm3-*"

static void assert_machine_result(void)
{
    static const char *const passed[] = {"machine", "suites",   "ddp",       "job",    "nvml",
                                         "records", "overhead", "calibrate", "shared", "graph",
                                         "nsys",    "kernels",  "nccl",      "profile"};
    static const char *const skipped[] = {"build", "gpus"};
    static const char *const torch[] = {"losses", "torch"};
    struct lk_json_doc *doc;

    ck_assert_int_eq(shell("cd $dir/out && cp " NAME "-[0-9][0-9].json gpu-cpu-1-01.json"), 0);
    doc = result();
    for (size_t i = 0; i < LK_COUNT(passed); i++)
        ck_assert_msg(!strcmp(of_part(doc, passed[i], "status"), "pass"), "%s: %s\n%s", passed[i],
                      of_part(doc, passed[i], "reason"), of_part(doc, passed[i], "tail"));
    for (size_t i = 0; i < LK_COUNT(skipped); i++)
        ck_assert_str_eq(of_part(doc, skipped[i], "status"), "skipped");
    for (size_t i = 0; i < LK_COUNT(torch); i++)
        if (strcmp(of_part(doc, torch[i], "status"), "pass") != 0)
            ck_assert_msg(strstr(of_part(doc, torch[i], "reason"), "no PyTorch") != NULL, "%s: %s",
                          torch[i], of_part(doc, torch[i], "reason"));
    lk_json_free(doc);
    assert_code(shell("python3 tests/dry/check_result.py $dir/out/gpu-cpu-1-01.json"), 0);
}

/* Both calls, the second on a fresh machine: at most eight files come back from one. */
START_TEST(every_part_on_a_machine_that_is_none)
{
    static const char *const files[] = {
        ".job.json", ".forecast.json",   ".cluster.json", ".cupti.txt",
        ".md",       "-[0-9][0-9].json", ".logs.tar.gz"};
    char pattern[64];
    int code =
        shell(ON_MACHINE "--quick " PLENTY
                         " --parts build,machine,nccl,suites,ddp,losses,torch,job,nvml,records,"
                         "overhead,calibrate,shared,gpus,graph,kernels && ls out | wc -l");

    if (code == 0) {
        assert_said("\n7\n");
        for (size_t i = 0; i < LK_COUNT(files); i++) {
            snprintf(pattern, sizeof pattern, NAME "%s", files[i]);
            assert_file(pattern);
        }
        ck_assert_int_eq(shell("mv $dir/out $dir/first"), 0);
        code = shell(". $dir/gpu/environment && cd $dir && gpu/tools/check-gpu --from gpu --out "
                     "out --quick " PLENTY " --parts nsys,profile --merge first/" NAME
                     "-[0-9][0-9].json");
    }
    if (code == 1)
        assert_machine_result(); /* says more of what failed */
    assert_code(code, 0);
    assert_machine_result();
    /* The table must then list the run if it is a result; for a quick run it need not. */
    ck_assert_int_eq(
        shell("mkdir -p $dir/bench/results $dir/docs && rm $dir/out/gpu-cpu-* && " CLAIMS_NOTHING
              "cp $dir/out/" NAME "-[0-9][0-9].json $dir/bench/results/"),
        0);
    assert_code(shell("tools/check-gpu --claims $dir/docs/support.md"), 0);
    ck_assert_int_eq(shell("sed -i 's/\"quick\": true/\"quick\": false/' $dir/bench/results/*"), 0);
    assert_code(shell("tools/check-gpu --claims $dir/docs/support.md"), 1);
    assert_said("'training on a GPU, float32 and bfloat16' does not say that it ran");
    assert_said("'a GPU's job file and its forecast' does not say that it ran");
}
END_TEST

/* Two ranks with a GPU's records, NCCL's kernels among them, which start some time after they are
 * due: viewers can read the traces, and the analysis knows the launches. */
START_TEST(recorded_ranks_on_a_machine_that_is_none)
{
    assert_code(shell("tests/dry/make_machine $dir/gpu $build && . $dir/gpu/environment && "
                      "$dir/gpu/build/lockstep run --device=cuda --share-gpu -n 2 --model gpt-nano "
                      "--warmup 2 --steps 6 --out $dir/run && "
                      "python3 tests/check_trace.py $dir/run/*/rank[01].trace.json.gz"),
                0);
    assert_code(shell("test $(zcat $dir/run/*/rank1.trace.json.gz | grep -c "
                      "'\"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce') -ge 6"),
                0);
    assert_code(
        shell(
            "$dir/gpu/build/lockstep analyze $dir/run --format csv --table waterfall > $dir/csv && "
            "awk -F, '$1 == \"launch\" && $3 > 0 {n++} END {exit n != 1}' $dir/csv"),
        0);
}
END_TEST

/* Use a test_gpu of few suites, one of which a GPU fault ends. */
#define FAULTY                                                                                     \
    "rm $dir/gpu/build/test_gpu && cat > $dir/gpu/build/test_gpu << EOF\n"                         \
    "#!/bin/sh\n"                                                                                  \
    "case \\$1 in\n"                                                                               \
    "--list) printf 'kernels/gelu\\nnccl\\nfaulty\\n' ;;\n"                                        \
    "faulty) echo 'an illegal address'; exit 1 ;;\n"                                               \
    "*) exec $build/dry/test_gpu \"\\$@\" ;;\n"                                                    \
    "esac\n"                                                                                       \
    "EOF\n"

/* A suite ended by a GPU fault is a failure; later suites still run. The bundle's copy
 * has lost its execute bits. */
START_TEST(faulty_suite_is_a_failure)
{
    assert_code(
        shell("tests/dry/make_machine $dir/gpu $build && . $dir/gpu/environment && " FAULTY
              "chmod -x $dir/gpu/build/test_gpu\n"
              "tools/check-gpu --from $dir/gpu --out $dir/out --parts suites,kernels " PLENTY),
        1);
    assert_said("suites: faulty");
    assert_said("1 passed, 1 failed");
}
END_TEST

/* An unusable tool is distinguished from missing ranges. */
START_TEST(useless_tool_is_said)
{
    assert_code(
        shell("tests/dry/make_machine $dir/gpu $build && . $dir/gpu/environment && "
              "sed -i 's;NVTX_INJECTION64_PATH=\"[^\"]*\";"
              "NVTX_INJECTION64_PATH=\"/none.so\";' $dir/gpu/bin/nsys && "
              "tools/check-gpu --from $dir/gpu --quick --out $dir/out --parts nsys " PLENTY),
        1);
    assert_said("/none.so: it does not load");
}
END_TEST

/* Ended while suites run side by side, one of which hangs: check-gpu ends, and so do they; they
 * have not failed. */
START_TEST(ended_suites_end)
{
    assert_code(shell("tests/dry/make_machine $dir/gpu $build && . $dir/gpu/environment && "
                      "rm $dir/gpu/build/test_gpu && cat > $dir/gpu/build/test_gpu << EOF\n"
                      "#!/bin/sh\n"
                      "case \\$1 in\n"
                      "--list) echo kernels/gelu;;\n"
                      "*) sleep 3000 & echo \\$! > $dir/pid.new; mv $dir/pid.new $dir/pid; wait;;\n"
                      "esac\n"
                      "EOF\n"
                      "chmod +x $dir/gpu/build/test_gpu\n"
                      "tools/check-gpu --from $dir/gpu --out $dir/out --parts suites --limit "
                      "all=3000 & c=$!\n"
                      "while [ ! -e $dir/pid ] && kill -0 $c; do sleep 0.05; done\n"
                      "kill $c; wait $c; test $? = 1 && p=$(cat $dir/pid) && "
                      "{ [ ! -e /proc/$p ] || grep -q '^State:.Z' /proc/$p/status; }"),
                0);
    assert_code(shell("grep -A 3 '\"kernels/gelu\": {' $dir/out/" NAME ".json"), 0);
    assert_said("\"status\": \"not run\"");
    assert_said("\"reason\": \"cut off after");
}
END_TEST

#endif

/* Use a tolerance that rounding alone exceeds. */
START_TEST(losses_that_differ_are_no_pass)
{
    int code = shell(PYTHON "bench/gpu_torch.py --lockstep $build/lockstep --python $python "
                            "--device cpu --dtype float32 --model gpt-nano --theirs float32 "
                            "--rounds 1 --warmup 0 --steps 10 --local-batch 2 --agree 1e-10");

    if (code == SKIPPED)
        return;
    assert_code(code, 1);
    assert_said("no ratio");
}
END_TEST

/* One part fails, one hangs, with a child process of its own; the part after them runs. */
START_TEST(parts_that_fail_or_hang)
{
    struct lk_json_doc *doc;

    ck_assert_int_eq(shell("mkdir -p $dir/b/build && cat > $dir/b/build/lockstep << EOF\n"
                           "#!/bin/sh\n"
                           "case \"\\$*\" in\n"
                           "*'-n 2'*) sleep 3000 & echo \\$! > $dir/pid; wait;;\n"
                           "*--verify*) echo a planted fault; exit 3;;\n"
                           "*) exec $build/lockstep \"\\$@\";;\n"
                           "esac\n"
                           "EOF\n"
                           "chmod +x $dir/b/build/lockstep"),
                     0);
    assert_code(shell("tools/check-gpu --device cpu --from $dir/b --out $dir/out "
                      "--parts ddp,shared,job --limit shared=5 " PLENTY),
                1);
    assert_said("1 passed, 2 failed");
    doc = result();
    ck_assert_str_eq(of_part(doc, "ddp", "status"), "fail");
    ck_assert_str_eq(of_part(doc, "ddp", "reason"), "lockstep ended with 3: a planted fault");
    ck_assert_ptr_nonnull(strstr(of_part(doc, "ddp", "tail"), "a planted fault"));
    ck_assert_str_eq(of_part(doc, "shared", "status"), "fail");
    ck_assert_ptr_nonnull(strstr(of_part(doc, "shared", "reason"), "did not end within"));
    ck_assert_str_eq(of_part(doc, "job", "status"), "pass");
    lk_json_free(doc);
    /* The process is gone, or a zombie that was not yet waited for. */
    assert_code(shell("p=$(cat $dir/pid); for i in $(seq 2000); do "
                      "[ ! -e /proc/$p ] || grep -q '^State:.Z' /proc/$p/status && exit 0; "
                      "sleep 0.1; done; exit 1"),
                0);
}
END_TEST

static const struct {
    const char *signal, *reason; /* of the part that ran */
} endings[] = {
    {"KILL", "begun, and check-gpu ended before it"},
    {"TERM", "check-gpu was ended by SIGTERM"},
};

/* Ended while a part hangs: the parts before it are whole, on disk, their logs, too; the others
 * were not run. */
START_TEST(ended_in_the_middle)
{
    static const char *const done[] = {"ddp", "job"}, *const rest[] = {"overhead", "shared"};
    const char *signal = endings[_i].signal;
    struct lk_json_doc *doc;
    char line[1024];

    snprintf(line, sizeof line,
             "mkdir -p $dir/b/build && cat > $dir/b/build/lockstep << EOF\n"
             "#!/bin/sh\n"
             "[ \"\\$1\" != calibrate ] || { echo \\$\\$ > $dir/pid; exec sleep 3000; }\n"
             "exec $build/lockstep \"\\$@\"\n"
             "EOF\n"
             "chmod +x $dir/b/build/lockstep\n"
             "tools/check-gpu --device cpu --from $dir/b --out $dir/out --parts "
             "ddp,job,calibrate,overhead,shared " PLENTY " & c=$!\n"
             "while [ ! -s $dir/pid ] && kill -0 $c; do sleep 0.05; done\n"
             "kill -%s $c; wait $c; code=$?; kill -KILL $(cat $dir/pid); exit $code",
             signal);
    assert_code(shell(line), strcmp(signal, "KILL") ? 1 : 128 + SIGKILL);
    doc = result();
    for (size_t i = 0; i < LK_COUNT(done); i++)
        ck_assert_str_eq(of_part(doc, done[i], "status"), "pass");
    ck_assert_str_eq(of_part(doc, "calibrate", "status"), "not run");
    ck_assert_ptr_nonnull(strstr(of_part(doc, "calibrate", "reason"), endings[_i].reason));
    for (size_t i = 0; i < LK_COUNT(rest); i++) {
        ck_assert_str_eq(of_part(doc, rest[i], "status"), "not run");
        ck_assert_str_eq(of_part(doc, rest[i], "reason"), "not reached");
    }
    lk_json_free(doc);
    assert_code(shell("tar xOzf $dir/out/gpu-cpu-*.logs.tar.gz ddp.log job.log check.log"), 0);
    assert_said("lockstep run --model gpt-nano --verify");
    assert_said("lockstep predict");
    assert_said("  job        pass");
}
END_TEST

/* ---- The table of docs/support.md ---- */

START_TEST(the_table_claims_what_was_run)
{
    assert_code(shell("tools/check-gpu --claims"), 0);
}
END_TEST

#define RESULT                                                                                     \
    "mkdir -p $dir/bench/results $dir/docs && " CLAIMS_NOTHING                                     \
    "echo '{\"schema\": \"lockstep-check-gpu\", \"device\": \"cuda\", \"date\": \"2030-01-31\", "  \
    "\"machine\": {\"gpu\": \"NVIDIA X1\"}, \"parts\": [{\"name\": \"gpus\", \"status\": "         \
    "\"%s\"}]}' > $dir/bench/results/gpu-x1-2030-01-31.json && "
#define CLAIM                                                                                      \
    "sed -i 's;^| NCCL between GPUs[^|]*|.*;| NCCL between GPUs | run on %s, 2030-01-31 "          \
    "([result](../bench/results/gpu-x1-2030-01-31.json)) |;' $dir/docs/support.md && "
#define CLAIMS "tools/check-gpu --claims $dir/docs/support.md"

static const struct {
    const char *status, *claimed; /* in the result file; the GPU in the table, or NULL */
    int code;
    const char *says;
} tables[] = {
    {"pass", "NVIDIA X1", 0, ""},
    {"pass", NULL, 1, "does not say that it ran"},
    {"fail", "NVIDIA X1", 1, "in which it did not pass"},
    {"pass", "NVIDIA X2", 1, "is of NVIDIA X1"},
    {"fail", NULL, 0, ""},
};

START_TEST(claims_are_held_against_results)
{
    char line[4096];
    int n = snprintf(line, sizeof line, RESULT, tables[_i].status);

    if (tables[_i].claimed)
        n += snprintf(line + n, sizeof line - (size_t)n, CLAIM, tables[_i].claimed);
    snprintf(line + n, sizeof line - (size_t)n, CLAIMS);
    assert_code(shell(line), tables[_i].code);
    assert_said(tables[_i].says);
}
END_TEST

/* ---- The bundle ---- */

START_TEST(programs_with_libraries_are_not_carried)
{
    if (shell("ldd $build/lockstep | grep -q libz") != 0)
        return; /* a static build has no bundle */
    assert_code(shell("tools/gpu-bundle $build $dir/bundle lockstep"), 1);
    assert_said("libz");
    ck_assert_int_ne(shell("test -e $dir/bundle"), 0);
}
END_TEST

/* Archives of both go into a program that then needs the C library alone. */
START_TEST(static_libraries_are_found_and_linked)
{
    if (shell("STATIC=1 BLAS=no CUDA=no tools/probe $dir/p.mk") != 0) {
        assert_said("missing");
        return;
    }
    assert_code(
        shell("cat > $dir/t.c << EOF\n"
              "#include <check.h>\n#include <stdio.h>\n#include <zlib.h>\n"
              "int main(void)\n{\n"
              "    SRunner *r = srunner_create(suite_create(\"s\"));\n"
              "    srunner_run_all(r, CK_SILENT);\n"
              "    puts(zlibVersion());\n    return 0;\n}\n"
              "EOF\n"
              "libs=$(sed -n 's/^PROBE_\\(CHECK_\\)*LIBS := //p' $dir/p.mk | tr '\\n' ' ')\n"
              "cc -o $dir/t $dir/t.c $libs -lm -pthread && $dir/t && ldd $dir/t > $dir/ldd && "
              "! grep -E 'libz|check|subunit' $dir/ldd"),
        0);
}
END_TEST

SUITE(check_gpu, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, no_gpu_is_said);
    tcase_add_test(c, parts_fit_into_nine_minutes);
    tcase_add_test(c, pieces);
    tcase_add_test(c, every_part_on_the_cpu);
    tcase_add_test(c, parts_of_a_day_come_together);
    tcase_add_test(c, options_that_do_not_fit);
    tcase_add_test(c, commit_is_of_the_programs);
#ifdef DRY
    tcase_add_test(c, every_part_on_a_machine_that_is_none);
    tcase_add_test(c, recorded_ranks_on_a_machine_that_is_none);
    tcase_add_test(c, faulty_suite_is_a_failure);
    tcase_add_test(c, useless_tool_is_said);
    tcase_add_test(c, ended_suites_end);
#endif
    tcase_add_test(c, losses_that_differ_are_no_pass);
    tcase_add_test(c, parts_that_fail_or_hang);
    tcase_add_loop_test(c, ended_in_the_middle, 0, LK_COUNT(endings));
    tcase_add_test(c, the_table_claims_what_was_run);
    tcase_add_loop_test(c, claims_are_held_against_results, 0, LK_COUNT(tables));
    tcase_add_test(c, programs_with_libraries_are_not_carried);
    tcase_add_test(c, static_libraries_are_found_and_linked);
}
