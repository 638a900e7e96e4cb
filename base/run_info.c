/* What a run was: struct lk_run_info in memory and as JSON. */
#include "base/trace.h"

#include "base/array.h"
#include "base/bounds.h"

#include <stdlib.h>
#include <string.h>

/* The members with plain types, in the order of the file. X(C member, kind, min, max) */
#define TEXTS(X) X(run_id) X(host) X(device) X(comm) X(model) X(sample_unit)
#define INTS(X)                                                                                    \
    X(rank, 0, LK_RANKS_MAX - 1)                                                                   \
    X(world_size, 1, LK_RANKS_MAX)                                                                 \
    X(local_rank, 0, LK_RANKS_MAX - 1)                                                             \
    X(nodes, 1, LK_RANKS_MAX)                                                                      \
    X(local_batch, 1, LK_BATCH_MAX)                                                                \
    X(accumulation, 1, LK_ACCUMULATION_MAX)
#define BOOLS(X) X(no_sync) X(simulated)
#define UINTS(X) X(first_bytes) X(cap_bytes) X(warmup_steps) X(steps)

void lk_run_info_fini(struct lk_run_info *i)
{
#define FREE_(member) free(i->member);
    TEXTS(FREE_)
#undef FREE_
    for (size_t t = 0; t < i->n_tensors; t++)
        free(i->tensors[t].name);
    free(i->tensors);
    for (size_t c = 0; c < i->n_config; c++) {
        free(i->config[c].key);
        free(i->config[c].value);
    }
    free(i->config);
    *i = (struct lk_run_info){0};
}

static enum lk_status copy_text(char **to, const char *from)
{
    *to = NULL;
    return from ? lk_strdup(to, from) : LK_OK;
}

enum lk_status lk_run_info_copy(struct lk_run_info *to, const struct lk_run_info *from)
{
    enum lk_status st = LK_OK;
    struct lk_run_info i = *from;

#define CLEAR_(member) i.member = NULL;
    TEXTS(CLEAR_)
#undef CLEAR_
    i.tensors = NULL;
    i.n_tensors = 0;
    i.config = NULL;
    i.n_config = 0;
#define COPY_(member) LK_TRY(copy_text(&i.member, from->member));
    TEXTS(COPY_)
#undef COPY_
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
    enum lk_status st = LK_OK;
    struct lk_run_pair *grown;
    char *k = NULL;
    char *v = NULL;

    LK_TRY(lk_strdup(&v, value));
    for (size_t c = 0; c < i->n_config; c++)
        if (!strcmp(i->config[c].key, key)) {
            free(i->config[c].value);
            i->config[c].value = v;
            return LK_OK;
        }
    LK_TRY(lk_strdup(&k, key));
    grown = realloc(i->config, (i->n_config + 1) * sizeof *grown);
    if (!grown) {
        st = lk_fail(LK_ENOMEM, "cannot keep option %s", key);
        goto out;
    }
    i->config = grown;
    i->config[i->n_config++] = (struct lk_run_pair){.key = k, .value = v};
    k = NULL;
    v = NULL;
out:
    free(k);
    free(v);
    return st;
}

const char *lk_run_info_value(const struct lk_run_info *i, const char *key)
{
    for (size_t c = 0; c < i->n_config; c++)
        if (!strcmp(i->config[c].key, key))
            return i->config[c].value;
    return NULL;
}

