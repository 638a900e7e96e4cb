/*
 * Count the launches of one training step of GPT-2 124M on a GPU, and the bytes that each op moves
 * from and to its memory, without and with what --fuse names: counted, not timed.
 *
 *     build/dry/step_count          two tables in Markdown, for docs/gpu.md
 *
 * The trainer, the models, the device and the launchers of kernels/ are the real ones, in bfloat16
 * with 16 samples of 1,024 tokens on one rank; below them are a machine that is none and functions
 * that count (tests/dry/launches_cuda.c). A product of cuBLASLt counts as one launch. Attention is
 * our own; copies are not counted.
 *
 * A kernel's traffic is each of its buffers once, read or written: no cache keeps a buffer from one
 * kernel to the next. The bytes of an op are those of its cost (kernels/ops.c) for all but the ops
 * that traffic() names. Partial sums, at most 2 % of what they are made of, are left out.
 */
#include "base/array.h"
#include "kernels/calls_blas_cuda.h"
#include "runtime/device/calls_cuda.h"
#include "runtime/train/trainer.h"
#include "tests/dry/launches.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/fakes/fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 16, CONTEXT = 1024, CHANNELS = 768, REAL_BYTES = 2, OPS = 32 };
/* The unit: a buffer of the residual stream's size. */
static const double U = (double)SAMPLES * CONTEXT * CHANNELS * REAL_BYTES;

struct count {
    const struct lk_op *op;
    int launches;
    double bytes;
};

/* What a step is asked to fuse, and what was counted. */
static struct step {
    const char *fuse;
    const char *more; /* what the table says beside it */
    bool deterministic;
    struct count ops[OPS];
    size_t n;
} steps[] = {
    {.fuse = "none"},
    {.fuse = "loss"},
    {.fuse = "bias"},
    {.fuse = "gelu"},
    {.fuse = "loss,bias,gelu"},
    {.fuse = "loss,bias,gelu,optimizer"},
    {.fuse = "auto", .more = " where no epilogue is faster", .deterministic = true},
};
enum { NONE, ALL = 4 };

static struct step *current; /* NULL: not counted */

/* ---- Counting ---- */

/* Return the bytes that an op moved, in one launch or several. */
static double traffic(const struct lk_op *op, const void *args)
{
    const struct lk_matmul_backward_weight_args *w = args;
    const struct lk_cross_entropy_forward_args *loss = args;
    double bytes = op->cost(args).bytes * REAL_BYTES / 4; /* a cost's reals are float */

    if (op == &lk_op_adamw) /* all but two of its seven numbers are float, and it writes eight */
        return 28.0 * (double)((const struct lk_adamw_args *)args)->elems;
    /* The cost of attention has the CPU's probabilities. */
    if (op == &lk_op_attention_forward)
        return 4 * U;
    if (op == &lk_op_attention_backward) /* dq, and dk and dv, each read q, k, v and dout */
        return 13 * U;
    if (op == &lk_op_matmul_backward_weight && w->dbias && !w->epilogue)
        return bytes + (double)w->rows * (double)w->outputs * REAL_BYTES; /* dout, once more */
    if (op == &lk_op_cross_entropy_forward && loss->dlogits && !launches.shared_bytes)
        return bytes * 3 / 2; /* rows that did not fit are read once more */
    return bytes;
}

static void add(const struct lk_op *op, const void *args)
{
    struct count *c = current->ops;

    while (c < current->ops + current->n && c->op != op)
        c++;
    if (c == current->ops + current->n) {
        if (++current->n > OPS)
            abort();
        c->op = op;
    }
    c->launches += launches.n;
    c->bytes += traffic(op, args);
}

static enum lk_status run_op(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    enum lk_status st;

    launches = (struct launches){0};
    st = op->cuda(args, c);
    if (st == LK_OK && current)
        add(op, args);
    return st;
}

static cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                             const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                             cublasLtMatrixLayout_t c_layout, void *d,
                             cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                             void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)handle;
    (void)desc;
    (void)alpha;
    (void)a;
    (void)a_layout;
    (void)b;
    (void)b_layout;
    (void)beta;
    (void)c;
    (void)c_layout;
    (void)d;
    (void)d_layout;
    (void)algo;
    (void)workspace;
    (void)bytes;
    (void)stream;
    launches.n++;
    return CUBLAS_STATUS_SUCCESS;
}

