/* Read Kineto traces. Divisions: values, arguments, events, the header. */
#include "profiler/import/kineto.h"

#include "base/array.h"
#include "base/json_scan.h"
#include "facts/bounds.h"
#include "facts/coll.h"
#include "profiler/import/event_kind.h"
#include "profiler/import/torch_values.h"

#include <stdlib.h>
#include <string.h>

enum { NS_PLACES = 3 /* from microseconds to ns */, TEXT_MAX = 1 << 10 };

struct reader {
    struct lk_scan s;
    struct lk_events *out;
    int64_t base_ns;
    /* GPUs by number, of the header. */
    struct {
        int64_t id;
        char name[96];
    } devices[64];
    size_t n_devices;
};

/* ---- Values ---- */

static bool read_int(const struct lk_scan *s, const struct lk_slice *v, int64_t *out)
{
    return lk_scan_fixed(lk_scan_at(s, v), v->n, 0, out);
}

/* Read the number of a process, thread or stream: a number, or a text with one in it ("stream 7").
 * Other texts get a number of their own below 0. */
static int64_t number_of(const struct lk_scan *s, const struct lk_slice *v)
{
    const char *text = lk_scan_at(s, v);
    int64_t n;
    size_t from = 0, to;
    uint32_t sum = 0;

    if (read_int(s, v, &n))
        return n;
    while (from < v->n && (text[from] < '0' || text[from] > '9'))
        from++;
    for (to = from; to < v->n && text[to] >= '0' && text[to] <= '9'; to++)
        continue;
    if (to > from && lk_scan_fixed(text + from, to - from, 0, &n))
        return n;
    for (size_t i = 0; i < v->n; i++)
        sum = sum * 31 + (unsigned char)text[i];
    return -1 - (int64_t)sum;
}

static enum lk_status intern(struct reader *r, const struct lk_scan *s, const struct lk_slice *v,
                             uint32_t *out)
{
    char text[TEXT_MAX];

    if (!v->escaped)
        return lk_events_name(r->out, lk_scan_at(s, v), v->n, out);
    lk_scan_plain(lk_scan_at(s, v), v->n, text, sizeof text);
    return lk_events_name(r->out, text, strlen(text), out);
}

/* ---- Arguments ---- */

struct arguments {
    int64_t correlation, device, stream, bytes, in_elements, out_elements, ranks; /* -1: none */
    struct lk_slice function, group, dtype, dims;                                 /* n 0: none */
};

#define INTEGER(key, member) LK_SCAN_MEMBER(struct arguments, key, member, LK_SCAN_INT)
#define SLICE(key, member)   LK_SCAN_MEMBER(struct arguments, key, member, LK_SCAN_FIRST)
static const struct lk_scan_member argument_table[] = {
    INTEGER("correlation", correlation),
    INTEGER("device", device),
    INTEGER("stream", stream),
    INTEGER("bytes", bytes),
    INTEGER("In msg nelems", in_elements),
    INTEGER("Out msg nelems", out_elements),
    INTEGER("Group size", ranks),
    SLICE("Collective name", function),
    SLICE("Process Group Name", group),
    SLICE("dtype", dtype),
    SLICE("Input Dims", dims),
    SLICE("Input type", dtype),
    SLICE("Input Types", dtype),
};
#undef INTEGER
#undef SLICE

static void read_arguments(struct lk_scan *s, struct arguments *a)
{
    *a = (struct arguments){-1, -1, -1, -1, -1, -1, -1, {0}, {0}, {0}, {0}};
    if (lk_scan_next(s) == LK_SCAN_OBJECT)
        (void)lk_scan_object(s, argument_table, LK_COUNT(argument_table), a);
}

/* Set the detail of a collective's event from its arguments; `function` is used where they have
 * none. */
static enum lk_status add_detail(struct reader *r, const struct lk_scan *s,
                                 const struct arguments *a, const char *function, size_t n,
                                 uint32_t *out)
{
    struct lk_event_detail c = {0};
    uint64_t in = a->in_elements > 0 ? (uint64_t)a->in_elements : 0;
    uint64_t sent = a->out_elements > 0 ? (uint64_t)a->out_elements : 0;

    if (a->function.n)
        LK_PASS(
            lk_events_function(r->out, lk_scan_at(s, &a->function), a->function.n, &c.function));
    else
        LK_PASS(lk_events_function(r->out, function, n, &c.function));
    if (a->group.n)
        LK_PASS(intern(r, s, &a->group, &c.group));
    if (a->ranks > 0 && a->ranks <= LK_RANKS_MAX)
        c.ranks = (uint32_t)a->ranks;
    c.elements = in > sent ? in : sent;
    if (!c.elements && a->dims.n)
        c.elements = lk_torch_elements(lk_scan_at(s, &a->dims), a->dims.n);
    if (a->dtype.n)
        c.dtype_known = lk_torch_dtype(lk_scan_at(s, &a->dtype), a->dtype.n, &c.dtype);
    return lk_events_detail(r->out, &c, out);
}

