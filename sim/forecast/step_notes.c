/*
 * The sentences beside a forecast by the step model.
 *
 * Divisions: places / assumptions / all.
 */
#include "sim/forecast/step_notes.h"

#include "base/array.h"
#include "base/stats.h"
#include "base/units.h"
#include "sim/collective/links.h"
#include "sim/forecast/recorded_buckets.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Places ---- */

static const char *where_of(const struct lk_basis *b, const struct lk_job_run *r)
{
    const struct lk_place *place = lk_job_run_place(b->job, r);

    return place->cluster ? place->cluster : place->device ? place->device : "?";
}

/* Return true for a run that does not count. */
static bool is_left_out(const struct lk_basis *b, const struct lk_job_run *r)
{
    return r->n_steps && !lk_run_counts(b->cluster, b->job, r);
}

/* Return true for two that do not, of one configuration at one place. */
static bool are_repetitions(const struct lk_basis *b, const struct lk_job_run *x,
                            const struct lk_job_run *y)
{
    return is_left_out(b, x) && is_left_out(b, y) && lk_runs_same_config(&x->config, &y->config) &&
           !strcmp(where_of(b, x), where_of(b, y));
}

/* Names a run that does not count and its repetitions, with their mean step beside the forecast's
 * of the same configuration. */
static enum lk_status note_not_used(const struct lk_basis *b, size_t run,
                                    const struct lk_prediction *const *p, size_t n,
                                    struct lk_forecast *out)
{
    const struct lk_job_run *r = &b->job->runs[run];
    const struct lk_config *c = &r->config;
    bool elsewhere =
        lk_place_on(lk_job_run_place(b->job, r), b->cluster, c->nodes) == LK_PLACE_ELSEWHERE;
    const char *gpus = c->world_size == 1 ? "" : "s";
    char beside[64] = "", runs[32] = "the run";
    double sum_s = 0;
    size_t alike = 0;

    for (size_t i = 0; i < b->job->n_runs; i++)
        if (are_repetitions(b, &b->job->runs[i], r)) {
            sum_s += lk_stats_mean(b->job->runs[i].step_s, b->job->runs[i].n_steps);
            alike++;
        }
    if (alike > 1)
        snprintf(runs, sizeof runs, "%zu runs", alike);
    for (size_t i = 0; i < n && !*beside; i++)
        if (lk_runs_same_config(&p[i]->config, c))
            snprintf(beside, sizeof beside, "; the forecast here is %.3g ms", 1e3 * p[i]->step_s);
    if (!elsewhere)
        return lk_forecast_warn(out,
                                "Not used: %s of %d GPU%s on %d node%s, %.3g ms a step: %s has %d "
                                "GPU%s a node.",
                                runs, c->world_size, gpus, c->nodes, c->nodes == 1 ? "" : "s",
                                1e3 * sum_s / (double)alike, b->cluster->name,
                                b->cluster->gpus_per_node,
                                b->cluster->gpus_per_node == 1 ? "" : "s");
    return lk_forecast_warn(out,
                            "Not used: %s of %d GPU%s measured on %s, not on %s (%s): %.3g ms a "
                            "step%s.",
                            runs, c->world_size, gpus, where_of(b, r), b->cluster->name,
                            b->cluster->gpu, 1e3 * sum_s / (double)alike, beside);
}

/* Return true if a run behind this one is its repetition: they are named together. */
static bool is_named(const struct lk_basis *b, size_t run)
{
    for (size_t i = run + 1; i < b->job->n_runs; i++)
        if (are_repetitions(b, &b->job->runs[i], &b->job->runs[run]))
            return true;
    return false;
}

