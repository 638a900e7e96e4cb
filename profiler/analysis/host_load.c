#include "profiler/analysis/host_load.h"

#include "base/array.h"
#include "facts/run_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Readings nearest to the steps' begin and end, from outside. */
struct nearest {
    double at[2];
    uint64_t at_ns[2];
    bool any;
};

/* Take a reading: `from` is the last one before begin_ns, `to` the first one after end_ns; where
 * there is none, the nearest. */
static void take(struct nearest *x, uint64_t at_ns, double value, uint64_t begin_ns,
                 uint64_t end_ns)
{
    if (!x->any || (at_ns <= begin_ns && at_ns >= x->at_ns[0])) {
        x->at[0] = value;
        x->at_ns[0] = at_ns;
    }
    if (!x->any || x->at_ns[1] < end_ns) {
        x->at[1] = value;
        x->at_ns[1] = at_ns;
    }
    x->any = true;
}

/* Map the trace's names to times of a host; LK_HOST_TIMES: none. out[id - 1]. */
static void find_names(const struct lk_trace *t, int *out)
{
    for (size_t i = 0; i < t->n_names; i++) {
        out[i] = LK_HOST_TIMES;
        for (int k = 0; k < LK_HOST_TIMES; k++)
            if (!strcmp(t->names[i], lk_host_time_name((enum lk_host_time)k)))
                out[i] = k;
    }
}

/* Read what a rank saw while the steps ran; window_s 0: it recorded nothing. */
static enum lk_status read_rank(const struct lk_run *run, size_t rank, struct lk_host_seen *out)
{
    const struct lk_trace *t = &run->traces[rank];
    const char *boot = lk_run_info_value(&t->info, LK_BOOT_CONFIG_KEY);
    uint64_t begin_ns = lk_rank_step(&run->ranks[rank], run->steps[0])->begin_ns;
    uint64_t end_ns = lk_rank_step(&run->ranks[rank], run->steps[run->n_steps - 1])->end_ns;
    struct nearest x[LK_HOST_TIMES] = {{.any = false}};
    int *names = NULL;

    LK_PASS(lk_alloc(&names, t->n_names + 1, sizeof *names));
    find_names(t, names);
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_COUNTER && s->name && names[s->name - 1] < LK_HOST_TIMES)
            take(&x[names[s->name - 1]], lk_clock_apply(&t->clock, s->start_ns), s->value, begin_ns,
                 end_ns);
    }
    free(names);
    *out = (struct lk_host_seen){.machine = boot ? boot : t->info.host};
    out->window_s = lk_s_from_ns(x[LK_HOST_BUSY].at_ns[1] - x[LK_HOST_BUSY].at_ns[0]);
    for (int k = 0; k < LK_HOST_TIMES; k++)
        out->load.s[k] = x[k].any ? fmax(x[k].at[1] - x[k].at[0], 0) : NAN;
    return LK_OK;
}

enum lk_status lk_run_hosts(const struct lk_run *run, struct lk_run_host **out, size_t *n)
{
    bool all = (int)run->n == lk_run_world_size(run);
    struct lk_host_seen *seen = NULL;
    struct lk_run_host *hosts = NULL;
    enum lk_status st = LK_OK;
    size_t found = 0;

    LK_TRY(lk_alloc(&seen, run->n, sizeof *seen));
    LK_TRY(lk_alloc(&hosts, run->n, sizeof *hosts));
    for (size_t k = 0; k < run->n; k++) {
        size_t h = 0;

        LK_TRY(read_rank(run, k, &seen[k]));
        all = all && seen[k].window_s > 0;
        while (h < found && strcmp(hosts[h].name, run->traces[k].info.host) != 0)
            h++;
        if (h == found)
            hosts[found++] = (struct lk_run_host){
                .name = run->traces[k].info.host, .machine = seen[k].machine, .rank = k};
        hosts[h].n++;
    }
    for (size_t h = 0; h < found && all; h++)
        hosts[h].use = lk_host_use_sum(seen, run->n, hosts[h].machine);
    *out = hosts;
    hosts = NULL;
    *n = found;
out:
    free(seen);
    free(hosts);
    return st;
}
