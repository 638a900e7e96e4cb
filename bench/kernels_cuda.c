/*
 * Time each CUDA kernel at the sizes of GPT-2 124M: milliseconds, and what that is in flop/s
 * and bytes/s of the op's formula. Exit 77 where there is no GPU.
 *
 *     build/bench/kernels_cuda [SAMPLES]
 */
#include "base/array.h"
#include "base/rng.h"
#include "kernels/cuda.h"
#include "kernels/dnn.h"
#include "kernels/ops.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_SKIPPED = 77, WARM_UP = 5, RUNS = 20 };
/* Of a product without alignment, which cuBLAS may run a hundred times slower. */
enum { FEW_WARM_UP = 1, FEW_RUNS = 2 };
enum { CONTEXT = 1024, CHANNELS = 768, HEADS = 12, VOCAB = 50257, WIDE = 4 * CHANNELS };
enum { STRIDE = (VOCAB + 63) / 64 * 64 }; /* of logits in runtime/model/model_gpt.c */

/* Device memory. Activations, weights and tokens are random: products of zeros draw less power, so
 * a GPU runs them faster. States and statistics start as zeros. */
struct buffers {
    void *x, *y, *z;        /* (rows, WIDE) */
    void *logits;           /* (rows, STRIDE) */
    void *weight, *dweight; /* (STRIDE, CHANNELS) */
    void *master, *m, *v;   /* the same, float */
    void *mean, *rstd;      /* (rows * HEADS) float */
    int32_t *tokens;        /* (rows) */
    struct lk_optim_tensor *tensor;
    struct lk_optim_rate *rate;
};

struct bench {
    struct lk_cuda cuda;
    struct buffers b;
    size_t samples, rows;
    cudaEvent_t start, end;
    int warm_up, runs;
    char shape[64]; /* of the product that is being timed; "-": the op has one shape here */
};

static enum lk_status grab(void **out, size_t n, size_t size)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(cudaMalloc(out, n * size), "buffer"));
    LK_TRY(lk_cuda_status(cudaMemset(*out, 0, n * size), "buffer"));
out:
    return st;
}

/* Uniform in [-0.5, 0.5), the same numbers again and again. */
static enum lk_status fill_random(const struct bench *p, void *to, size_t n)
{
    enum { PATTERN = 1 << 16 };
    size_t real = lk_dtype_bytes(p->cuda.real);
    struct lk_rng g = lk_rng_init(1, 0);
    char *pattern = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&pattern, PATTERN, real));
    for (size_t i = 0; i < PATTERN; i++) {
        float x = (float)lk_rng_uniform(&g) - 0.5F;
        uint16_t half = lk_bf16_from_f32(x);

        memcpy(pattern + i * real, real == sizeof half ? (void *)&half : (void *)&x, real);
    }
    for (size_t i = 0; i < n; i += PATTERN) {
        size_t count = n - i < PATTERN ? n - i : PATTERN;

        LK_TRY(lk_cuda_status(
            cudaMemcpy((char *)to + i * real, pattern, count * real, cudaMemcpyHostToDevice),
            "random numbers"));
    }
out:
    free(pattern);
    return st;
}

static enum lk_status fill_tokens(const struct bench *p)
{
    struct lk_rng g = lk_rng_init(1, 1);
    int32_t *tokens = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&tokens, p->rows, sizeof *tokens));
    for (size_t i = 0; i < p->rows; i++)
        tokens[i] = (int32_t)lk_rng_below(&g, VOCAB);
    LK_TRY(lk_cuda_status(
        cudaMemcpy(p->b.tokens, tokens, p->rows * sizeof *tokens, cudaMemcpyHostToDevice),
        "tokens"));
out:
    free(tokens);
    return st;
}

static enum lk_status make_buffers(struct bench *p)
{
    struct buffers *b = &p->b;
    size_t real = lk_dtype_bytes(p->cuda.real), weights = (size_t)VOCAB * CHANNELS;
    size_t padded = (size_t)STRIDE * CHANNELS;
    const struct lk_optim_rate rate = {1e-9, 1e-9, 1, 1};
    struct lk_optim_tensor tensor;
    enum lk_status st = LK_OK;

