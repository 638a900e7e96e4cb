/*
 * Checkpoints of a rank's training: what they hold, when they are made, and how a run goes on from
 * one. A rank copies its state when a step has ended; a thread writes the copy (checkpoint.h).
 *
 * The state is a list of parts, each a piece of device memory: groups of one part a parameter, and
 * behind them the model's buffers, as rank 0 has them. The first group is the weights, exact; then,
 * where weights are narrower than float, the rounded ones; then the optimizer's planes; then what
 * the exchange and the averaging keep (runtime/model/kept.h). A checkpoint holds them whole: in
 * sharded training all ranks gather them for rank 0, and a rank that goes on takes what it owns
 * from the file.
 *
 * Some parts are each rank's own: an error of PowerSGD; where parameters are averaged, weights and
 * the optimizer's planes. Rank 0 gathers them one by one, and the file has them of all ranks: those
 * of rank 1 begin with "rank.1.". Such a file is of a number of ranks.
 */
#include "runtime/train/trainer_impl.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 1 << 20, OWN_TEXTS = 16 };
static const uint64_t copy_timeout_ns = 120 * LK_NS_PER_S;

/* Names of the file's own texts and of the bucket order. */
#define ORDER   "reducer.order"
#define OWN     "rank."
#define FORMAT  "lockstep-checkpoint"
#define VERSION "1"

/* ---- The parts ---- */

/* In sharded training masters have an address only while they are whole. */
static bool has_masters(const struct trainer *t)
{
    return lk_dtype_has_masters(lk_device_real_dtype(t->device));
}

static size_t weight_groups(const struct trainer *t)
{
    return has_masters(t) ? 2 : 1;
}

/* Return the number of groups before those that exchange and averaging keep. */
static size_t state_groups(const struct trainer *t)
{
    return weight_groups(t) + (t->optim ? lk_optim_planes(t->optim) : 0);
}

static size_t n_groups(const struct trainer *t)
{
    return state_groups(t) + lk_exchange_n_kept(t->exchange) + lk_averaging_n_kept(t->averaging);
}

static struct lk_kept kept_of(const struct trainer *t, size_t group, size_t param)
{
    const struct lk_param *p = &t->model->params[param];
    size_t at = group - state_groups(t), n = lk_exchange_n_kept(t->exchange);

    return at < n ? lk_exchange_kept(t->exchange, at, param)
                  : lk_averaging_kept(t->averaging, at - n, p->data, p->elems);
}

static size_t n_parts(const struct trainer *t)
{
    return n_groups(t) * t->model->n_params + t->model->n_buffers;
}

/* Return the buffer that a part is, or NULL. */
static const struct lk_model_buffer *buffer_of(const struct trainer *t, size_t part)
{
    size_t first = n_groups(t) * t->model->n_params;

    return part < first ? NULL : &t->model->buffers[part - first];
}

/* Return true if each rank has another part. */
static bool is_own(const struct trainer *t, size_t part)
{
    size_t group = part / t->model->n_params;

    if (t->ranks == 1 || buffer_of(t, part))
        return false;
    return group < state_groups(t) ? t->averaging != NULL
                                   : kept_of(t, group, part % t->model->n_params).own;
}

/* Return true if a part is of rounded weights, or of weights that are exact without masters. */
static bool is_real(const struct trainer *t, size_t part)
{
    size_t group = part / t->model->n_params;

    return group < weight_groups(t) && (group > 0 || !has_masters(t));
}

static struct lk_tensor_row describe(const struct trainer *t, size_t part)
{
    size_t group = part / t->model->n_params;
    const struct lk_model_buffer *b = buffer_of(t, part);
    const struct lk_param *p = &t->model->params[part % t->model->n_params];
    enum lk_dtype wide = lk_device_wide_bytes(t->device) == sizeof(double) ? LK_F64 : LK_F32;
    struct lk_tensor_row row = {.dtype = is_real(t, part) ? lk_device_real_dtype(t->device) : wide,
                                .elems = b ? b->elems : p->elems};

