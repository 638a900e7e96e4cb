/*
 * This file puts factors on the parts of NCCL's model, fits them, and rescales measured times.
 *
 * Divisions: the time of a choice / the prior rows / the fit / rescaling.
 */
#include "sim/collective/nccl_fit.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The time of a choice ---- */

enum { ROUNDS = 8, N = LK_NCCL_FACTOR_COUNT };

/* Huber's tuning constant, and a first guess of the sd of one table's times around the model. */
static const double HUBER_K = 1.345, POINT_SD = 0.15;

/* log2 of the bytes at which the remaining error is given. */
static const double error_at[LK_NCCL_ERRORS] = {20, 24, 27};

/*
 * The pipeline of Simple takes up to FILL_US to fill as the message grows past FILL_BYTES.
 * Single-node H100 tables take this beyond latency and rate: 30 us at 8 MB, 60 at 64 MB, 85 at 256
 * MB.
 */
static const double FILL_US = 50, FILL_BYTES = 16.0 * (1 << 20);

/*
 * LL between nodes goes through host memory, where a proxy thread checks the flag of every 8 bytes
 * before it sends: a rank sends about 2.6 GB/s, whatever the links. Public tables (all-reduce from
 * 4 to 64 KB, and to 1 MB without LL128) show GB/s of the buffer, half of that: EFA 1.2 (H100),
 * 1.1 and 0.7 (one GPU a node), 0.5 (A100), Slingshot 1.2, RoCE 2.1 and 0.7, TCPXO 1.9.
 */
static const double LL_PROXY_GBPS = 2.6;

static const enum lk_nccl_factor rate_factors[LK_NCCL_PROTO_COUNT] = {
    [LK_NCCL_LL] = LK_NCCL_RATE_LL,
    [LK_NCCL_LL128] = LK_NCCL_RATE_LL128,
    [LK_NCCL_SIMPLE] = LK_NCCL_RATE,
};

/*
 * With power 8, a choice that NCCL estimates as 10 % slower has half the weight, 33 % slower a
 * tenth.
 */
static const double CHOICE_POWER = 8, CHOICE_LEAST = 0.01;

/*
 * A choice also loses weight as it is slower by our factors: of the public tables that NCCL's
 * estimate puts into LL between nodes at 1 MB, half use it, and the others were tuned to avoid it.
 */
static const double TUNED_POWER = 1;

/*
 * At scale, hops cost more beyond SCALE_HOP_NODES nodes and bytes beyond SCALE_RATE_NODES, by
 * these powers of the excess. GH200 on Slingshot, 4 to 512 nodes: NCCL's model over measured falls
 * from 0.6 at 8 nodes to 0.5 at 128 (to 32 KB); busbw 92 GB/s to 128 nodes, 85 at 256, 67 at 512
 * (github.com/boeschf/nccl-benchmark-on-alps-2025).
 */
static const double SCALE_HOP_NODES = 32, SCALE_HOP_POWER = 0.12;
static const double SCALE_RATE_NODES = 128, SCALE_RATE_POWER = 0.2;
/*
 * One platform says this, and its 256 nodes are half as fast as its 512; no other has more than
 * SCALE_NODES nodes. So the error grows with the nodes beyond these, as if the power of a byte were
 * known within SCALE_SD; at 1 MiB and below, where hops count, it does not.
 */
static const double SCALE_NODES = 4, SCALE_SD = 0.08;

enum lk_nccl_fabric lk_nccl_fabric_of(const struct lk_nccl_comm *m, enum lk_network network)
{
    if (m->nodes > 1)
        return (enum lk_nccl_fabric)(LK_NCCL_OVER + (int)network);
    return m->wire == LK_NCCL_NVLINK ? LK_NCCL_IN_NVLINK : LK_NCCL_IN_PCI;
}

/* A time, and the derivatives of its logarithm by those of the factors. */
struct timed {
    double us, by[N];
};

static double power_beyond(double x, double from, double power)
{
    return x > from ? pow(x / from, power) : 1;
}

/*
 * Return how many ranks' proxies share the LL traffic of a node. A ring's small messages pass one
 * channel, so one rank's. A tree has channels at much smaller messages, which leave from all ranks;
 * it has shown so where NCCL offers LL128, that is where NICs are beside GPUs (16 A100 with RoCE:
 * no cliff to 256 KB), and not where bytes pass the CPU (GH200 and PCIe boxes).
 */
