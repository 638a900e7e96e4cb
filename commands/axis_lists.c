/* Lists of the values of axes. */
#include "commands/axis_lists.h"

#include "base/array.h"
#include "base/file.h"
#include "base/words.h"
#include "commands/inputs.h"

#include <stdlib.h>
#include <string.h>

enum {
    VALUES_MAX = 256, /* most values of one axis */
    GPUS_MAX = 256    /* clusters that --gpu names */
};

void axis_lists_fini(struct axis_lists *l)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        free(l->values[a]);
    for (size_t i = 0; i < l->n_gpus; i++)
        lk_cluster_fini(&l->gpus[i]);
    free(l->gpus);
    lk_names_free(l->gpu_names, l->n_gpu_names);
    free(l->mixes);
}

/* Find the cluster whose GPU a word names, each once; "own" is the forecast's own cluster. */
static enum lk_status find_gpu(struct axis_lists *l, const char *name,
                               const struct lk_cluster **out)
{
    *out = NULL;
    if (!strcmp(name, "own"))
        return LK_OK;
    for (size_t i = 0; i < l->n_gpus; i++)
        if (!strcmp(l->gpu_names[i], name)) {
            *out = &l->gpus[i];
            return LK_OK;
        }
    if (l->n_gpus == GPUS_MAX)
        return lk_fail(LK_EUSAGE, "--gpu names more than %d clusters", GPUS_MAX);
    LK_PASS(lk_fail_context(find_cluster(name, &l->gpus[l->n_gpus]), "--gpu"));
    *out = &l->gpus[l->n_gpus++];
    return lk_names_add(&l->gpu_names, &l->n_gpu_names, &l->gpu_names_capacity, name);
}

/* Read "4xdgx-a100", one group of a mix. */
static enum lk_status read_group(struct axis_lists *l, const char *word, struct lk_gpu_mix *m)
{
    char *name;
    long ranks = strtol(word, &name, 10);

    if (name == word || *name != 'x' || !name[1])
        return lk_fail(LK_EUSAGE, "--gpu: '%s' is no number of GPUs of a kind, as 4xdgx-a100 is",
                       word);
    if (ranks < 1 || ranks > LK_GPU_MIX_MAX - m->ranks)
        return lk_fail(LK_EUSAGE, "--gpu: '%s': a mix has 1 to %d GPUs", word, LK_GPU_MIX_MAX);
    if (m->n == LK_GPU_KINDS_MAX)
        return lk_fail(LK_EUSAGE, "--gpu: a mix has at most %d groups", LK_GPU_KINDS_MAX);
    m->of[m->n].ranks = (int)ranks;
    LK_PASS(find_gpu(l, name + 1, &m->of[m->n].gpu));
    m->ranks += (int)ranks;
    m->n++;
    return LK_OK;
}

/* Return true if a value of --gpu is a mix: a number of GPUs stands before a kind. */
static bool is_mix(const char *word)
{
    size_t digits = strspn(word, "0123456789");

    return strchr(word, '+') || (digits && word[digits] == 'x');
}

/* Read the value of --gpu: a kind, or several with their ranks. */
static enum lk_status read_gpu(struct axis_lists *l, const char *word, struct lk_axis_value *v)
{
    enum lk_status st = LK_OK;
    struct lk_gpu_mix *m = &l->mixes[l->n_mixes];
    char *copy = NULL, *rest, *group;

    if (!is_mix(word))
        return find_gpu(l, word, &v->gpu);
    *m = (struct lk_gpu_mix){0};
    LK_TRY(lk_strdup(&copy, word));
    for (rest = copy; (group = strsep(&rest, "+"));)
        LK_TRY(read_group(l, group, m));
    l->n_mixes++;
    v->mix = m;
out:
    free(copy);
    return st;
}

static enum lk_status read_value(struct axis_lists *l, enum lk_axis a, const char *word)
{
    struct lk_axis_value *values = l->values[a], *v = &values[l->n[a]];

    if (l->n[a] == VALUES_MAX)
        return lk_fail(LK_EUSAGE, "--%s has more than %d values", lk_axis_option(a), VALUES_MAX);
    LK_PASS(lk_axis_parse(a, word, v));
    if (a == LK_AXIS_GPU)
        LK_PASS(read_gpu(l, word, v));
    for (size_t i = 0; i < l->n[a]; i++)
        if (lk_axis_value_equal(a, &values[i], v))
            return lk_fail(LK_EUSAGE, "--%s: '%s' is there twice", lk_axis_option(a), word);
    l->n[a]++;
    return LK_OK;
}

static enum lk_status read_axis(struct axis_lists *l, enum lk_axis a, const char *text)
{
    enum lk_status st = LK_OK;
    char *copy = NULL, *rest, *word;

    LK_TRY(lk_strdup(&copy, text));
    LK_TRY(lk_alloc(&l->values[a], VALUES_MAX, sizeof *l->values[a]));
    for (rest = copy; (word = lk_list_next(&rest));)
        LK_TRY(read_value(l, a, word));
out:
    free(copy);
    return st;
}

enum lk_status axis_lists_add(const char *const texts[LK_AXIS_COUNT], struct axis_lists *out)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (texts[a])
            LK_PASS(read_axis(out, (enum lk_axis)a, texts[a]));
    return LK_OK;
}

enum lk_status axis_lists_read(const char *const texts[LK_AXIS_COUNT], struct axis_lists *out)
{
    if (texts[LK_AXIS_NODE_BANDWIDTH] && texts[LK_AXIS_NIC_BANDWIDTH])
        return lk_fail(LK_EUSAGE, "--node-bandwidth and --nic-bandwidth are of the same network "
                                  "cards: give one of them");
    LK_PASS(lk_alloc(&out->gpus, GPUS_MAX, sizeof *out->gpus));
    LK_PASS(lk_alloc(&out->mixes, VALUES_MAX, sizeof *out->mixes));
    return axis_lists_add(texts, out);
}

void axis_lists_ask(const struct axis_lists *l, struct lk_forecast_request *q)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        q->axes[a].v = l->values[a];
        q->axes[a].n = l->n[a];
    }
}
