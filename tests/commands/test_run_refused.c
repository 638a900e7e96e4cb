/* lockstep run refuses options, devices and files before a rank starts, and leaves nothing. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A GPT that computes for a millisecond. */
#define TINY                                                                                       \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 "                       \
    "--samples=4096 "                                                                              \
    "--no-pin --prefetch=1 "

/* Return the text with its "%s", if any, replaced by the scratch directory; the caller frees it. */
static char *with_dir(const char *text)
{
    const char *at = strstr(text, "%s");
    char *out;

    ck_assert_int_eq(at ? lk_asprintf(&out, "%.*s%s%s", (int)(at - text), text, scratch_dir, at + 2)
                        : lk_strdup(&out, text),
                     LK_OK);
    return out;
}

/* ---- Wrong usage: exit code 2 and the reason ---- */

static const struct {
    const char *options, *says;
} wrong[] = {
    {"--modle=gpt", "did you mean"},
    {"--model=gtp", "'gtp' is not a model"},
    {"--ranks=0", "ranks"},
    {"--steps=ten", "steps"},
    {"-n2 --scaling=1,2", "exclude each other"},
    {"--strong", "--strong needs --scaling"},
    {"--scaling=1,2 --strong --local-batches=2,4", "exclude each other"},
    {"--scaling=1,2 --strong --accumulations=2,4", "exclude each other"},
    {"--bucket-caps=1KiB,4KiB --export=x", "a run grid"},
    {"--comm=self -n2", "--comm=self is for one rank"},
    {"--comm=nccl -n2", "--comm=nccl needs --device=cuda"},
    {"--nccl-max-ctas=2 -n2", "--nccl-... options need --comm=nccl"},
    {"--nccl-register -n2", "--nccl-... options need --comm=nccl"},
    {"--share-gpu -n2", "--share-gpu needs --device=cuda"},
    {"--device=cuda --comm=tcp -n2", "which --device=cuda has not"},
    {"--device=cuda --algorithm=ring -n2", "NCCL_ALGO=allreduce:ring"},
    {"--device=cuda --nccl-min-ctas=4 --nccl-max-ctas=2 -n2",
     "--nccl-min-ctas is above --nccl-max-ctas"},
    {"--device=cuda --comm=self --nccl-cga=2", "--nccl-... options need --comm=nccl"},
    {"--device=cuda --fault=slow:rate=1GB/s -n2", "flipped bits are for collectives of the host"},
    {"--job=x", "--job is for --model=replay"},
    {"--model=replay", "--model=replay needs --job"},
    {"--model=replay --job=x", "--model=replay needs --device=timed"},
    {"--device=timed --verify", "computes nothing to verify"},
    {"--device=cuda --dtype=float16 --attention=cudnn", "--attention=cudnn needs --dtype=bfloat16"},
    {"--dtype=float64", "'float64' is not one of: float32 bfloat16 float16"},
    {"--dtype=bf16 --sharding=local-sgd -n2", "they need --dtype=float32"},
    {"--sharding=diloco --loss-scale=128 -n2", "ranks would skip other steps"},
    {"--dtype=fp16 --compression=powersgd -n2", "it needs --dtype=float32"},
    {"--loss-scale=dynamic --compression=powersgd -n2", "keeps errors of gradients"},
    {"--loss-scale=static", "--loss-scale: 'static' is no scale of the loss"},
    {"--loss-scale=0", "--loss-scale: '0' is no scale of the loss"},
    {"--growth-interval=5", "--growth-interval is of --loss-scale=dynamic"},
    {"--dtype=fp16 --loss-scale=64 --growth-interval=5", "is of --loss-scale=dynamic"},
    {"--dtype=fp16 --fuse=optimizer", "known to be finite"},
    {"--device=timed --model=replay --job=x --loss-scale=2", "no loss to scale"},
    {"--fuse=loss", "--fuse with another name than optimizer needs --device=cuda"},
    {"--device=timed --fuse=optimizer,gelu",
     "--fuse with another name than optimizer needs --device=cuda"},
    {"--device=cuda --fuse=los",
     "--fuse: 'los' is not a fusion (known: loss bias gelu optimizer), or "
     "'auto' or 'none' alone"},
    {"--device=cuda --fuse=loss,auto", "'auto' is not a fusion"},
    {"--device=cuda --fuse=", "'' is not a fusion"},
    {"--slow-rank=1:2", "--slow-rank needs --device=timed"},
    {"--device=timed --slow-rank=1", "NUMBER:FACTOR"},
    {"-n2 --device=timed --slow-rank=2:2", "the ranks are 0 to 1"},
    {"--scaling=1,3 --device=timed --slow-rank=3:2", "the ranks are 0 to 2"},
    {"--timed-flops=1e9", "--timed-flops needs --device=timed"},
    {"--timed-bandwidth=1GB/s", "--timed-bandwidth needs --device=timed"},
    {"--device=timed --noise-every=2", "--noise-every"},
    {"--momentum=0.5", "--momentum is for --optimizer=sgd"},
    {"--optimizer=lamb --momentum=0.5", "--momentum is for --optimizer=sgd and lars"},
    {"--optimizer=lars --beta1=0.5", "--beta1 is for --optimizer=adamw and lamb"},
    {"--trust=0.5", "--trust is for --optimizer=lars"},
    {"--lr-scaling=sqrt", "--lr-scaling needs --reference-batch"},
    {"--lr-warmup=1.5", "'1.5' is no length of a warm-up"},
    {"--compression=powersgd --verify -n2", "--verify: powersgd"},
    {"--compression=powersgd --noise-every=2 -n2", "--noise-every: powersgd"},
    {"--compression=bf16 --powersgd-rank=2 -n2", "need --compression=powersgd"},
    {"--period=4", "are for --sharding=local-sgd and diloco"},
    {"--averaging-warmup=4", "are for --sharding=local-sgd and diloco"},
    {"--sharding=local-sgd --outer-momentum=0.5", "are for --sharding=diloco"},
    {"--sharding=local-sgd --verify", "ranks differ on purpose"},
    {"--sharding=diloco --noise-every=2", "make no mean gradient"},
    {"--sharding=local-sgd --sync-every", "no gradients are all-reduced between averagings"},
    {"--sharding=zero2 --compression=fp16 -n2", "which --sharding with shards has not"},
    {"--sharding=zero1 --optimizer=lamb -n2", "need whole tensors"},
    {"--sharding=local-sgd --compression=fp16", "gradients, which are not all-reduced"},
    {"--optimizer=sgd --beta1=0.5", "--beta1 is for --optimizer=adamw"},
    {"--optimizer=sgd --beta2=0.5", "--beta2 is for --optimizer=adamw"},
    {"--optimizer=sgd --epsilon=1e-6", "--epsilon is for --optimizer=adamw"},
    {"--data=LICENSE --samples=100", "--samples is for synthetic data"},
    {"--plant=wrong-divisor", "--plant needs --verify"},
    {"--sharding=zero4", "'zero4'"},
    {"--data-parallel=2 -n2", "it has one rank"},
    {"--data-parallel=2 --device=timed", "--data-parallel needs --device=cpu"},
    {"--data-parallel=2 --verify", "know the devices of ranks alone"},
    {"--data-parallel=2 --sharding=zero3", "--data-parallel and --sharding exclude each other"},
    {"--data-parallel=4 -b3", "each device needs a sample"},
    {"--sharding=async --noise-every=2", "a step does not wait for its norms"},
    {"--sharding=async --fuse=optimizer", "gradients are applied later"},
    {"--sharding=async --verify --plant=stale-view", "--plant and --sharding=async"},
    {"--sharding=async --model=resnet18 --sync-batch-norm", "SyncBatchNorm is a barrier"},
    {"--sharding=async --verify --clip-norm=1", "exclude each other with --sharding=async"},
    {"--sharding=async --device=cuda", "--sharding=async is not built for --device=cuda"},
    {"--sharding=async --reduce=every -a2", "of the last micro-batch alone"},
    {"--staleness=3", "--staleness is for --sharding=async"},
    {"--sharding=async --staleness=65", "--staleness"},
    {"--sharding=async --staleness=0", "--staleness"},
    {"--sharding=zero2 --noise-every=1", "--noise-every and --sharding exclude each other"},
    {"--sharding=zero3 --fuse=optimizer", "--fuse=optimizer and --sharding exclude each other"},
    {"--sharding=zero3 --verify --plant=stale-view", "--plant and --sharding"},
    {"--sharding=hsdp -n4", "--sharding=hsdp needs --shard-group"},
    {"--sharding=hsdp --shard-group=2 -n3", "--shard-group=2 does not divide 3 ranks"},
    {"--sharding=hsdp --shard-group=2 --comm=mpi", "--sharding=hsdp needs --comm=tcp or nccl"},
    {"--shard-group=2 -n4", "--shard-group needs --sharding=hsdp"},
    {"--reduce=scatter", "--reduce=scatter needs --sharding=hsdp"},
    {"--reduce=every --sync-every", "--reduce and --sync-every exclude each other"},
    {"--device=timed --slow-rank=1:0", "factor"},
    {"--verify-steps=3", "--verify-steps needs --verify"},
    {"--gpu-records=yes", "--gpu-records=yes needs --device=cuda"},
    {"--scaling=1,3 --strong -b8", "does not divide by 3"},
    {"--scaling=1,2 --export=x", "--export is for a single run"},
    {"--plant=typo", "plant"},
    {"-n2 --fault=fale:call=1", "'fale' is no fault"},
    {"-n2 --fault=fail:call=1,rank=2", "fail: rank: "},
    {"--fault=fail:call=1,rank=1", "fail: rank: "},
    {"--momentum=1.5", "momentum"},
    {"--log=nonsense", "nonsense"},
    {"extra", "takes no operands"},
};

