/* Read files of the preload library. Divisions: the header, groups, records, the window, notes, the
 * clock, the start of a file. */
#include "profiler/import/preload.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "facts/bounds.h"
#include "facts/foreign_file.h"
#include "profiler/import/event_kind.h"
#include "profiler/import/preload_gpu.h"
#include "profiler/import/preload_join.h"
#include "profiler/record/cupti_names.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The writer's largest: LOCKSTEP_PROFILE_MIB is at most 1024, for the ring and for the window,
 * beside which is less than 1 MiB. */
#define FILE_MAX_BYTES ((size_t)2049 << 20)
/* Clocks that were compared twice within less tell no drift: an error of 100 ns would be more than
 * 10 ppb. */
#define DRIFT_AFTER_NS (10 * (int64_t)LK_NS_PER_S)
/* Clocks that differ by more were set meanwhile: NTP slews by 500 ppm at most (adjtimex(2)). */
#define DRIFT_MAX_PPB 1e6
/* Times beyond are none: 36 years since the start, and the year 2116. */
#define TIME_MAX_NS  ((int64_t)1 << 60)
#define EPOCH_MAX_NS ((int64_t)1 << 62)

struct reader {
    const char *path;
    struct lk_events *out;
    const char *bytes;
    size_t size;
    struct lk_foreign_header h;
    uint32_t *groups; /* of the file's: their names among the events' */
    uint64_t n_unfinished;
    bool nonblocking; /* there is one that returned before it was done */
    uint32_t nccl;    /* name of that library in the file; 0: it is not there */
    struct lk_preload_times times;
    uint64_t n_cupti;    /* records of CUPTI's */
    int64_t last_ns;     /* end of the last record */
    int64_t last_gpu_ns; /* of CUPTI's last record */
    uint64_t n_untimed;  /* calls of NCCL without work on a GPU */
};

/* ---- The header ---- */

/* Return whether n records of so many bytes lie in the file from an offset on. */
static bool lies_in(const struct reader *r, uint64_t at, uint64_t n, uint64_t bytes)
{
    return at <= r->size && at % sizeof(uint64_t) == 0 && n <= (r->size - at) / bytes;
}

static enum lk_status read_header(struct reader *r)
{
    struct lk_foreign_header *h = &r->h;

    if (r->size < sizeof *h)
        return lk_fail(LK_EPARSE, "%s: %zu bytes, less than a header", r->path, r->size);
    memcpy(h, r->bytes, sizeof *h);
    if (memcmp(h->magic, LK_FOREIGN_FILE_MAGIC, sizeof h->magic))
        return lk_fail(LK_EPARSE, "%s: is no file of lockstep's preload library", r->path);
    if (h->order != LK_FOREIGN_FILE_ORDER)
        return lk_fail(LK_EPARSE, "%s: is of a machine with another byte order", r->path);
    if (h->version != LK_FOREIGN_FILE_VERSION || h->header_bytes != sizeof *h ||
        h->record_bytes != sizeof(struct lk_foreign_record) ||
        h->group_bytes != sizeof(struct lk_foreign_group))
        return lk_fail(LK_EPARSE, "%s: is of another version of lockstep (%u, this one reads %d)",
                       r->path, h->version, LK_FOREIGN_FILE_VERSION);
    if (!lies_in(r, h->groups_at, h->n_groups, h->group_bytes) ||
        !lies_in(r, h->names_at, h->names_bytes, 1) || !h->n_records ||
        !lies_in(r, h->records_at, h->n_records, h->record_bytes) ||
        !lies_in(r, h->window_at, h->n_window, h->record_bytes))
        return lk_fail(LK_EPARSE, "%s: %zu bytes, less than its header says", r->path, r->size);
    h->host[sizeof h->host - 1] = h->boot[sizeof h->boot - 1] = '\0';
    h->command[sizeof h->command - 1] = '\0';
    return LK_OK;
}

/* Return the text of a name of the file; "": it has none. */
static const char *text_of(const struct reader *r, uint32_t name, size_t *n)
{
    const char *text = r->bytes + r->h.names_at + name;

    *n = 0;
    if (!name || name >= r->h.names_bytes)
        return "";
    *n = strnlen(text, (size_t)(r->h.names_bytes - name));
    return text;
}

static enum lk_status name_of(const struct reader *r, uint32_t name, uint32_t *out)
{
    size_t n;
    const char *text = text_of(r, name, &n);