/* Says where the runs were measured, and names those that were not measured here. */
static enum lk_status note_place(const struct lk_basis *b, const struct lk_prediction *const *p,
                                 size_t n, struct lk_forecast *out)
{
    enum lk_place_on on = LK_PLACE_ELSEWHERE;
    enum { NAMED = 3 };
    size_t other = 0;

    for (size_t i = b->job->n_runs; i-- > 0;) { /* those of most GPUs first */
        const struct lk_job_run *r = &b->job->runs[i];

        if (lk_run_counts(b->cluster, b->job, r)) {
            on = lk_place_on(lk_job_run_place(b->job, r), b->cluster, r->config.nodes);
            continue;
        }
        if (r->n_steps && !is_named(b, i) && other++ < NAMED)
            LK_PASS(note_not_used(b, i, p, n, out));
    }
    if (other > NAMED)
        LK_PASS(lk_forecast_warn(out, "Not used either: runs of %zu more configurations.",
                                 other - NAMED));
    if (b->other_device)
        LK_PASS(lk_forecast_say(out,
                                "The compute was measured on %s, and %s has %s: what it takes "
                                "there is not known, and it is taken as it was (whatif on its own "
                                "cluster, with --gpu %s, moves it).",
                                b->job->place.device, b->cluster->name, b->cluster->gpu,
                                b->cluster->name));
    if (on == LK_PLACE_UNKNOWN)
        return lk_forecast_assume(out, "where the runs were measured",
                                  "on %s: nothing says it (--measured-on does)", b->cluster->name);
    return on == LK_PLACE_ELSEWHERE
               ? LK_OK
               : lk_forecast_note(out, "the runs count as measured on %s: %s", b->cluster->name,
                                  on == LK_PLACE_SAID ? "as was said" : "device and shape agree");
}

/* Names when gradients are reduced where no run tells it. */
static enum lk_status note_reduction(const struct lk_basis *b, const struct lk_prediction *const *p,
                                     size_t n, struct lk_forecast *out)
{
    bool several = false;

    for (size_t i = 0; i < n; i++)
        several |= p[i]->config.accumulation > 1 && p[i]->config.sharding == LK_SHARDING_DDP &&
                   p[i]->config.reduce == b->job->reduce;
    if (!several || b->job->accumulation > 1)
        return LK_OK;
    return lk_forecast_assume(out, "when gradients are reduced",
                              "on %s: no run has several (--reduce every,last compares)",
                              b->job->reduce == LK_REDUCTION_LAST
                                  ? "a step's last micro-batch alone"
                                  : "every micro-batch");
}

/* ---- Assumptions ---- */

/* Names the assumed slowdown of compute and collectives. */
static enum lk_status note_overlap(const struct lk_basis *b, struct lk_forecast *out)
{
    const struct lk_overlap o = lk_overlap_of(b->cluster);

    if (!lk_quantity_known(&b->cluster->gamma_wire))
        LK_PASS(lk_forecast_assume(out, "how communication slows compute",
                                   "compute takes %.0f %% longer while collectives run "
                                   "(arXiv:2507.03114; --overlap-slowdown sets it)",
                                   100 * o.gamma_wire));
    return lk_quantity_known(&b->cluster->delta) && !o.start_assumed
               ? LK_OK
               : lk_forecast_assume(out, "how compute slows communication",
                                    "collectives take %.0f %% longer while compute runs, and start "
                                    "%.0f us late",
                                    100 * o.delta, 1e6 * o.start_s);
}

/* Note that the network between nodes is a preset's. */
static enum lk_status note_network(const struct lk_basis *b, const struct lk_prediction *const *p,
                                   size_t n, struct lk_forecast *out)
{
    bool several = false;

    for (size_t i = 0; i < n; i++)
        several |= p[i]->config.nodes > 1;
    if (!several || !lk_link_network_assumed(b->cluster))
        return LK_OK;
    LK_PASS(lk_forecast_assume(out, "the network between nodes",
                               "a datasheet's, of %s; slower ones are within the interval",
                               b->cluster->name));
    return lk_forecast_say(out, "All-reduces measured on 2 nodes (lockstep calibrate, or lockstep "
                                "import of nccl-tests) would narrow this most.");
}

/* Note what a bucket costs where a configuration has other buckets than the job. */
static enum lk_status note_bucket(const struct lk_basis *b, bool is_split,
                                  const struct lk_prediction *const *p, size_t n,
                                  struct lk_forecast *out)
{
    const struct lk_bucket_cost *cost = &b->bucket;
    bool other = false;

