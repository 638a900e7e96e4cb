/* Two fake GPUs; see the header. */
#include "tests/rigs/cuda_rig_cuda.h"

#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/scratch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char *locks;
const struct lk_track_info cuda_rig_compute = {.name = "compute", .kind = LK_TRACK_COMPUTE};
const struct lk_track_info cuda_rig_net = {.name = "net", .kind = LK_TRACK_COMM};

void cuda_rig_setup(void)
{
    locks = scratch_create_for_gpus();
    fake_cuda_reset(2);
}

void cuda_rig_teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(locks);
}

enum lk_status cuda_rig_open(struct lk_device **d, int local_rank, bool share)
{
    const struct lk_device_config config = {
        .local_rank = local_rank, .share_gpu = share, .cuda_calls = &fake_cuda_calls};

    return lk_device_open("cuda", &config, d);
}

struct lk_device *cuda_rig_device(void)
{
    struct lk_device *d = NULL;

    ck_assert_msg(cuda_rig_open(&d, 0, false) == LK_OK, "%s", lk_error_text());
    return d;
}

struct lk_stream *cuda_rig_stream(struct lk_device *d, const struct lk_track_info *info)
{
    struct lk_stream *s = NULL;

    ck_assert_msg(lk_stream_create(d, info, &s) == LK_OK, "%s", lk_error_text());
    return s;
}

static void append(void *arg)
{
    struct cuda_log_args *a = arg;

    a->log->values[a->log->n++] = a->value;
    free(a);
}

static enum lk_status log_launch(const void *args, const struct lk_cuda *c)
{
    struct cuda_log_args *copy = malloc(sizeof *copy);

    memcpy(copy, args, sizeof *copy);
    ck_assert_int_eq(c->real, LK_F32);
    fake_cuda_run_on((cudaStream_t)c->stream, append, copy);
    return LK_OK;
}

const struct lk_op cuda_rig_log_op = {
    .name = "log", .args_bytes = sizeof(struct cuda_log_args), .cuda = log_launch};

void cuda_rig_log(struct lk_stream *s, struct cuda_log *log, int value)
{
    struct cuda_log_args a = {.log = log, .value = value};

    ck_assert_int_eq(lk_stream_launch(s, &cuda_rig_log_op, &a), LK_OK);
}

double cuda_rig_a_ms(const struct fake_work *w, const struct fake_stream *s)
{
    (void)w;
    (void)s;
    return 1;
}