    LK_TRY(grab(&b->x, p->rows * WIDE, real));
    LK_TRY(grab(&b->y, p->rows * WIDE, real));
    LK_TRY(grab(&b->z, p->rows * WIDE, real));
    LK_TRY(grab(&b->logits, p->rows * STRIDE, real));
    LK_TRY(grab(&b->weight, padded, real));
    LK_TRY(grab(&b->dweight, padded, real));
    LK_TRY(grab(&b->master, weights, sizeof(float)));
    LK_TRY(grab(&b->m, weights, sizeof(float)));
    LK_TRY(grab(&b->v, weights, sizeof(float)));
    LK_TRY(grab(&b->mean, p->rows * HEADS, sizeof(float)));
    LK_TRY(grab(&b->rstd, p->rows * HEADS, sizeof(float)));
    LK_TRY(grab((void **)&b->tokens, p->rows, sizeof *b->tokens));
    LK_TRY(grab((void **)&b->tensor, 1, sizeof *b->tensor));
    LK_TRY(grab((void **)&b->rate, 1, sizeof *b->rate));
    LK_TRY(fill_random(p, b->x, p->rows * WIDE));
    LK_TRY(fill_random(p, b->y, p->rows * WIDE));
    LK_TRY(fill_random(p, b->logits, p->rows * STRIDE));
    LK_TRY(fill_random(p, b->weight, padded));
    LK_TRY(fill_random(p, b->dweight, padded));
    LK_TRY(fill_tokens(p));
    tensor = (struct lk_optim_tensor){.param = b->weight,
                                      .master = b->master,
                                      .m = b->m,
                                      .v = b->v,
                                      .grad = b->dweight,
                                      .n = weights};
    LK_TRY(lk_cuda_status(cudaMemcpy(b->tensor, &tensor, sizeof tensor, cudaMemcpyHostToDevice),
                          "table"));
    LK_TRY(lk_cuda_status(cudaMemcpy(b->rate, &rate, sizeof rate, cudaMemcpyHostToDevice), "rate"));
out:
    return st;
}

static void free_buffers(const struct buffers *b)
{
    void *const all[] = {b->x, b->y, b->z,    b->logits, b->weight, b->dweight, b->master,
                         b->m, b->v, b->mean, b->rstd,   b->tokens, b->tensor,  b->rate};

    for (size_t i = 0; i < LK_COUNT(all); i++)
        (void)cudaFree(all[i]);
}

static enum lk_status launch_times(struct bench *p, const struct lk_op *op, const void *args, int n)
{
    enum lk_status st = LK_OK;

    for (int i = 0; i < n; i++)
        LK_TRY(op->cuda(args, &p->cuda));
out:
    return st;
}

static enum lk_status report(struct bench *p, const struct lk_op *op, const void *args)
{
    struct lk_op_cost cost = op->cost(args);
    double bytes =
        cost.bytes * (double)lk_dtype_bytes(p->cuda.real) / 4; /* its bytes are float's */
    enum lk_status st = LK_OK;
    cudaStream_t stream = (cudaStream_t)p->cuda.stream;
    float ms = 0;

    st = launch_times(p, op, args, p->warm_up);
    if (st == LK_EUNSUPPORTED) {
        printf("%-26s %-23s %-9s refused: %s\n", op->name, p->shape, lk_dtype_name(p->cuda.real),
               lk_error_text());
        return LK_OK;
    }
    LK_TRY(st);
    LK_TRY(lk_cuda_status(cudaEventRecord(p->start, stream), op->name));
    LK_TRY(launch_times(p, op, args, p->runs));
    LK_TRY(lk_cuda_status(cudaEventRecord(p->end, stream), op->name));
    LK_TRY(lk_cuda_status(cudaEventSynchronize(p->end), op->name));
    LK_TRY(lk_cuda_status(cudaEventElapsedTime(&ms, p->start, p->end), op->name));
    ms /= (float)p->runs;
    printf("%-26s %-23s %-9s %9.4f %9.2f %9.1f\n", op->name, p->shape, lk_dtype_name(p->cuda.real),
           (double)ms, cost.flops / (double)ms * 1e-9, bytes / (double)ms * 1e-6);
out:
    return st;
}

#define REPORT(p, op, ...) LK_TRY(report(p, &lk_op_##op, &(struct lk_##op##_args){__VA_ARGS__}))