    return lk_events_name(r->out, text, n, out);
}

/* Intern a kernel's short name: the file has its linker name. */
static enum lk_status kernel_name_of(const struct reader *r, uint32_t name, uint32_t *out)
{
    char symbol[LK_FOREIGN_NAME_BYTES], text[LK_CUPTI_NAME_BYTES];
    size_t n;
    const char *from = text_of(r, name, &n);

    snprintf(symbol, sizeof symbol, "%.*s", (int)(n < sizeof symbol ? n : sizeof symbol - 1), from);
    lk_kernel_name(symbol, text, sizeof text);
    return lk_events_name(r->out, text, strlen(text), out);
}

/* ---- Groups ---- */

static void group_at(const struct reader *r, uint64_t i, struct lk_foreign_group *out)
{
    memcpy(out, r->bytes + r->h.groups_at + i * sizeof *out, sizeof *out);
}

/* The process's rank is that in the largest group, whose library its collectives are. */
static enum lk_status read_groups(struct reader *r)
{
    struct lk_events *e = r->out;
    int32_t most = 0;

    LK_PASS(lk_alloc(&r->groups, r->h.n_groups + 1, sizeof *r->groups));
    for (uint64_t i = 0; i < r->h.n_groups; i++) {
        struct lk_foreign_group g;
        const char *library;
        char number[20];
        size_t n;

        group_at(r, i, &g);
        if (g.ready != 1)
            continue;
        LK_PASS(name_of(r, g.name, &r->groups[i]));
        if (!r->groups[i]) {
            snprintf(number, sizeof number, "%016" PRIx64, g.identity);
            LK_PASS(lk_events_name(e, number, strlen(number), &r->groups[i]));
        }
        library = text_of(r, g.library, &n);
        if (n == strlen("nccl") && !memcmp(library, "nccl", n))
            r->nccl = g.library;
        if (g.n_ranks <= most || g.n_ranks > LK_RANKS_MAX || g.rank < 0 || g.rank >= g.n_ranks)
            continue;
        most = e->source.world_size = g.n_ranks;
        e->source.rank = g.rank;
        free(e->source.backend);
        e->source.backend = NULL;
        LK_PASS(lk_strndup(&e->source.backend, library, n));
    }
    return LK_OK;
}

/* ---- Records ---- */

static enum lk_status take_collective(struct reader *r, const struct lk_foreign_record *p,
                                      uint8_t state, struct lk_import_event *x)
{
    const bool known = p->function > 0 && p->function <= LK_COLL_COUNT;
    const char *function = known ? lk_coll_name((enum lk_coll)(p->function - 1)) : "";
    struct lk_event_detail c = {.elements = p->flags & LK_FOREIGN_SEEN ? 0 : p->count,
                                .state = state};
    struct lk_foreign_group g;

    LK_PASS(lk_events_name(r->out, function, strlen(function), &c.function));
    if (p->group && p->group <= r->h.n_groups && r->groups[p->group - 1]) {
        group_at(r, p->group - 1, &g);
        c.group = r->groups[p->group - 1];
        c.ranks = g.n_ranks > 0 ? (uint32_t)g.n_ranks : 0;
        c.sequence = p->sequence == LK_FOREIGN_NO_SEQUENCE ? 0 : (uint64_t)p->sequence + 1;
    }
    r->nonblocking = r->nonblocking || (p->flags & LK_FOREIGN_NONBLOCKING);
    c.dtype_known = p->dtype > 0 && p->dtype <= LK_DTYPE_COUNT;
    c.dtype = c.dtype_known ? (enum lk_dtype)(p->dtype - 1) : LK_F32;
    return lk_events_detail(r->out, &c, &x->detail);
}

static bool is_of_nccl(const struct reader *r, const struct lk_foreign_record *p)
{
    struct lk_foreign_group g;

    if (!r->nccl || !p->group || p->group > r->h.n_groups)
        return false;
    group_at(r, p->group - 1, &g);
    return g.library == r->nccl;
}

/*
 * Add a call of NCCL: it puts a collective on a stream, and its kernel comes as another record. A
 * collective without one, of copy engines or cut off by the end of the process, takes no time here:
 * how long it took is not known.
 */
static enum lk_status take_call(struct reader *r, const struct lk_foreign_record *p,
                                struct lk_import_event *x)
{
    struct lk_preload_time *t = lk_preload_times_of(&r->times, p->link);
    const bool timed = t && t->seen_ns;