static double proxies(const struct lk_nccl_comm *m, enum lk_algo algo)
{
    return algo == LK_ALGO_TREE && m->ll128 ? (double)m->ranks / m->nodes : 1;
}

static struct timed time_of(const struct lk_nccl_comm *m, enum lk_coll coll,
                            const struct lk_nccl_choice *k, const double *factor, double bytes)
{
    const struct lk_nccl_parts *p = &k->parts;
    enum lk_nccl_proto proto = k->proto;
    double beyond = power_beyond(m->nodes, SCALE_HOP_NODES, SCALE_HOP_POWER);
    double hops = (p->intra_us * m->intra.share + p->inter_us * m->inter.share) * beyond;
    double rate = bytes / (1000 * p->GBps) * m->slowdown *
                  power_beyond(m->nodes, SCALE_RATE_NODES, SCALE_RATE_POWER);
    bool simple = proto == LK_NCCL_SIMPLE;
    struct timed t = {p->intra_hops * m->intra.more_us + p->inter_hops * m->inter.more_us, {0}};

    if (proto == LK_NCCL_LL && m->nodes > 1)
        rate += lk_coll_wire_bytes(coll, bytes, m->ranks) / (1000 * LL_PROXY_GBPS) /
                proxies(m, k->algo);
    t.by[LK_NCCL_LAUNCH] = p->base_us;
    t.by[simple ? LK_NCCL_HOP_SIMPLE : LK_NCCL_HOP_LL] = hops;
    t.by[LK_NCCL_FILL] = simple ? FILL_US * bytes / (bytes + FILL_BYTES) : 0;
    t.by[rate_factors[proto]] = rate;
    for (int i = 0; i < N; i++) {
        t.by[i] *= factor[i];
        t.us += t.by[i];
    }
    for (int i = 0; i < N; i++)
        t.by[i] /= t.us;
    return t;
}

double lk_nccl_choice_weight(const struct lk_nccl_choice *best, const struct lk_nccl_choice *k)
{
    double w = pow(best->us / k->us, CHOICE_POWER);

    return w < CHOICE_LEAST ? 0 : w;
}

/* Set the weighted mean on m of the choices that NCCL makes on `like`; return false if m offers
 * none of them. */
static bool chosen(const struct lk_nccl_comm *m, const struct lk_nccl_comm *like,
                   const double *factor, enum lk_coll coll, enum lk_algo algo, double bytes,
                   struct timed *out)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    size_t n = lk_nccl_offers(like, coll, algo, bytes, all);
    double sum = 0, ln = 0, first = 0;

    *out = (struct timed){0};
    for (size_t i = 0; i < n; i++) {
        double w = lk_nccl_choice_weight(&all[0], &all[i]);
        struct timed t;

        if (w <= 0)
            continue;
        t = time_of(like, coll, &all[i], factor, bytes);
        if (!i)
            first = t.us;
        w *= pow(first / t.us, TUNED_POWER);
        if (m != like) {
            struct lk_nccl_choice here = all[i];

            here.parts = lk_nccl_parts_of(m, coll, here.algo, here.proto, bytes);
            if (here.parts.GBps <= 0)
                continue;
            t = time_of(m, coll, &here, factor, bytes);
        }
        sum += w;
        ln += w * log(t.us);
        for (int k = 0; k < N; k++)
            out->by[k] += w * t.by[k];
    }
    for (int k = 0; k < N; k++)
        out->by[k] /= sum;
    out->us = exp(ln / sum);
    return sum > 0;
}

static void factors_of(const struct lk_nccl_factors *f, double *out)
{
    for (int i = 0; i < N; i++)
        out[i] = exp(f->ln[i]);
}

double lk_nccl_refit_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                        enum lk_coll coll, enum lk_algo algo, double bytes)
{
    double factor[N];
    struct timed t;

    factors_of(f, factor);
    return chosen(m, m, factor, coll, algo, bytes, &t) ? t.us : NAN;
}

double lk_nccl_refit_as_us(const struct lk_nccl_comm *m, const struct lk_nccl_comm *like,
                           const struct lk_nccl_factors *f, enum lk_coll coll, enum lk_algo algo,
                           double bytes)
{
    double factor[N];
    struct timed t;

    factors_of(f, factor);
    return chosen(m, like, factor, coll, algo, bytes, &t) ? t.us : NAN;
}

double lk_nccl_choice_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                         enum lk_coll coll, const struct lk_nccl_choice *k, double bytes)
{
    double factor[N];

    factors_of(f, factor);
    return time_of(m, coll, k, factor, bytes).us;
}

