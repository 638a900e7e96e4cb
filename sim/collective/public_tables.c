/* Public nccl-tests tables; see the header. */
#include "sim/collective/public_tables.h"

#include "base/array.h"
#include "base/csv.h"
#include "facts/preset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Presets that a table's words mean, and what differs from them; 0: nothing. The first match
 * counts. */
static const struct machine {
    const char *wires, *gpu, *preset;
    int gpus_per_node, nics;
    double nic_Bps, gpu_Bps;
    int compute_capability;
} machines[] = {
    {"TCPXO", "H100", "hgx-h100-tcpxo", 0, 0, 0, 0, 0},
    {"TCPX", "H100", "hgx-h100-tcpx", 0, 0, 0, 0, 0},
    {"EFA 32x100", "H100", "hgx-h100-efa", 0, 0, 0, 0, 0},
    {"EFA 4x100", "A100", "hgx-a100-efa", 0, 0, 0, 0, 0},
    {"InfiniBand HDR 8x200", "A100", "dgx-a100", 0, 0, 0, 0, 0},
    {"RoCE/SR-IOV 8x200", "A100", "dgx-a100-roce", 0, 0, 0, 0, 0},
    {"RoCE 16x100", "A100", "dgx-a100-roce", 0, 16, 12.5e9, 0, 0},
    {"Slingshot-11 1x200", "GH200", "gh200-slingshot", 1, 1, 0, 0, 0},
    {"4xGH200/node", "GH200", "gh200-slingshot", 0, 0, 0, 0, 0},
    {"over Slingshot NICs", "GH200", "gh200-slingshot", 0, 0, 0, 0, 0},
    {"PCIe5 + CX-8", "RTX 6000D", "pcie-l40s", 8, 8, 50e9, 48e9, 120},
    {"NVLink4+NVSwitch", "H100", "dgx-h100", 0, 0, 0, 0, 0},
    {"NVLink3+NVSwitch", "A100", "dgx-a100", 0, 0, 0, 0, 0},
};

enum { SOURCE, GPU, GPUS, NODES, WIRES, COLL, BYTES, TIME, IN_PLACE, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {
    [SOURCE] = {"source", true},      [GPU] = {"gpu", true},
    [GPUS] = {"n_gpus", true},        [NODES] = {"n_nodes", true},
    [WIRES] = {"interconnect", true}, [COLL] = {"collective", true},
    [BYTES] = {"size_bytes", true},   [TIME] = {"time_us", true},
    [IN_PLACE] = {"in_place", true}};

/* Cut a source to its first word: the repository, which is one lab's. */
static void source_of(const char *text, char *out)
{
    size_t n = strcspn(text, " ");

    n = n < LK_PUBLIC_SOURCE_MAX - 1 ? n : LK_PUBLIC_SOURCE_MAX - 1;
    memcpy(out, text, n);
    out[n] = 0;
}

static int machine_of(const char *wires, const char *gpu)
{
    for (size_t i = 0; i < LK_COUNT(machines); i++)
        if (strstr(wires, machines[i].wires) && strstr(gpu, machines[i].gpu))
            return (int)i;
    return -1;
}

static enum lk_status read_cluster(const char *dir, struct lk_public_table *s)
{
    enum lk_status st = LK_OK;
    char *path = NULL;
    const struct machine *m;