static enum lk_status blas_open(struct lk_cuda_blas **out)
{
    struct lk_blas_calls calls = fake_blas_calls;

    calls.Matmul = matmul;
    return lk_cuda_blas_open_calls(&calls, out);
}

/* ---- A step ---- */

/* The first step makes the buckets, the second is counted. */
enum { STEPS = 2 };

static enum lk_status progress(void *ctx, int64_t step, double loss)
{
    (void)loss;
    current = step + 2 == STEPS ? ctx : NULL;
    return LK_OK;
}

static enum lk_status count(struct step *s)
{
    struct lk_cuda_calls calls = lk_cuda_calls;
    struct lk_train_result result = {0};
    struct lk_train_config c = {.device = "cuda",
                                .comm = "self",
                                .local_batch = SAMPLES,
                                .steps = STEPS,
                                .samples = SAMPLES * STEPS,
                                .graph = LK_GRAPH_NO,
                                .progress = progress,
                                .progress_ctx = s,
                                .timeout_ns = 600 * LK_NS_PER_S};
    enum lk_status st = LK_OK;

    fake_cuda_reset(1);
    fake_cuda.idle = true;
    fake_cuda.open = 1; /* for good: nothing here touches memory */
    calls.run_op = run_op;
    calls.blas_open = blas_open;
    c.device_config = (struct lk_device_config){.real = LK_BF16,
                                                .share_gpu = true,
                                                .deterministic = s->deterministic,
                                                .attention = LK_ATTENTION_OWN,
                                                .cuda_calls = &calls};
    c.comm_config.world_size = 1;
    c.model = (struct lk_model_config){.name = "gpt2-124m", .blank = true};
    c.optim = (struct lk_optim_config){
        .kind = LK_OPTIM_ADAMW, .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    c.reducer = (struct lk_reducer_config){.ddp_rule = LK_DDP_TORCH_2,
                                           .first_bytes = 1 << 20,
                                           .cap_bytes = 25 << 20,
                                           .accumulation = 1,
                                           .no_sync = true};
    LK_TRY(lk_fuse_parse(s->fuse, &c.fuse));
    LK_TRY(lk_train(&c, &result));
out:
    current = NULL;
    lk_train_result_fini(&result);
    return st;
}

/* ---- Tables ---- */

static struct count total(const struct step *s)
{
    struct count sum = {0};

    for (size_t i = 0; i < s->n; i++) {
        sum.launches += s->ops[i].launches;
        sum.bytes += s->ops[i].bytes;
    }
    return sum;
}

static struct count count_of(const struct step *s, const struct lk_op *op)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->ops[i].op == op)
            return s->ops[i];
    return (struct count){.op = op};
}

static void print(void)
{
    struct count before = total(&steps[NONE]), after = total(&steps[ALL]);

    puts("| `--fuse` | launches | bytes | in U |\n|---|--:|--:|--:|");
    for (size_t i = 0; i < LK_COUNT(steps); i++) {
        struct count sum = total(&steps[i]);

        printf("| `%s`%s | %d | %.2f GB | %.1f |\n", steps[i].fuse,
               steps[i].more ? steps[i].more : "", sum.launches, sum.bytes / 1e9, sum.bytes / U);
    }
    puts("\n| op | launches | U | launches fused | U fused | difference |\n"
         "|---|--:|--:|--:|--:|--:|");
    for (size_t i = 0; i < steps[NONE].n; i++) {
        struct count fused = count_of(&steps[ALL], steps[NONE].ops[i].op);
        const struct count *plain = &steps[NONE].ops[i];

        printf("| `%s` | %d | %.1f | %d | %.1f | %.1f |\n", plain->op->name, plain->launches,
               plain->bytes / U, fused.launches, fused.bytes / U, (fused.bytes - plain->bytes) / U);
    }
    printf("| all | %d | %.1f | %d | %.1f | %.1f |\n", before.launches, before.bytes / U,
           after.launches, after.bytes / U, (after.bytes - before.bytes) / U);
}

int main(void)
{
    for (size_t i = 0; i < LK_COUNT(steps); i++)
        if (count(&steps[i]) != LK_OK) {
            fprintf(stderr, "step_count: --fuse=%s: %s\n", steps[i].fuse, lk_error_text());
            return EXIT_FAILURE;
        }
    print();
    return EXIT_SUCCESS;
}