/* Set the detail of a gradient's event, whose only input it is. */
static enum lk_status add_gradient(struct reader *r, const struct lk_scan *s,
                                   const struct arguments *a, uint32_t *out)
{
    struct lk_event_detail c = {0};

    if (!a->dims.n || !a->dtype.n)
        return LK_OK;
    c.elements = lk_torch_tensor_elements(lk_scan_at(s, &a->dims), a->dims.n);
    c.dtype_known = lk_torch_dtype(lk_scan_at(s, &a->dtype), a->dtype.n, &c.dtype);
    return lk_events_detail(r->out, &c, out);
}

/* ---- Events ---- */

enum category { OTHER, KERNEL, COPY, MEMSET, CALL, HOST, CATEGORIES };

/* X(name of Kineto, category); capitals are of 2020 and before, without one: PyTorch without
 * Kineto.
 */
static const struct {
    const char *name;
    enum category category;
} categories[] = {
    {"kernel", KERNEL},        {"Kernel", KERNEL},
    {"gpu_memcpy", COPY},      {"Memcpy", COPY},
    {"gpu_memset", MEMSET},    {"Memset", MEMSET},
    {"cuda_runtime", CALL},    {"cuda_driver", CALL},
    {"Runtime", CALL},         {"xpu_runtime", CALL},
    {"user_annotation", HOST}, {"cpu_op", HOST},
    {"Operator", HOST},        {"", HOST},
};

struct fields {
    struct lk_slice ph, cat, name, pid, tid, ts, dur, args;
};

#define FIELD(name) LK_SCAN_MEMBER(struct fields, #name, name, LK_SCAN_SLICE)
static const struct lk_scan_member field_table[] = {
    FIELD(ph), FIELD(cat), FIELD(name), FIELD(pid), FIELD(tid), FIELD(ts), FIELD(dur), FIELD(args),
};
#undef FIELD

static enum category category_of(const struct lk_scan *s, const struct lk_slice *cat)
{
    for (size_t i = 0; i < LK_COUNT(categories); i++)
        if (lk_scan_is(s, cat, categories[i].name, strlen(categories[i].name)))
            return categories[i].category;
    return OTHER;
}

static bool kind_of(const struct lk_events *e, enum category category, const char *name, size_t n,
                    enum lk_event_kind *out)
{
    static const enum lk_event_kind of_category[CATEGORIES] = {
        [KERNEL] = LK_EVENT_KERNEL, [COPY] = LK_EVENT_COPY, [MEMSET] = LK_EVENT_MEMSET};

    *out = of_category[category];
    if (category == KERNEL || category == COPY || category == MEMSET)
        return true;
    return category == CALL ? lk_event_kind_of_call(name, n, out)
                            : category == HOST && lk_event_kind_of_range(e, name, n, out);
}

static enum lk_status set_lane(struct reader *r, const struct fields *f, const struct arguments *a,
                               struct lk_import_event *e)
{
    const struct lk_scan *s = &r->s;
    bool gpu = e->kind <= LK_EVENT_MEMSET;
    int64_t process = gpu && a->device >= 0 ? a->device : number_of(s, &f->pid);
    int64_t thread = gpu && a->stream >= 0 ? a->stream : number_of(s, &f->tid);

    LK_PASS(lk_events_lane(r->out, process, thread, gpu, &e->lane));
    if (e->kind == LK_EVENT_BACKWARD)
        r->out->lanes[e->lane].autograd = true;
    return LK_OK;
}

/* Take an event of interest, whose times are there. */
static enum lk_status take(struct reader *r, const struct fields *f, struct lk_import_event *e)
{
    const char *name = lk_scan_at(&r->s, &f->name);
    struct arguments a;
    struct lk_scan args;

