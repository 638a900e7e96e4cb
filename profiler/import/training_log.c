#include "profiler/import/training_log.h"

#include "base/array.h"
#include "base/gz.h"
#include "base/units.h"
#include "facts/bounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1 << 13 }; /* longer lines are read in parts */

const struct lk_words lk_training_setting_words = LK_WORDS("a setting", LK_TRAINING_SETTING_LIST);

/* ---- Lines of steps ---- */

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

enum program { TORCHTITAN, MEGATRON, DEEPSPEED, PROGRAMS };

static const struct {
    const char *format, *unit;
    bool per_gpu;
    bool (*read)(const char *line, double *out);
} formats[PROGRAMS] = {
    [TORCHTITAN] = {"TorchTitan", "token", true, torchtitan},
    [MEGATRON] = {"Megatron-LM", "sample", false, megatron},
    [DEEPSPEED] = {"DeepSpeed", "sample", false, deepspeed},
};

/* ---- Lines of settings ---- */

/*
 * The programs print this as they start. TorchTitan (train.py): "Training starts at step 1, with
 * local batch size 1, global batch size 8, sequence length 8192, ..."; later versions "gradient
 * accumulation steps 2", too. Megatron-LM (initialize.py, arguments.py): "using world size: 8,
 * data-parallel size: 8, ..." and its arguments, each "  micro_batch_size ..... 4". DeepSpeed
 * (config.py): its configuration, each "  train_micro_batch_size_per_gpu  4".
 */
static const struct {
    enum program program;
    const char *key;
    enum lk_training_setting setting;
} keys[] = {
    {TORCHTITAN, "local batch size", LK_TRAINING_MICRO_BATCH},
    {TORCHTITAN, "global batch size", LK_TRAINING_GLOBAL_BATCH},
    {TORCHTITAN, "gradient accumulation steps", LK_TRAINING_ACCUMULATION},
    {TORCHTITAN, "sequence length", LK_TRAINING_TOKENS},
    {MEGATRON, "using world size", LK_TRAINING_GPUS},
    {MEGATRON, "data-parallel size", LK_TRAINING_RANKS},
    {MEGATRON, "data-parallel-size", LK_TRAINING_RANKS},
    {MEGATRON, "data_parallel_size", LK_TRAINING_RANKS},
    {MEGATRON, "micro_batch_size", LK_TRAINING_MICRO_BATCH},
    {DEEPSPEED, "train_micro_batch_size_per_gpu", LK_TRAINING_MICRO_BATCH},
    {DEEPSPEED, "gradient_accumulation_steps", LK_TRAINING_ACCUMULATION},
    {DEEPSPEED, "train_batch_size", LK_TRAINING_GLOBAL_BATCH},
};

/* This holds what the lines so far say. */
struct said {
    int value[PROGRAMS][LK_TRAINING_SETTINGS]; /* 0: nothing */
    size_t line[PROGRAMS][LK_TRAINING_SETTINGS], at;
    char contradiction[PROGRAMS][256]; /* the first; "": none */
};

static bool is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* Read the count behind a key, which is a word of its own, and dots or punctuation; 0: none. */
static int count_behind(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    char *end;
    long v;

    if (!at || (at > line && is_of_word(at[-1])))
        return 0;
    at += strlen(key);
    if (is_of_word(*at))
        return 0;
    at += strspn(at, " .:\"");
    if (*at < '0' || *at > '9')
        return 0;
    v = strtol(at, &end, 10);
    return *end == '.' || is_of_word(*end) || v > LK_BATCH_MAX ? 0 : (int)v;
}

static void take_settings(const char *line, struct said *s)
{
    for (size_t i = 0; i < LK_COUNT(keys); i++) {
        int v = count_behind(line, keys[i].key),
            *known = &s->value[keys[i].program][keys[i].setting];
        size_t *known_line = &s->line[keys[i].program][keys[i].setting];
        char *text = s->contradiction[keys[i].program];

        if (!v || v == *known)
            continue;
        if (!*known) {
            *known = v;
            *known_line = s->at;
        } else if (!text[0]) {
            snprintf(text, sizeof s->contradiction[0], "%zu: says %d %s, line %zu says %d", s->at,
                     v, lk_training_setting_name(keys[i].setting), *known_line, *known);
        }
    }
}

/* ---- The log ---- */

/* Take Megatron-LM's global batch. While it grows, by rampup_batch_size, the job is another one. */
static void take_global_batch(const char *line, struct said *s, struct lk_training_log *l)
{
    int v = count_behind(line, "global batch size"),
        *known = &s->value[MEGATRON][LK_TRAINING_GLOBAL_BATCH];

    if (*known && v != *known)
        l->n = 0;
    *known = v;
}

/* Megatron-DeepSpeed has lines of two programs: the first row's count. */
static enum lk_status take_line(const char *line, struct said *s, struct lk_training_log *l)
{
    double value;

    for (size_t i = 0; i < LK_COUNT(formats); i++) {
        if (!formats[i].read(line, &value))
            continue;
        if (l->n && i > l->row)
            return LK_OK;
        if (l->n && i < l->row)
            l->n = 0;
        if (i == MEGATRON)
            take_global_batch(line, s, l);
        l->row = i;
        l->format = formats[i].format;
        l->unit = formats[i].unit;
        l->per_gpu = formats[i].per_gpu;
        LK_PASS(lk_array_grow(&l->rates, &l->capacity, l->n + 1, sizeof *l->rates));
        l->rates[l->n++] = value;
        return LK_OK;
    }
    take_settings(line, s);
    return LK_OK;
}

/* Read lines; `first`: until one is of a step. */
static enum lk_status read_lines(const char *path, bool first, struct said *s,
                                 struct lk_training_log *l)
{
    enum lk_status st = LK_OK;
    char *line = NULL;
    int code = Z_OK;
    gzFile gz = NULL;

    LK_TRY(lk_gz_open(path, &gz));
    LK_TRY(lk_alloc(&line, LINE_MAX_BYTES, 1));
    for (s->at = 1; gzgets(gz, line, LINE_MAX_BYTES) && !(first && l->n);
         s->at += strchr(line, '\n') != NULL)
        LK_TRY(take_line(line, s, l));
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
    struct said said = {.at = 0};
    bool is = read_lines(path, true, &said, &l) == LK_OK && l.n > 0;

    lk_training_log_fini(&l);
    return is;
}

enum lk_status lk_training_log_read(const char *path, struct lk_training_log *out)
{
    struct lk_training_log l = {0};
    struct said said = {.at = 0};
    enum lk_status st = LK_OK;

    LK_TRY(read_lines(path, false, &said, &l));
    if (!l.n)
        LK_TRY(lk_fail(LK_EPARSE,
                       "%s: has no line of a step, of TorchTitan (tps:), Megatron-LM (elapsed time "
                       "per iteration) or DeepSpeed (SamplesPerSec)",
                       path));
    if (said.contradiction[l.row][0])
        LK_TRY(lk_fail(LK_EPARSE, "%s:%s: import the runs apart", path, said.contradiction[l.row]));
    memcpy(l.settings, said.value[l.row], sizeof l.settings);
    if (l.row == TORCHTITAN && l.settings[LK_TRAINING_GLOBAL_BATCH] &&
        !l.settings[LK_TRAINING_ACCUMULATION])
        l.settings[LK_TRAINING_ACCUMULATION] = 1; /* versions that do not say it cannot */
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