/* ---- The prior rows ---- */

/*
 * The prior rows say how public nccl-tests tables differ from NCCL's constants, one row a fabric.
 *
 * `build/bench/accuracy_collectives nccl_tables.csv --rows` prints them: it takes the factors of
 * each source's tables and averages them over sources (of launch, hops and LL between nodes not the
 * logarithms), with the mean of all fabrics inside nodes (or of all networks) as one more source.
 * PCIe inside a node and TCP have no table and take those means. The errors cover about 90 % of
 * sources left out (the same program, "preset alone"), with one set for all fabrics inside nodes
 * and one for all networks. Most of the error is the difference between labs: an idle launch takes
 * 8 to 45 us on one kind of node.
 */
/* Logarithms of launch, hop_ll, hop_simple, fill, rate_ll, rate_ll128, rate. */
static const double rows[LK_NCCL_FABRIC_COUNT][LK_NCCL_FACTOR_COUNT] = {
    [LK_NCCL_IN_NVLINK] = {0.57, -0.18, 0.23, 0.13, 0.40, -0.04, 0.00},
    [LK_NCCL_IN_PCI] = {0.51, -0.15, 0.20, 0.11, 0.35, -0.03, 0.00},
    [LK_NCCL_OVER + LK_NETWORK_UNKNOWN] = {0.54, 0.64, 0.94, 0.28, 0.24, 0.19, -0.01},
    [LK_NCCL_OVER + LK_NETWORK_INFINIBAND] = {0.38, 0.63, 0.62, 0.15, 0.13, 0.09, -0.03},
    [LK_NCCL_OVER + LK_NETWORK_ROCE] = {0.13, 0.36, 0.45, 0.06, 0.02, 0.07, -0.03},
    [LK_NCCL_OVER + LK_NETWORK_EFA] = {0.26, 1.01, 0.71, 0.30, 0.90, 0.36, -0.02},
    [LK_NCCL_OVER + LK_NETWORK_SLINGSHOT] = {0.06, 0.22, 0.84, 0.82, 0.23, 0.05, -0.02},
    [LK_NCCL_OVER + LK_NETWORK_TCPX] = {1.26, 1.00, 1.57, 0.07, -0.22, 0.39, 0.04},
    [LK_NCCL_OVER + LK_NETWORK_TCP] = {0.54, 0.64, 0.94, 0.28, 0.24, 0.19, -0.01},
};

static const double inside[LK_NCCL_ERRORS] = {0.95, 0.4, 0.06};
static const double between[LK_NCCL_ERRORS] = {0.75, 0.6, 0.2};

/* The spread of the factors over sources, which is the prior's sd when points move it. */
static const double factor_sd[LK_NCCL_FACTOR_COUNT] = {0.5, 0.5, 0.5, 0.7, 0.5, 0.4, 0.12};

struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_fabric fabric)
{
    struct lk_nccl_factors f = {{0}, {0}, {0}};

    memcpy(f.ln, rows[fabric], sizeof f.ln);
    memcpy(f.sd, factor_sd, sizeof f.sd);
    memcpy(f.error, fabric < LK_NCCL_OVER ? inside : between, sizeof f.error);
    return f;
}

/* ---- The fit ---- */

/* Solve the symmetric positive definite a x = b and invert a, by Gauss-Jordan. */
static void solve(double a[N][N], double *b, double inverse[N][N])
{
    memset(inverse, 0, sizeof(double[N][N]));
    for (int i = 0; i < N; i++)
        inverse[i][i] = 1;
    for (int i = 0; i < N; i++) {
        double d = a[i][i];

        for (int j = 0; j < N; j++) {
            a[i][j] /= d;
            inverse[i][j] /= d;
        }
        b[i] /= d;
        for (int k = 0; k < N; k++) {
            double f = a[k][i];

            if (k == i)
                continue;
            for (int j = 0; j < N; j++) {
                a[k][j] -= f * a[i][j];
                inverse[k][j] -= f * inverse[i][j];
            }
            b[k] -= f * b[i];
        }
    }
}

