#include "tests/rigs/kernel_pair.h"

#include "base/array.h"
#include "kernels/narrow.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct made {
    void *at;
    size_t bytes;
};
static struct made *made; /* for pairs_free */
static size_t n_made, capacity;

static void *make(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size);

    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(lk_array_grow(&made, &capacity, n_made + 1, sizeof *made), LK_OK);
    made[n_made++] = (struct made){p, n * size};
    return p;
}

struct pair pair_zero(size_t n)
{
    return (struct pair){.n = n, .f = make(n, sizeof(float)), .d = make(n, sizeof(double))};
}

struct pair pair_random(struct lk_rng *g, size_t n, double range)
{
    struct pair p = pair_zero(n);

    for (size_t i = 0; i < n; i++) {
        p.f[i] = (float)(range * (2 * lk_rng_uniform(g) - 1));
        p.d[i] = (double)p.f[i];
    }
    return p;
}

void pairs_free(void)
{
    while (n_made > 0)
        free(made[--n_made].at);
    free(made);
    made = NULL;
    capacity = 0;
}

void pair_align(struct pair *p)
{
    for (size_t i = 0; i < p->n; i++) {
        p->f[i] = (float)p->d[i];
        p->d[i] = (double)p->f[i];
    }
}

static double element_error(double f, double d)
{
    if (isnan(f) || isnan(d))
        return isnan(f) && isnan(d) ? 0 : INFINITY;
    if (isinf(f) || isinf(d))
        return f == d ? 0 : INFINITY;
    return fabs(f - d) / fmax(1, fabs(d));
}

double pair_error(const struct pair *p)
{
    double worst = 0;

    for (size_t i = 0; i < p->n; i++)
        worst = fmax(worst, element_error((double)p->f[i], p->d[i]));
    return worst;
}

int32_t *random_tokens(struct lk_rng *g, size_t n, size_t below)
{
    int32_t *tokens = make(n, sizeof *tokens);

    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)lk_rng_below(g, below);
    return tokens;
}

/* ---- Narrow buffers ---- */

/* A buffer that an op's arguments point to: its copies for the op on floats and on narrow ones. */
struct copy {
    char *base;         /* of the buffer */
    size_t bytes, n;    /* n: elements, if it is of floats */
    char *wide;         /* floats, rounded if it is narrow */
    char *narrow;       /* the narrow elements, else the same bytes as wide */
    bool real, written; /* as the op's list says */
};

enum { WORDS_MAX = LK_OP_ARGS_MAX / sizeof(void *) };

/* Find the buffer of this rig that a pointer points into. */
static const struct made *buffer_at(const char *p)
{
    for (size_t i = 0; i < n_made; i++)
        if (p >= (char *)made[i].at && p < (char *)made[i].at + (made[i].bytes ? made[i].bytes : 1))
            return &made[i];
    return NULL;
}

/* Return what the op's list says of the argument at this place; NULL: it is no buffer of reals. */
static const struct lk_operand *operand_at(const struct lk_operands *list, size_t at)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->list[i].at == at)
            return &list->list[i];
    return NULL;
}

static struct copy *copy_of(struct copy *copies, size_t *n, const struct made *buffer)
{
    for (size_t i = 0; i < *n; i++)
        if (copies[i].base == buffer->at)
            return &copies[i];
    copies[*n] = (struct copy){.base = buffer->at,
                               .bytes = buffer->bytes,
                               .n = buffer->bytes / sizeof(float),
                               .wide = malloc(buffer->bytes + 1),
                               .narrow = malloc(buffer->bytes + 1)};
    ck_assert(copies[*n].wide && copies[*n].narrow);
    return &copies[(*n)++];
}

static void fill_copy(struct copy *c, enum lk_dtype real)
{
    memcpy(c->wide, c->base, c->bytes);
    memcpy(c->narrow, c->base, c->bytes);
    if (!c->real)
        return;
    lk_dtype_from_f32(real, c->narrow, (const float *)c->base, c->n);
    lk_dtype_to_f32(real, (float *)c->wide, c->narrow, c->n);
}

static float rounded_to(enum lk_dtype real, const void *floats, size_t i)
{
    uint16_t bits;

    lk_dtype_from_f32(real, &bits, (const float *)floats + i, 1);
    return (float)lk_dtype_at(real, &bits, 0);
}

static void check_copy(const struct lk_op *op, const struct copy *c, enum lk_dtype real)
{
    if (!c->real) {
        ck_assert_msg(!memcmp(c->wide, c->narrow, c->bytes), "%s: a wide buffer differs", op->name);
        return;
    }
    for (size_t i = 0; i < c->n && c->written; i++) {
        float rounded = rounded_to(real, c->wide, i);
        float is = (float)lk_dtype_at(real, c->narrow, i);

        /* Above the diagonal of its triangles, which it leaves, anything is right. */
        if (op == &lk_op_attention_forward && rounded == rounded_to(real, c->base, i))
            continue;
        ck_assert_msg(rounded == is || (isnan(rounded) && isnan(is)),
                      "%s in %s: element %zu of %zu is %g, where floats give %g", op->name,
                      lk_dtype_name(real), i, c->n, (double)is, (double)rounded);
    }
}

static void check_in(const struct lk_op *op, const void *args, enum lk_dtype real)
{
    _Alignas(max_align_t) char wide[LK_OP_ARGS_MAX], narrow[LK_OP_ARGS_MAX];
    struct lk_operands list = {.n = 0};
    struct lk_narrow scratch = {NULL, 0};
    struct copy copies[WORDS_MAX], *of[WORDS_MAX] = {NULL};
    size_t n = 0, words = op->args_bytes / sizeof(void *);

    op->operands(args, &list);
    for (size_t w = 0; w < words && !list.optimizer; w++) {
        const struct lk_operand *operand = operand_at(&list, w * sizeof(void *));
        char *p;

        memcpy(&p, (const char *)args + w * sizeof p, sizeof p);
        if (!buffer_at(p))
            continue;
        of[w] = copy_of(copies, &n, buffer_at(p));
        of[w]->real |= operand != NULL;
        of[w]->written |= operand && (operand->in || operand->out);
    }
    memcpy(wide, args, op->args_bytes);
    memcpy(narrow, args, op->args_bytes);
    for (size_t i = 0; i < n; i++)
        fill_copy(&copies[i], real);
    for (size_t w = 0; w < words; w++)
        if (of[w]) {
            char *p, *to_wide, *to_narrow;

            memcpy(&p, (const char *)args + w * sizeof p, sizeof p);
            to_wide = of[w]->wide + (p - of[w]->base);
            to_narrow = of[w]->narrow + (p - of[w]->base) / (of[w]->real ? 2 : 1);
            memcpy(wide + w * sizeof p, &to_wide, sizeof p);
            memcpy(narrow + w * sizeof p, &to_narrow, sizeof p);
        }
    if (!list.optimizer) {
        op->cpu(wide);
        ck_assert_int_eq(lk_narrow_run(&scratch, op, narrow, real), LK_OK);
    }
    for (size_t i = 0; i < n; i++) {
        check_copy(op, &copies[i], real);
        free(copies[i].wide);
        free(copies[i].narrow);
    }
    lk_narrow_fini(&scratch);
}

void pair_check_narrow(const struct lk_op *op, const void *args)
{
    check_in(op, args, LK_F16);
    check_in(op, args, LK_BF16);
}