static enum lk_status report_products(struct bench *p, size_t inputs, size_t outputs, size_t stride)
{
    const struct buffers *b = &p->b;
    void *wide = outputs >= VOCAB ? b->logits : b->y;
    void *bias = outputs >= VOCAB ? NULL : b->z;
    enum lk_status st = LK_OK;

    (void)snprintf(p->shape, sizeof p->shape, "%zux%zux%zu%s", p->rows, inputs,
                   stride ? stride : outputs, outputs > VOCAB ? "/padded" : "");
    REPORT(p, matmul_forward, .out = wide, .in = b->x, .weight = b->weight, .bias = bias,
           .rows = p->rows, .inputs = inputs, .outputs = outputs, .stride = stride);
    REPORT(p, matmul_backward_input, .din = b->x, .dout = wide, .weight = b->weight,
           .rows = p->rows, .inputs = inputs, .outputs = outputs, .stride = stride);
    REPORT(p, matmul_backward_weight, .dweight = b->dweight, .dbias = bias, .dout = wide,
           .in = b->x, .rows = p->rows, .inputs = inputs, .outputs = outputs, .stride = stride);
out:
    (void)strcpy(p->shape, "-");
    return st;
}

/* A bias and a third matrix at once may cost cuBLASLt its fastest kernels (kernels/blas_cuda.c). */
static enum lk_status report_residual(struct bench *p, size_t inputs)
{
    const struct buffers *b = &p->b;
    enum lk_status st = LK_OK;

    REPORT(p, matmul_forward, .out = b->y, .in = b->x, .weight = b->weight, .bias = b->z,
           .residual = b->z, .rows = p->rows, .inputs = inputs, .outputs = CHANNELS);
out:
    return st;
}

/* Products with epilogues; "+gelu" and "+sums" stand behind the shape. */
static enum lk_status report_epilogues(struct bench *p)
{
    static const size_t layers[][2] = {
        {CHANNELS, 3 * CHANNELS}, {CHANNELS, CHANNELS}, {WIDE, CHANNELS}};
    const struct buffers *b = &p->b;
    enum lk_status st = LK_OK;

    (void)snprintf(p->shape, sizeof p->shape, "%zux%dx%d+gelu", p->rows, CHANNELS, WIDE);
    REPORT(p, matmul_forward, .out = b->y, .gelu = b->logits, .in = b->x, .weight = b->weight,
           .bias = b->z, .rows = p->rows, .inputs = CHANNELS, .outputs = WIDE);
    (void)snprintf(p->shape, sizeof p->shape, "%zux%dx%d+gelu+sums", p->rows, WIDE, CHANNELS);
    REPORT(p, matmul_backward_input, .din = b->y, .dout = b->x, .weight = b->weight,
           .gelu_in = b->logits, .dbias = b->z, .rows = p->rows, .inputs = WIDE,
           .outputs = CHANNELS);
    for (size_t i = 0; i < LK_COUNT(layers); i++) {
        size_t inputs = layers[i][0], outputs = layers[i][1];

        (void)snprintf(p->shape, sizeof p->shape, "%zux%zux%zu+sums", p->rows, inputs, outputs);
        REPORT(p, matmul_backward_weight, .dweight = b->dweight, .dbias = b->z, .dout = b->y,
               .in = b->x, .rows = p->rows, .inputs = inputs, .outputs = outputs, .epilogue = true);
    }
    (void)strcpy(p->shape, "+sums");
    REPORT(p, gelu_backward, .din = b->y, .dbias = b->z, .dout = b->y, .in = b->x,
           .n = p->rows * WIDE, .columns = WIDE);
out:
    (void)strcpy(p->shape, "-");
    return st;
}

/* by: whose kernels run it, printed as its shape. */
static enum lk_status report_attention(struct bench *p, const char *by)
{
    const struct buffers *b = &p->b;
    size_t c = CHANNELS;
    enum lk_status st = LK_OK;

    (void)snprintf(p->shape, sizeof p->shape, "%s", by);
    REPORT(p, attention_forward, .out = b->y, .log_sum = b->mean, .qkv = b->x,
           .samples = p->samples, .context = CONTEXT, .channels = c, .heads = HEADS);
    REPORT(p, attention_backward, .dqkv = b->z, .dout = b->y, .qkv = b->x, .out = b->y,
           .log_sum = b->mean, .samples = p->samples, .context = CONTEXT, .channels = c,
           .heads = HEADS);
out:
    (void)snprintf(p->shape, sizeof p->shape, "-");
    return st;
}

