/* Read Horovod's timelines. Divisions: collectives, tensors, events. */
#include "profiler/import/horovod.h"

#include "base/array.h"
#include "facts/bounds.h"
#include "profiler/import/json_scan.h"
#include "profiler/import/lateness.h"
#include "profiler/import/torch_values.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PLACES = 3 /* from microseconds to ns */ };

/* Requests of one cycle come together, in the order of ranks: those that are less than a cycle
 * apart tell nothing. 1 ms is HOROVOD_CYCLE_TIME's default (horovod/common/operations.cc). */
#define CYCLE_NS 1000000

/* A collective that is being read. */
struct batch {
    int64_t start_ns, end_ns, ready_ns;
    uint64_t elements;
    enum lk_dtype dtype;
    bool dtype_known, mixed; /* mixed: its tensors have several types */
    bool ended;              /* a transfer of it has ended: no tensor joins it any more */
    uint32_t n_left;         /* tensors whose work has not ended */
    uint32_t function, name;
};

/* A tensor goes through these. */
enum phase { IDLE, NEGOTIATION, WORK, TRANSFER, OTHER };

struct tensor {
    enum phase phase;
    int64_t asked_ns;           /* rank 0 asked for it; -1: not known */
    int64_t last_ns, before_ns; /* requests of the last rank, and of the one before it; -1: none */
    int last_rank;
    uint32_t function; /* of its work */
    size_t batch;      /* index plus one of the one that it is in; 0: none */
};

struct reader {
    struct lk_scan s;
    struct lk_events *out;
    int64_t base_ns;
    uint32_t lane;
    struct tensor *tensors; /* by process */
    size_t n_tensors, tensors_capacity;
    struct batch *batches; /* by start */
    size_t n_batches, batches_capacity;
};

/* Members of an event that are read; n 0: it has none. */
struct fields {
    struct lk_slice ph, name, pid, ts, args;
};

struct arguments {
    struct lk_slice start_time_since_epoch_in_micros, dtype, shape;
};

/* ---- Collectives ---- */

/* X(Horovod's name, NCCL's) */
static const struct {
    const char *from, *to;
} functions[] = {
    {"ALLREDUCE", "all_reduce"},         {"ADASUM", "all_reduce"},
    {"ALLGATHER", "all_gather"},         {"BROADCAST", "broadcast"},
    {"REDUCESCATTER", "reduce_scatter"}, {"ALLTOALL", "all_to_all"},
};

static bool begins(const char *text, size_t n, const char *with)
{
    return n >= strlen(with) && !memcmp(text, with, strlen(with));
}

/* Set the function of a tensor's work; 0: it moves nothing, e.g. BARRIER. */
static enum lk_status function_of(struct reader *r, const char *text, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < LK_COUNT(functions); i++)
        if (n == strlen(functions[i].from) && begins(text, n, functions[i].from))
            return lk_events_name(r->out, functions[i].to, strlen(functions[i].to), out);
    return LK_OK;
}

/* Return the length of the library's name before a transfer's, or 0: it is no transfer. */
static size_t library_of(const char *text, size_t n)
{
    static const char *const libraries[] = {"NCCL_", "MPI_", "GLOO_", "CCL_", "DDL_", "MLSL_"};

    for (size_t i = 0; i < LK_COUNT(libraries); i++)
        if (begins(text, n, libraries[i]))
            return strlen(libraries[i]) - 1;
    return 0;
}

/* Set out->backend to the library, in small letters. */
static enum lk_status set_backend(struct lk_events *out, const char *name, size_t n)
{
    if (out->backend)
        return LK_OK;
    LK_PASS(lk_strndup(&out->backend, name, n));
    for (char *c = out->backend; *c; c++)
        *c = (char)(*c | 0x20);
    return LK_OK;
}

/* A tensor's transfer begins: it joins the last batch, if no transfer of that has ended, or makes
 * one. In hierarchical operations a tensor has several transfers, all of one batch. */