    LK_PASS(take_collective(r, p, timed ? LK_COLLECTIVE_COMPLETED : LK_COLLECTIVE_SCHEDULED, x));
    x->kind = LK_EVENT_ENQUEUE;
    LK_PASS(lk_events_add(r->out, x));
    if (timed) {
        t->detail = x->detail;
        x->kind = LK_EVENT_LAUNCH;
        LK_PASS(lk_events_add(r->out, x));
    } else {
        r->n_untimed++;
        x->end_ns = x->start_ns;
    }
    x->kind = LK_EVENT_COLLECTIVE;
    return LK_OK;
}

/* Take a collective's work on a GPU with what its call says. *whole: this is the record that has
 * all of it. */
static enum lk_status take_work(struct reader *r, const struct lk_foreign_record *p,
                                struct lk_import_event *x, bool *whole)
{
    const struct lk_preload_time *t = lk_preload_times_of(&r->times, p->link);

    *whole = !t || t->stamp == p->stamp;
    if (t) {
        x->start_ns = t->start_ns;
        x->end_ns = t->end_ns;
        x->detail = t->detail;
    }
    return *whole && !x->detail ? take_collective(r, p, LK_COLLECTIVE_COMPLETED, x) : LK_OK;
}

/* The events that records become; of ranges, the name tells the kind. */
static const struct {
    enum lk_event_kind kind;
    bool known, gpu;
} kinds[LK_FOREIGN_KIND_COUNT] = {
    [LK_FOREIGN_COLLECTIVE_CALL] = {LK_EVENT_COLLECTIVE, true, false},
    [LK_FOREIGN_COLLECTIVE_GPU] = {LK_EVENT_KERNEL, true, true},
    [LK_FOREIGN_WAIT] = {LK_EVENT_SYNC, true, false},
    [LK_FOREIGN_RANGE] = {LK_EVENT_STEP, true, false},
    [LK_FOREIGN_KERNEL] = {LK_EVENT_KERNEL, true, true},
    [LK_FOREIGN_COPY] = {LK_EVENT_COPY, true, true},
    [LK_FOREIGN_MEMSET] = {LK_EVENT_MEMSET, true, true},
    [LK_FOREIGN_LAUNCH] = {LK_EVENT_LAUNCH, true, false},
    [LK_FOREIGN_SYNC] = {LK_EVENT_SYNC, true, false},
    [LK_FOREIGN_SENT] = {0, true, false}, /* no event: struct lk_event_sent */
};

/* Return whether a record can be an event: its kind and times are some. */
static bool is_sound(const struct lk_foreign_record *p)
{
    return p->kind < LK_FOREIGN_KIND_COUNT && kinds[p->kind].known && p->start_ns > 0 &&
           p->end_ns >= p->start_ns && p->end_ns <= TIME_MAX_NS;
}

/* Take a range, if its name tells a kind: "ProfilerStep#", the number beside it, or the same in a
 * domain of NVTX, "domain/ProfilerStep#". */
static bool take_range(const struct reader *r, const struct lk_foreign_record *p,
                       struct lk_import_event *x)
{
    enum lk_event_kind kind;
    const char *slash, *text;
    size_t n;

    text = text_of(r, p->name, &n);
    if (!lk_event_kind_of_range(r->out, text, n, &kind)) {
        slash = memchr(text, '/', n);
        if (!slash ||
            !lk_event_kind_of_range(r->out, slash + 1, n - (size_t)(slash + 1 - text), &kind))
            return false;
    }
    x->kind = (uint8_t)kind;
    if (kind == LK_EVENT_STEP)
        x->detail =
            p->count && p->count < UINT32_MAX ? (uint32_t)p->count : lk_event_step_number(text, n);
    return true;
}

/* Take what was sent over a network, in a group of all ranks: of others it is not known which rank
 * of the job the receiver is. */
static enum lk_status take_sent(struct reader *r, const struct lk_foreign_record *p)
{
    struct lk_event_sent s = {p->start_ns, p->end_ns, p->peer, p->count, p->link};
    struct lk_foreign_group g = {0};

    if (p->group && p->group <= r->h.n_groups)
        group_at(r, p->group - 1, &g);
    if (g.n_ranks != r->out->source.world_size || g.rank != r->out->source.rank || s.to < 0 ||
        s.to >= g.n_ranks || s.to == g.rank || s.busy_ns > (uint64_t)(s.end_ns - s.start_ns))
        return LK_OK;
    return lk_events_sent(r->out, &s);
}

