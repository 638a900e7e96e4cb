/* Compute the waterfall: the cost of the reference's work in this run. Formulas in
 * profiler/analysis/analysis.h. */
#include "profiler/analysis/analysis_impl.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Items ---- */

/* One item of a step: the forward, or one piece of a backward. */
struct item {
    uint64_t start_ns, end_ns;
    size_t piece; /* number of a backward's piece; 0 if uncut */
    size_t n_pieces;
    enum lk_span_kind kind;
};

typedef void (*item_fn)(const struct item *item, void *ctx);

static uint64_t clamp(uint64_t at, uint64_t from, uint64_t to)
{
    return at < from ? from : at > to ? to : at;
}

/* Call fn for every item of a step: an instant of two passes is the earlier one's, as in the split
 * of the window. Only backwards with n_pieces pieces are cut. */
static void each_item(const struct lk_rank_steps *r, const struct lk_step *p, size_t n_pieces,
                      item_fn fn, void *ctx)
{
    uint64_t free_ns = p->begin_ns;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++) {
        const struct lk_range *x = &r->ranges[i];
        uint64_t start = clamp(x->start_ns, free_ns, p->end_ns);
        uint64_t end = clamp(x->end_ns, start, p->end_ns);
        struct item item = {.start_ns = start, .kind = x->kind, .n_pieces = 1};

        if (x->kind == LK_SPAN_INPUT)
            continue;
        free_ns = end;
        if (x->kind == LK_SPAN_OPTIMIZER)
            continue;
        if (x->kind == LK_SPAN_BACKWARD && x->n_marks + 1 == n_pieces)
            item.n_pieces = n_pieces;
        for (; item.piece < item.n_pieces; item.piece++) {
            item.end_ns = end;
            if (item.piece + 1 < item.n_pieces)
                item.end_ns = clamp(r->marks[x->first_mark + item.piece].at_ns, item.start_ns, end);
            fn(&item, ctx);
            item.start_ns = item.end_ns;
        }
    }
}

static double item_work_s(const struct lk_work *w, const struct item *item)
{
    if (item->kind == LK_SPAN_FORWARD)
        return w->forward_s;
    return item->n_pieces == w->n_pieces ? w->piece_s[item->piece] : w->backward_s;
}

/* ---- The reference ---- */

void lk_work_fini_(struct lk_work *w)
{
    free(w->piece_s);
    *w = (struct lk_work){0};
}

/* Count the pieces of the last backward of the run's first steady step. */
static size_t count_pieces(const struct lk_run *run)
{
    const struct lk_rank_steps *r = &run->ranks[0];
    const struct lk_step *p = lk_rank_step(r, run->steps[0]);
    size_t n = 1;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++)
        if (r->ranges[i].kind == LK_SPAN_BACKWARD)
            n = r->ranges[i].n_marks + 1;
    return n;
}

/* Sums for means. Backwards with another number of pieces are summed whole, in backward_s. */
struct sums {
    size_t n_pieces;
    double forward_s, backward_s;
    size_t n_forward, n_backward;
    double *piece_s;
    size_t *n_piece;
    /* Use only items without a pending collective, if there are any (modelled reference). */
    bool quiet_only;
    const struct lk_rank_steps *rank;
    const struct lk_step *step;
};

static void sum_item(const struct item *item, void *ctx)
{
    struct sums *s = ctx;
    double d = lk_ns_to_s_(lk_range_busy_ns(s->rank, item->start_ns, item->end_ns));

    if (s->quiet_only && lk_step_pending_ns(s->rank, s->step, item->start_ns, item->end_ns) > 0)
        return;
    if (item->kind == LK_SPAN_FORWARD) {
        s->forward_s += d;
        s->n_forward++;
    } else if (item->n_pieces == s->n_pieces) {
        s->piece_s[item->piece] += d;
        s->n_piece[item->piece]++;
    } else {
        s->backward_s += d;
        s->n_backward++;
    }
}

static enum lk_status sums_init(struct sums *s, size_t n_pieces)
{
    *s = (struct sums){.n_pieces = n_pieces};
    LK_PASS(lk_alloc(&s->piece_s, n_pieces, sizeof *s->piece_s));
    return lk_alloc(&s->n_piece, n_pieces, sizeof *s->n_piece);
}

static void sums_fini(struct sums *s)
{
    free(s->piece_s);
    free(s->n_piece);
}

