/* The file sink: a mapped header and one mapped ring of spans per track. */
#include "profiler/record/span_file.h"

#include "base/array.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(struct lk_span) == 48, "the record of a span file is 48 bytes");
_Static_assert(sizeof(struct lk_span_ring_header) <= LK_SPAN_FILE_RING_OFFSET, "ring header");
_Static_assert(LK_SPAN_FILE_ALIGN % sizeof(uint64_t) == 0, "segments are aligned");

/* One track's ring. Only its writer's thread accesses `head` and the records. */
struct ring {
    struct lk_span *records;
    struct lk_span_ring_header *shared;
    uint64_t mask;
    uint64_t head;
    size_t map_bytes; /* the mapping starts at `shared` */
};

struct lk_span_file {
    char *path;
    int fd;
    struct lk_span_file_header *header;
    size_t header_bytes; /* mapped */
    uint64_t size_bytes; /* of the file */
    uint64_t n_spans;    /* expected on a compute track */
    atomic_flag failing; /* the failure text is being written */
    size_t n_rings;
    struct ring rings[LK_SPAN_FILE_TRACKS];
};

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static uint64_t ring_capacity(const struct lk_span_file *f, const struct lk_track_info *info)
{
    uint64_t n_spans = info->kind == LK_TRACK_COMPUTE ? f->n_spans : f->n_spans / 8;
    uint64_t capacity = LK_SPAN_FILE_RING_MIN;

    if (info->n_spans > 0)
        n_spans = info->n_spans;
    while (capacity < n_spans && capacity < LK_SPAN_FILE_RING_MAX)
        capacity *= 2;
    return capacity;
}

/*
 * Reserve [offset, offset + bytes) on disk, map it and touch its pages, so that storing to it
 * neither fails nor causes a page fault.
 */
static enum lk_status map_region(const struct lk_span_file *f, uint64_t offset, size_t bytes,
                                 void **out)
{
    void *map;
    int error;

    do {
        error = posix_fallocate(f->fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    if (error)
        return lk_fail(LK_EIO, "%s: cannot reserve %zu bytes for spans: %s", f->path, bytes,
                       strerror(error));
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, (off_t)offset);
    if (map == MAP_FAILED)
        return lk_fail(LK_EIO, "%s: cannot map %zu bytes: %s", f->path, bytes, strerror(errno));
    for (size_t i = 0; i < bytes; i += LK_SPAN_FILE_ALIGN)
        ((volatile char *)map)[i] = 0;
    *out = map;
    return LK_OK;
}

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
    LK_TRY(map_region(f, 0, f->header_bytes, &map));
    f->header = map;
    f->size_bytes = f->header_bytes;
    fill_header(f, text, text_bytes);
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

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct lk_span_file *f = sink;
    struct lk_span_file_track *row;
    struct ring *r;
    uint64_t capacity = ring_capacity(f, info);
    size_t bytes;
    void *map = NULL;

    if (f->n_rings == LK_SPAN_FILE_TRACKS)
        return lk_fail(LK_EINTERNAL, "%s: more than %d tracks", f->path, LK_SPAN_FILE_TRACKS);
    bytes = (size_t)round_up(LK_SPAN_FILE_RING_OFFSET + capacity * sizeof(struct lk_span),
                             LK_SPAN_FILE_ALIGN);
    LK_PASS(map_region(f, f->size_bytes, bytes, &map));
    r = &f->rings[f->n_rings];
    *r = (struct ring){.records = (void *)((char *)map + LK_SPAN_FILE_RING_OFFSET),
                       .shared = map,
                       .mask = capacity - 1,
                       .map_bytes = bytes};
    row = &f->header->tracks[f->n_rings];
    strncpy(row->name, info->name, sizeof row->name - 1);
    row->kind = (int32_t)info->kind;
    row->stream = info->stream;
    row->offset = f->size_bytes;
    row->capacity = capacity;
    f->size_bytes += bytes;
    f->n_rings++;
    atomic_store_explicit(&f->header->n_tracks, (uint32_t)f->n_rings, memory_order_release);
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

    r->records[r->head & r->mask] = *s;
    r->head++;
    atomic_store_explicit(&r->shared->head, r->head, memory_order_release);
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

static void warn_of_lost(const struct lk_span_file *f)
{
    for (size_t i = 0; i < f->n_rings; i++) {
        const struct ring *r = &f->rings[i];

        if (r->head > r->mask + 1)
            lk_log(LK_LOG_PROFILE, LK_WARN,
                   "%s: the ring of '%s' was full: the oldest %llu of %llu spans are lost", f->path,
                   f->header->tracks[i].name, (unsigned long long)(r->head - r->mask - 1),
                   (unsigned long long)r->head);
    }
}

enum lk_status lk_span_file_close(struct lk_span_file *f)
{
    enum lk_status st = LK_OK;

    if (!f)
        return LK_OK;
    if (f->header) {
        warn_of_lost(f);
        if (!atomic_load_explicit(&f->header->failed, memory_order_acquire))
            atomic_store_explicit(&f->header->state, LK_SPAN_FILE_CLOSED, memory_order_release);
    }
    for (size_t i = 0; i < f->n_rings; i++)
        munmap(f->rings[i].shared, f->rings[i].map_bytes);
    if (f->header)
        munmap(f->header, f->header_bytes);
    if (f->fd >= 0 && close(f->fd))
        st = lk_fail(LK_EIO, "%s: cannot close: %s", f->path, strerror(errno));
    free(f->path);
    free(f);
    return st;
}
