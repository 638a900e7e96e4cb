/* Factors on the parts of NCCL's model, and their fit. */
#include "sim/nccl_fit.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 8, N = LK_NCCL_FACTOR_COUNT };

/* Huber's tuning constant, and the sd of one table's times about the model, as a start. */
static const double HUBER_K = 1.345, POINT_SD = 0.15;

/* Between small and large messages for what is left; the bands of docs/accuracy.md. */
static const double LARGE_BYTES = 32.0 * (1 << 20);

/* Simple's pipeline fills: up to FILL_US as the message grows past FILL_BYTES. What single-node
 * H100 tables take beyond latency and rate: 30 us at 8 MB, 60 at 64 MB, 85 at 256 MB. */
static const double FILL_US = 50, FILL_BYTES = 16.0 * (1 << 20);

/*
 * Scale: hops cost more beyond SCALE_HOP_NODES, bandwidth beyond SCALE_RATE_NODES, by these powers
 * of the nodes over that. GH200 on Slingshot, 4 to 512 nodes: NCCL's model over measured falls from
 * 0.6 at 8 nodes to 0.5 at 128 (to 32 KB); busbw 92 GB/s to 128 nodes, 85 at 256, 67 at 512
 * (github.com/boeschf/nccl-benchmark-on-alps-2025).
 */
static const double SCALE_HOP_NODES = 32, SCALE_HOP_POWER = 0.12;
static const double SCALE_RATE_NODES = 128, SCALE_RATE_POWER = 0.2;

static const char *const network_names[LK_NETWORK_COUNT] = {
#define ROW(kind, name) [kind] = (name),
    LK_NETWORK_LIST(ROW)
#undef ROW
};

enum lk_nccl_place lk_nccl_place_of(const struct lk_nccl_comm *m, enum lk_network network)
{
    if (m->nodes > 1)
        return (enum lk_nccl_place)(LK_NCCL_OVER + (int)network);
    return m->wire == LK_NCCL_NVLINK ? LK_NCCL_IN_NVLINK : LK_NCCL_IN_PCI;
}

const char *lk_nccl_place_name(enum lk_nccl_place place)
{
    return place == LK_NCCL_IN_NVLINK ? "nvlink"
           : place == LK_NCCL_IN_PCI  ? "pcie"
                                      : network_names[place - LK_NCCL_OVER];
}

struct lk_nccl_factors lk_nccl_own(void)
{
    struct lk_nccl_factors f = {{0}, {0}, 0, 0};

    f.ln[LK_NCCL_FILL] = -INFINITY;
    return f;
}

/* The parts of a time in us, by the factor that each is multiplied with. */
struct terms {
    double us[N];
    double sum; /* with the factors */
};

static double power_beyond(double x, double from, double power)
{
    return x > from ? pow(x / from, power) : 1;
}

static void terms_of(const struct lk_nccl_comm *m, const struct lk_nccl_parts *p,
                     enum lk_nccl_proto proto, const double *factor, double bytes, struct terms *t)
{
    double beyond = power_beyond(m->nodes, SCALE_HOP_NODES, SCALE_HOP_POWER);
    double hops = (p->intra_us * m->intra.share + p->inter_us * m->inter.share) * beyond;
    double rate = bytes / (1000 * p->GBps) * m->slowdown *
                  power_beyond(m->nodes, SCALE_RATE_NODES, SCALE_RATE_POWER);
    bool simple = proto == LK_NCCL_SIMPLE;

    t->us[LK_NCCL_LAUNCH] = p->base_us;
    t->us[LK_NCCL_HOP_LL] = simple ? 0 : hops;
    t->us[LK_NCCL_HOP_SIMPLE] = simple ? hops : 0;
    t->us[LK_NCCL_FILL] = simple ? FILL_US * bytes / (bytes + FILL_BYTES) : 0;
    t->us[LK_NCCL_RATE_LL] = simple ? 0 : rate;
    t->us[LK_NCCL_RATE] = simple ? rate : 0;
    t->sum = p->intra_hops * m->intra.more_us + p->inter_hops * m->inter.more_us;
    for (int i = 0; i < N; i++)
        t->sum += factor[i] * t->us[i];
}

static bool least(const struct lk_nccl_comm *m, const double *factor, enum lk_coll coll,
                  enum lk_algo algo, double bytes, struct terms *out)
{
    bool found = false;

    for (int a = LK_ALGO_AUTO + 1; a < LK_ALGO_COUNT; a++)
        for (int p = 0; p < LK_NCCL_PROTO_COUNT; p++) {
            struct lk_nccl_parts parts;
            struct terms t;

            if (algo != LK_ALGO_AUTO && a != (int)algo)
                continue;
            parts = lk_nccl_parts_of(m, coll, (enum lk_algo)a, (enum lk_nccl_proto)p, bytes);
            if (parts.GBps <= 0)
                continue;
            terms_of(m, &parts, (enum lk_nccl_proto)p, factor, bytes, &t);
            if (!found || t.sum < out->sum)
                *out = t;
            found = true;
        }
    return found;
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
    struct terms t;

    factors_of(f, factor);
    return least(m, factor, coll, algo, bytes, &t) ? t.sum : NAN;
}

/* Solves the symmetric positive definite a x = b and inverts a, by Gauss-Jordan. */
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

/* Normal equations of one round at factors ln. */
static void add_points(const struct lk_nccl_point *points, size_t n, const double *ln,
                       double a[N][N], double *b)
{
    double factor[N];

    for (int i = 0; i < N; i++)
        factor[i] = exp(ln[i]);
    for (size_t k = 0; k < n; k++) {
        const struct lk_nccl_point *q = &points[k];
        struct terms t;
        double r, w, g[N];

        if (!least(&q->comm, factor, q->coll, q->algo, q->bytes, &t))
            continue;
        r = log(q->us / t.sum);
        w = 1 / (POINT_SD * POINT_SD) / fmax(1, fabs(r) / (HUBER_K * POINT_SD));
        for (int i = 0; i < N; i++)
            g[i] = factor[i] * t.us[i] / t.sum;
        for (int i = 0; i < N; i++) {
            b[i] += w * g[i] * r;
            for (int j = 0; j < N; j++)
                a[i][j] += w * g[i] * g[j];
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

        add_points(points, n, f.ln, a, b);
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

double lk_nccl_error(const struct lk_nccl_factors *f, double bytes)
{
    return bytes > LARGE_BYTES ? f->error_large : f->error_small;
}