    if (b) {
        snprintf(row.name, sizeof row.name, "buffer.%s", b->name);
    } else if (group >= state_groups(t)) {
        struct lk_kept k = kept_of(t, group, part % t->model->n_params);

        snprintf(row.name, sizeof row.name, "%s.%s", k.name, p->name);
        row.dtype = lk_device_real_dtype(t->device);
        row.elems = k.elems;
    } else if (group >= weight_groups(t))
        snprintf(row.name, sizeof row.name, "optimizer.%s.%s",
                 lk_optim_plane_name(t->optim, group - weight_groups(t)), p->name);
    else
        snprintf(row.name, sizeof row.name, "%s%s", group ? "rounded." : "", p->name);
    return row;
}

/* Describe a rank's own part. */
static struct lk_tensor_row describe_own(const struct trainer *t, size_t part, int rank)
{
    struct lk_tensor_row row = describe(t, part);
    char name[sizeof row.name + 32];

    if (rank > 0) {
        snprintf(name, sizeof name, OWN "%d.%s", rank, row.name);
        memcpy(row.name, name, sizeof row.name - 1);
    }
    return row;
}

/* Return the memory of a part. pre: sharded ones are whole. */
static void *part_of(const struct trainer *t, size_t part)
{
    size_t group = part / t->model->n_params, param = part % t->model->n_params;
    const struct lk_model_buffer *b = buffer_of(t, part);

    if (b)
        return b->data;
    if (group >= state_groups(t))
        return kept_of(t, group, param).data;
    if (group >= weight_groups(t))
        return lk_exchange_state(t->exchange, t->optim, group - weight_groups(t), param);
    return is_real(t, part) ? t->model->params[param].data : t->model->params[param].master;
}

/* Copy between device and host memory. pre: the compute stream is idle. */
static enum lk_status copy(struct trainer *t, void *device, char *host, size_t bytes, bool restore)
{
    if (lk_device_uses_host_memory(t->device)) {
        memcpy(restore ? device : host, restore ? host : device, bytes);
        return LK_OK;
    }
    for (size_t at = 0, n; at < bytes; at += n) {
        char *there = (char *)device + at;

        n = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        if (restore)
            memcpy(t->staging, host + at, n);
        LK_PASS(lk_stream_copy(t->compute, restore ? there : t->staging,
                               restore ? t->staging : there, n));
        LK_PASS(lk_stream_sync(t->compute, lk_deadline_in(copy_timeout_ns)));
        if (!restore)
            memcpy(host + at, t->staging, n);
    }
    return LK_OK;
}

static enum lk_status make_staging(struct trainer *t)
{
    void *staging = NULL;

    if (t->staging || lk_device_uses_host_memory(t->device))
        return LK_OK;
    LK_PASS(lk_device_alloc_host(t->device, STAGING_BYTES, &staging));
    t->staging = staging;
    return LK_OK;
}

/* ---- Going on ---- */

static enum lk_status number(const struct trainer *t, const char *key, double *out)
{
    const char *text = lk_tensor_file_text(&t->resumed, key);
    char *end = NULL;
    double value = text ? strtod(text, &end) : NAN;

    if (!text || end == text || *end || !(value >= 0) || value > (double)INT64_MAX / 2)
        return lk_fail(LK_EPARSE, "%s: '%s' is %s", t->config->checkpoint.resume, key,
                       text ? text : "missing");
    *out = value;
    return LK_OK;
}

/* Return true if epochs end steps (runtime/train/data.h). */
static bool ends_epochs(const struct lk_train_config *c)
{
    return c->sampler.uneven == LK_UNEVEN_PAD || c->sampler.uneven == LK_UNEVEN_JOIN;
}

static int of_rank_0(const struct lk_train_config *c)
{
    return c->sampler.batches ? (int)c->sampler.batches[0] : c->local_batch;
}

/* Find the batch to go on with: the next one, or, where other ranks or batches share the samples,
 * the first that has no sample of an earlier step. */