    for (size_t i = 0; i < n; i++)
        other |=
            lk_config_replicas(&p[i]->config) > 1 && p[i]->config.cap_bytes != b->job->cap_bytes;
    if (!other)
        return LK_OK;
    if (is_split)
        LK_PASS(lk_forecast_note(out, "%s", lk_buckets_note));
    if (cost->measured)
        return lk_forecast_note(out,
                                "a bucket costs %.0f us of compute (sd %.0f us), from runs of "
                                "several bucket caps",
                                1e6 * cost->s, 1e6 * cost->sd);
    return lk_forecast_assume(out, "a bucket's compute", "%.0f us (%s)", 1e6 * cost->s,
                              lk_prior_source(LK_PRIOR_BUCKET));
}

/* Note that ranks outnumber the devices of their node. */
static enum lk_status note_turns(const struct lk_basis *b, const struct lk_prediction *const *p,
                                 size_t n, struct lk_forecast *out)
{
    int most = 0;

    for (size_t i = 0; i < n; i++) {
        int ranks = p[i]->config.world_size / p[i]->config.nodes;

        most = ranks > most ? ranks : most;
    }
    if (most <= b->cluster->gpus_per_node)
        return LK_OK;
    return lk_forecast_warn(out,
                            "%d ranks of a node share its devices (%d), which lengthens their "
                            "compute by an amount known to %.0f %% (%s).",
                            most, b->cluster->gpus_per_node, 100 * lk_prior_value(LK_PRIOR_TURNS),
                            lk_prior_source(LK_PRIOR_TURNS));
}

static enum lk_status note_assumptions(const struct lk_basis *b,
                                       const struct lk_prediction *const *p, size_t n,
                                       struct lk_forecast *out)
{
    bool rank = false, transient = false, overlap = false, kappa = false;
    int costless = 0;

    for (size_t i = 0; i < n; i++) {
        rank |= p[i]->rank_sd_assumed;
        transient |= p[i]->transient_assumed;
        overlap |= p[i]->overlap_assumed;
        kappa |= p[i]->kappa_unknown;
        if (p[i]->costless_world_size > costless)
            costless = p[i]->costless_world_size;
    }
    if (b->options.scale_tests)
        LK_PASS(lk_forecast_note(out,
                                 "model error: %.1f %% of the collectives' time a doubling of the "
                                 "GPUs, by other jobs and scales of this one held out: %zu",
                                 100 * b->options.scale_error, b->options.scale_tests));
    else
        LK_PASS(lk_forecast_note(
            out,
            "model error: %.1f %% of the collectives' time for each doubling of the GPUs, by other "
            "jobs (%s): no scale of this one could be held out",
            100 * b->options.scale_error,
            lk_prior_source(lk_prior_of_scale(b->cluster->n_points))));
    if (costless)
        LK_PASS(lk_forecast_warn(out,
                                 "The runs of %d GPUs are not used: the cluster has no "
                                 "all_reduce on as many ranks.",
                                 costless));
    if (rank)
        LK_PASS(lk_forecast_assume(out, "how equal devices differ", "by %.1f %% (sd)",
                                   100 * lk_prior_value(LK_PRIOR_RANK_SD)));
    if (transient)
        LK_PASS(lk_forecast_assume(out, "how micro-batches differ", "by %.1f %% (sd)",
                                   100 * lk_prior_value(LK_PRIOR_TRANSIENT_SD)));
    if (overlap)
        LK_PASS(note_overlap(b, out));
    if (kappa)
        LK_PASS(lk_forecast_assume(out, "how ranks of one node slow each other",
                                   "not at all: not measured on this cluster"));
    return LK_OK;
}