START_TEST(wrong_usage)
{
    struct program p;
    char *out = scratch_path(scratch_dir, "run");

    program_run(&p, scratch_dir, 2, "run --out=%s %s", out, wrong[_i].options);
    ck_assert_msg(strstr(p.err, wrong[_i].says) != NULL, "%s", p.err);
    ck_assert_str_eq(p.out, "");
    ck_assert(!lk_file_exists(out));
    free(out);
    program_fini(&p);
}
END_TEST

/* ---- Unusable files: no rank starts, and nothing is left ---- */

static const struct {
    const char *options, *says; /* %s: the scratch directory */
    int code;
} unusable[] = {
    {"--export=%s/nowhere/weights " TINY, "nowhere", 1},
    {"--export=%s " TINY, "is a directory", 1},
    {"--import=%s/nothing " TINY, "nothing", 1},
    {"--import=%s " TINY, "%s", 1},
    {"--data=%s/nothing", "nothing", 1},
    {"--data=%s/short --model=mlp --vocab=256 --context=64", "64 bytes are too few", 2},
    {"--data=%s/short --model=mlp --vocab=255 --context=8", "vocabulary of 256, not 255", 2},
};

/* The reason is printed at once, and once. (On a machine with a GPU the run succeeds.) */
START_TEST(no_gpu)
{
    char *out = scratch_path(scratch_dir, "run");
    struct program p;

    program_start(&p, scratch_dir, NULL, NULL,
                  "run --device=cuda --dtype=%s -n2 --steps=1 --out=%s " TINY,
                  _i ? "bfloat16" : "float32", out);
    program_wait(&p);
    ck_assert_int_eq(p.signal, 0);
    if (p.code != 0) {
        ck_assert_int_eq(p.code, 1);
        ck_assert_msg(strstr(p.err, "device cuda: ") ||
                          strstr(p.err, "'cuda' is not a device of this build"),
                      "%s", p.err);
        ck_assert_msg(strstr(p.err, "rank ") == NULL, "%s", p.err);
        ck_assert_str_eq(p.out, "");
        ck_assert(!lk_file_exists(out));
    }
    free(out);
    program_fini(&p);
}
END_TEST

