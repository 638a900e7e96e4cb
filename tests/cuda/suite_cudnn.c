/* Attention by cuDNN on a GPU against the definition, in both orders of its sums. */
#include "base/array.h"
#include "kernels/dnn.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/gpu_machine.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

/* The last shape is GPT-2 124M's with 16 samples, whose definition would take minutes: it runs, and
 * twice alike where it must. */
static const struct lk_attention_shape shapes[] = {
    {2, 128, 64, 1}, {2, 256, 384, 3}, {1, 1024, 256, 4}, {16, 1024, 768, 12}};
enum { SMALL = 2, COMPARED = 3 };

static const char *reason_to_skip(void)
{
    static char why[256];
    char text[LK_ATTENTION_TEXT];
    struct lk_cuda_dnn *dnn = NULL;
    bool taken = false;
    enum lk_status st = lk_cuda_dnn_open(LK_ATTENTION_CUDNN, false, &dnn);

    if (st == LK_OK)
        st = lk_cuda_dnn_choose(dnn, LK_BF16, &shapes[0], &taken, text);
    (void)snprintf(why, sizeof why, "%s", lk_error_text());
    lk_cuda_dnn_close(dnn);
    return st == LK_EUNSUPPORTED ? why : NULL;
}

/* Run attention of a shape, twice where the second time tells something. */
static void run_shape(struct cuda_rig *r, const struct lk_attention_shape *s, bool backward,
                      bool deterministic)
{
    const int runs = deterministic ? 2 : 1;
    uint64_t hash = 0;

    for (int run = 0; run < runs; run++) {
        r->hash = 0;
        r->worst = 0;
        r->rng = lk_rng_init(20260705, (uint64_t)(s - shapes));
        r->compare = run == 0 && s < shapes + COMPARED;
        cuda_case_attention(r, s, backward);
        gpu_machine_sync("attention");
        ck_assert_msg(!r->text[0], "%s", r->text);
        ck_assert_msg(run == 0 || r->hash == hash, "other bits the second time");
        hash = r->hash;
        if (r->compare)
            printf("  %s: largest error %.2f of its bound\n", backward ? "backward" : "forward",
                   r->worst);
    }
}

/* Run the shapes that cuDNN takes. A shape that it does not take is our own kernels', which the
 * suite kernels compares; there must be one that it takes. */
static void run_shapes(bool deterministic)
{
    struct cuda_rig r = {.machine = &gpu_machine};
    char text[LK_ATTENTION_TEXT];
    size_t n = getenv("LK_SMALL_SHAPES") ? SMALL : LK_COUNT(shapes), n_taken = 0;
    bool taken = false;

    gpu_machine_open();
    ck_assert_int_eq(lk_cuda_init(&r.cuda, gpu_machine_stream(), LK_BF16, NULL), LK_OK);
    ck_assert_int_eq(lk_cuda_dnn_open(LK_ATTENTION_AUTO, deterministic, &r.cuda.dnn), LK_OK);
    for (const struct lk_attention_shape *s = shapes; s < shapes + n; s++) {
        ck_assert_msg(lk_cuda_dnn_choose(r.cuda.dnn, LK_BF16, s, &taken, text) == LK_OK, "%s",
                      lk_error_text());
        printf("%zu x %zu x %zu, %zu heads%s: %s\n", s->samples, s->context, s->channels, s->heads,
               deterministic ? ", deterministic" : "", text);
        for (int backward = 0; backward < 2 && taken; backward++)
            run_shape(&r, s, backward, deterministic);
        n_taken += taken;
    }
    lk_cuda_dnn_close(r.cuda.dnn);
    lk_cuda_fini(&r.cuda);
    gpu_machine_close();
    ck_assert_msg(n_taken > 0, "cuDNN takes no shape: %s", text);
}

START_TEST(agrees_with_the_definition)
{
    run_shapes(false);
}
END_TEST

/* cuDNN has a deterministic backward pass on Hopper alone. */
START_TEST(gives_equal_bits_when_asked_to)
{
    int device, major = 0;

    ck_assert_int_eq(cudaGetDevice(&device), cudaSuccess);
    ck_assert_int_eq(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                     cudaSuccess);
    if (major == 9)
        run_shapes(true);
    else
        printf("deterministic: not on a GPU of compute capability %d.x\n", major);
}
END_TEST

static Suite *make(void)
{
    Suite *s = suite_create("attention by cuDNN");
    TCase *tc = tcase_create("attention");

    suite_add_tcase(s, tc);
    tcase_add_test(tc, agrees_with_the_definition);
    tcase_add_test(tc, gives_equal_bits_when_asked_to);
    return s;
}

const struct gpu_suite gpu_suite_cudnn = {.reason_to_skip = reason_to_skip, .make = make};