static enum lk_status take(struct reader *r, const struct lk_foreign_record *p)
{
    struct lk_import_event x = {.start_ns = p->start_ns, .end_ns = p->end_ns, .link = p->link};
    bool whole = true;

    if (!is_sound(p)) {
        r->out->source.n_skipped++;
        return LK_OK;
    }
    if (p->kind == LK_FOREIGN_SENT)
        return take_sent(r, p);
    x.kind = (uint8_t)kinds[p->kind].kind;
    if (p->kind == LK_FOREIGN_RANGE && !take_range(r, p, &x))
        return LK_OK;
    x.bytes = p->kind == LK_FOREIGN_COPY || p->kind == LK_FOREIGN_MEMSET ? p->count : 0;
    LK_PASS(p->kind == LK_FOREIGN_KERNEL ? kernel_name_of(r, p->name, &x.name)
                                         : name_of(r, p->name, &x.name));
    if (p->kind >= LK_FOREIGN_KERNEL) {
        r->n_cupti++;
        r->last_gpu_ns = p->end_ns > r->last_gpu_ns ? p->end_ns : r->last_gpu_ns;
    }
    r->last_ns = p->end_ns > r->last_ns ? p->end_ns : r->last_ns;
    /* NCCL does not say which GPU it is. */
    LK_PASS(lk_events_lane(r->out,
                           !kinds[p->kind].gpu ? (int64_t)r->h.pid
                           : p->peer > 0       ? p->peer
                                               : 0,
                           p->lane, kinds[p->kind].gpu, &x.lane));
    if (p->kind == LK_FOREIGN_COLLECTIVE_CALL && is_of_nccl(r, p))
        LK_PASS(take_call(r, p, &x));
    else if (p->kind == LK_FOREIGN_COLLECTIVE_CALL)
        LK_PASS(take_collective(r, p, LK_COLLECTIVE_COMPLETED, &x));
    else if (p->kind == LK_FOREIGN_COLLECTIVE_GPU)
        LK_PASS(take_work(r, p, &x, &whole));
    if (p->kind == LK_FOREIGN_COLLECTIVE_GPU || is_of_nccl(r, p) ||
        p->flags & LK_FOREIGN_NONBLOCKING)
        r->out->source.blocking = false;
    return whole ? lk_events_add(r->out, &x) : LK_OK;
}

/* An area of records, from the oldest one that is there on. */
struct area {
    uint64_t at, n, first, head;
    uint64_t mark; /* makes stamps of the areas different ones */
};

static void find_areas(const struct reader *r, struct area out[2])
{
    const struct lk_foreign_header *h = &r->h;
    const uint64_t head = h->head, n = h->n_records, in_window = h->window_head;

    out[0] = (struct area){h->records_at, n, head > n ? head - n : 0, head, 0};
    out[1] = (struct area){h->window_at, h->n_window, 0,
                           in_window < h->n_window ? in_window : h->n_window, UINT64_C(1) << 63};
}

/* Copy record i of an area; false: it was not whole when the process ended. */
static bool record_at(const struct reader *r, const struct area *a, uint64_t i,
                      struct lk_foreign_record *out)
{
    memcpy(out, r->bytes + a->at + i % a->n * sizeof *out, sizeof *out);
    if (out->stamp != i + 1)
        return false;
    out->stamp |= a->mark;
    return true;
}

/* Read the records from the oldest that is left on, those of GPUs' clocks first. */
static enum lk_status read_records(struct reader *r)
{
    struct lk_foreign_record p;
    struct area areas[2];

    find_areas(r, areas);
    for (int k = 0; k < 2 && r->nccl; k++)
        for (uint64_t i = areas[k].first; i < areas[k].head; i++)
            if (record_at(r, &areas[k], i, &p))
                LK_PASS(lk_preload_times_add(&r->times, &p));
    lk_preload_times_place(&r->times);
    for (int k = 0; k < 2; k++)
        for (uint64_t i = areas[k].first; i < areas[k].head; i++) {
            if (!record_at(r, &areas[k], i, &p)) {
                r->n_unfinished++;
                continue;
            }
            r->out->source.n_read++;
            LK_PASS(take(r, &p));
        }
    return LK_OK;
}

/* ---- The window ---- */

