/*
 * The file sink; see the header. Divisions: the disk, creation, the sink, growth, the end.
 *
 * A ring has address space for all its records from the start, so that emitting indexes one array.
 * Segments of the file are mapped into it, one behind the other; `ready` says how far.
 */
#include "profiler/record/span_file.h"

#include "base/array.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    CACHE_LINE = 64,
    LOW = LK_SPAN_FILE_SEGMENT / 2 /* the grower is woken when so many records are left */
};

_Static_assert(sizeof(struct lk_span) == 48, "the record of a span file is 48 bytes");
_Static_assert(LK_SPAN_FILE_RING_MIN * sizeof(struct lk_span) % LK_SPAN_FILE_ALIGN == 0,
               "segments are whole pages");
_Static_assert(sizeof(struct lk_span_file_track) % CACHE_LINE == 0 &&
                   offsetof(struct lk_span_file_header, tracks) % CACHE_LINE == 0,
               "no two heads are in one cache line");

/* One track's ring. Only its writer's thread accesses `head` and stores records. */
struct ring {
    struct lk_span *records;        /* address space of `capacity` */
    struct lk_span_file_track *row; /* in the file's header */
    struct lk_span_file *file;
    uint64_t mask, head;
    uint64_t lost;          /* not recorded: the file could not grow */
    _Atomic uint64_t ready; /* records that may be stored; UINT64_MAX: all, over and over */
};