static enum lk_status find_batch(struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    const char *global = lk_tensor_file_text(&t->resumed, "micro_batch_samples");
    uint64_t each = (uint64_t)c->reducer.accumulation;
    double batches, ranks, local_batch, was, now = 0;

    for (int r = 0; r < t->ranks; r++)
        now += c->sampler.batches ? (double)c->sampler.batches[r] : c->local_batch;
    LK_PASS(number(t, "batches", &batches));
    LK_PASS(number(t, "ranks", &ranks));
    LK_PASS(number(t, "local_batch", &local_batch));
    was = ranks * local_batch; /* of files without the next text, whose ranks had equal batches */
    if (global)
        LK_PASS(number(t, "micro_batch_samples", &was));
    t->first_batch = (uint64_t)batches;
    if ((int)ranks == t->ranks && (int)local_batch == of_rank_0(c) && was == now)
        return LK_OK;
    for (size_t i = 0; (int)ranks != t->ranks && i < t->resumed.n_rows; i++)
        if (!strncmp(t->resumed.rows[i].name, OWN, strlen(OWN)))
            return lk_fail(LK_EUSAGE,
                           "%s: has state of its own for each of %.0f ranks, and this run has %d",
                           c->checkpoint.resume, ranks, t->ranks);
    if (c->verify)
        return lk_fail(LK_EUSAGE, "--verify: not with a checkpoint of other ranks or batches");
    t->first_batch = (uint64_t)ceil(batches * was / now);
    if (ends_epochs(c)) /* its steps begin at multiples */
        t->first_batch = (t->first_batch + each - 1) / each * each;
    if (t->rank == 0)
        lk_log(LK_LOG_TRAIN, LK_WARN,
               "%s is of %.0f ranks with local batch %.0f, this run of %d with %d: it goes on with "
               "the samples behind those, but not bit for bit",
               c->checkpoint.resume, ranks, local_batch, t->ranks, c->local_batch);
    return LK_OK;
}

/* Go on with the scale of a file that has one, and with the count of updates that follows from its
 * skipped steps. pre: the scaler is as at the start of a run. */
static enum lk_status resume_scaler(struct trainer *t)
{
    double scale, good, skipped;

    if (!lk_tensor_file_text(&t->resumed, "loss_scale"))
        return LK_OK;
    LK_PASS(number(t, "loss_scale", &scale));
    LK_PASS(number(t, "loss_scale_good", &good));
    LK_PASS(number(t, "loss_scale_skipped", &skipped));
    t->scaler.skipped = (int64_t)skipped;
    if (t->scaler.config.kind != LK_LOSS_SCALE_DYNAMIC)
        return LK_OK;
    if (!(scale > 0 && scale <= FLT_MAX))
        return lk_fail(LK_EPARSE, "%s: a loss scale of %g", t->config->checkpoint.resume, scale);
    t->scaler.scale = (float)scale;
    t->scaler.good = (int64_t)good;
    return LK_OK;
}

enum lk_status lk_trainer_resume_read(struct trainer *t)
{
    const struct lk_checkpoint_config *c = &t->config->checkpoint;
    struct lk_train_course *course = &t->course;
    const char *format, *version;
    double steps, count, starts;

    if (!c->resume)
        return LK_OK;
    LK_PASS(lk_checkpoint_read(c->resume, &t->resumed));
    format = lk_tensor_file_text(&t->resumed, "format");
    version = lk_tensor_file_text(&t->resumed, "format_version");
    if (!format || strcmp(format, FORMAT) != 0 || !version || strcmp(version, VERSION) != 0)
        return lk_fail(LK_EPARSE, "%s: is no " FORMAT " of version " VERSION, c->resume);
    LK_PASS(number(t, "step", &steps));
    LK_PASS(number(t, "checkpoints", &count));
    LK_PASS(number(t, "starts", &starts));
    LK_PASS(number(t, "trained_s", &course->trained_s));
    LK_PASS(number(t, "stalled_s", &course->stalled_s));
    LK_PASS(number(t, "starting_s", &course->starting_s));
    course->first_step = (int64_t)steps;
    course->checkpoints = (int64_t)count;
    course->starts = (int64_t)starts;
    if (course->first_step >= t->n_steps)
        return lk_fail(LK_EUSAGE, "%s: is of %lld steps, and the run has %lld: none is left",
                       c->resume, (long long)course->first_step, (long long)t->n_steps);
    return find_batch(t);
}