/* Notes the priors of how ranks, nodes and links differ, where nothing was measured. */
static enum lk_status note_alike(const struct lk_basis *b, const struct lk_prediction *const *p,
                                 size_t n, struct lk_forecast *out)
{
    const struct lk_cluster *c = b->cluster;
    const struct lk_known_stragglers *slow = &b->slow;
    const struct {
        bool unknown;
        enum lk_prior prior;
        const char *what;
    } rows[] = {
        {!lk_quantity_known(&c->node_sd) && isnan(slow->node_sd), LK_PRIOR_NODE_SD, "equal nodes"},
        {!lk_quantity_known(&c->link_sd), LK_PRIOR_LINK_SD, "equal links"},
        {!lk_quantity_known(&c->tail_share), LK_PRIOR_TAIL_SHARE, "no rare slow steps"}};
    int ranks = 1, nodes = 1;

    for (size_t i = 0; i < n; i++) {
        ranks = p[i]->config.world_size > ranks ? p[i]->config.world_size : ranks;
        nodes = p[i]->config.nodes > nodes ? p[i]->config.nodes : nodes;
    }
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].unknown && (rows[i].prior == LK_PRIOR_TAIL_SHARE ? ranks : nodes) > 1)
            LK_PASS(lk_forecast_assume(out, rows[i].what, "%s", lk_prior_source(rows[i].prior)));
    return LK_OK;
}

/* Notes the ranks that the runs showed to be slow: the forecast rests on their staying so. */
static enum lk_status note_slow(const struct lk_basis *b, struct lk_forecast *out)
{
    const struct lk_known_stragglers *slow = &b->slow;

    for (size_t i = slow->n_file; i < slow->n; i++)
        LK_PASS(lk_forecast_warn(out,
                                 "Rank %d computes %.2f times as long as the others (%s), and is "
                                 "taken to do so at every count.",
                                 slow->list[i].rank, slow->list[i].compute.value,
                                 slow->list[i].compute.source));
    return LK_OK;
}

/* ---- All ---- */

enum lk_status lk_step_note_choice(const struct lk_prediction *const *p, size_t n,
                                   struct lk_forecast *out)
{
    const struct lk_prediction *most = NULL;
    char time[32];

    for (size_t i = 0; i < n; i++)
        if (p[i]->choice_s > lk_prior_value(LK_PRIOR_RESOLUTION) * p[i]->step_s &&
            (!most || p[i]->choice_s / p[i]->step_s > most->choice_s / most->step_s))
            most = p[i];
    if (!most)
        return LK_OK;
    return lk_forecast_warn(
        out,
        "On other links NCCL's own estimates choose what is slower there: at %d GPUs %s, which "
        "takes up to %s of a step. NCCL_ALGO and NCCL_PROTO keep the choice of now.",
        most->config.world_size, most->choice_text,
        lk_units_format(LK_DIM_TIME, most->choice_s, time, sizeof time));
}

enum lk_status lk_step_repeats_say(const struct lk_basis *b, struct lk_forecast *out)
{
    for (size_t i = 0; i < b->job->n_runs; i++) {
        int gpus = b->job->runs[i].config.world_size;
        char least[32], most[32];
        double lo_s, hi_s;

        if (!lk_runs_range(&b->runs, i, &lo_s, &hi_s) || hi_s <= LK_REPEATS_DOUBTED * lo_s)
            continue;
        LK_PASS(lk_forecast_say(out,
                                "Runs of %s on %d GPU%s that repeat each other take %s to %s a "
                                "step: is one of another job, or disturbed?",
                                b->job->name, gpus, gpus == 1 ? "" : "s",
                                lk_units_format(LK_DIM_TIME, lo_s, least, sizeof least),
                                lk_units_format(LK_DIM_TIME, hi_s, most, sizeof most)));
    }
    return LK_OK;
}

enum lk_status lk_step_places_add(const struct lk_basis *b, const struct lk_prediction *const *p,
                                  size_t n, struct lk_forecast *out)
{
    LK_PASS(note_place(b, p, n, out));
    return note_reduction(b, p, n, out);
}

enum lk_status lk_step_notes_add(const struct lk_basis *b, bool is_split,
                                 const struct lk_prediction *const *p, size_t n,
                                 struct lk_forecast *out)
{
    struct lk_assumed_terms assumed = {0};

    LK_PASS(note_network(b, p, n, out));
    LK_PASS(note_turns(b, p, n, out));
    LK_PASS(note_bucket(b, is_split, p, n, out));
    LK_PASS(note_slow(b, out));
    LK_PASS(note_alike(b, p, n, out));
    for (size_t i = 0; i < n; i++)
        lk_assumed_terms_add(&assumed, p[i]);
    LK_PASS(lk_assumed_terms_note(&assumed, out));
    return note_assumptions(b, p, n, out);
}
