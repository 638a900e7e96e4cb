/* Replay steps. Divisions: the order of groups, the times of operations, building, running. */
#include "profiler/pipeline/replay.h"

#include "base/array.h"
#include "profiler/pipeline/replay_impl.h"

#include <stdlib.h>
#include <string.h>

/* Clocks of workers may differ so much, s; the public analysis of these traces has it, too. */
static const double SKEW_S = 10e-3;

/* ---- The order of groups ---- */

/* Arrays of one step, of the groups by their leaders. */
struct sorter {
    uint32_t *first_next; /* edges from each group, n + 1 */
    uint32_t *next;       /* groups that wait for it, n_edges */
    uint32_t *first_edge; /* edges to each group, n + 1 */
    uint32_t *edge;
    uint32_t *first_member, *member; /* n + 1, n */
    uint32_t *waits;                 /* edges to a group that are left */
    uint32_t *queue;
    size_t n_capacity[6], edges_capacity[2];
};

static void sorter_fini(struct sorter *t)
{
    free(t->first_next);
    free(t->next);
    free(t->first_edge);
    free(t->edge);
    free(t->first_member);
    free(t->member);
    free(t->waits);
    free(t->queue);
}

static enum lk_status sorter_grow(struct sorter *t, size_t n, size_t n_edges)
{
    uint32_t **by_op[] = {&t->first_next, &t->first_edge, &t->first_member,
                          &t->member,     &t->waits,      &t->queue};

    for (size_t i = 0; i < LK_COUNT(by_op); i++) {
        LK_PASS(lk_array_grow(by_op[i], &t->n_capacity[i], n + 2, sizeof(uint32_t)));
        memset(*by_op[i], 0, (n + 2) * sizeof(uint32_t));
    }
    LK_PASS(lk_array_grow(&t->next, &t->edges_capacity[0], n_edges + 1, sizeof *t->next));
    return lk_array_grow(&t->edge, &t->edges_capacity[1], n_edges + 1, sizeof *t->edge);
}

/* Make sums of counts in v[2..n + 1]: where the items of each group begin, from v[1] on. Filling
 * them in moves v[i + 1] to the end of group i, which is the start of group i + 1. */
static void sum_up(uint32_t *v, size_t n)
{
    for (size_t i = 2; i < n + 2; i++)
        v[i] += v[i - 1];
}

static void sort_in(struct sorter *t, const struct pipe_step *s)
{
    for (size_t i = 0; i < s->n; i++)
        t->first_member[s->leader[i] + 2]++;
    for (size_t i = 0; i < s->n_edges; i++) {
        t->first_edge[s->leader[s->edges[i].op] + 2]++;
        t->first_next[s->leader[s->edges[i].on] + 2]++;
        t->waits[s->leader[s->edges[i].op]]++;
    }
    sum_up(t->first_member, s->n);
    sum_up(t->first_edge, s->n);
    sum_up(t->first_next, s->n);
    for (size_t i = 0; i < s->n; i++)
        t->member[t->first_member[s->leader[i] + 1]++] = (uint32_t)i;
    for (size_t i = 0; i < s->n_edges; i++) {
        uint32_t to = s->leader[s->edges[i].op], from = s->leader[s->edges[i].on];

        t->edge[t->first_edge[to + 1]++] = s->edges[i].on;
        t->next[t->first_next[from + 1]++] = to;
    }
}

static enum lk_status add_group(struct lk_replay *r, const struct sorter *t, uint32_t group,
                                size_t first_op)
{
    uint32_t m = t->first_member[group], m_end = t->first_member[group + 1];
    uint32_t e = t->first_edge[group], e_end = t->first_edge[group + 1];

    LK_PASS(lk_array_grow(&r->members, &r->members_capacity, r->n_members + (m_end - m),
                          sizeof *r->members));
    LK_PASS(lk_array_grow(&r->depends, &r->depends_capacity, r->n_depends + (e_end - e),
                          sizeof *r->depends));
    LK_PASS(lk_array_grow(&r->first_member, &r->first_member_capacity, r->n_groups + 2,
                          sizeof *r->first_member));
    LK_PASS(lk_array_grow(&r->first_depends, &r->first_depends_capacity, r->n_groups + 2,
                          sizeof *r->first_depends));
    r->first_member[r->n_groups] = r->n_members;
    r->first_depends[r->n_groups++] = r->n_depends;
    for (; m < m_end; m++)
        r->members[r->n_members++] = (uint32_t)first_op + t->member[m];
    for (; e < e_end; e++)
        r->depends[r->n_depends++] = (uint32_t)first_op + t->edge[e];
    r->first_member[r->n_groups] = r->n_members;
    r->first_depends[r->n_groups] = r->n_depends;
    return LK_OK;
}

/* Append the groups of a step in an order in which they can run (Kahn's). LK_EEVIDENCE: a cycle. */
static enum lk_status add_groups(struct lk_replay *r, const struct pipe_step *s, struct sorter *t)
{
    size_t first_op = (size_t)(s->ops - s->all->ops), head = 0, n = 0, n_groups = 0;