const size_t *lk_trainer_resume_order(const struct trainer *t)
{
    const struct lk_tensor_row *row = lk_tensor_file_row(&t->resumed, ORDER);

    _Static_assert(sizeof(size_t) == sizeof(int64_t), "an order is kept as int64");
    /* The row is the first: its data are aligned. */
    return row ? row->data : NULL;
}

static enum lk_status check_order(const struct trainer *t)
{
    const struct lk_tensor_row *row = lk_tensor_file_row(&t->resumed, ORDER);
    size_t n = t->model->n_params;
    const size_t *order = row ? row->data : NULL;
    bool *seen = NULL;
    bool good = row && row == t->resumed.rows && row->dtype == LK_I64 && row->elems == n;

    LK_PASS(lk_alloc(&seen, n, sizeof *seen));
    for (size_t i = 0; good && i < n; i++) {
        good = order[i] < n && !seen[order[i]];
        if (good)
            seen[order[i]] = true;
    }
    free(seen);
    return good ? LK_OK
                : lk_fail(LK_EPARSE, "%s: '" ORDER "' is no order of the model's %zu parameters",
                          t->config->checkpoint.resume, n);
}

/* Copy `elems` elements of a part, from `first` on, from the file to a device's memory. */
static enum lk_status restore(struct trainer *t, size_t part, void *device, size_t first,
                              size_t elems)
{
    const struct lk_tensor_row want = describe_own(t, part, is_own(t, part) ? t->rank : 0);
    const struct lk_tensor_row *row = lk_tensor_file_row(&t->resumed, want.name);
    const char *path = t->config->checkpoint.resume;
    size_t bytes = lk_dtype_bytes(want.dtype);

    if (!want.elems)
        return LK_OK;
    if (!row)
        return lk_fail(LK_EPARSE, "%s: has no '%s': it is of another model, optimizer or scheme",
                       path, want.name);
    if (row->dtype != want.dtype || row->elems != want.elems)
        return lk_fail(LK_EPARSE, "%s: '%s' has %zu elements of %s where this run has %zu of %s",
                       path, want.name, row->elems, lk_dtype_name(row->dtype), want.elems,
                       lk_dtype_name(want.dtype));
    return copy(t, device, (char *)row->data + first * bytes, elems * bytes, true);
}

/* Put whole parts [from, to) in place. */
static enum lk_status restore_parts(struct trainer *t, size_t from, size_t to)
{
    LK_PASS(make_staging(t));
    for (size_t i = from; i < to; i++)
        LK_PASS(restore(t, i, part_of(t, i), 0, describe(t, i).elems));
    return LK_OK;
}

enum lk_status lk_trainer_resume_weights(struct trainer *t)
{
    if (!t->config->checkpoint.resume)
        return LK_OK;
    LK_PASS(resume_scaler(t));
    LK_PASS(check_order(t));
    return restore_parts(t, 0, weight_groups(t) * t->model->n_params);
}

/* Put the optimizer's states of what this rank owns in place. */
static enum lk_status resume_states(struct trainer *t)
{
    struct lk_owned owned = lk_exchange_owned(t->exchange);

    for (size_t group = weight_groups(t); group < state_groups(t); group++)
        for (size_t i = 0; i < owned.n; i++)
            LK_PASS(restore(t, group * t->model->n_params + owned.pieces[i].param,
                            lk_optim_state(t->optim, group - weight_groups(t), i),
                            owned.pieces[i].first, owned.params[i].elems));
    return LK_OK;
}

/* Return the tensors of a file. */
static size_t count_rows(const struct trainer *t)
{
    size_t n = 1;

    for (size_t i = 0; i < n_parts(t); i++)
        if (describe(t, i).elems)
            n += is_own(t, i) ? (size_t)t->ranks : 1;
    return n;
}