static enum lk_status begin_transfer(struct reader *r, struct tensor *x, int64_t at,
                                     const char *name, size_t n)
{
    struct batch *last = r->n_batches ? &r->batches[r->n_batches - 1] : NULL;

    if (x->batch)
        return LK_OK;
    if (!last || last->ended || last->function != x->function) {
        LK_PASS(lk_array_grow(&r->batches, &r->batches_capacity, r->n_batches + 1, sizeof *last));
        last = &r->batches[r->n_batches++];
        *last = (struct batch){.start_ns = at, .function = x->function};
        LK_PASS(lk_events_name(r->out, name, n, &last->name));
        LK_PASS(set_backend(r->out, name, library_of(name, n)));
    }
    x->batch = r->n_batches;
    last->n_left++;
    if (x->asked_ns > last->ready_ns)
        last->ready_ns = x->asked_ns;
    return LK_OK;
}

static void end_transfer(struct reader *r, const struct tensor *x, int64_t at)
{
    struct batch *b = &r->batches[x->batch - 1];

    b->ended = true;
    b->end_ns = at > b->end_ns ? at : b->end_ns;
}

/* Read a type's name, as struct lk_words has them. */
static bool dtype_of(const struct lk_scan *s, const struct lk_slice *v, enum lk_dtype *out)
{
    for (int i = 0; i < LK_DTYPE_COUNT; i++)
        if (lk_scan_is(s, v, lk_dtype_name((enum lk_dtype)i),
                       strlen(lk_dtype_name((enum lk_dtype)i)))) {
            *out = (enum lk_dtype)i;
            return true;
        }
    return false;
}

/* Add a tensor of a size to the batch. */
static void add_size(struct batch *b, const struct lk_event_collective *c)
{
    b->mixed =
        b->mixed || (b->elements && (b->dtype_known != c->dtype_known || b->dtype != c->dtype));
    b->elements += c->elements;
    b->dtype = c->dtype;
    b->dtype_known = c->dtype_known;
}

static enum lk_status emit_batch(struct reader *r, const struct batch *b)
{
    struct lk_event_collective c = {.function = b->function,
                                    .elements = b->elements,
                                    .dtype = b->dtype,
                                    .dtype_known = b->dtype_known && !b->mixed};
    struct lk_event x = {.kind = LK_EVENT_COLLECTIVE,
                         .lane = r->lane,
                         .name = b->name,
                         .start_ns = b->start_ns,
                         .end_ns = b->end_ns};

    if (x.end_ns < x.start_ns) {
        r->out->n_skipped++;
        return LK_OK;
    }
    LK_PASS(lk_events_detail(r->out, &c, &x.detail));
    LK_PASS(lk_events_add(r->out, &x));
    x.kind = LK_EVENT_ENQUEUE;
    if (b->ready_ns > 0 && b->ready_ns < b->start_ns)
        x.start_ns = b->ready_ns;
    x.end_ns = x.start_ns;
    return lk_events_add(r->out, &x);
}

/* ---- Tensors ---- */

static enum lk_status begin(struct reader *r, struct tensor *x, int64_t at, const char *name,
                            size_t n)
{
    switch (x->phase) {
    case IDLE:
        x->batch = 0;
        if (begins(name, n, "NEGOTIATE_")) {
            *x = (struct tensor){NEGOTIATION, at, -1, -1, -1, 0, 0};
            return LK_OK;
        }
        x->phase = WORK;
        return function_of(r, name, n, &x->function);
    case WORK:
        x->phase = x->function && library_of(name, n) ? TRANSFER : OTHER;
        return x->phase == TRANSFER ? begin_transfer(r, x, at, name, n) : LK_OK;
    default:
        r->out->n_skipped++;
        return LK_OK;
    }
}

/* A rank asked for a tensor. Rank 0's own request is when its gradient was ready. */
static void tick(struct reader *r, struct tensor *x, int64_t at, int rank)
{
    if (x->phase != NEGOTIATION) {
        r->out->n_skipped++;
        return;
    }
    if (rank == 0)
        x->asked_ns = at;
    x->before_ns = x->last_ns;
    x->last_ns = at;
    x->last_rank = rank;
    if (rank >= r->out->world_size)
        r->out->world_size = rank + 1;
}

/* The last rank has asked for the tensor. */
static enum lk_status end_negotiation(struct reader *r, const struct tensor *x)
{
    struct lk_lateness *l = &r->out->lateness;

    if (x->before_ns >= 0)
        return lk_lateness_add(l, &(struct lk_late){x->before_ns, x->last_ns, x->last_rank});
    l->n_untold += x->last_ns < 0;
    return LK_OK;
}

