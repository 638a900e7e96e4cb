/* Lists of the values of axes. */
#include "commands/axis_lists.h"

#include "base/array.h"
#include "base/words.h"
#include "commands/inputs.h"

#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 256 }; /* most values of one axis */

void axis_lists_fini(struct axis_lists *l)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        free(l->values[a]);
    for (size_t i = 0; i < l->n_gpus; i++)
        lk_cluster_fini(&l->gpus[i]);
    free(l->gpus);
}

/* Find the cluster whose GPU a value of --gpu names; "own" is the forecast's own cluster. */
static enum lk_status find_gpu(struct axis_lists *l, const char *name, struct lk_axis_value *v)
{
    if (!strcmp(name, "own"))
        return LK_OK;
    LK_PASS(lk_fail_context(find_cluster(name, &l->gpus[l->n_gpus]), "--gpu"));
    v->gpu = &l->gpus[l->n_gpus++];
    return LK_OK;
}

static enum lk_status read_value(struct axis_lists *l, enum lk_axis a, const char *word)
{
    struct lk_axis_value *values = l->values[a], *v = &values[l->n[a]];

    if (l->n[a] == VALUES_MAX)
        return lk_fail(LK_EUSAGE, "--%s has more than %d values", lk_axis_option(a), VALUES_MAX);
    LK_PASS(lk_axis_parse(a, word, v));
    if (a == LK_AXIS_GPU)
        LK_PASS(find_gpu(l, word, v));
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
    LK_PASS(lk_alloc(&out->gpus, VALUES_MAX, sizeof *out->gpus));
    return axis_lists_add(texts, out);
}

void axis_lists_ask(const struct axis_lists *l, struct lk_forecast_request *q)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        q->axes[a].v = l->values[a];
        q->axes[a].n = l->n[a];
    }
}
