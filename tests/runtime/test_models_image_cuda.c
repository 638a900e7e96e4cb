/* Networks of images on the device cuda, on a fake driver: a clear refusal before anything runs. */
#include "runtime/model/model.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <string.h>

START_TEST(refused)
{
    static const char *const names[] = {"resnet-small", "resnet50", "vgg16"};
    const struct lk_device_config dc = {.cuda_calls = &fake_cuda_calls};
    const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_model_config mc = {.name = names[_i], .max_samples = 1, .described = true};
    char *directory = scratch_create_for_gpus();
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    struct lk_model *m = NULL;

    fake_cuda_reset(1);
    must(lk_device_open("cuda", &dc, &d));
    must(lk_stream_create(d, &info, &s));
    ck_assert_int_eq(lk_model_create(d, s, &mc, &m), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), "convolution, batch norm and pooling have no") != NULL,
                  "%s", lk_error_text());
    ck_assert_ptr_null(m);
    lk_stream_destroy(s);
    lk_device_close(d);
    fake_cuda_check_clean();
    scratch_remove(directory);
}
END_TEST

SUITE(models_image_cuda, c)
{
    tcase_add_loop_test(c, refused, 0, 3);
}