/* Add the normal equations of one round at the factors f. */
static void add_points(const struct lk_nccl_point *points, size_t n,
                       const struct lk_nccl_factors *f, double a[N][N], double *b)
{
    double factor[N];

    factors_of(f, factor);
    for (size_t k = 0; k < n; k++) {
        const struct lk_nccl_point *q = &points[k];
        struct timed t;
        double r, w;

        if (!chosen(&q->comm, &q->comm, factor, q->coll, q->algo, q->bytes, &t))
            continue;
        r = log(q->us / t.us);
        w = 1 / (POINT_SD * POINT_SD) / fmax(1, fabs(r) / (HUBER_K * POINT_SD));
        for (int i = 0; i < N; i++) {
            b[i] += w * t.by[i] * r;
            for (int j = 0; j < N; j++)
                a[i][j] += w * t.by[i] * t.by[j];
        }
    }
}

struct lk_nccl_factors lk_nccl_fit(const struct lk_nccl_point *points, size_t n,
                                   const struct lk_nccl_factors *prior)
{
    struct lk_nccl_factors f = *prior;
    double inverse[N][N];

    for (int round = 0; n && round < ROUNDS; round++) {
        double a[N][N] = {{0}}, b[N] = {0};

        add_points(points, n, &f, a, b);
        for (int i = 0; i < N; i++) {
            double w = 1 / (prior->sd[i] * prior->sd[i]);

            a[i][i] += w;
            b[i] += w * (prior->ln[i] - f.ln[i]);
        }
        solve(a, b, inverse);
        for (int i = 0; i < N; i++) {
            f.ln[i] += fmax(-1, fmin(1, b[i]));
            f.sd[i] = sqrt(inverse[i][i]);
        }
    }
    return f;
}

double lk_nccl_error(const struct lk_nccl_factors *f, double bytes, int nodes)
{
    double x = log2(fmax(bytes, 1)), of_bytes = fmin(1, fmax(0, x - error_at[0]) / 4);
    double scale = of_bytes * SCALE_SD * log(fmax(1, nodes / SCALE_NODES));
    int i = 0;

    while (i + 2 < LK_NCCL_ERRORS && x > error_at[i + 1])
        i++;
    x = fmax(0, fmin(1, (x - error_at[i]) / (error_at[i + 1] - error_at[i])));
    return hypot(f->error[i] + x * (f->error[i + 1] - f->error[i]), scale);
}

/* ---- Rescaling ---- */

/*
 * A fall of at least LEFT_SLOW (ln) is a boundary of the model if one lies within BOUNDARY_POINTS
 * sizes.
 */
static const double LEFT_SLOW = 0.2;
enum { BOUNDARY_POINTS = 2 };

/*
 * Beyond ALIKE_OCTAVES, the size matters more than the regime. FAR is more octaves than between
 * any two sizes.
 */
static const double ALIKE_OCTAVES = 1.1, FAR = 1e3;

/*
 * The share of the difference between neighbouring sizes that counts as error of a rescaled time.
 */
static const double ROUGH_SHARE = 0.5;

struct regime {
    enum lk_algo algo;
    enum lk_nccl_proto proto;
};

static bool same(struct regime a, struct regime b)
{
    return a.algo == b.algo && a.proto == b.proto;
}

/*
 * Return true if times show that another regime begins after size i: they fall, or grow faster
 * than bytes.
 */
static bool breaks(const struct lk_nccl_measured *from, size_t i)
{
    double grown = log(from->seconds[i + 1] / from->seconds[i]);

    return grown < -LEFT_SLOW || grown > log(from->bytes[i + 1] / from->bytes[i]) + LEFT_SLOW;
}

/* Return true if the model has a boundary between sizes i and i + 1 that the times do not show. */
static bool unconfirmed(const struct lk_nccl_measured *from, const struct regime *r, size_t i)
{
    return i + 1 < from->n && !same(r[i], r[i + 1]) && !breaks(from, i);
}

/* Move the nearest unconfirmed boundary to a fall of the times. */
static void move_boundary(const struct lk_nccl_measured *from, struct regime *r, size_t fall)
{
    for (size_t d = 1; d <= BOUNDARY_POINTS; d++) {
        if (unconfirmed(from, r, fall + d)) {
            for (size_t i = fall + 1; i <= fall + d; i++)
                r[i] = r[fall + d + 1];
            return;
        }
        if (d <= fall && unconfirmed(from, r, fall - d)) {
            for (size_t i = fall - d + 1; i <= fall; i++)
                r[i] = r[fall - d];
            return;
        }
    }
}

static void set_regimes(const struct lk_nccl_measured *from, enum lk_coll coll, enum lk_algo algo,
                        struct regime *r)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];

    for (size_t i = 0; i < from->n; i++) {
        lk_nccl_offers(&from->comm, coll, algo, from->bytes[i], all);
        r[i] = (struct regime){all[0].algo, all[0].proto};
    }
    for (size_t i = 0; i + 1 < from->n; i++)
        if (same(r[i], r[i + 1]) && log(from->seconds[i] / from->seconds[i + 1]) > LEFT_SLOW)
            move_boundary(from, r, i);
}