bool lk_run_info_shared_gpu(const struct lk_run_info *i)
{
    const char *shared = lk_run_info_value(i, "share-gpu");

    return shared && !strcmp(shared, "yes");
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

void lk_run_info_write(struct lk_json_out *o, const char *key, const struct lk_run_info *i)
{
    lk_json_out_object(o, key);
#define WRITE_(member) lk_json_out_text(o, #member, or_empty(i->member));
    TEXTS(WRITE_)
#undef WRITE_
#define WRITE_(member, min, max) lk_json_out_int(o, #member, i->member);
    INTS(WRITE_)
#undef WRITE_
#define WRITE_(member) lk_json_out_bool(o, #member, i->member);
    BOOLS(WRITE_)
#undef WRITE_
#define WRITE_(member) lk_json_out_uint(o, #member, i->member);
    UINTS(WRITE_)
#undef WRITE_
    lk_json_out_text(o, "ddp_rule", lk_ddp_rule_name(i->ddp_rule));
    lk_json_out_number(o, "flops_per_sample", i->flops_per_sample);
    lk_json_out_array(o, "tensors");
    for (size_t t = 0; t < i->n_tensors; t++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", or_empty(i->tensors[t].name));
        lk_json_out_uint(o, "elems", i->tensors[t].elems);
        lk_json_out_text(o, "dtype", lk_dtype_name(i->tensors[t].dtype));
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_object(o, "config");
    for (size_t c = 0; c < i->n_config; c++)
        lk_json_out_text(o, i->config[c].key, i->config[c].value);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static enum lk_status read_tensor(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_run_tensor *t = item;
    const char *dtype = NULL;

    LK_TRY(lk_json_text_copy(v, "name", &t->name));
    LK_TRY(lk_json_uint(v, "elems", LK_TENSOR_ELEMS_MAX, &t->elems));
    LK_TRY(lk_json_text(v, "dtype", &dtype));
    LK_TRY(lk_json_blame(v, "dtype", lk_dtype_from_name(dtype, &t->dtype)));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_config(struct lk_json *obj, struct lk_run_info *i)
{
    enum lk_status st = LK_OK;
    struct lk_json *config = NULL;
    struct lk_json *v;
    const char *key = NULL;
    const char *value = NULL;

    LK_TRY(lk_json_object(obj, "config", &config));
    for (size_t c = 0; (v = lk_json_member(config, c, &key)); c++) {
        LK_TRY(lk_json_as_text(v, &value));
        LK_TRY(lk_run_info_config(i, key, value));
    }
out:
    return st;
}

static enum lk_status read_members(struct lk_json *obj, struct lk_run_info *i)
{
    enum lk_status st = LK_OK;
    const char *rule = NULL;

#define READ_(member) LK_TRY(lk_json_text_copy(obj, #member, &i->member));
    TEXTS(READ_)
#undef READ_
#define READ_(member, min, max) LK_TRY(lk_json_int32(obj, #member, min, max, &i->member));
    INTS(READ_)
#undef READ_
#define READ_(member) LK_TRY(lk_json_bool(obj, #member, &i->member));
    BOOLS(READ_)
#undef READ_
#define READ_(member) LK_TRY(lk_json_uint(obj, #member, UINT64_MAX, &i->member));
    UINTS(READ_)
#undef READ_
    LK_TRY(lk_json_text(obj, "ddp_rule", &rule));
    LK_TRY(lk_json_blame(obj, "ddp_rule", lk_ddp_rule_from_name(rule, &i->ddp_rule)));
    LK_TRY(lk_json_number_or_null(obj, "flops_per_sample", &i->flops_per_sample));
out:
    return st;
}

enum lk_status lk_run_info_read(struct lk_json *obj, struct lk_run_info *out)
{
    enum lk_status st = LK_OK;
    struct lk_run_info i = {0};

    LK_TRY(read_members(obj, &i));
    LK_TRY(lk_json_items(obj, "tensors", LK_JSON_REQUIRED, read_tensor, &i.tensors,
                         sizeof *i.tensors, &i.n_tensors));
    LK_TRY(read_config(obj, &i));
    LK_TRY(lk_json_end(obj));
    if (i.rank >= i.world_size) {
        st = lk_json_error(lk_json_optional(obj, "rank"), "%d is not below the world size %d",
                           i.rank, i.world_size);
        goto out;
    }
    *out = i;
    i = (struct lk_run_info){0};
out:
    lk_run_info_fini(&i);
    return st;
}