static void sum_rank(struct sums *s, const struct lk_run *run, size_t rank)
{
    for (size_t i = 0; i < run->n_steps; i++) {
        s->rank = &run->ranks[rank];
        s->step = lk_rank_step(s->rank, run->steps[i]);
        each_item(s->rank, s->step, s->n_pieces, sum_item, s);
    }
}

/*
 * Compute means; an item missing in `s` is taken from `all`. Backwards without the usual marks (a
 * micro-batch under no_sync may have none) only tell the total: the pieces are scaled to the mean
 * of all backwards or, for a modelled reference, of the quiet ones.
 */
static enum lk_status work_from(const struct sums *s, const struct sums *all, struct lk_work *w)
{
    const struct sums *forward = s->n_forward ? s : all;
    double pieces_s = 0, n_cut = s->quiet_only ? 0 : (double)s->n_piece[0];

    LK_PASS(lk_alloc(&w->piece_s, s->n_pieces, sizeof *w->piece_s));
    w->n_pieces = s->n_pieces;
    w->forward_s = forward->forward_s / (double)forward->n_forward;
    for (size_t i = 0; i < s->n_pieces; i++) {
        const struct sums *from = s->n_piece[i] ? s : all;

        w->piece_s[i] = from->piece_s[i] / (double)from->n_piece[i];
        pieces_s += w->piece_s[i];
    }
    w->backward_s = pieces_s;
    if (s->n_backward)
        w->backward_s = (s->backward_s + n_cut * pieces_s) / ((double)s->n_backward + n_cut);
    for (size_t i = 0; i < s->n_pieces && pieces_s > 0; i++)
        w->piece_s[i] *= w->backward_s / pieces_s;
    return LK_OK;
}

/* Take no item to be longer than it is on average: the ideal is at most the rank's own compute. */
static void limit_work(struct lk_work *w, const struct sums *all)
{
    double forward_s = all->forward_s / (double)all->n_forward;
    double backward_s = all->backward_s, n = (double)(all->n_backward + all->n_piece[0]);

    for (size_t i = 0; i < all->n_pieces; i++)
        backward_s += all->piece_s[i];
    backward_s /= n;
    w->forward_s = fmin(w->forward_s, forward_s);
    for (size_t i = 0; i < w->n_pieces; i++)
        if (w->backward_s > backward_s)
            w->piece_s[i] *= backward_s / w->backward_s;
    w->backward_s = fmin(w->backward_s, backward_s);
}

static double pass_gaps_s(const struct lk_step_split *s)
{
    return s->gap_s[LK_PART_FORWARD] + s->gap_s[LK_PART_BACKWARD] + s->gap_s[LK_PART_OPTIMIZER];
}

enum lk_status lk_work_measure_(const struct lk_run *const *refs, size_t n_refs,
                                struct lk_work *out)
{
    enum lk_status st = LK_OK;
    struct lk_work w = {0};
    struct lk_step_split sum = {.compute_s = 0};
    struct sums s;
    double n = 0;

    LK_TRY(sums_init(&s, count_pieces(refs[0])));
    for (size_t i = 0; i < n_refs; i++)
        for (size_t k = 0; k < refs[i]->n; k++) {
            sum_rank(&s, refs[i], k);
            for (size_t j = 0; j < refs[i]->n_steps; j++) {
                struct lk_step_split x;

                lk_step_split(&refs[i]->ranks[k],
                              lk_rank_step(&refs[i]->ranks[k], refs[i]->steps[j]), NULL, &x);
                lk_step_split_add(&sum, &x, 1);
                n++;
            }
        }
    w.optimizer_s = sum.s[LK_PART_OPTIMIZER] / n;
    w.input_s = sum.s[LK_PART_INPUT] / n;
    w.gap_s = sum.s[LK_PART_GAP] / n;
    w.pass_gap_s = pass_gaps_s(&sum) / n;
    LK_TRY(work_from(&s, &s, &w));
    *out = w;
    w = (struct lk_work){0};
out:
    lk_work_fini_(&w);
    sums_fini(&s);
    return st;
}

double lk_compute_s_(const struct lk_analysis *a, size_t rank)
{
    return a->ranks[rank].split.s[LK_PART_FORWARD] + a->ranks[rank].split.s[LK_PART_BACKWARD];
}

/* A value of a rank, to be sorted. */
struct valued {
    double value;
    size_t rank;
};

