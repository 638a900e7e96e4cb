#include "facts/loss.h"

#include "base/member.h"

#include <math.h>

const struct lk_words lk_loss_words = LK_WORDS("a loss", LK_LOSS_LIST);

static const char *const texts[] = {LK_LOSS_LIST(LK_WORD_THIRD)};
#define NAME(row, key, text, name) [row] = (name),
static const char *const names[] = {LK_LOSS_LIST(NAME)};
#undef NAME

const char *lk_loss_key(enum lk_loss row)
{
    return lk_loss_words.names[row];
}

const char *lk_loss_text(enum lk_loss row)
{
    return texts[row];
}

const char *lk_loss_name(enum lk_loss row)
{
    return names[row];
}

#define LOSS(row, key_, text, name)                                                                \
    {.key = (key_),                                                                                \
     .kind = LK_KIND_NUMBER,                                                                       \
     .need = LK_NEED_NULLABLE,                                                                     \
     .offset = (row) * sizeof(double),                                                             \
     .size = sizeof(double),                                                                       \
     .help = (text)},
static const struct lk_member rows[] = {LK_LOSS_LIST(LOSS) LK_MEMBER_END};
#undef LOSS
const struct lk_record lk_losses_record = {
    .size = LK_LOSS_COUNT * sizeof(double), .rows = rows, .one_line = true};

static bool given(const void *base)
{
    return lk_losses_known(base);
}

const struct lk_record lk_losses_optional_record = {
    .size = LK_LOSS_COUNT * sizeof(double), .rows = rows, .one_line = true, .given = given};

bool lk_losses_known(const double *losses_s)
{
    return losses_s[LK_LOSS_IDEAL] > 0;
}

void lk_losses_close(double *losses_s, double step_s)
{
    double sum = 0;

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        sum += losses_s[i];
    losses_s[LK_LOSS_REST] += step_s - sum;
}
