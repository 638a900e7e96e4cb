/* Comparisons of clusters; see the header. */
#include "sim/cluster_compare.h"

#include "base/array.h"
#include "base/label.h"
#include "sim/collective/coll_cost.h"
#include "sim/collective/links.h"

#include <stdlib.h>

enum { A, B, SIDES };

/* Both sides, and their points by collective, algorithm, ranks, nodes and bytes. */
struct sides {
    struct lk_cost_model *model[SIDES];
    struct side_point {
        const struct lk_cluster_point *p;
        int side;
    } * points;
    size_t n;
};

static int order(const struct lk_cluster_point *p, const struct lk_cluster_point *q)
{
    if (p->coll != q->coll)
        return p->coll < q->coll ? -1 : 1;
    if (p->algo != q->algo)
        return p->algo < q->algo ? -1 : 1;
    if (p->ranks != q->ranks)
        return p->ranks < q->ranks ? -1 : 1;
    if (p->nodes != q->nodes)
        return p->nodes < q->nodes ? -1 : 1;
    return (p->bytes > q->bytes) - (p->bytes < q->bytes);
}

static int compare_points(const void *x, const void *y)
{
    return order(((const struct side_point *)x)->p, ((const struct side_point *)y)->p);
}

static enum lk_status sides_init(const struct lk_cluster *const *clusters, struct sides *s)
{
    LK_PASS(lk_alloc(&s->points, clusters[A]->n_points + clusters[B]->n_points, sizeof *s->points));
    for (int k = A; k < SIDES; k++) {
        LK_PASS(lk_cost_model_create(clusters[k], NULL, NULL, &s->model[k]));
        for (size_t i = 0; i < clusters[k]->n_points; i++)
            if (clusters[k]->points[i].ranks % clusters[k]->points[i].nodes == 0)
                s->points[s->n++] = (struct side_point){&clusters[k]->points[i], k};
    }
    if (s->n)
        qsort(s->points, s->n, sizeof *s->points, compare_points);
    return LK_OK;
}

static void sides_fini(struct sides *s)
{
    lk_cost_model_destroy(s->model[A]);
    lk_cost_model_destroy(s->model[B]);
    free(s->points);
}

/* Return true if each of n points has its number on the other side, too. */
static bool taken_over(const struct side_point *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool found = false;

        for (size_t k = 0; k < n && !found; k++)
            found = v[k].side != v[i].side && v[k].p->timing == v[i].p->timing &&
                    lk_compare_one_number(&v[i].p->time_s, &v[k].p->time_s);
        if (!found)
            return false;
    }
    return true;
}

/* Name a collective for people and by labels. */
static enum lk_status name_row(const struct lk_cluster_point *p, struct lk_compared *row)
{
    const bool is_auto = p->algo == LK_ALGO_AUTO;
    char size[40];

    LK_PASS(lk_asprintf(&row->what, "%s%s%s %s, %d GPUs", lk_coll_name(p->coll), is_auto ? "" : " ",
                        is_auto ? "" : lk_algo_name(p->algo),
                        lk_units_exact(LK_DIM_BYTES, (double)p->bytes, size, sizeof size),
                        p->ranks));
    LK_PASS(lk_label_add(&row->labels, "collective", "%s", lk_coll_name(p->coll)));
    LK_PASS(lk_label_add(&row->labels, "algorithm", "%s", lk_algo_name(p->algo)));
    LK_PASS(lk_label_add(&row->labels, "gpus", "%d", p->ranks));
    LK_PASS(lk_label_add(&row->labels, "nodes", "%d", p->nodes));
    return lk_label_add(&row->labels, "bytes", "%llu", (unsigned long long)p->bytes);
}

/* Predict a collective on both sides. *out_known[k] is false if side k has no evidence of it. */
static enum lk_status predict(const struct sides *s, const struct lk_cluster_point *p,
                              struct lk_cost *out, bool *out_known)
{
    for (int k = A; k < SIDES; k++) {
        enum lk_status st =
            lk_cost_eval(s->model[k], p->coll, p->algo, p->ranks, p->nodes, &p->bytes, 1, &out[k]);

        out_known[k] = st == LK_OK && out[k].seconds > 0;
        if (st != LK_OK && st != LK_EEVIDENCE)
            return st;
    }
    return LK_OK;
}

/* Add the row of n points of one collective, size and number of ranks. */
static enum lk_status add_collective(const struct sides *s, const struct side_point *v, size_t n,
                                     struct lk_comparison *out)
{
    const struct lk_cluster_point *p = v->p;
    struct lk_compared row = {.dim = LK_DIM_TIME,
                              .gpus = p->ranks,
                              .bytes = (double)p->bytes,
                              .one_number = taken_over(v, n)};
    struct lk_cost cost[SIDES];
    bool known[SIDES];
    enum lk_status st;

    LK_PASS(predict(s, p, cost, known));
    out->only_a += known[A] && !known[B];
    out->only_b += known[B] && !known[A];
    if (!known[A] || !known[B])
        return LK_OK;
    row.a = (struct lk_estimate){cost[A].seconds, cost[A].lo, cost[A].hi, 0};
    row.b = (struct lk_estimate){cost[B].seconds, cost[B].lo, cost[B].hi, 0};
    row.evidence_a = lk_evidence_name(cost[A].evidence);
    row.evidence_b = lk_evidence_name(cost[B].evidence);
    st = name_row(p, &row);
    if (st != LK_OK) {
        free(row.what);
        free(row.labels);
        return st;
    }
    return lk_compare_add(out, row, NULL);
}

static enum lk_status add_links(const struct lk_cluster *a, const struct lk_cluster *b,
                                struct lk_comparison *out)
{
    const struct lk_quantity node_a = lk_link_node_bandwidth(a);
    const struct lk_quantity node_b = lk_link_node_bandwidth(b);

    LK_PASS(lk_compare_quantity(out, LK_DIM_TIME, &a->intra.latency_s, &b->intra.latency_s,
                                "latency in a node"));
    LK_PASS(lk_compare_quantity(out, LK_DIM_TIME, &a->inter.latency_s, &b->inter.latency_s,
                                "latency between nodes"));
    LK_PASS(lk_compare_quantity(out, LK_DIM_RATE, &a->intra.bandwidth_Bps, &b->intra.bandwidth_Bps,
                                "bandwidth of a GPU in its node"));
    return lk_compare_quantity(out, LK_DIM_RATE, &node_a, &node_b,
                               "bandwidth of a node to the others");
}

enum lk_status lk_compare_clusters(const struct lk_cluster *a, const struct lk_cluster *b,
                                   struct lk_comparison *out)
{
    enum lk_status st = LK_OK;
    struct sides s = {0};

    LK_TRY(sides_init((const struct lk_cluster *const[]){a, b}, &s));
    for (size_t i = 0, next; i < s.n; i = next) {
        for (next = i + 1; next < s.n && !order(s.points[next].p, s.points[i].p); next++)
            ;
        LK_TRY(add_collective(&s, &s.points[i], next - i, out));
    }
    LK_TRY(add_links(a, b, out));
out:
    sides_fini(&s);
    return st;
}