    lk_cluster_init(&s->cluster);
    if (s->machine < 0)
        return LK_OK;
    m = &machines[s->machine];
    LK_TRY(dir ? lk_asprintf(&path, "%s/%s.json", dir, m->preset)
               : lk_preset_find(NULL, m->preset, &path));
    LK_TRY(lk_cluster_read(path, &s->cluster));
    if (m->gpus_per_node)
        s->cluster.gpus_per_node = m->gpus_per_node;
    if (m->nics)
        s->cluster.topology.nics_per_node = m->nics;
    if (m->nic_Bps > 0)
        s->cluster.inter.bandwidth_Bps.value = m->nic_Bps;
    if (m->gpu_Bps > 0)
        s->cluster.intra.bandwidth_Bps.value = m->gpu_Bps;
    if (m->compute_capability)
        s->cluster.device.compute_capability = m->compute_capability;
out:
    free(path);
    return st;
}

static enum lk_status add_row(struct lk_public_tables *t, const struct lk_csv *csv, size_t i,
                              enum lk_public_kind kind, const char *dir)
{
    enum lk_status st = LK_OK;
    const char *source, *gpu, *wires, *coll;
    char label[2 * LK_PUBLIC_SOURCE_MAX];
    enum lk_coll c;
    int64_t ranks, nodes, bytes, in_place;
    double us;
    struct lk_public_table *s;

    LK_TRY(lk_csv_text(csv, i, SOURCE, &source));
    LK_TRY(lk_csv_text(csv, i, GPU, &gpu));
    LK_TRY(lk_csv_text(csv, i, WIRES, &wires));
    LK_TRY(lk_csv_text(csv, i, COLL, &coll));
    LK_TRY(lk_csv_int(csv, i, GPUS, 1, 1 << 20, &ranks));
    LK_TRY(lk_csv_int(csv, i, NODES, 1, 1 << 20, &nodes));
    LK_TRY(lk_csv_int(csv, i, BYTES, 0, INT64_MAX, &bytes));
    LK_TRY(lk_csv_int(csv, i, IN_PLACE, 0, 1, &in_place));
    LK_TRY(lk_csv_real(csv, i, TIME, 0, INFINITY, &us));
    if (strstr(wires, "processes on ONE GPU") ||
        (strstr(wires, "DEGRADED") != NULL) != (kind == LK_PUBLIC_DEGRADED) || in_place ||
        us <= 0 || bytes <= 0 || lk_words_find(&lk_modelled_coll_words, coll, &c) != LK_OK) {
        t->n_left_out += !in_place;
        return LK_OK;
    }
    snprintf(label, sizeof label, "%.90s %s", strrchr(source, '/') ? strrchr(source, '/') : source,
             coll);
    s = t->n ? &t->s[t->n - 1] : NULL;
    if (!s || strcmp(s->label, label) || s->ranks != ranks || s->nodes != nodes) {
        LK_TRY(lk_array_grow(&t->s, &t->capacity, t->n + 1, sizeof *t->s));
        s = &t->s[t->n++];
        memset(s, 0, sizeof *s);
        snprintf(s->label, sizeof s->label, "%s", label);
        source_of(source, s->source);
        s->coll = c;
        s->algo = strstr(wires, "NCCL_ALGO=RING") ? LK_ALGO_RING : LK_ALGO_AUTO;
        s->ranks = (int)ranks;
        s->nodes = (int)nodes;
        s->machine = machine_of(wires, gpu);
        snprintf(s->platform, sizeof s->platform, "%d/%d/%d/%s", s->machine, s->ranks, s->nodes,
                 coll);
        LK_TRY(read_cluster(dir, s));
    }
    LK_TRY(lk_array_grow(&s->bytes, &s->bytes_capacity, s->n + 1, sizeof *s->bytes));
    LK_TRY(lk_array_grow(&s->us, &s->us_capacity, s->n + 1, sizeof *s->us));
    s->bytes[s->n] = (double)bytes;
    s->us[s->n++] = us;
out:
    return st;
}

enum lk_status lk_public_tables_read(const char *path, const char *clusters_dir,
                                     enum lk_public_kind kind, struct lk_public_tables *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_EXTRA, &csv));
    out->n_rows = lk_csv_rows(csv);
    for (size_t i = 0; i < out->n_rows; i++)
        LK_TRY(add_row(out, csv, i, kind, clusters_dir));
out:
    lk_csv_free(csv);
    return st;
}

void lk_public_tables_fini(struct lk_public_tables *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->s[i].bytes);
        free(t->s[i].us);
        lk_cluster_fini(&t->s[i].cluster);
    }
    free(t->s);
}