#ifdef LK_HAVE_CUDA

/* What starts the ranks looks at the GPU and resets it: no tool that traces CUDA is loaded there. A
 * stand-in for the driver writes down what it would load; its functions are missing, so no rank
 * starts. */
START_TEST(what_starts_ranks_is_not_traced)
{
    static const char source[] =
        "#include <stdio.h>\n#include <stdlib.h>\n__attribute__((constructor)) static void "
        "f(void)\n"
        "{\n    FILE *f = fopen(getenv(\"SAID\"), \"a\");\n"
        "    const char *tool = getenv(\"CUDA_INJECTION64_PATH\");\n"
        "    fprintf(f, \"%s\\n\", tool ? tool : \"none\");\n    fclose(f);\n}\n";
    struct shell_result r;
    char *said;

    free(scratch_put("driver.c", source, strlen(source)));
    r = shell_run("build=$(realpath " LK_BUILD_DIR ") && cd '%s' && cc -shared -fPIC "
                  "-Wl,-soname,libcuda.so.1 -o libcuda.so.1 driver.c && LD_LIBRARY_PATH=$PWD "
                  "SAID=$PWD/said CUDA_INJECTION64_PATH=tool $build/lockstep run --device=cuda -n2 "
                  "--steps=1 --out=run " TINY " 2>&1",
                  scratch_dir);
    ck_assert_msg(r.code == 1, "%s", r.text);
    said = scratch_read(scratch_dir, "said");
    ck_assert_str_eq(said, "none\n");
    free(said);
}
END_TEST

#endif

START_TEST(unusable_files)
{
    char *out = scratch_path(scratch_dir, "run");
    char *path = scratch_path(scratch_dir, "short");
    char *options, *says;
    FILE *f = fopen(path, "wb");
    struct program p;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fprintf(f, "%64s", "x"), 64);
    ck_assert_int_eq(fclose(f), 0);
    options = with_dir(unusable[_i].options);
    says = with_dir(unusable[_i].says);
    program_run(&p, scratch_dir, unusable[_i].code, "run -n2 --steps=3 --out=%s %s", out, options);
    ck_assert_msg(strstr(p.err, says) != NULL, "%s", p.err);
    ck_assert_msg(strstr(p.err, "rank ") == NULL, "%s", p.err);
    ck_assert(!lk_file_exists(out));
    free(options);
    free(says);
    free(path);
    free(out);
    program_fini(&p);
}
END_TEST

SUITE(run_refused, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, wrong_usage, 0, LK_COUNT(wrong));
    tcase_add_loop_test(c, no_gpu, 0, 2);
#ifdef LK_HAVE_CUDA
    tcase_add_test(c, what_starts_ranks_is_not_traced);
#endif
    tcase_add_loop_test(c, unusable_files, 0, LK_COUNT(unusable));
}