    lk_scan_memory(&args, lk_scan_at(&r->s, &f->args), f->args.n);
    read_arguments(&args, &a);
    e->link = a.correlation > 0 ? (uint64_t)a.correlation : 0;
    e->bytes = a.bytes > 0 ? (uint64_t)a.bytes : 0;
    LK_PASS(set_lane(r, f, &a, e));
    if (e->kind == LK_EVENT_STEP) {
        e->detail = lk_event_step_number(name, f->name.n);
    } else if (e->kind == LK_EVENT_COLLECTIVE) {
        const char *colon = memchr(name, ':', f->name.n);
        size_t skip = (size_t)(colon - name) + 1;

        LK_PASS(add_detail(r, &args, &a, name + skip, f->name.n - skip, &e->detail));
    } else if (e->kind == LK_EVENT_GRADIENT) {
        LK_PASS(add_gradient(r, &args, &a, &e->detail));
    } else if (e->kind == LK_EVENT_KERNEL && a.function.n) {
        LK_PASS(add_detail(r, &args, &a, "", 0, &e->detail));
    }
    if (e->kind != LK_EVENT_LAUNCH && e->kind != LK_EVENT_BACKWARD && e->kind != LK_EVENT_GRADIENT)
        LK_PASS(intern(r, &r->s, &f->name, &e->name));
    return lk_events_add(r->out, e);
}

/* Take or leave the event at the scanner, whose object is open. */
static enum lk_status read_event(struct reader *r, bool *more)
{
    struct lk_import_event e = {0};
    enum lk_event_kind kind;
    struct fields f = {0};
    int64_t duration = 0;
    bool whole;

    lk_scan_pin(&r->s);
    *more = lk_scan_object(&r->s, field_table, LK_COUNT(field_table), &f);
    r->out->source.n_read += *more;
    whole = !r->s.overflown;
    if (*more && whole && f.name.n && LK_SCAN_IS(&r->s, &f.ph, "X") &&
        kind_of(r->out, category_of(&r->s, &f.cat), lk_scan_at(&r->s, &f.name), f.name.n, &kind)) {
        e.kind = (uint8_t)kind;
        if (lk_scan_fixed(lk_scan_at(&r->s, &f.ts), f.ts.n, NS_PLACES, &e.start_ns) &&
            (!f.dur.n || lk_scan_fixed(lk_scan_at(&r->s, &f.dur), f.dur.n, NS_PLACES, &duration)) &&
            duration >= 0 && e.start_ns <= INT64_MAX / 2 && duration <= INT64_MAX / 2) {
            e.end_ns = e.start_ns + duration;
            LK_PASS(take(r, &f, &e));
        } else {
            r->out->source.n_skipped++;
        }
    }
    r->out->source.n_skipped += !lk_scan_unpin(&r->s);
    return LK_OK;
}

/* Read the array of events; behind it, the scanner is in the object again. */
static enum lk_status read_events(struct reader *r)
{
    bool more = true;

    while (more && lk_scan_next_object(&r->s))
        LK_PASS(read_event(r, &more));
    return LK_OK;
}

/* ---- The header ---- */

static enum lk_status set_text(const struct lk_scan *s, const struct lk_slice *v, char **to)
{
    free(*to);
    *to = NULL;
    return lk_strndup(to, lk_scan_at(s, v), v->n);
}

/* distributedInfo, and an item of deviceProperties. */
struct header {
    int64_t rank, world_size, id;
    struct lk_slice backend, name;
};

static const struct lk_scan_member header_table[] = {
    LK_SCAN_MEMBER(struct header, "rank", rank, LK_SCAN_INT),
    LK_SCAN_MEMBER(struct header, "world_size", world_size, LK_SCAN_INT),
    LK_SCAN_MEMBER(struct header, "id", id, LK_SCAN_INT),
    LK_SCAN_MEMBER(struct header, "backend", backend, LK_SCAN_SLICE),
    LK_SCAN_MEMBER(struct header, "name", name, LK_SCAN_SLICE),
};

static bool read_header(struct lk_scan *s, struct header *h)
{
    *h = (struct header){-1, -1, -1, {0}, {0}};
    return lk_scan_object(s, header_table, LK_COUNT(header_table), h);
}

static enum lk_status read_distributed(struct reader *r, const char *text, size_t n)
{
    struct lk_source *out = &r->out->source;
    struct header h;
    struct lk_scan s;

    lk_scan_memory(&s, text, n);
    if (lk_scan_next(&s) != LK_SCAN_OBJECT)
        return LK_OK;
    (void)read_header(&s, &h);
    if (h.backend.n)
        LK_PASS(set_text(&s, &h.backend, &out->backend));
    if (h.rank >= 0 && h.rank < INT32_MAX)
        out->rank = (int)h.rank;
    if (h.world_size > 0 && h.world_size < INT32_MAX)
        out->world_size = (int)h.world_size;
    return LK_OK;
}