/* By cuDNN, where it has some: as usual, and with its sums in one order. */
static enum lk_status report_cudnn(struct bench *p)
{
    const struct lk_attention_shape shape = {p->samples, CONTEXT, CHANNELS, HEADS};
    char text[LK_ATTENTION_TEXT];
    bool taken = false;
    enum lk_status st = LK_OK;

    for (int deterministic = 0; deterministic < 2; deterministic++) {
        LK_TRY(lk_cuda_dnn_open(LK_ATTENTION_AUTO, deterministic, &p->cuda.dnn));
        LK_TRY(lk_cuda_dnn_choose(p->cuda.dnn, p->cuda.real, &shape, &taken, text));
        printf("# attention%s: %s\n", deterministic ? ", deterministic" : "", text);
        if (taken)
            LK_TRY(report_attention(p, deterministic ? "cudnn/in-order" : "cudnn"));
        LK_TRY(lk_cuda_status(cudaStreamSynchronize(p->cuda.stream), "attention"));
        lk_cuda_dnn_close(p->cuda.dnn);
        p->cuda.dnn = NULL;
    }
out:
    lk_cuda_dnn_close(p->cuda.dnn);
    p->cuda.dnn = NULL;
    return st;
}

static enum lk_status report_block(struct bench *p)
{
    const struct buffers *b = &p->b;
    size_t rows = p->rows, c = CHANNELS;
    enum lk_status st = LK_OK;

    LK_TRY(report_products(p, CHANNELS, 3 * CHANNELS, 0));
    LK_TRY(report_products(p, CHANNELS, CHANNELS, 0));
    LK_TRY(report_products(p, CHANNELS, WIDE, 0));
    LK_TRY(report_products(p, WIDE, CHANNELS, 0));
    printf("# the two that add the residual stream, with it\n");
    LK_TRY(report_residual(p, CHANNELS));
    LK_TRY(report_residual(p, WIDE));
    printf("#\n");
    LK_TRY(report_attention(p, "own"));
    REPORT(p, layernorm_forward, .out = b->y, .mean = b->mean, .rstd = b->rstd, .in = b->x,
           .weight = b->weight, .bias = b->weight, .rows = rows, .channels = c);
    REPORT(p, layernorm_backward, .din = b->z, .dweight = b->dweight, .dbias = b->dweight,
           .dout = b->y, .in = b->x, .weight = b->weight, .mean = b->mean, .rstd = b->rstd,
           .rows = rows, .channels = c, .accumulate_input = true);
    REPORT(p, gelu_forward, .out = b->y, .in = b->x, .n = rows * WIDE);
    REPORT(p, gelu_backward, .din = b->y, .dout = b->y, .in = b->x, .n = rows * WIDE);
    LK_TRY(report_epilogues(p));
out:
    return st;
}

static enum lk_status report_rest(struct bench *p)
{
    const struct buffers *b = &p->b;
    size_t rows = p->rows, c = CHANNELS, weights = (size_t)VOCAB * CHANNELS;
    size_t chunks = (weights + LK_OPTIM_CHUNK - 1) / LK_OPTIM_CHUNK;
    enum lk_status st = LK_OK;