static int value_order(const void *a, const void *b)
{
    const struct valued *x = a, *y = b;

    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Find the rank whose compute is the lower median: with two ranks the faster one, so that a slow
 * one does not make both slow. */
static enum lk_status find_median(const struct lk_analysis *a, size_t *out)
{
    struct valued *v = NULL;

    LK_PASS(lk_alloc(&v, a->run->n, sizeof *v));
    for (size_t k = 0; k < a->run->n; k++)
        v[k] = (struct valued){lk_compute_s_(a, k), k};
    qsort(v, a->run->n, sizeof *v, value_order);
    *out = v[(a->run->n - 1) / 2].rank;
    free(v);
    return LK_OK;
}

enum lk_status lk_work_model_(const struct lk_analysis *a, struct lk_work *out)
{
    enum lk_status st = LK_OK;
    struct lk_work w = {0};
    struct sums quiet = {0}, all = {0};
    size_t rank;

    LK_TRY(find_median(a, &rank));
    LK_TRY(sums_init(&quiet, count_pieces(a->run)));
    LK_TRY(sums_init(&all, quiet.n_pieces));
    quiet.quiet_only = true;
    sum_rank(&quiet, a->run, rank);
    sum_rank(&all, a->run, rank);
    w.optimizer_s = a->ranks[rank].split.s[LK_PART_OPTIMIZER];
    if (!lk_run_has_compute(a->run)) /* then what a rank computes is among its gaps */
        w.gap_s = a->ranks[rank].split.s[LK_PART_GAP];
    LK_TRY(work_from(&quiet, &all, &w));
    limit_work(&w, &all);
    *out = w;
    w = (struct lk_work){0};
out:
    lk_work_fini_(&w);
    sums_fini(&quiet);
    sums_fini(&all);
    return st;
}

/* ---- The waterfall ---- */

/* D_out, W_out, D_in, W_in of one rank, summed over its steps. */
struct balance {
    const struct lk_work *work;
    const struct lk_rank_steps *rank;
    const struct lk_step *step;
    double out_s, out_work_s, in_s, in_work_s;
};

static void weigh_item(const struct item *item, void *ctx)
{
    struct balance *b = ctx;
    double d = lk_ns_to_s_(lk_range_busy_ns(b->rank, item->start_ns, item->end_ns));
    double w = item_work_s(b->work, item);

    if (lk_step_pending_ns(b->rank, b->step, item->start_ns, item->end_ns) > 0) {
        b->in_s += d;
        b->in_work_s += w;
    } else {
        b->out_s += d;
        b->out_work_s += w;
    }
}

static struct balance weigh_rank(const struct lk_run *run, size_t k, const struct lk_work *w)
{
    struct balance b = {.work = w, .rank = &run->ranks[k]};
    double n = (double)run->n_steps;

    for (size_t i = 0; i < run->n_steps; i++) {
        b.step = lk_rank_step(b.rank, run->steps[i]);
        each_item(b.rank, b.step, w->n_pieces, weigh_item, &b);
    }
    b.out_s /= n;
    b.out_work_s /= n;
    b.in_s /= n;
    b.in_work_s /= n;
    return b;
}

/* Return the slowdown outside of collectives or, without such items, of all items. */
static double slowdown(const struct balance *b)
{
    if (b->out_work_s > 0)
        return b->out_s / b->out_work_s - 1;
    return b->in_work_s > 0 ? b->in_s / b->in_work_s - 1 : 0;
}

/* Set values below the clock's resolution, the rounding error of equal sums, to 0. */
static double settle(double s)
{
    return fabs(s) < 1e-12 ? 0 : s;
}

/* Split what the ranks' common pace takes beyond the reference's work: how much of it compute takes
 * outside of collectives, too, and the rest. A pace that is slower outside counts beside
 * collectives up to what compute takes longer there; a faster one counts whole, as what compute
 * then takes longer is all beside them. pre: b is the balance of the lower median rank. */
static double common_slowdown_s(const struct balance *b)
{
    double beside = b->in_s - b->in_work_s, pace = slowdown(b), as_outside = pace * b->in_work_s;

    if (!(b->out_work_s > 0))
        return as_outside;
    if (pace > 0)
        as_outside = fmin(as_outside, fmax(beside, 0));
    return b->out_s - b->out_work_s + as_outside;
}

/* median: the balance of the lower median rank. alone: of a run of one rank, which exchanges
 * nothing. */
static void fill_losses(struct lk_analysis_rank *r, const struct lk_work *w,
                        const struct balance *b, const struct balance *median, bool alone)
{
    double *loss = r->losses_s, work_s = median->out_work_s + median->in_work_s;
    double compute_s = b->out_s + b->in_s, median_s = median->out_s + median->in_s;

    loss[LK_LOSS_IDEAL] = work_s + w->optimizer_s + w->input_s + w->gap_s;
    loss[LK_LOSS_INPUT] = r->split.s[LK_PART_INPUT] - w->input_s;
    loss[LK_LOSS_SLOW_RANK] = alone ? compute_s - work_s : compute_s - median_s;
    loss[LK_LOSS_COLOCATION] = alone ? 0 : common_slowdown_s(median);
    loss[LK_LOSS_OVERLAP] = alone ? 0 : median_s - work_s - loss[LK_LOSS_COLOCATION];
    loss[LK_LOSS_LAUNCH] = alone ? 0 : r->split.s[LK_PART_LAUNCH];
    loss[LK_LOSS_STRAGGLER] = alone ? 0 : r->split.s[LK_PART_STRAGGLER];
    loss[LK_LOSS_WIRE] = alone ? 0 : r->split.s[LK_PART_WIRE];
    loss[LK_LOSS_OPTIMIZER] = r->split.s[LK_PART_OPTIMIZER] - w->optimizer_s;
    loss[LK_LOSS_REST] = 0; /* the last row: closed by the loop */
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        loss[i] = settle(loss[i]);
        if (i != LK_LOSS_REST)
            loss[LK_LOSS_REST] -= loss[i];
    }
    loss[LK_LOSS_REST] = settle(loss[LK_LOSS_REST] + r->step_s);
}

