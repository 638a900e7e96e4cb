/* The model of time; see the header. */
#include "tests/fakes/fake_time_cuda.h"

#include "kernels/ops.h"
#include "tests/fakes/fake_cuda.h"

#include <string.h>

struct fake_time fake_time;

static bool is_compute(const struct lk_op *op)
{
    return op != &lk_op_wait && op != &lk_op_hold && op != &lk_op_move &&
           op != &lk_op_matmul_forward;
}

/* Return true if such an op is queued on another stream. */
static bool queued(const struct lk_op *op, const struct fake_stream *but)
{
    for (size_t i = 0; i < fake_cuda.n_streams; i++) {
        const struct fake_stream *s = &fake_cuda.streams[i];

        for (size_t k = s->done; s != but && k < s->n; k++)
            if (s->work[k].kind == WORK_OP && s->work[k].op == op)
                return true;
    }
    return false;
}

static double compute_ms(const struct fake_stream *s)
{
    double slowdown = 0;

    if (s->ms < fake_time.move_until_ms || queued(&lk_op_move, s))
        slowdown = fake_time.wire_slowdown;
    else if (s->ms < fake_time.hold_until_ms)
        slowdown = fake_time.wait_slowdown + fake_time.hold_part;
    return fake_time.compute_ms * (1 + slowdown);
}

/* Return the time until a waiting surrogate leaves multiprocessors to others. */
static double queue_ms(const struct fake_stream *s)
{
    return fake_time.hold_part >= 1 && s->ms < fake_time.hold_until_ms
               ? fake_time.hold_until_ms - s->ms
               : 0;
}

static double op_ms(const struct fake_work *w, const struct fake_stream *s)
{
    struct lk_op_cost cost = w->op->cost(w->arg);
    double ms;

    if (is_compute(w->op)) {
        ms = compute_ms(s);
        fake_time.compute_until_ms = s->ms + ms;
        return ms;
    }
    if (w->op == &lk_op_matmul_forward) {
        fake_time.products++;
        return queue_ms(s) + cost.flops / fake_time.flops * 1e3;
    }
    ms = cost.seconds * 1e3;
    if (w->op == &lk_op_hold) {
        fake_time.holds++;
        fake_time.hold_until_ms = s->ms + ms;
        if (fake_time.multiprocessors > 0)
            fake_time.hold_part =
                (double)((const struct lk_hold_args *)w->arg)->ctas / fake_time.multiprocessors;
    }
    if (w->op == &lk_op_move) {
        fake_time.moves++;
        if (ms <= 0) /* as fast as it can */
            ms = cost.bytes / 2 / fake_time.copy_Bps * 1e3;
        if (s->ms < fake_time.compute_until_ms || queued(&lk_op_gelu_backward, s))
            ms *= 1 + fake_time.delta;
        fake_time.move_until_ms = s->ms + ms;
    }
    return ms;
}

static double takes_ms(const struct fake_work *w, const struct fake_stream *s)
{
    if (w->kind == WORK_OP)
        return op_ms(w, s);
    if (w->kind == WORK_COPY)
        return (double)w->bytes /
               (fake_cuda_is_host(w->from) || fake_cuda_is_host(w->to) ? fake_time.host_Bps
                                                                       : fake_time.copy_Bps) *
               1e3;
    return 0;
}

void fake_time_reset(void)
{
    memset(&fake_time, 0, sizeof fake_time);
    fake_cuda.takes_ms = takes_ms;
}