    LK_PASS(sorter_grow(t, s->n, s->n_edges));
    sort_in(t, s);
    for (size_t i = 0; i < s->n; i++) {
        n_groups += s->leader[i] == i;
        if (s->leader[i] == i && !t->waits[i])
            t->queue[n++] = (uint32_t)i;
    }
    for (; head < n; head++) {
        uint32_t g = t->queue[head];

        LK_PASS(add_group(r, t, g, first_op));
        for (uint32_t i = t->first_next[g]; i < t->first_next[g + 1]; i++)
            if (!--t->waits[t->next[i]])
                t->queue[n++] = t->next[i];
    }
    for (size_t i = 0; i < s->n && n < n_groups; i++)
        if (t->waits[s->leader[i]])
            return lk_fail(LK_EEVIDENCE, "'%s' in line %u waits for itself",
                           lk_pipe_types[s->ops[i].type].name, s->ops[i].line);
    return LK_OK;
}

/* ---- The times of operations ---- */

static void set_times(struct lk_replay *r, size_t first_group)
{
    for (size_t g = first_group; g < r->n_groups; g++) {
        const uint32_t *m = &r->members[r->first_member[g]];
        size_t n = r->first_member[g + 1] - r->first_member[g];
        double begin = 0;

        for (size_t i = 0; i < n; i++)
            begin = r->ops->ops[m[i]].start_s > begin ? r->ops->ops[m[i]].start_s : begin;
        for (size_t i = 0; i < n; i++) {
            const struct lk_pipe_op *op = &r->ops->ops[m[i]];
            double time_s = op->duration_s - (begin - op->start_s);

            r->n_negative += time_s <= -SKEW_S;
            r->actual_s[m[i]] = time_s <= -SKEW_S ? 0 : time_s;
        }
    }
}

/* ---- Building ---- */

/* Add a step, or count it and say why it is left out. */
static enum lk_status add_step(struct lk_replay *r, struct pipe_step *s, struct sorter *t)
{
    size_t groups = r->n_groups, members = r->n_members, depends = r->n_depends;
    enum lk_status st;

    s->ops = &s->all->ops[s->all->first[s->number]];
    s->n = s->all->first[s->number + 1] - s->all->first[s->number];
    st = pipe_step_connect(s);
    if (st == LK_OK)
        st = add_groups(r, s, t);
    if (st == LK_OK) {
        set_times(r, groups);
        r->steps[r->n_steps] = s->number;
        r->first_group[r->n_steps++] = groups;
        r->first_group[r->n_steps] = r->n_groups;
        return LK_OK;
    }
    if (st != LK_EEVIDENCE)
        return st;
    r->n_groups = groups;
    r->n_members = members;
    r->n_depends = depends;
    if (!r->n_left_out++)
        return lk_asprintf(&r->left_out, "step %lld: %s", (long long)s->all->steps[s->number],
                           lk_error_text());
    return LK_OK;
}

static size_t longest_step(const struct lk_pipe_ops *ops)
{
    size_t n = 0;

    for (size_t i = 0; i < ops->n_steps; i++)
        n = ops->first[i + 1] - ops->first[i] > n ? ops->first[i + 1] - ops->first[i] : n;
    return n;
}

enum lk_status lk_replay_build(const struct lk_pipe_ops *ops, struct lk_replay *out)
{
    enum lk_status st = LK_OK;
    struct lk_replay r = {.ops = ops};
    struct pipe_step s = {.all = ops};
    struct sorter t = {0};
    size_t longest = longest_step(ops);

    LK_TRY(lk_alloc(&r.actual_s, ops->n, sizeof *r.actual_s));
    LK_TRY(lk_alloc(&r.steps, ops->n_steps, sizeof *r.steps));
    LK_TRY(lk_alloc(&r.first_group, ops->n_steps + 1, sizeof *r.first_group));
    LK_TRY(lk_alloc(&s.at, ops->n_workers * LK_PIPE_TYPES + 1, sizeof *s.at));
    LK_TRY(lk_alloc(&s.leader, longest, sizeof *s.leader));
    LK_TRY(lk_alloc(&s.alone, longest, sizeof *s.alone));
    LK_TRY(lk_alloc(&s.order, longest, sizeof *s.order));
    for (; s.number < ops->n_steps; s.number++)
        LK_TRY(add_step(&r, &s, &t));
    if (!r.n_steps) {
        st = lk_fail(LK_EEVIDENCE, "%s: no step fits together; %s%s%s", ops->path, r.left_out,
                     ops->unknown ? "; types that are not known are left out, the first is " : "",
                     ops->unknown ? ops->unknown : "");
        goto out;
    }
    *out = r;
    r = (struct lk_replay){0};
out:
    sorter_fini(&t);
    free(s.at);
    free(s.leader);
    free(s.alone);
    free(s.order);
    free(s.edges);
    lk_replay_fini(&r);
    return st;
}

void lk_replay_fini(struct lk_replay *r)
{
    free(r->actual_s);
    free(r->steps);
    free(r->first_group);
    free(r->left_out);
    free(r->members);
    free(r->depends);
    free(r->first_member);
    free(r->first_depends);
    *r = (struct lk_replay){0};
}

/* ---- Running ---- */

void lk_replay_run(const struct lk_replay *r, const double *duration_s, double *end_s,
                   double *step_s)
{
    for (size_t k = 0; k < r->n_steps; k++) {
        double last = 0;

        for (size_t g = r->first_group[k]; g < r->first_group[k + 1]; g++) {
            double ready = 0;

            for (size_t i = r->first_depends[g]; i < r->first_depends[g + 1]; i++)
                ready = end_s[r->depends[i]] > ready ? end_s[r->depends[i]] : ready;
            for (size_t i = r->first_member[g]; i < r->first_member[g + 1]; i++) {
                uint32_t op = r->members[i];

                end_s[op] = ready + duration_s[op];
                last = end_s[op] > last ? end_s[op] : last;
            }
        }
        step_s[k] = last;
    }
}