enum lk_status lk_trainer_resume_optim(struct trainer *t)
{
    const char *path = t->config->checkpoint.resume;

    if (!path)
        return LK_OK;
    LK_PASS(lk_stream_sync(t->compute, lk_deadline_in(copy_timeout_ns)));
    LK_PASS(resume_states(t));
    LK_PASS(restore_parts(t, state_groups(t) * t->model->n_params, n_parts(t)));
    if (is_own(t, 0)) /* all ranks have rank 0's weights by now */
        LK_PASS(restore_parts(t, 0, weight_groups(t) * t->model->n_params));
    if (t->resumed.n_rows != count_rows(t))
        return lk_fail(LK_EPARSE,
                       "%s: has %zu tensors where this run has %zu: it is of another "
                       "model, optimizer or scheme",
                       path, t->resumed.n_rows, count_rows(t));
    lk_tensor_file_fini(&t->resumed);
    if (t->rank == 0)
        lk_log(LK_LOG_TRAIN, LK_INFO, "the run goes on from %s at step %lld", path,
               (long long)t->course.first_step);
    return LK_OK;
}

/* ---- Writing ---- */

enum lk_status lk_trainer_checkpoint_open(struct trainer *t)
{
    const struct lk_checkpoint_config *c = &t->config->checkpoint;

    if (!c->every || t->rank != 0)
        return LK_OK;
    LK_PASS(make_staging(t));
    return lk_checkpoints_open(c->dir, c->keep, &t->checkpoints);
}

static void add_text(struct lk_tensor_text *texts, size_t *n, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add_text(struct lk_tensor_text *texts, size_t *n, const char *key, const char *fmt, ...)
{
    va_list ap;

    snprintf(texts[*n].key, sizeof texts->key, "%s", key);
    va_start(ap, fmt);
    vsnprintf(texts[*n].value, sizeof texts->value, fmt, ap);
    va_end(ap);
    ++*n;
}

static size_t fill_texts(const struct trainer *t, int64_t steps, struct lk_tensor_text *texts)
{
    const struct lk_train_config *c = t->config;
    const struct lk_train_course *course = &t->course;
    uint64_t batches =
        t->first_batch + (uint64_t)(steps - course->first_step) * (uint64_t)c->reducer.accumulation;
    size_t n = 0;

    add_text(texts, &n, "format", FORMAT);
    add_text(texts, &n, "format_version", VERSION);
    add_text(texts, &n, "step", "%" PRId64, steps);
    add_text(texts, &n, "batches", "%" PRIu64, batches);
    add_text(texts, &n, "ranks", "%d", t->ranks);
    add_text(texts, &n, "local_batch", "%d", c->local_batch); /* rank 0's */
    add_text(texts, &n, "micro_batch_samples", "%lld", (long long)lk_shares_batch(t->shares));
    add_text(texts, &n, "checkpoints", "%" PRId64, course->checkpoints);
    add_text(texts, &n, "starts", "%" PRId64, course->starts);
    add_text(texts, &n, "trained_s", "%.9g", course->trained_s);
    add_text(texts, &n, "stalled_s", "%.9g", course->stalled_s);
    add_text(texts, &n, "starting_s", "%.9g", course->starting_s);
    if (lk_scaler_is_on(&t->scaler) || t->scaler.skipped) {
        add_text(texts, &n, "loss_scale", "%.9g", (double)t->scaler.scale);
        add_text(texts, &n, "loss_scale_good", "%" PRId64, t->scaler.good);
        add_text(texts, &n, "loss_scale_skipped", "%" PRId64, t->scaler.skipped);
    }
    if (c->checkpoint.n_texts)
        memcpy(texts + n, c->checkpoint.texts, c->checkpoint.n_texts * sizeof *texts);
    return n + c->checkpoint.n_texts;
}

/* Lay the file out: parts as rank 0 has them, then the other ranks' own. */
static enum lk_status lay_out(struct trainer *t, int64_t steps, struct lk_tensor_file *file)
{
    size_t n_texts, n = 0;
    struct lk_tensor_text *texts = NULL;
    struct lk_tensor_row *rows = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&texts, OWN_TEXTS + t->config->checkpoint.n_texts, sizeof *texts));
    LK_TRY(lk_alloc(&rows, count_rows(t), sizeof *rows));
    n_texts = fill_texts(t, steps, texts);
    rows[n++] = (struct lk_tensor_row){.name = ORDER, .dtype = LK_I64, .elems = t->model->n_params};
    for (int rank = 0; rank < t->ranks; rank++)
        for (size_t i = 0; i < n_parts(t); i++)
            if (describe(t, i).elems && (rank == 0 || is_own(t, i)))
                rows[n++] = describe_own(t, i, rank);
    LK_TRY(lk_tensor_file_lay_out(file, texts, n_texts, rows, n));
