/* Describe a run: struct lk_run_info, its rows (base/member.h) for JSON, copies of it, its config,
 * and the facts that config says in texts (facts/run_facts.h). */
#include "facts/trace.h"

#include "base/array.h"
#include "base/units.h"
#include "facts/bounds.h"
#include "facts/run_facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW(field, key, ...) LK_MEMBER(struct lk_run_tensor, field, key, __VA_ARGS__)
static const struct lk_member tensor_rows[] = {
    ROW(name, "name", TEXT, REQUIRED, .help = "name of the parameter"),
    ROW(elems, "elems", UINT, REQUIRED, .max = LK_TENSOR_ELEMS_MAX, .help = "elements"),
    ROW(dtype, "dtype", WORD, REQUIRED, .words = &lk_dtype_words, .help = "type of the gradient"),
    ROW(rows, "rows", UINT, SPARSE, .max = LK_TENSOR_ELEMS_MAX,
        .help = "first dimension of a matrix", .without = "not known"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record tensor_record = {
    .size = sizeof(struct lk_run_tensor), .rows = tensor_rows, .one_line = true};

static enum lk_status check_info(struct lk_json *obj, void *base)
{
    const struct lk_run_info *i = base;

    if (i->rank >= i->world_size)
        return lk_json_error(lk_json_optional(obj, "rank"), "%d is not below the world size %d",
                             i->rank, i->world_size);
    return lk_rank_batches_check(i->local_batches, i->world_size, i->local_batch) == LK_OK
               ? LK_OK
               : lk_json_error(lk_json_optional(obj, "local_batches"), "%s", lk_error_text());
}

#define ROW(field, ...) LK_MEMBER(struct lk_run_info, field, #field, __VA_ARGS__)
static const struct lk_member info_rows[] = {
    ROW(run_id, TEXT, REQUIRED, .help = "the same on all ranks of a run"),
    ROW(host, TEXT, REQUIRED, .help = "host name"),
    ROW(device, TEXT, REQUIRED, .help = "cpu, timed, or the GPU's name"),
    ROW(comm, TEXT, REQUIRED, .help = "what carried collectives: self, tcp, nccl, ..."),
    ROW(model, TEXT, REQUIRED, .help = "the model"),
    ROW(sample_unit, TEXT, REQUIRED, .help = "what a sample is"),
    ROW(rank, INT, REQUIRED, .max = LK_RANKS_MAX - 1, .help = "rank"),
    ROW(world_size, INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX, .help = "ranks of the run"),
    ROW(local_rank, INT, REQUIRED, .max = LK_RANKS_MAX - 1, .help = "rank in its node"),
    ROW(nodes, INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX, .help = "nodes of the run"),
    ROW(local_batch, INT, REQUIRED, .min = 1, .max = LK_BATCH_MAX,
        .help = "samples a micro-batch and rank"),
    ROW(local_batches, CHARS, SPARSE, .help = "of ranks whose batches differ, in order: 2x8+4",
        .without = "all have `local_batch`, else the largest of them"),
    ROW(accumulation, INT, REQUIRED, .min = 1, .max = LK_ACCUMULATION_MAX,
        .help = "micro-batches a step"),
    ROW(no_sync, BOOL, REQUIRED, .help = "gradients are reduced on the last micro-batch alone"),
    ROW(overlap, WORD, SPARSE, .words = &lk_overlap_mode_words,
        .help = "asked for, of collectives with compute"),
    ROW(algorithm, WORD, SPARSE, .words = &lk_algo_words, .help = "asked for, of the all-reduce"),
    ROW(compression, WORD, SPARSE, .words = &lk_compression_words,
        .help = "communication hook of gradients"),
    ROW(powersgd_rank, INT, SPARSE, .max = LK_POWERSGD_RANK_MAX,
        .help = "rank of powersgd's factors", .without = "no powersgd"),
    ROW(period, INT, SPARSE, .max = 1e9,
        .help = "steps from one averaging of parameters to the next", .without = "none"),
    ROW(staleness, INT, SPARSE, .max = LK_STALENESS_MAX,
        .help = "steps by which async applies gradients late", .without = "0"),
    ROW(sharding, WORD, SPARSE, .words = &lk_sharding_words, .help = "what ranks divide"),
    ROW(shard_group, INT, SPARSE, .max = LK_RANKS_MAX,
        .help = "ranks that share one copy of the model", .without = "all"),
    ROW(scatter, BOOL, SPARSE,
        .help = "groups all-reduce gradients after the last micro-batch only"),
    ROW(simulated, BOOL, REQUIRED, .help = "written by the simulator"),
    ROW(first_bytes, UINT, REQUIRED, .help = "limit of the first bucket"),
    ROW(cap_bytes, UINT, REQUIRED, .help = "limit of the others"),
    ROW(warmup_steps, UINT, REQUIRED, .help = "first steps that statistics leave out"),
    ROW(steps, UINT, REQUIRED, .help = "steps asked for"),
    ROW(ddp_rule, WORD, REQUIRED, .words = &lk_ddp_rule_words, .help = "whose bucketing"),
    ROW(flops_per_sample, NUMBER, NULLABLE, .help = "operations of one sample"),
    ROW(tensors, LIST, REQUIRED, .of = &tensor_record,
        .count = offsetof(struct lk_run_info, n_tensors), .help = "gradients as registered"),
    ROW(config, PAIRS, REQUIRED, .count = offsetof(struct lk_run_info, n_config),
        .help = "options, versions, seed, allowed environment"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_run_info_record = {
    .size = sizeof(struct lk_run_info), .rows = info_rows, .check = check_info};

bool lk_run_info_same_batches(const struct lk_run_info *a, const struct lk_run_info *b)
{
    return a->local_batch == b->local_batch && !strcmp(a->local_batches, b->local_batches);
}

const char *lk_run_info_batches(const struct lk_run_info *i, char buf[16])
{
    snprintf(buf, 16, "%d", i->local_batch);
    return *i->local_batches ? i->local_batches : buf;
}

double lk_run_info_samples(const struct lk_run_info *i)
{
    struct lk_config c = {.world_size = i->world_size,
                          .local_batch = i->local_batch,
                          .accumulation = i->accumulation};

    memcpy(c.batches, i->local_batches, sizeof c.batches);
    return lk_config_samples(&c);
}

void lk_run_info_fini(struct lk_run_info *i)
{
    lk_record_fini(&lk_run_info_record, i);
}

static enum lk_status copy_text(char **to, const char *from)
{
    *to = NULL;
    return from ? lk_strdup(to, from) : LK_OK;
}

static char **text_of(const struct lk_run_info *i, const struct lk_member *m)
{
    return (char **)(void *)((char *)(uintptr_t)i + m->offset);
}

enum lk_status lk_run_info_copy(struct lk_run_info *to, const struct lk_run_info *from)
{
    enum lk_status st = LK_OK;
    struct lk_run_info i = *from;

    i.tensors = NULL;
    i.n_tensors = 0;
    i.config = NULL;
    i.n_config = 0;
    for (const struct lk_member *m = info_rows; m->key; m++)
        if (m->kind == LK_KIND_TEXT)
            *text_of(&i, m) = NULL;
    for (const struct lk_member *m = info_rows; m->key; m++)
        if (m->kind == LK_KIND_TEXT)
            LK_TRY(copy_text(text_of(&i, m), *text_of(from, m)));
    LK_TRY(lk_alloc(&i.tensors, from->n_tensors, sizeof *i.tensors));
    for (; i.n_tensors < from->n_tensors; i.n_tensors++) {
        i.tensors[i.n_tensors] = from->tensors[i.n_tensors];
        LK_TRY(copy_text(&i.tensors[i.n_tensors].name, from->tensors[i.n_tensors].name));
    }
    for (size_t c = 0; c < from->n_config; c++)
        LK_TRY(lk_run_info_config(&i, from->config[c].key, from->config[c].value));
    *to = i;
    i = (struct lk_run_info){0};
out:
    lk_run_info_fini(&i);
    return st;
}

enum lk_status lk_run_info_config(struct lk_run_info *i, const char *key, const char *value)
{
    char *v = NULL;

    for (size_t c = 0; c < i->n_config; c++)
        if (!strcmp(i->config[c].key, key)) {
            LK_PASS(lk_strdup(&v, value));
            free(i->config[c].value);
            i->config[c].value = v;
            return LK_OK;
        }
    return lk_pairs_add(&i->config, &i->n_config, key, value);
}

const char *lk_run_info_value(const struct lk_run_info *i, const char *key)
{
    for (size_t c = 0; c < i->n_config; c++)
        if (!strcmp(i->config[c].key, key))
            return i->config[c].value;
    return NULL;
}

enum lk_reduction lk_run_info_reduction(const struct lk_run_info *i)
{
    return i->no_sync ? LK_REDUCTION_LAST : i->scatter ? LK_REDUCTION_SCATTER : LK_REDUCTION_EVERY;
}

/* ---- Facts ---- */

static bool is(const char *text, const char *word)
{
    return text && !strcmp(text, word);
}

static enum lk_job_optimizer optimizer_of(const char *rule, const char *momentum)
{
    if (is(rule, "sgd") && momentum && strtod(momentum, NULL) > 0)
        return LK_JOB_OPTIMIZER_MOMENTUM;
    for (int o = 0; o < LK_JOB_OPTIMIZER_COUNT; o++)
        if (is(rule, lk_job_optimizer_words.names[o]))
            return (enum lk_job_optimizer)o;
    return LK_JOB_OPTIMIZER_UNKNOWN;
}

static double number_of(const char *text)
{
    double v;

    return text && lk_parse_double(text, &v) == LK_OK ? v : NAN;
}

static bool has_masters(const char *dtype)
{
    int t;

    return dtype && lk_words_match(&lk_dtype_words, dtype, &t) &&
           lk_dtype_has_masters((enum lk_dtype)t);
}

static bool in_range(int size)
{
    return size >= 1 && size <= LK_SHAPE_MAX;
}

/* Read a transformer's shape; its dtype says how wide activations are. */
static struct lk_job_transformer transformer_of(const char *shape, const char *dtype)
{
    struct lk_job_transformer t = {0};
    int type = 0, n;

    n = shape ? sscanf(shape, "layers %d, heads %d, channels %d, context %d, vocab %d", &t.layers,
                       &t.heads, &t.hidden, &t.sequence, &t.vocabulary)
              : 0;
    if (n != 5 || !in_range(t.layers) || !in_range(t.heads) || !in_range(t.hidden) ||
        !in_range(t.sequence) || !in_range(t.vocabulary) || t.hidden % t.heads)
        return (struct lk_job_transformer){0};
    t.activation_bytes = 4;
    if (dtype && lk_words_match(&lk_dtype_words, dtype, &type))
        t.activation_bytes = (int)lk_dtype_bytes((enum lk_dtype)type);
    return t;
}

enum lk_status lk_run_facts_sync_bn(const struct lk_run_info *info, struct lk_job_sync_bn **out,
                                    size_t *n)
{
    const char *text = lk_run_info_value(info, LK_SYNC_BN_CONFIG_KEY), *at = text;
    struct lk_job_sync_bn *rows = NULL;
    enum lk_status st = LK_OK;
    size_t capacity = 0, count = 0;

    while (at && *at) {
        struct lk_job_sync_bn row;
        int length = 0;

        if (sscanf(at, "%d@%lf%n", &row.channels, &row.at, &length) != 2 ||
            !in_range(row.channels) || !(row.at >= 0 && row.at <= 1) ||
            (at[length] && at[length] != ' '))
            LK_TRY(lk_fail(LK_EPARSE, "configuration " LK_SYNC_BN_CONFIG_KEY ": '%s'", text));
        LK_TRY(lk_array_grow(&rows, &capacity, count + 1, sizeof *rows));
        rows[count++] = row;
        at += length + (at[length] == ' ');
    }
    *n = count;
    LK_HAND_OVER(out, rows);
out:
    free(rows);
    return st;
}

enum lk_status lk_run_facts_read(const struct lk_run_info *info, struct lk_run_facts *out)
{
    static const char none[] = "none: ";
    const char *prefetch = lk_run_info_value(info, "prefetch");
    const char *records = lk_run_info_value(info, LK_CUPTI_CONFIG_KEY);
    int64_t depth = -1;

    if (prefetch && lk_parse_int64(prefetch, 0, 1 << 20, &depth) != LK_OK)
        return lk_fail(LK_EPARSE, "configuration prefetch: '%s' is no count", prefetch);
    *out = (struct lk_run_facts){
        .optimizer =
            optimizer_of(lk_run_info_value(info, "optimizer"), lk_run_info_value(info, "momentum")),
        .master_weights = has_masters(lk_run_info_value(info, "dtype")),
        .prefetch = (int)depth,
        .shared_gpu = is(lk_run_info_value(info, "share-gpu"), "yes"),
        .gpu_max_sm_clock_mhz = number_of(lk_run_info_value(info, LK_GPU_CONFIG_MAX_CLOCK)),
        .gpu_power_limit_w = number_of(lk_run_info_value(info, LK_GPU_CONFIG_POWER_LIMIT)),
        .transformer = transformer_of(lk_run_info_value(info, LK_SHAPE_CONFIG_KEY),
                                      lk_run_info_value(info, "dtype")),
        .global_norm = is(lk_run_info_value(info, LK_NORM_CONFIG_KEY), "yes"),
        .activation_bytes = number_of(lk_run_info_value(info, LK_ACTIVATION_CONFIG_KEY)),
    };
    if (records && !strncmp(records, none, sizeof none - 1))
        out->no_gpu_records = records + sizeof none - 1;
    return LK_OK;
}