/* Tell the window in which CUPTI recorded, if it recorded something; one in which the process ended
 * goes to the last record. */
static enum lk_status read_window(struct reader *r)
{
    struct lk_events *e = r->out;
    const int64_t start = r->h.window_start_ns, end = r->h.window_end_ns;

    if (!r->n_cupti || start <= 0 || end < start)
        return LK_OK;
    e->window_start_ns = start;
    e->window_end_ns = end == LK_FOREIGN_NO_END ? r->last_gpu_ns : end;
    e->source.blocking = e->source.blocking && !r->nccl;
    return lk_preload_join(e);
}

/* Return why the process's kernels are not in the file; "": they are, or were not asked for. */
static const char *no_kernels(const struct lk_foreign_header *h)
{
    static const char *const texts[] = {LK_FOREIGN_CUPTI_LIST(LK_WORD_NAME)};
    const uint32_t state = h->cupti;

    if (state == LK_FOREIGN_CUPTI_RECORDED && !h->window_head)
        return "CUPTI gave no records; another profiler of the process may have got them, or it "
               "launched none";
    return state < LK_FOREIGN_CUPTI_COUNT ? texts[state] : "";
}

static enum lk_status add_notes_on_window(struct reader *r)
{
    const struct lk_foreign_header *h = &r->h;
    struct lk_events *e = r->out;
    char error[32] = "";

    if (h->cupti_error)
        snprintf(error, sizeof error, " (CUPTI error %u)", h->cupti_error);
    if (*no_kernels(h))
        LK_PASS(lk_events_note(e, "no kernels: %s%s", no_kernels(h), error));
    if (!e->window_end_ns)
        return LK_OK;
    LK_PASS(lk_events_note(e, "kernels were recorded in a window of %.3g s: only its steps count",
                           (double)(e->window_end_ns - e->window_start_ns) * 1e-9));
    if (h->window_head > h->n_window)
        LK_PASS(lk_events_note(e,
                               "the window ended as its %" PRIu64 " records were used up; "
                               "LOCKSTEP_PROFILE_MIB=N makes room for more",
                               h->n_window));
    if (h->window_dropped)
        LK_PASS(lk_events_note(e, "CUPTI had no buffer for %" PRIu64 " records",
                               (uint64_t)h->window_dropped));
    return LK_OK;
}

/* ---- Notes ---- */

/* Say how well collectives on GPUs are known. */
static enum lk_status add_notes_on_gpus(struct reader *r)
{
    bool seen = false;

    for (size_t i = 0; i < r->times.n && !seen; i++)
        seen = r->times.at[i].seen_ns != 0;
    if (seen && r->out->window_end_ns)
        return LK_OK; /* CUPTI's times count */
    if (seen && r->times.error_ns >= 0)
        LK_PASS(
            lk_events_note(r->out,
                           "collectives on the GPU have its own lengths; on the host's clock they "
                           "lie within %.3f ms",
                           (double)r->times.error_ns / (double)LK_NS_PER_MS));
    else if (seen)
        LK_PASS(lk_events_note(r->out,
                               "collectives on the GPU have its own lengths; where they lie on "
                               "the host's clock is known for some by their ends alone"));
    if (r->n_untimed)
        LK_PASS(lk_events_note(r->out,
                               "of %" PRIu64
                               " collectives no work on a GPU was recorded: their time is "
                               "not known",
                               r->n_untimed));
    return LK_OK;
}

/* Say what is missing: what the ring lost, and names and groups without room. */
static enum lk_status add_notes(struct reader *r)
{
    struct lk_events *e = r->out;
    const uint64_t head = r->h.head, n = r->h.n_records;

    if (head > n) {
        e->source.lost = true;
        LK_PASS(lk_events_note(e,
                               "the oldest %" PRIu64 " of %" PRIu64 " records were overwritten; "
                               "LOCKSTEP_PROFILE_MIB=N makes room for more",
                               head - n, head));
    }
    if (r->n_unfinished)
        LK_PASS(lk_events_note(e,
                               "%" PRIu64 " records were being written when the process ended, or "
                               "found no place",
                               r->n_unfinished));
    if (r->nonblocking)
        LK_PASS(lk_events_note(e, "nonblocking collectives end when the rank finds them done: what "
                                  "it does meanwhile counts as communication"));
    if (r->h.lost)
        LK_PASS(lk_events_note(e,
                               "%" PRIu64 " records were lost: there was no room for what they "
                               "came from",
                               (uint64_t)r->h.lost));
    if (r->h.names_lost || r->h.groups_lost)
        LK_PASS(lk_events_note(e, "%u names and %u groups found no room", r->h.names_lost,
                               r->h.groups_lost));
    return LK_OK;
}