    printf("# logits without (%d runs) and with something between their rows (as stored)\n",
           FEW_RUNS);
    p->warm_up = FEW_WARM_UP;
    p->runs = FEW_RUNS;
    LK_TRY(report_products(p, CHANNELS, VOCAB, 0));
    p->warm_up = WARM_UP;
    p->runs = RUNS;
    LK_TRY(report_products(p, CHANNELS, VOCAB, STRIDE));
    printf("# logits of a padded vocabulary: no word is left over for a product of its own\n");
    LK_TRY(report_products(p, CHANNELS, STRIDE, 0));
    REPORT(p, cross_entropy_forward, .loss = b->mean, .log_sum = b->rstd, .logits = b->logits,
           .targets = b->tokens, .rows = rows, .vocab = VOCAB, .target_stride = 1,
           .stride = STRIDE);
    REPORT(p, cross_entropy_backward, .dlogits = b->logits, .logits = b->logits, .log_sum = b->rstd,
           .targets = b->tokens, .rows = rows, .vocab = VOCAB, .target_stride = 1, .stride = STRIDE,
           .seed = 1);
    (void)strcpy(p->shape, "+gradient");
    REPORT(p, cross_entropy_forward, .loss = b->mean, .log_sum = b->rstd, .dlogits = b->logits,
           .logits = b->logits, .targets = b->tokens, .rows = rows, .vocab = VOCAB,
           .target_stride = 1, .stride = STRIDE, .seed = 1);
    (void)strcpy(p->shape, "-");
    REPORT(p, encoder_forward, .out = b->x, .tokens = b->tokens, .wte = b->weight, .wpe = b->y,
           .samples = p->samples, .context = CONTEXT, .channels = c, .vocab = VOCAB);
    REPORT(p, encoder_backward_position, .dwpe = b->y, .dout = b->x, .samples = p->samples,
           .context = CONTEXT, .channels = c, .wpe_rows = CONTEXT);
    REPORT(p, encoder_backward_token, .dwte = b->dweight, .dout = b->x, .tokens = b->tokens,
           .samples = p->samples, .context = CONTEXT, .channels = c, .vocab = VOCAB,
           .accumulate = true);
    REPORT(p, adamw, .tensors = b->tensor, .n_tensors = 1, .n_chunks = chunks, .elems = weights,
           .rate = b->rate, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8);
    REPORT(p, sgd, .tensors = b->tensor, .n_tensors = 1, .n_chunks = chunks, .elems = weights,
           .rate = b->rate, .momentum = 0.9);
    REPORT(p, sum_squares, .out = b->mean, .in = b->dweight, .n = weights);
    REPORT(p, scale, .x = b->dweight, .n = weights, .factor = 0.5);
    REPORT(p, cast_to_wire, .out = b->master, .in = b->weight, .n = weights, .dtype = LK_BF16);
    REPORT(p, wait, .seconds = 1e-3);
out:
    return st;
}

static enum lk_status run(size_t samples, enum lk_dtype real, struct lk_cuda_blas *blas)
{
    struct bench p = {.samples = samples,
                      .rows = samples * CONTEXT,
                      .shape = "-",
                      .warm_up = WARM_UP,
                      .runs = RUNS};
    cudaStream_t stream = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_cuda_status(cudaStreamCreate(&stream), "stream"));
    LK_TRY(lk_cuda_status(cudaEventCreate(&p.start), "event"));
    LK_TRY(lk_cuda_status(cudaEventCreate(&p.end), "event"));
    LK_TRY(lk_cuda_init(&p.cuda, stream, real, blas));
    LK_TRY(make_buffers(&p));
    LK_TRY(report_block(&p));
    LK_TRY(report_cudnn(&p));
    LK_TRY(report_rest(&p));
out:
    free_buffers(&p.b);
    lk_cuda_fini(&p.cuda);
    if (p.start)
        (void)cudaEventDestroy(p.start);
    if (p.end)
        (void)cudaEventDestroy(p.end);
    if (stream)
        (void)cudaStreamDestroy(stream);
    return st;
}

int main(int argc, char **argv)
{
    size_t samples = argc > 1 ? strtoul(argv[1], NULL, 10) : 16;
    struct lk_cuda_blas *blas = NULL;
    struct cudaDeviceProp properties;
    enum lk_status st = LK_OK;
    int n = 0;

    setvbuf(stdout, NULL, _IOLBF, 0); /* a time limit must not lose earlier lines */
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        fprintf(stderr, "kernels_cuda: skipped: no GPU\n");
        return EXIT_SKIPPED;
    }
    LK_TRY(lk_cuda_status(cudaGetDeviceProperties(&properties, 0), "GPU 0"));
    LK_TRY(lk_cuda_blas_open(&blas));
    printf("# %s, GPT-2 124M with %zu samples of %d tokens, %s\n"
           "# op                       rows x in x out         type             ms   Tflop/s      "
           "GB/s\n",
           properties.name, samples, CONTEXT, lk_cuda_blas_path(blas));
    LK_TRY(run(samples, LK_BF16, blas));
    LK_TRY(run(samples, LK_F32, blas));
out:
    if (st != LK_OK)
        fprintf(stderr, "kernels_cuda: %s\n", lk_error_text());
    lk_cuda_blas_close(blas);
    return st == LK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