out:
    free(rows);
    free(texts);
    return st;
}

/* Gather a part of all ranks; rank 0 puts it into the file (others: NULL). Collective. */
static enum lk_status gather_own(struct trainer *t, size_t part, struct lk_tensor_file *file)
{
    const struct lk_tensor_row row = describe(t, part);
    size_t bytes = row.elems * lk_dtype_bytes(row.dtype);
    char *own = NULL, *all = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&own, bytes, 1));
    LK_TRY(lk_alloc(&all, bytes, (size_t)t->ranks));
    LK_TRY(copy(t, part_of(t, part), own, bytes, false));
    LK_TRY(lk_comm_gather(t->comm, row.dtype, own, row.elems, all));
    for (int rank = 0; file && rank < t->ranks; rank++)
        memcpy(lk_tensor_file_row(file, describe_own(t, part, rank).name)->data,
               all + (size_t)rank * bytes, bytes);
out:
    free(own);
    free(all);
    return st;
}

/* Copy the state into the file; NULL: help rank 0 to do so. */
static enum lk_status fill(struct trainer *t, struct lk_tensor_file *file)
{
    size_t row = 1;

    for (size_t i = 0; i < n_parts(t); i++) {
        const struct lk_tensor_row want = describe(t, i);

        if (!want.elems)
            continue;
        if (is_own(t, i))
            LK_PASS(gather_own(t, i, file));
        else if (file)
            LK_PASS(copy(t, part_of(t, i), file->rows[row].data,
                         want.elems * lk_dtype_bytes(want.dtype), false));
        row++;
    }
    return LK_OK;
}

static enum lk_status write(struct trainer *t, int64_t steps)
{
    const size_t *order = lk_exchange_ready_order(t->exchange);
    struct lk_tensor_file *file;

    if (!order)
        return lk_fail(LK_EINTERNAL, "no order of gradients after %" PRId64 " steps", steps);
    t->course.checkpoints++;
    file = lk_checkpoints_take(t->checkpoints);
    LK_PASS(lay_out(t, steps, file));
    memcpy(file->rows[0].data, order, t->model->n_params * sizeof *order);
    LK_PASS(fill(t, file));
    lk_checkpoints_put(t->checkpoints, steps);
    return LK_OK;
}

enum lk_status lk_trainer_checkpoint(struct trainer *t, int64_t steps)
{
    int64_t every = t->config->checkpoint.every;
    uint64_t began_ns = lk_now_ns();
    double stall_s;

    if (!every || (steps % every != 0 && steps != t->n_steps))
        return LK_OK;
    LK_PASS(lk_exchange_whole(t->exchange, LK_WHOLE_VALUES | LK_WHOLE_STATES, t->optim));
    if (!t->checkpoints)
        return fill(t, NULL);
    LK_PASS(write(t, steps));
    stall_s = lk_s_from_ns(lk_now_ns() - began_ns);
    t->course.stalled_s += stall_s;
    lk_span_counter(t->host, t->counters[COUNTER_CHECKPOINT], (uint32_t)(steps - 1), stall_s);
    return LK_OK;
}