/* Return the measured size nearest to `bytes`, of regime k if one lies within ALIKE_OCTAVES. */
static size_t nearest(const struct lk_nccl_measured *from, const struct regime *r, struct regime k,
                      double bytes)
{
    size_t best = 0;
    double least = INFINITY;

    for (size_t i = 0; i < from->n; i++) {
        double d = fabs(log2(from->bytes[i] / bytes));

        if (d > ALIKE_OCTAVES || !same(r[i], k))
            d += FAR;
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best;
}

/* Inputs of a rescaling: the measured side with its regimes, and the model of both sides. */
struct rescaling {
    const struct lk_nccl_comm *here;
    const struct lk_nccl_measured *from;
    const struct lk_nccl_factors *f;
    enum lk_coll coll;
    struct regime *regime; /* of the measured sizes */
    double *misfit;        /* ln of measured over model */
};

/* Return the unevenness of the misfit around a measured size. */
static double rough(const struct rescaling *j, size_t i)
{
    double down = i ? fabs(j->misfit[i] - j->misfit[i - 1]) : 0;
    double up = i + 1 < j->from->n ? fabs(j->misfit[i + 1] - j->misfit[i]) : 0;

    return ROUGH_SHARE * fmax(down, up);
}

/* Return ln of the seconds of choice k, from the nearest comparable measured size. */
static double rescaled_ln(const struct rescaling *j, const struct lk_nccl_choice *k, double bytes,
                          double *out_rough)
{
    const struct lk_nccl_measured *from = j->from;
    double alike = k->algo == LK_ALGO_RING ? bytes * from->comm.ranks / j->here->ranks : bytes;
    size_t i = nearest(from, j->regime, (struct regime){k->algo, k->proto}, alike);
    struct lk_nccl_choice there = {.algo = j->regime[i].algo, .proto = j->regime[i].proto};

    there.parts = lk_nccl_parts_of(&from->comm, j->coll, there.algo, there.proto, from->bytes[i]);
    *out_rough = rough(j, i);
    return log(from->typical[i] * lk_nccl_choice_us(j->here, j->f, j->coll, k, bytes) /
               lk_nccl_choice_us(&from->comm, j->f, j->coll, &there, from->bytes[i]));
}

/* Set the seconds of a size, NaN if the model offers nothing, and add the doubt to its sd. */
static void rescale_size(const struct rescaling *j, enum lk_algo algo, double bytes,
                         double *seconds, double *sd_io)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    size_t n = lk_nccl_offers(j->here, j->coll, algo, bytes, all);
    double sum = 0, ln = 0, squares = 0, rough_squares = 0, variance;

    for (size_t i = 0; i < n; i++) {
        double w = lk_nccl_choice_weight(&all[0], &all[i]), r, x;

        if (w <= 0)
            continue;
        x = rescaled_ln(j, &all[i], bytes, &r);
        sum += w;
        ln += w * x;
        squares += w * x * x;
        rough_squares += w * r * r;
    }
    *seconds = NAN;
    if (sum <= 0)
        return;
    variance = fmax(0, squares / sum - ln / sum * (ln / sum)) + rough_squares / sum;
    *seconds = exp(ln / sum);
    *sd_io = hypot(*sd_io, sqrt(variance));
}

enum lk_status lk_nccl_rescale(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                               const struct lk_nccl_factors *f, enum lk_coll coll,
                               enum lk_algo algo, double *seconds, double *sd_io)
{
    enum lk_status st = LK_OK;
    struct rescaling j = {.here = here, .from = from, .f = f, .coll = coll};

    LK_TRY(lk_alloc(&j.regime, from->n, sizeof *j.regime));
    LK_TRY(lk_alloc(&j.misfit, from->n, sizeof *j.misfit));
    set_regimes(from, coll, algo, j.regime);
    for (size_t i = 0; i < from->n; i++)
        j.misfit[i] =
            log(from->seconds[i] / lk_nccl_refit_us(&from->comm, f, coll, algo, from->bytes[i]));
    for (size_t i = 0; i < from->n; i++)
        rescale_size(&j, algo, from->bytes[i], &seconds[i], &sd_io[i]);
out:
    free(j.regime);
    free(j.misfit);
    return st;
}