/* ---- The clock ---- */

static bool is_pair(const struct lk_foreign_pair *p)
{
    return p->before_ns >= 0 && p->after_ns >= p->before_ns && p->after_ns <= TIME_MAX_NS &&
           p->epoch_ns >= p->after_ns && p->epoch_ns <= EPOCH_MAX_NS;
}

static int64_t middle(const struct lk_foreign_pair *p)
{
    return p->before_ns + (p->after_ns - p->before_ns) / 2;
}

/* Tell which clock the times are of, how far it is from the wall clock, and how fast it leaves it.
 */
static enum lk_status read_clock(const struct reader *r)
{
    const uint32_t n = r->h.n_pairs;
    const struct lk_foreign_pair *first = &r->h.pairs[0];
    const struct lk_foreign_pair *last = &r->h.pairs[n ? LK_FOREIGN_PAIR_AT(n - 1) : 0];
    double passed, gained;

    if (r->h.boot[0])
        LK_PASS(lk_strdup(&r->out->source.clock.name, r->h.boot));
    if (!n || !is_pair(first) || !is_pair(last))
        return LK_OK;
    r->out->source.clock.epoch_ns = first->epoch_ns - middle(first);
    r->out->source.cost.recorded_ns =
        (r->last_ns > middle(last) ? r->last_ns : middle(last)) - middle(first);
    r->out->source.cost.spent_ns =
        r->h.spent_ns < (uint64_t)TIME_MAX_NS ? (int64_t)r->h.spent_ns : 0;
    r->out->source.cost.made_ns = r->h.made_ns < (uint64_t)TIME_MAX_NS ? (int64_t)r->h.made_ns : 0;
    passed = (double)(middle(last) - middle(first));
    gained = (double)(last->epoch_ns - first->epoch_ns) - passed;
    if (passed >= (double)DRIFT_AFTER_NS && fabs(gained / passed * 1e9) < DRIFT_MAX_PPB)
        r->out->source.clock.drift_ppb = gained / passed * 1e9;
    return LK_OK;
}

enum lk_status lk_preload_read(const char *path, const char *step_range, struct lk_events *out)
{
    struct reader r = {.path = path, .out = out};
    enum lk_status st = LK_OK;
    char *bytes = NULL;

    LK_TRY(lk_events_init(out, step_range));
    out->source.format = "lockstep profile";
    LK_TRY(lk_file_read_max(path, FILE_MAX_BYTES, &bytes, &r.size));
    r.bytes = bytes;
    LK_TRY(read_header(&r));
    LK_TRY(lk_strdup(&out->source.host, r.h.host));
    out->source.blocking = true;
    LK_TRY(read_groups(&r));
    LK_TRY(read_records(&r));
    LK_TRY(read_window(&r));
    LK_TRY(read_clock(&r));
    LK_TRY(add_notes(&r));
    LK_TRY(add_notes_on_window(&r));
    LK_TRY(add_notes_on_gpus(&r));
out:
    lk_preload_times_fini(&r.times);
    free(r.groups);
    free(bytes);
    return st;
}

/* ---- The start of a file ---- */

/* Read the header and the first group; false: they cannot be read. */
static bool read_start(const char *path, struct lk_foreign_header *h, struct lk_foreign_group *g)
{
    FILE *f = fopen(path, "rbe");
    bool known = f && fread(h, sizeof *h, 1, f) == 1 && h->header_bytes == sizeof *h &&
                 h->groups_at <= INT32_MAX && fseek(f, (long)h->groups_at, SEEK_SET) == 0 &&
                 fread(g, sizeof *g, 1, f) == 1;

    if (f)
        (void)fclose(f);
    return known;
}

bool lk_preload_is_of_rank(const char *path)
{
    struct lk_foreign_header h;
    struct lk_foreign_group g;

    return !read_start(path, &h, &g) || g.ready || h.window_head;
}

const char *lk_preload_no_kernels(const char *path)
{
    struct lk_foreign_header h;
    struct lk_foreign_group g;

    return read_start(path, &h, &g) ? no_kernels(&h) : "";
}