struct lk_span_file {
    char *path;
    int fd;
    struct lk_span_file_header *header;
    size_t header_bytes;                    /* mapped */
    uint64_t n_spans;                       /* expected on a compute track */
    uint64_t n_comm_spans;                  /* and on that of collectives */
    atomic_flag failing;                    /* the failure text is being written */
    struct ring rings[LK_SPAN_FILE_TRACKS]; /* header->n_tracks of them */
    /* Growth. The mutex is over the file's size and the text. */
    pthread_mutex_t lock;
    uint64_t size_bytes; /* of the file */
    atomic_bool broken;  /* it cannot grow; the text is written */
    char broken_text[512];
    pthread_t grower;
    sem_t wake;
    bool has_grower; /* thread, semaphore and mutex are there */
    atomic_bool closing;
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint64_t ring_capacity(const struct lk_span_file *f, const struct lk_track_info *info)
{
    uint64_t n_spans = info->kind == LK_TRACK_COMPUTE ? f->n_spans
                       : info->kind == LK_TRACK_COMM  ? f->n_comm_spans
                                                      : f->n_spans / 8;
    uint64_t capacity = LK_SPAN_FILE_RING_MIN;

    if (info->n_spans > 0)
        n_spans = info->n_spans;
    while (capacity < n_spans && capacity < LK_SPAN_FILE_RING_MAX)
        capacity *= 2;
    return capacity;
}

/* ---- The disk ---- */

/*
 * Reserve [offset, offset + bytes) on disk, map it at `at` (NULL: anywhere) and touch its pages, so
 * that storing to it neither fails nor causes a page fault.
 */
static enum lk_status map_region(const struct lk_span_file *f, uint64_t offset, size_t bytes,
                                 void *at, void **out)
{
    void *map;
    int error;

    do {
        error = posix_fallocate(f->fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    if (error)
        return lk_fail(LK_EIO, "%s: cannot reserve %zu bytes for spans: %s", f->path, bytes,
                       strerror(error));
    map = mmap(at, bytes, PROT_READ | PROT_WRITE, at ? MAP_SHARED | MAP_FIXED : MAP_SHARED, f->fd,
               (off_t)offset);
    if (map == MAP_FAILED)
        return lk_fail(LK_EIO, "%s: cannot map %zu bytes: %s", f->path, bytes, strerror(errno));
    for (size_t i = 0; i < bytes; i += LK_SPAN_FILE_ALIGN)
        ((volatile char *)map)[i] = 0;
    *out = map;
    return LK_OK;
}

static size_t ring_bytes(const struct ring *r)
{
    return (size_t)(r->mask + 1) * sizeof *r->records;
}

static uint64_t segment_records(const struct ring *r)
{
    return r->mask < LK_SPAN_FILE_SEGMENT ? r->mask + 1 : LK_SPAN_FILE_SEGMENT;
}

/* Add a segment to the ring. pre: the file's lock is held, or nobody else knows the ring. */
static enum lk_status add_segment(struct lk_span_file *f, struct ring *r)
{
    uint32_t n = atomic_load_explicit(&r->row->n_segments, memory_order_relaxed);
    uint64_t records = segment_records(r), ready = (n + 1) * records;
    size_t bytes = (size_t)records * sizeof *r->records;
    void *map;

    LK_PASS(map_region(f, f->size_bytes, bytes, r->records + n * records, &map));
    r->row->segments[n] = (uint32_t)(f->size_bytes / LK_SPAN_FILE_ALIGN);
    f->size_bytes += bytes;
    atomic_store_explicit(&r->row->n_segments, n + 1, memory_order_release);
    atomic_store_explicit(&r->ready, ready > r->mask ? UINT64_MAX : ready, memory_order_release);
    return LK_OK;
}

/* ---- Growth ---- */

/* Add a segment to the ring, unless more than `left` records are. False: the file cannot grow. */
static bool grow(struct ring *r, uint64_t left)
{
    struct lk_span_file *f = r->file;

    pthread_mutex_lock(&f->lock);
    if (!f->broken &&
        atomic_load_explicit(&r->ready, memory_order_relaxed) -
                atomic_load_explicit(&r->row->head, memory_order_acquire) <=
            left &&
        add_segment(f, r) != LK_OK) {
        snprintf(f->broken_text, sizeof f->broken_text, "%s", lk_error_text());
        atomic_store_explicit(&f->broken, true, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
    return !atomic_load_explicit(&f->broken, memory_order_relaxed);
}

/* Grow the rings that need it, whenever one says so. */
static void *run_grower(void *arg)
{
    struct lk_span_file *f = arg;

    for (;;) {
        while (sem_wait(&f->wake))
            ;
        if (atomic_load_explicit(&f->closing, memory_order_acquire))
            return NULL;
        for (uint32_t i = 0; i < atomic_load_explicit(&f->header->n_tracks, memory_order_acquire);
             i++)
            (void)grow(&f->rings[i], LOW);
    }
}

static enum lk_status start_grower(struct lk_span_file *f)
{
    enum lk_status st;

    if (sem_init(&f->wake, 0, 0))
        return lk_fail(LK_ENOMEM, "%s: cannot make a semaphore: %s", f->path, strerror(errno));
    pthread_mutex_init(&f->lock, NULL);
    st = lk_thread_start(&f->grower, run_grower, f, "span files");
    f->has_grower = st == LK_OK;
    return st;
}

static void stop_grower(struct lk_span_file *f)
{
    if (!f->has_grower)
        return;
    atomic_store_explicit(&f->closing, true, memory_order_release);
    (void)sem_post(&f->wake);
    pthread_join(f->grower, NULL);
    pthread_mutex_destroy(&f->lock);
    (void)sem_destroy(&f->wake);
}

enum lk_status lk_span_file_status(const struct lk_span_file *f)
{
    if (!f || !atomic_load_explicit(&f->broken, memory_order_acquire))
        return LK_OK;
    return lk_fail(LK_EIO, "%s", f->broken_text);
}

/* ---- Creation ---- */

static void fill_header(struct lk_span_file *f, const char *info, size_t info_bytes)
{
    struct lk_span_file_header *h = f->header;

    memcpy(h->magic, LK_SPAN_FILE_MAGIC, sizeof h->magic);
    h->version = LK_SPAN_FILE_VERSION;
    h->order = LK_SPAN_FILE_ORDER;
    h->header_bytes = sizeof *h;
    h->span_bytes = sizeof(struct lk_span);
    h->info_offset = sizeof *h;
    h->info_bytes = info_bytes;
    h->base_local_ns = lk_now_ns();
    h->base_epoch_ns = lk_epoch_ns();
    memcpy((char *)h + h->info_offset, info, info_bytes);
    atomic_store_explicit(&h->state, LK_SPAN_FILE_RUNNING, memory_order_release);
}

enum lk_status lk_span_file_create(const char *path, const struct lk_run_info *info,
                                   uint64_t n_spans, struct lk_span_file **out)
{
    enum lk_status st = LK_OK;
    struct lk_span_file *f = NULL;
    char *text = NULL, *temporary = NULL;
    size_t text_bytes = 0;
    void *map = NULL;

    LK_TRY(lk_alloc(&f, 1, sizeof *f));
    f->fd = -1;
    f->n_spans = n_spans;
    /* Buckets of one tensor have a collective and its hops each; powersgd has up to ten ops a
     * tensor there, twice those of the compute track. A ring takes space as it fills. */
    f->n_comm_spans = info->compression == LK_COMPRESSION_POWERSGD ? 2 * n_spans : n_spans;
    atomic_flag_clear(&f->failing);
    LK_TRY(lk_strdup(&f->path, path));
    LK_TRY(lk_record_save_text(&lk_run_info_record, info, &text, &text_bytes));
    LK_TRY(lk_asprintf(&temporary, "%s.tmp.%ld", path, (long)getpid()));
    f->fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0)
        LK_TRY(lk_fail(LK_EIO, "%s: cannot create: %s", path, strerror(errno)));
    /* The reader refuses a locked file; the kernel drops the lock when the process ends. */
    if (flock(f->fd, LOCK_EX | LOCK_NB))
        LK_TRY(lk_fail(LK_EIO, "%s: cannot lock: %s", path, strerror(errno)));
    f->header_bytes = round_up(sizeof *f->header + text_bytes, LK_SPAN_FILE_ALIGN);
    LK_TRY(map_region(f, 0, f->header_bytes, NULL, &map));
    f->header = map;
    f->size_bytes = f->header_bytes;
    fill_header(f, text, text_bytes);
    LK_TRY(start_grower(f));
    if (rename(temporary, path))
        LK_TRY(lk_fail(LK_EIO, "%s: cannot rename to: %s", path, strerror(errno)));
    LK_HAND_OVER(out, f);
out:
    if (f && f->fd >= 0 && temporary)
        (void)unlink(temporary);
    lk_quietly_(lk_span_file_close(f));
    free(temporary);
    free(text);
    return st;
}

/* ---- The sink ---- */

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct lk_span_file *f = sink;
    uint32_t n = atomic_load_explicit(&f->header->n_tracks, memory_order_relaxed);
    uint64_t capacity = ring_capacity(f, info);
    struct lk_span_file_track *row = &f->header->tracks[n];
    struct ring *r = &f->rings[n];
    enum lk_status st;
    void *space;

    if (n == LK_SPAN_FILE_TRACKS)
        return lk_fail(LK_EINTERNAL, "%s: more than %d tracks", f->path, LK_SPAN_FILE_TRACKS);
    space = mmap(NULL, (size_t)capacity * sizeof *r->records, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED)
        return lk_fail(LK_ENOMEM, "%s: no address space for %llu spans: %s", f->path,
                       (unsigned long long)capacity, strerror(errno));
    *r = (struct ring){.records = space, .row = row, .file = f, .mask = capacity - 1};
    strncpy(row->name, info->name, sizeof row->name - 1);
    row->kind = (int32_t)info->kind;
    row->stream = info->stream;
    row->capacity = capacity;
    pthread_mutex_lock(&f->lock);
    st = add_segment(f, r);
    pthread_mutex_unlock(&f->lock);
    if (st != LK_OK) {
        munmap(space, ring_bytes(r));
        return st;
    }
    atomic_store_explicit(&f->header->n_tracks, n + 1, memory_order_release);
    *out_ctx = r;
    return LK_OK;
}

static enum lk_status name_added(void *sink, uint16_t id, const char *name)
{
    struct lk_span_file *f = sink;
    struct lk_span_file_header *h = f->header;
    uint32_t used = atomic_load_explicit(&h->names_bytes, memory_order_relaxed);
    size_t bytes = strlen(name) + 1;

    if (id != atomic_load_explicit(&h->n_names, memory_order_relaxed) + 1)
        return lk_fail(LK_EINTERNAL, "%s: span name %u out of order", f->path, id);
    if (bytes > sizeof h->names - used)
        return lk_fail(LK_EINTERNAL, "%s: span names need more than %d bytes", f->path,
                       LK_SPAN_FILE_NAMES_BYTES);
    memcpy(h->names + used, name, bytes);
    atomic_store_explicit(&h->names_bytes, used + (uint32_t)bytes, memory_order_release);
    atomic_store_explicit(&h->n_names, id, memory_order_release);
    return LK_OK;
}

static enum lk_status fact(void *sink, const char *key, const char *value)
{
    struct lk_span_file *f = sink;
    struct lk_span_file_header *h = f->header;
    uint32_t used = atomic_load_explicit(&h->facts_bytes, memory_order_relaxed);
    size_t key_bytes = strlen(key) + 1, bytes = key_bytes + strlen(value) + 1;

    if (bytes > sizeof h->facts - used)
        return lk_fail(LK_EINTERNAL, "%s: facts of the run need more than %d bytes", f->path,
                       LK_SPAN_FILE_FACTS_BYTES);
    memcpy(h->facts + used, key, key_bytes);
    memcpy(h->facts + used + key_bytes, value, bytes - key_bytes);
    atomic_store_explicit(&h->facts_bytes, used + (uint32_t)bytes, memory_order_release);
    return LK_OK;
}

static void emit(void *track_ctx, const struct lk_span *s)
{
    struct ring *r = track_ctx;
    uint64_t ready = atomic_load_explicit(&r->ready, memory_order_acquire);

    if (r->head == ready && !grow(r, 0)) {
        r->lost++;
        return;
    }
    r->records[r->head & r->mask] = *s;
    r->head++;
    atomic_store_explicit(&r->row->head, r->head, memory_order_release);
    if (ready - r->head == LOW)
        (void)sem_post(&r->file->wake);
}

const struct lk_sink_ops lk_span_file_ops = {
    .name = "file", .track_open = track_open, .name_added = name_added, .fact = fact, .emit = emit};

static int by_round_trip(const void *a, const void *b)
{
    const struct lk_clock_sample *x = a, *y = b;
    uint64_t dx = x->local_recv_ns - x->local_send_ns, dy = y->local_recv_ns - y->local_send_ns;

    return LK_ORDER(dx, dy);
}

enum lk_status lk_span_file_clock(struct lk_span_file *f, enum lk_clock_moment moment,
                                  const struct lk_clock_sample *samples, size_t n)
{
    enum lk_status st = LK_OK;
    struct lk_clock_sample *sorted = NULL;
    size_t kept = n < LK_SPAN_FILE_SAMPLES ? n : LK_SPAN_FILE_SAMPLES;

    LK_TRY(lk_alloc(&sorted, n, sizeof *sorted));
    if (n)
        memcpy(sorted, samples, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_round_trip);
    atomic_store_explicit(&f->header->n_samples[moment], 0, memory_order_release);
    memcpy(f->header->samples[moment], sorted, kept * sizeof *sorted);
    atomic_store_explicit(&f->header->n_samples[moment], (uint32_t)kept, memory_order_release);
out:
    free(sorted);
    return st;
}

void lk_span_file_fail(struct lk_span_file *f, const char *text)
{
    if (!f || atomic_flag_test_and_set(&f->failing))
        return;
    strncpy(f->header->failure, text, sizeof f->header->failure - 1);
    atomic_store_explicit(&f->header->failed, 1, memory_order_release);
}

/* ---- The end ---- */

/* Note how many records the rings have, and return where the file can end: behind the last. */
static uint64_t note_end(struct lk_span_file *f)
{
    uint64_t end = f->header_bytes;

    for (uint32_t i = 0; i < atomic_load_explicit(&f->header->n_tracks, memory_order_acquire);
         i++) {
        struct lk_span_file_track *row = f->rings[i].row;
        uint64_t n = row->kept = atomic_load_explicit(&row->head, memory_order_acquire);

        n = n < row->capacity ? n : row->capacity;
        for (uint32_t k = 0; n > 0; k++) {
            uint64_t records = n < LK_SPAN_FILE_SEGMENT ? n : LK_SPAN_FILE_SEGMENT;
            uint64_t stop =
                (uint64_t)row->segments[k] * LK_SPAN_FILE_ALIGN + records * sizeof(struct lk_span);

            end = stop > end ? stop : end;
            n -= records;
        }
    }
    return end;
}

/* Put memory that nobody reads behind the records that a ring keeps. */
static void detach_free(struct ring *r)
{
    uint64_t used = round_up(r->row->kept * sizeof *r->records, LK_SPAN_FILE_ALIGN);

    if (r->row->kept <= r->mask && used < ring_bytes(r))
        (void)mmap((char *)r->records + used, ring_bytes(r) - (size_t)used, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void lk_span_file_abandon(struct lk_span_file *f, const char *text)
{
    uint64_t end;

    lk_span_file_fail(f, text);
    atomic_store_explicit(&f->broken, true, memory_order_release);
    end = note_end(f);
    atomic_store_explicit(&f->header->state, LK_SPAN_FILE_ABANDONED, memory_order_release);
    for (uint32_t i = 0; i < atomic_load_explicit(&f->header->n_tracks, memory_order_acquire); i++)
        detach_free(&f->rings[i]);
    /* A file that cannot be cut is only longer. */
    if (ftruncate(f->fd, (off_t)end))
        return;
}

static void warn_of_lost(const struct lk_span_file *f)
{
    for (uint32_t i = 0; i < f->header->n_tracks; i++) {
        const struct ring *r = &f->rings[i];

        if (r->head > r->mask + 1)
            lk_log(LK_LOG_PROFILE, LK_WARN,
                   "%s: the ring of '%s' was full: the oldest %llu of %llu spans are lost", f->path,
                   r->row->name, (unsigned long long)(r->head - r->mask - 1),
                   (unsigned long long)r->head);
        if (r->lost)
            lk_log(LK_LOG_PROFILE, LK_WARN, "%s: the last %llu spans of '%s' are lost", f->path,
                   (unsigned long long)r->lost, r->row->name);
    }
}

/* Cut the file, mark it complete and unmap it. pre: it has a header. */
static enum lk_status finish(struct lk_span_file *f)
{
    enum lk_status st = lk_span_file_status(f);
    uint64_t end = note_end(f);

    warn_of_lost(f);
    if (st != LK_OK)
        lk_span_file_fail(f, lk_error_text());
    if (ftruncate(f->fd, (off_t)end))
        LK_KEEP(lk_fail(LK_EIO, "%s: cannot be cut to %llu bytes: %s", f->path,
                        (unsigned long long)end, strerror(errno)));
    if (!atomic_load_explicit(&f->header->failed, memory_order_acquire))
        atomic_store_explicit(&f->header->state, LK_SPAN_FILE_CLOSED, memory_order_release);
    for (uint32_t i = 0; i < f->header->n_tracks; i++)
        munmap(f->rings[i].records, ring_bytes(&f->rings[i]));
    munmap(f->header, f->header_bytes);
    return st;
}

enum lk_status lk_span_file_close(struct lk_span_file *f)
{
    enum lk_status st = LK_OK;

    if (!f)
        return LK_OK;
    stop_grower(f);
    if (f->header)
        st = finish(f);
    if (f->fd >= 0 && close(f->fd))
        LK_KEEP(lk_fail(LK_EIO, "%s: cannot close: %s", f->path, strerror(errno)));
    free(f->path);
    free(f);
    return st;
}
