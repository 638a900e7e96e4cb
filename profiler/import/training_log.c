#include "profiler/import/training_log.h"

#include "base/array.h"
#include "base/gz.h"
#include "base/units.h"
#include "facts/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 13 }; /* longer lines are read in parts */

/* Read the number behind a text of a line; commas part thousands: "tps: 10,050". */
static bool number_behind(const char *line, const char *text, double *out)
{
    const char *at = strstr(line, text);
    char number[64];
    size_t n = 0;

    if (!at)
        return false;
    at += strlen(text);
    at += strspn(at, " ");
    for (; *at && strchr("0123456789.,eE+-", *at) && n + 1 < sizeof number; at++) {
        bool thousands = *at == ',' && at[1] >= '0' && at[1] <= '9';

        if (*at == ',' && !thousands)
            break;
        if (!thousands)
            number[n++] = *at;
    }
    number[n] = 0;
    return lk_parse_double(number, out) == LK_OK && isfinite(*out) && *out > 0;
}

/* "step:  4  loss:  7.6  ...  tps: 10,050  tflops: ...": tokens a second of one GPU. */
static bool torchtitan(const char *line, double *out)
{
    return strstr(line, "step:") && number_behind(line, "tps:", out);
}

/* "iteration 122/ 250000 | ... | elapsed time per iteration (ms): 86545.2 | ... | global batch
 * size:  1024 |". */
static bool megatron(const char *line, double *out)
{
    double ms, batch;

    if (!number_behind(line, "elapsed time per iteration (ms):", &ms) ||
        !number_behind(line, "global batch size:", &batch))
        return false;
    *out = batch / (1e-3 * ms);
    return true;
}

/* "RunningAvgSamplesPerSec=16.1, CurrSamplesPerSec=16.8"; before 0.7: "SamplesPerSec=7.4". */
static bool deepspeed(const char *line, double *out)
{
    return number_behind(line, "CurrSamplesPerSec=", out) ||
           (!strstr(line, "CurrSamplesPerSec=") && number_behind(line, " SamplesPerSec=", out));
}

static const struct {
    const char *format, *unit;
    bool per_gpu;
    bool (*read)(const char *line, double *out);
} formats[] = {
    {"TorchTitan", "token", true, torchtitan},
    {"Megatron-LM", "sample", false, megatron},
    {"DeepSpeed", "sample", false, deepspeed},
};

/* Megatron-DeepSpeed has lines of two programs: the first row's count. */
static enum lk_status take_line(const char *line, struct lk_training_log *l)
{
    double value;

    for (size_t i = 0; i < LK_COUNT(formats); i++) {
        if (!formats[i].read(line, &value))
            continue;
        if (l->n && i > l->row)
            return LK_OK;
        if (l->n && i < l->row)
            l->n = 0;
        l->row = i;
        l->format = formats[i].format;
        l->unit = formats[i].unit;
        l->per_gpu = formats[i].per_gpu;
        LK_PASS(lk_array_grow(&l->rates, &l->capacity, l->n + 1, sizeof *l->rates));
        l->rates[l->n++] = value;
        return LK_OK;
    }
    /* Megatron-LM's "using world size: 8, data-parallel size: 8, ...". */
    if (number_behind(line, "using world size:", &value) && value <= LK_RANKS_MAX)
        l->gpus = (int)value;
    return LK_OK;
}

/* Read lines; `first`: until one is of a step. */
static enum lk_status read_lines(const char *path, bool first, struct lk_training_log *l)
{
    enum lk_status st = LK_OK;
    char *line = NULL;
    int code = Z_OK;
    gzFile gz = NULL;

    LK_TRY(lk_gz_open(path, &gz));
    LK_TRY(lk_alloc(&line, LINE_MAX_BYTES, 1));
    while (gzgets(gz, line, LINE_MAX_BYTES) && !(first && l->n))
        LK_TRY(take_line(line, l));
    (void)gzerror(gz, &code);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        st = lk_fail(LK_EIO, "%s: cannot read: %s", path, gzerror(gz, &code));
out:
    free(line);
    if (gz)
        (void)gzclose_r(gz);
    return st;
}

bool lk_training_log_is(const char *path)
{
    struct lk_training_log l = {0};
    bool is = read_lines(path, true, &l) == LK_OK && l.n > 0;

    lk_training_log_fini(&l);
    return is;
}

enum lk_status lk_training_log_read(const char *path, struct lk_training_log *out)
{
    struct lk_training_log l = {0};
    enum lk_status st = LK_OK;

    LK_TRY(read_lines(path, false, &l));
    if (!l.n)
        LK_TRY(lk_fail(LK_EPARSE,
                       "%s: has no line of a step, of TorchTitan (tps:), Megatron-LM (elapsed time "
                       "per iteration) or DeepSpeed (SamplesPerSec)",
                       path));
    *out = l;
    l = (struct lk_training_log){0};
out:
    lk_training_log_fini(&l);
    return st;
}

void lk_training_log_fini(struct lk_training_log *l)
{
    free(l->rates);
    *l = (struct lk_training_log){0};
}