/* The tensor's work has ended: its size is known only now. */
static enum lk_status end_work(struct reader *r, struct tensor *x, const struct lk_scan *args,
                               const struct arguments *a)
{
    struct batch *b = x->batch ? &r->batches[x->batch - 1] : NULL;
    struct lk_event_collective c = {0};
    struct lk_event gradient = {.kind = LK_EVENT_GRADIENT, .lane = r->lane};

    c.elements = lk_torch_elements(lk_scan_at(args, &a->shape), a->shape.n);
    if (LK_SCAN_IS(args, &a->shape, "[]"))
        c.elements = 1;
    c.dtype_known = dtype_of(args, &a->dtype, &c.dtype);
    if (b)
        b->n_left--;
    if (b && a->shape.n)
        add_size(b, &c);
    if (!b || !a->shape.n || x->asked_ns < 0 ||
        strcmp(lk_events_text(r->out, x->function), "all_reduce") != 0)
        return LK_OK;
    gradient.start_ns = gradient.end_ns = x->asked_ns;
    LK_PASS(lk_events_detail(r->out, &c, &gradient.detail));
    return lk_events_add(r->out, &gradient);
}

static enum lk_status end(struct reader *r, struct tensor *x, int64_t at,
                          const struct lk_scan *args, const struct arguments *a)
{
    enum phase phase = x->phase;

    x->phase = phase == TRANSFER || phase == OTHER ? WORK : IDLE;
    switch (phase) {
    case NEGOTIATION:
        return end_negotiation(r, x);
    case TRANSFER:
        end_transfer(r, x, at);
        return LK_OK;
    case WORK:
        LK_PASS(end_work(r, x, args, a));
        *x = (struct tensor){.asked_ns = -1, .last_ns = -1, .before_ns = -1};
        return LK_OK;
    case OTHER:
        return LK_OK;
    case IDLE:
        break;
    }
    r->out->n_skipped++;
    return LK_OK;
}

/* ---- Events ---- */

/* Find or make a tensor. A process has as many events as it takes to number it, so that no number
 * takes memory for itself. */
static enum lk_status tensor_of(struct reader *r, int64_t process, struct tensor **out)
{
    *out = NULL;
    if (process < 0 || (uint64_t)process > r->out->n_read)
        return LK_OK;
    while (r->n_tensors <= (size_t)process) {
        LK_PASS(
            lk_array_grow(&r->tensors, &r->tensors_capacity, r->n_tensors + 1, sizeof *r->tensors));
        r->tensors[r->n_tensors++] =
            (struct tensor){.asked_ns = -1, .last_ns = -1, .before_ns = -1};
    }
    *out = &r->tensors[process];
    return LK_OK;
}