static void read_devices(struct reader *r, const char *text, size_t n)
{
    struct header h;
    struct lk_scan s;

    lk_scan_memory(&s, text, n);
    if (lk_scan_next(&s) != LK_SCAN_ARRAY)
        return;
    while (r->n_devices < LK_COUNT(r->devices) && lk_scan_next(&s) == LK_SCAN_OBJECT &&
           read_header(&s, &h)) {
        r->devices[r->n_devices].id = h.id;
        lk_scan_plain(lk_scan_at(&s, &h.name), h.name.n, r->devices[r->n_devices].name,
                      sizeof r->devices[0].name);
        r->n_devices++;
    }
}

static enum lk_status read_member(struct reader *r, const struct lk_slice *key,
                                  const struct lk_slice *value)
{
    const struct lk_scan *s = &r->s;

    if (LK_SCAN_IS(s, key, "baseTimeNanoseconds"))
        (void)read_int(s, value, &r->base_ns);
    else if (LK_SCAN_IS(s, key, "distributedInfo"))
        return read_distributed(r, lk_scan_at(s, value), value->n);
    else if (LK_SCAN_IS(s, key, "deviceProperties"))
        read_devices(r, lk_scan_at(s, value), value->n);
    else if (LK_SCAN_IS(s, key, "host_name") || LK_SCAN_IS(s, key, "hostname"))
        return set_text(s, value, &r->out->source.host);
    return LK_OK;
}

/* Read one member of the root. */
static enum lk_status read_root_member(struct reader *r, bool *more)
{
    struct lk_slice key = r->s.slice, value;
    enum lk_status st;

    if (LK_SCAN_IS(&r->s, &key, "traceEvents")) {
        lk_scan_unpin(&r->s);
        if (lk_scan_next(&r->s) != LK_SCAN_ARRAY)
            return lk_fail(LK_EPARSE, "%s: traceEvents is no array", r->s.path);
        return read_events(r);
    }
    *more = lk_scan_value(&r->s, &value);
    st = *more && !r->s.overflown ? read_member(r, &key, &value) : LK_OK;
    (void)lk_scan_unpin(&r->s);
    return st;
}

static enum lk_status read_root(struct reader *r)
{
    enum lk_scan_token token = lk_scan_next(&r->s);
    bool more = true;

    if (token == LK_SCAN_ARRAY)
        return read_events(r);
    if (token != LK_SCAN_OBJECT)
        return lk_fail(LK_EPARSE, "%s: is neither an object nor an array of events", r->s.path);
    while (more) {
        token = lk_scan_next(&r->s);
        if (token != LK_SCAN_TEXT)
            break;
        /* The key has to stay while its value is read. */
        r->s.pinned = true;
        r->s.pin = r->s.at - r->s.slice.n - 2;
        r->s.slice.at = 1;
        LK_PASS(read_root_member(r, &more));
    }
    return LK_OK;
}

/* Set the name of the GPU that the kernels ran on, and the absolute times. */
static enum lk_status finish(struct reader *r)
{
    struct lk_events *e = r->out;

    for (size_t i = 0; i < e->n_events; i++) {
        e->events[i].start_ns += r->base_ns;
        e->events[i].end_ns += r->base_ns;
    }
    for (size_t i = 0; i < e->n_launches; i++)
        e->launches[i].start_ns += r->base_ns;
    for (size_t i = 0; i < e->n_lanes && !e->source.device; i++)
        for (size_t k = 0; k < r->n_devices && e->lanes[i].gpu && !e->source.device; k++)
            if (r->devices[k].id == e->lanes[i].process)
                LK_PASS(lk_strdup(&e->source.device, r->devices[k].name));
    e->source.cut = r->s.cut;
    return LK_OK;
}

enum lk_status lk_kineto_read(const char *path, const char *step_range, struct lk_events *out)
{
    enum lk_status st = LK_OK;
    struct reader *r = NULL;

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "Kineto";
    LK_TRY(lk_alloc(&r, 1, sizeof *r));
    r->out = out;
    LK_TRY(lk_scan_open(&r->s, path));
    LK_TRY(read_root(r));
    LK_TRY(lk_scan_status(&r->s));
    st = finish(r);
out:
    if (r)
        lk_scan_close(&r->s);
    free(r);
    return st;
}