enum lk_status lk_analysis_waterfall_(struct lk_analysis *a, const struct lk_work *w)
{
    bool alone = lk_run_world_size(a->run) == 1;
    enum lk_status st = LK_OK;
    struct balance *balance = NULL;
    size_t median;

    LK_TRY(find_median(a, &median));
    LK_TRY(lk_alloc(&balance, a->run->n, sizeof *balance));
    for (size_t k = 0; k < a->run->n; k++) {
        balance[k] = weigh_rank(a->run, k, w);
        a->ranks[k].slowdown = slowdown(&balance[k]);
    }
    for (size_t k = 0; k < a->run->n; k++) {
        fill_losses(&a->ranks[k], w, &balance[k], &balance[median], alone);
        for (int i = 0; i < LK_LOSS_COUNT; i++)
            a->losses_s[i] += a->ranks[k].losses_s[i] / (double)a->run->n;
        a->pass_gap_s += (pass_gaps_s(&a->ranks[k].split) - w->pass_gap_s) / (double)a->run->n;
    }
    a->own_input_s = alone ? w->input_s : 0;
    a->own_gap_s = alone ? w->gap_s : 0;
out:
    free(balance);
    return st;
}

/* ---- The efficiency ---- */

static struct lk_config config_of(const struct lk_run *run)
{
    const struct lk_run_info *info = lk_run_about(run);

    struct lk_config c = {.world_size = info->world_size,
                          .local_batch = info->local_batch,
                          .accumulation = info->accumulation};

    memcpy(c.batches, info->local_batches, sizeof c.batches);
    return c;
}

/* Return the mean step of n runs, over ranks and steps. */
static double mean_step_s(const struct lk_run *const *runs, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < runs[i]->n; k++)
            for (size_t s = 0; s < runs[i]->n_steps; s++)
                sum += lk_step_window_s(lk_rank_step(&runs[i]->ranks[k], runs[i]->steps[s])) /
                       (double)(n * runs[i]->n * runs[i]->n_steps);
    return sum;
}

void lk_analysis_efficiency_(struct lk_analysis *a, const struct lk_run *const *refs, size_t n_refs)
{
    const struct lk_config c = config_of(a->run);

    a->efficiency = a->losses_s[LK_LOSS_IDEAL] / a->step_s;
    if (n_refs) {
        const struct lk_config of = config_of(refs[0]);

        a->efficiency = lk_scaling_efficiency(&c, a->step_s, &of, mean_step_s(refs, n_refs));
        a->reference_own_s = a->efficiency * a->step_s - a->losses_s[LK_LOSS_IDEAL];
    }
}

double lk_reference_own_(const struct lk_analysis *a, enum lk_loss loss)
{
    static const enum lk_loss exposed[] = {LK_LOSS_WIRE, LK_LOSS_STRAGGLER, LK_LOSS_LAUNCH};
    double left = a->reference_own_s;

    for (size_t i = 0; i < LK_COUNT(exposed); i++) {
        double part = fmax(0, fmin(left, a->losses_s[exposed[i]]));

        if (exposed[i] == loss)
            return part;
        left -= part;
    }
    return loss == LK_LOSS_REST ? left : 0;
}