static void read_arguments(struct lk_scan *s, struct arguments *a)
{
    struct lk_slice key, value;

    *a = (struct arguments){0};
    if (lk_scan_next(s) != LK_SCAN_OBJECT)
        return;
    while (lk_scan_next(s) == LK_SCAN_TEXT) {
        key = s->slice;
        if (!lk_scan_value(s, &value))
            return;
#define ARGUMENT(member)                                                                           \
    if (LK_SCAN_IS(s, &key, #member))                                                              \
        a->member = value;
        ARGUMENT(start_time_since_epoch_in_micros)
        ARGUMENT(dtype)
        ARGUMENT(shape)
#undef ARGUMENT
    }
}

/* Read the members of an event; false at the end of the file. */
static bool read_fields(struct lk_scan *s, struct fields *f)
{
    struct lk_slice key, value;
    enum lk_scan_token token;

    *f = (struct fields){0};
    while ((token = lk_scan_next(s)) == LK_SCAN_TEXT) {
        key = s->slice;
        if (!lk_scan_value(s, &value))
            return false;
#define FIELD(member)                                                                              \
    if (LK_SCAN_IS(s, &key, #member))                                                              \
        f->member = value;
        FIELD(ph)
        FIELD(name)
        FIELD(pid)
        FIELD(ts)
        FIELD(args)
#undef FIELD
    }
    return token == LK_SCAN_CLOSE;
}

static bool read_int(const struct lk_scan *s, const struct lk_slice *v, int places, int64_t *out)
{
    return lk_scan_fixed(lk_scan_at(s, v), v->n, places, out) && *out >= 0 && *out <= INT64_MAX / 2;
}

/* Take an event of a tensor. */
static enum lk_status take(struct reader *r, const struct fields *f, struct tensor *x, int64_t at)
{
    const char *name = lk_scan_at(&r->s, &f->name);
    struct arguments a;
    struct lk_scan args;
    int64_t rank;

    if (LK_SCAN_IS(&r->s, &f->ph, "B"))
        return begin(r, x, at, name, f->name.n);
    if (LK_SCAN_IS(&r->s, &f->ph, "E")) {
        lk_scan_memory(&args, lk_scan_at(&r->s, &f->args), f->args.n);
        read_arguments(&args, &a);
        return end(r, x, at, &args, &a);
    }
    if (read_int(&r->s, &f->name, 0, &rank) && rank < LK_RANKS_MAX)
        tick(r, x, at, (int)rank);
    else
        r->out->n_skipped++;
    return LK_OK;
}

/* Take the time at which the file's times begin, if the event says it. */
static void take_base(struct reader *r, const struct fields *f)
{
    struct arguments a;
    struct lk_scan args;

    lk_scan_memory(&args, lk_scan_at(&r->s, &f->args), f->args.n);
    read_arguments(&args, &a);
    if (a.start_time_since_epoch_in_micros.n)
        (void)read_int(&args, &a.start_time_since_epoch_in_micros, NS_PLACES, &r->base_ns);
}

static enum lk_status read_event(struct reader *r, bool *more)
{
    enum lk_status st = LK_OK;
    struct tensor *x = NULL;
    int64_t process, at;
    struct fields f;

    lk_scan_pin(&r->s);
    *more = read_fields(&r->s, &f);
    r->out->n_read += *more;
    if (*more && !r->s.overflown && LK_SCAN_IS(&r->s, &f.ph, "M")) {
        take_base(r, &f);
    } else if (*more && !r->s.overflown &&
               (LK_SCAN_IS(&r->s, &f.ph, "B") || LK_SCAN_IS(&r->s, &f.ph, "E") ||
                LK_SCAN_IS(&r->s, &f.ph, "X"))) {
        if (read_int(&r->s, &f.pid, 0, &process) && read_int(&r->s, &f.ts, NS_PLACES, &at))
            st = tensor_of(r, process, &x);
        if (st == LK_OK && x)
            st = take(r, &f, x, at);
        r->out->n_skipped += x == NULL;
    }
    r->out->n_skipped += !lk_scan_unpin(&r->s);
    return st;
}

static enum lk_status read_events(struct reader *r)
{
    enum lk_scan_token token;
    bool more = true;

    if (lk_scan_next(&r->s) != LK_SCAN_ARRAY)
        return lk_fail(LK_EPARSE, "%s: is no array of events", r->s.path);
    while (more && (token = lk_scan_next(&r->s)) != LK_SCAN_CLOSE && token != LK_SCAN_END) {
        if (token == LK_SCAN_OBJECT)
            LK_PASS(read_event(r, &more));
        else if (token == LK_SCAN_ARRAY)
            lk_scan_leave(&r->s, r->s.depth);
    }
    /* A collective whose tensors were not all done when the file ended is left out. */
    for (size_t i = 0; i < r->n_batches; i++)
        if (!r->batches[i].n_left)
            LK_PASS(emit_batch(r, &r->batches[i]));
    for (size_t i = 0; i < r->out->n_events; i++) {
        r->out->events[i].start_ns += r->base_ns;
        r->out->events[i].end_ns += r->base_ns;
    }
    return LK_OK;
}

enum lk_status lk_horovod_read(const char *path, const char *step_range, struct lk_events *out)
{
    enum lk_status st = LK_OK;
    struct reader r = {.out = out};

    LK_TRY(lk_events_init(out, step_range));
    out->format = "Horovod";
    out->rank = 0; /* no other writes one */
    out->lateness.least_ns = CYCLE_NS;
    LK_TRY(lk_events_lane(out, 0, 0, false, &r.lane));
    LK_TRY(lk_scan_open(&r.s, path));
    LK_TRY(read_events(&r));
    LK_TRY(lk_scan_status(&r.s));
    out->cut = r.s.cut;
out:
    lk_scan_close(&r.s);
    free(r.tensors);
    free(r.batches);
    return st;
}
