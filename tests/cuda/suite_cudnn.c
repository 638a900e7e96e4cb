/* Attention by cuDNN on a GPU against the definition, in both orders of its sums. */
#include "kernels/dnn.h"
#include "tests/cuda/cases.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/gpu_machine.h"

#include <stdio.h>
#include <string.h>

/* A shape of the cases (tests/cuda/cases.c) that cuDNN takes. */
static const struct lk_attention_shape taken = {1, 1024, 256, 4};

static enum lk_status choose(bool deterministic, struct lk_cuda_dnn **out,
                             char text[LK_ATTENTION_TEXT])
{
    bool is_taken;

    LK_PASS(lk_cuda_dnn_open(LK_ATTENTION_CUDNN, deterministic, out));
    return lk_cuda_dnn_choose(*out, LK_BF16, &taken, &is_taken, text);
}

static const char *reason_to_skip(void)
{
    static char why[256];
    char text[LK_ATTENTION_TEXT];
    struct lk_cuda_dnn *dnn = NULL;
    enum lk_status st = choose(false, &dnn, text);

    lk_cuda_dnn_close(dnn);
    (void)snprintf(why, sizeof why, "%s", lk_error_text());
    return st == LK_OK ? NULL : why;
}

/* Run the cases of attention twice. Shapes that cuDNN does not take run on our own kernels. */
static void run_cases(bool deterministic)
{
    struct cuda_rig r = {.machine = &gpu_machine, .large = true};
    char text[LK_ATTENTION_TEXT];
    enum lk_status st;

    gpu_machine_open();
    ck_assert_int_eq(lk_cuda_init(&r.cuda, gpu_machine_stream(), LK_BF16, NULL), LK_OK);
    st = choose(deterministic, &r.cuda.dnn, text);
    if (st == LK_EUNSUPPORTED && deterministic) {
        printf("deterministic: %s\n", lk_error_text());
        goto out;
    }
    ck_assert_msg(st == LK_OK, "%s", lk_error_text());
    for (const struct cuda_case *c = cuda_cases; c->name; c++) {
        uint64_t hash = 0;

        if (strncmp(c->name, "attention", 9) != 0)
            continue;
        for (int run = 0; run < 2; run++) {
            r.compare = run == 0;
            cuda_case_run(c, &r);
            gpu_machine_sync(c->name);
            ck_assert_msg(!r.text[0], "%s: %s", c->name, r.text);
            ck_assert_msg(run == 0 || !deterministic || r.hash == hash,
                          "%s: other bits the second time", c->name);
            hash = r.hash;
        }
        printf("%-20s %s%s: largest error %.2f of its bound\n", c->name, text,
               deterministic ? ", deterministic" : "", r.worst);
    }
out:
    lk_cuda_dnn_close(r.cuda.dnn);
    lk_cuda_fini(&r.cuda);
    gpu_machine_close();
}

START_TEST(agrees_with_the_definition)
{
    run_cases(false);
}
END_TEST

START_TEST(gives_equal_bits_when_asked_to)
{
    run_cases(true);
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
