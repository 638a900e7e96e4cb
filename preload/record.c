/*
 * Write the file of records: facts/foreign_file.h. Divisions: the file, names, groups, records, the
 * window, the cost.
 *
 * The span files of our own runtime (profiler/record/span_file.h) have a ring for each track, which
 * has one writer and is made before the run. Here any thread of a foreign program may write at any
 * time, so all share one ring, whose records have stamps.
 */
#include "preload/record.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(struct lk_foreign_record) == 64, "a record is 64 bytes");
_Static_assert(sizeof(struct lk_foreign_group) == 32, "a group is 32 bytes");

enum {
    MIB_DEFAULT = 4,
    MIB_MAX = 1024,
    FILES_MAX = 64,   /* of one process number: programs that it executed one after the other */
    SLOTS = 1 << 14,  /* of the hash table of names */
    SLOTS_TRIED = 64, /* before the table counts as full */
    PAIR_TRIES = 5,
    MAPPINGS = 2,    /* the file, and the window behind it */
    COST_EVERY = 17, /* calls of which one is timed: odd, since calls come in pairs */
    COST_FIRST = 8   /* not the first one, which makes the file */
};
#define PAIR_EVERY_NS ((int64_t)LK_NS_PER_S)

enum state { NEW, OPENING, ON, OFF };

/* The process has one file: wrappers and callbacks have no context that could carry it. */
static _Atomic int state;
static struct lk_foreign_header *header;
static struct lk_foreign_group *groups;
static char *names;
static struct lk_foreign_record *records;
static uint64_t mask;             /* n_records - 1 */
static _Atomic uint32_t n_groups; /* begun */
static _Atomic int64_t paired_ns; /* when the clocks were last compared */
static char file_path[4096];
static _Atomic int window_state;
static struct lk_foreign_record *window;
static _Atomic bool window_takes; /* it is open, and not full */
static _Atomic int64_t first_collective_ns;
static _Atomic uint32_t slots[SLOTS]; /* ids of names by hash; 0: none */
static struct {
    _Atomic uintptr_t from; /* 0: none */
    uint64_t bytes;
} mappings[MAPPINGS];
static struct sigaction bus_error_before;
#define LOCAL _Thread_local __attribute__((tls_model("initial-exec"))) /* never allocates */
static LOCAL bool inside;
static LOCAL uint32_t thread, n_calls;

int64_t lk_foreign_now(void)
{
    return (int64_t)lk_now_ns();
}

uint32_t lk_foreign_thread(void)
{
    if (!thread)
        thread = (uint32_t)syscall(SYS_gettid);
    return thread;
}

bool lk_foreign_enter(void)
{
    bool entered = !inside;

    inside = true;
    return entered;
}

void lk_foreign_leave(void)
{
    inside = false;
}

/* ---- The file ---- */

/* A forked child shares the mapping with its parent, whose file it is. */
static void stop_in_child(void)
{
    atomic_store(&state, OFF);
}

/* Read the first line of a small file of the kernel's; "": it cannot be read. */
static void read_line(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

    if (fd >= 0)
        close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* Compare the clocks; of some tries keep the one that took the shortest time. */
static void take_pair(void)
{
    uint32_t n = atomic_load_explicit(&header->n_pairs, memory_order_relaxed);
    struct lk_foreign_pair best = {.after_ns = INT64_MAX};

    for (int i = 0; i < PAIR_TRIES; i++) {
        struct lk_foreign_pair p;

        p.before_ns = lk_foreign_now();
        p.epoch_ns = (int64_t)lk_epoch_ns();
        p.after_ns = lk_foreign_now();
        if (p.after_ns - p.before_ns < best.after_ns - best.before_ns)
            best = p;
    }
    header->pairs[LK_FOREIGN_PAIR_AT(n)] = best;
    atomic_store_explicit(&header->n_pairs, n + 1, memory_order_release);
    atomic_store_explicit(&paired_ns, best.after_ns, memory_order_relaxed);
}

/* Return the number of records that the user wants, a power of two. */
static uint64_t records_wanted(void)
{
    const char *text = secure_getenv("LOCKSTEP_PROFILE_MIB");
    long mib = text ? strtol(text, NULL, 10) : MIB_DEFAULT;
    uint64_t most, n = 1;

    mib = mib < 1 ? 1 : mib > MIB_MAX ? MIB_MAX : mib;
    most = ((uint64_t)mib << 20) / sizeof(struct lk_foreign_record);
    while (2 * n <= most)
        n *= 2;
    return n;
}

static uint64_t round_up(uint64_t n)
{
    return (n + LK_FOREIGN_FILE_ALIGN - 1) / LK_FOREIGN_FILE_ALIGN * LK_FOREIGN_FILE_ALIGN;
}

/* Create the process's file in the folder; it is a new one for each program that a process runs. */
static int create(const char *folder, const char *host)
{
    int fd = -1;

    for (int i = 0; i < FILES_MAX && fd < 0; i++) {
        char again[16] = "";

        if (i > 0)
            snprintf(again, sizeof again, ".%d", i + 1);
        if (snprintf(file_path, sizeof file_path, "%s/%s.%ld%s" LK_FOREIGN_FILE_SUFFIX, folder,
                     host, (long)getpid(), again) >= (int)sizeof file_path)
            return -1;
        fd = open(file_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

/* Put memory in the place of the mapping that an address is in, and record nothing more. */
static bool replace_mapping(uintptr_t at)
{
    for (int i = 0; i < MAPPINGS; i++) {
        uintptr_t from = atomic_load(&mappings[i].from);

        if (!from || at < from || at - from >= mappings[i].bytes)
            continue;
        atomic_store(&window_takes, false);
        atomic_store(&state, OFF);
        return mmap((void *)from, mappings[i].bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    if (info->si_code > 0 && replace_mapping((uintptr_t)info->si_addr))
        return;
    if (bus_error_before.sa_flags & SA_SIGINFO)
        bus_error_before.sa_sigaction(number, info, context);
    else if (bus_error_before.sa_handler != SIG_DFL && bus_error_before.sa_handler != SIG_IGN)
        bus_error_before.sa_handler(number);
    else /* the access faults again, and ends the program */
        (void)sigaction(number, &bus_error_before, NULL);
}

/*
 * Guard a mapping: where another process cuts its file, an access is a SIGBUS, which would end a
 * program that knows nothing of us. Other SIGBUS are the program's own, and a handler that it
 * installs later takes our place.
 */
static void guard(void *map, uint64_t bytes)
{
    struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    int i = atomic_load(&mappings[0].from) != 0;

    ours.sa_sigaction = on_bus_error;
    if (i == 0)
        (void)sigaction(SIGBUS, &ours, &bus_error_before);
    mappings[i].bytes = bytes;
    atomic_store(&mappings[i].from, (uintptr_t)map);
}

/* Reserve the bytes of a file from a place on, which ends there, and map them. A file larger than
 * its limit would be a signal. */
static void *reserve(int fd, uint64_t at, uint64_t bytes)
{
    struct rlimit limit;
    void *map = MAP_FAILED;
    int error;

    if (getrlimit(RLIMIT_FSIZE, &limit) ||
        (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < at + bytes))
        return NULL;
    do {
        error = posix_fallocate(fd, (off_t)at, (off_t)bytes);
    } while (error == EINTR);
    if (!error)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);
    if (map == MAP_FAILED) {
        (void)!ftruncate(fd, (off_t)at); /* an empty file says why there are no records */
        return NULL;
    }
    guard(map, bytes);
    for (uint64_t i = 0; i < bytes; i += LK_FOREIGN_FILE_ALIGN)
        ((volatile char *)map)[i] = 0; /* now, and not while something is timed */
    return map;
}

static void fill(const char *host, uint64_t n_records)
{
    struct lk_foreign_header *h = header;
    uint64_t magic;

    h->version = LK_FOREIGN_FILE_VERSION;
    h->order = LK_FOREIGN_FILE_ORDER;
    h->header_bytes = sizeof *h;
    h->record_bytes = sizeof *records;
    h->group_bytes = sizeof *groups;
    h->pid = (uint32_t)getpid();
    h->n_groups = LK_FOREIGN_FILE_GROUPS;
    h->names_bytes = LK_FOREIGN_FILE_NAMES_BYTES;
    h->n_records = n_records;
    snprintf(h->host, sizeof h->host, "%s", host);
    read_line("/proc/self/comm", h->command, sizeof h->command);
    read_line("/proc/sys/kernel/random/boot_id", h->boot, sizeof h->boot);
    atomic_store_explicit(&h->names_used, 1, memory_order_relaxed);
    take_pair();
    memcpy(&magic, LK_FOREIGN_FILE_MAGIC, sizeof magic);
    __atomic_store_n((uint64_t *)(void *)h->magic, magic, __ATOMIC_RELEASE);
}

/* Make the file; false: nothing will be recorded. */
static bool begin_file(void)
{
    const char *folder = secure_getenv("LOCKSTEP_PROFILE_DIR");
    const uint64_t groups_at = round_up(sizeof *header);
    const uint64_t names_at = groups_at + round_up(LK_FOREIGN_FILE_GROUPS * sizeof *groups);
    const uint64_t records_at = names_at + round_up(LK_FOREIGN_FILE_NAMES_BYTES);
    const uint64_t n_records = records_wanted();
    char host[sizeof header->host] = "";
    char *map;
    int fd;

    if (!folder || !*folder || gethostname(host, sizeof host - 1))
        return false;
    fd = create(folder, host);
    if (fd < 0)
        return false;
    map = reserve(fd, 0, records_at + n_records * sizeof *records);
    close(fd);
    if (!map || pthread_atfork(NULL, NULL, stop_in_child))
        return false;
    header = (void *)map;
    groups = (void *)(map + groups_at);
    names = map + names_at;
    records = (void *)(map + records_at);
    mask = n_records - 1;
    header->groups_at = groups_at;
    header->names_at = names_at;
    header->records_at = records_at;
    fill(host, n_records);
    return true;
}

static void count_making(int64_t since)
{
    atomic_fetch_add_explicit(&header->made_ns, (uint64_t)(lk_foreign_now() - since),
                              memory_order_relaxed);
}

/* While a thread makes the file, what others have to record is left out. */
bool lk_foreign_on(void)
{
    int s = atomic_load_explicit(&state, memory_order_acquire), error;
    int64_t since;

    if (s == NEW && atomic_compare_exchange_strong(&state, &s, OPENING)) {
        error = errno;
        since = lk_foreign_now();
        s = begin_file() ? ON : OFF;
        if (s == ON)
            count_making(since);
        atomic_store_explicit(&state, s, memory_order_release);
        errno = error;
    }
    return s == ON;
}

bool lk_foreign_begin(void)
{
    while (!lk_foreign_on() && atomic_load(&state) == OPENING)
        sched_yield();
    return lk_foreign_on();
}

/* ---- Names ---- */

/* FNV-1a. */
static uint32_t hash(const char *text, size_t n)
{
    uint32_t h = 2166136261U;

    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619U;
    return h;
}

/* Append a text; 0: there is no room. */
static uint32_t append(const char *text, size_t n)
{
    uint32_t at = atomic_load_explicit(&header->names_used, memory_order_relaxed);

    do {
        if (n + 1 > LK_FOREIGN_FILE_NAMES_BYTES - at)
            return 0;
    } while (!atomic_compare_exchange_weak(&header->names_used, &at, at + (uint32_t)n + 1));
    memcpy(names + at, text, n);
    return at;
}

/* Two threads that add a text at once may both append it; one of them wins the slot. */
uint32_t lk_foreign_name(const char *text)
{
    size_t n = text ? strnlen(text, LK_FOREIGN_NAME_BYTES - 1) : 0;
    uint32_t first, own = 0;

    if (!n || !lk_foreign_on())
        return 0;
    first = hash(text, n);
    for (uint32_t i = 0; i < SLOTS_TRIED; i++) {
        _Atomic uint32_t *slot = &slots[(first + i) % SLOTS];
        uint32_t at = atomic_load_explicit(slot, memory_order_acquire);

        if (!at) {
            own = own ? own : append(text, n);
            if (!own)
                break;
            if (atomic_compare_exchange_strong(slot, &at, own))
                return own;
        }
        if (!strncmp(names + at, text, n) && !names[at + n])
            return at;
    }
    atomic_fetch_add_explicit(&header->names_lost, 1, memory_order_relaxed);
    return 0;
}

/* ---- Groups ---- */

uint32_t lk_foreign_group(const char *library, uint64_t identity, const char *name, int ranks,
                          int rank)
{
    uint32_t of = lk_foreign_name(library), i, n;

    if (!lk_foreign_on())
        return 0;
    n = atomic_load_explicit(&n_groups, memory_order_acquire);
    for (i = 0; i < n && i < LK_FOREIGN_FILE_GROUPS; i++)
        if (atomic_load_explicit(&groups[i].ready, memory_order_acquire) &&
            groups[i].identity == identity && groups[i].library == of)
            return i + 1;
    i = n < LK_FOREIGN_FILE_GROUPS ? atomic_fetch_add(&n_groups, 1) : n;
    if (i >= LK_FOREIGN_FILE_GROUPS) {
        atomic_fetch_add_explicit(&header->groups_lost, 1, memory_order_relaxed);
        return 0;
    }
    groups[i].identity = identity;
    groups[i].library = of;
    groups[i].name = lk_foreign_name(name);
    groups[i].n_ranks = ranks;
    groups[i].rank = rank;
    atomic_store_explicit(&groups[i].ready, 1, memory_order_release);
    return i + 1;
}

/* ---- Records ---- */

/* Compare the clocks again, once in a while, by one of the threads. */
static void refresh_pairs(int64_t now)
{
    int64_t last = atomic_load_explicit(&paired_ns, memory_order_relaxed);

    if (now - last > PAIR_EVERY_NS &&
        atomic_compare_exchange_strong(&paired_ns, &last, INT64_MAX - PAIR_EVERY_NS))
        take_pair();
}

void lk_foreign_lose(void)
{
    if (lk_foreign_on())
        atomic_fetch_add_explicit(&header->lost, 1, memory_order_relaxed);
}

/* Append a record to the window; false: it is full. Each place is written once. */
static bool emit_in_window(const struct lk_foreign_record *r)
{
    uint64_t i = atomic_fetch_add_explicit(&header->window_head, 1, memory_order_relaxed);

    if (i >= header->n_window) {
        atomic_store_explicit(&window_takes, false, memory_order_relaxed);
        return false;
    }
    memcpy(&window[i], r, offsetof(struct lk_foreign_record, stamp));
    atomic_store_explicit(&window[i].stamp, i + 1, memory_order_release);
    return true;
}

static void emit_in_ring(const struct lk_foreign_record *r)
{
    struct lk_foreign_record *place;
    uint64_t i, old;

    i = atomic_fetch_add_explicit(&header->head, 1, memory_order_relaxed);
    place = &records[i & mask];
    old = atomic_load_explicit(&place->stamp, memory_order_relaxed);
    /* A thread that was not run while the others filled the ring leaves the place to them. */
    do {
        if (old == LK_FOREIGN_BUSY || old > i) {
            atomic_fetch_add_explicit(&header->lost, 1, memory_order_relaxed);
            return;
        }
    } while (!atomic_compare_exchange_weak_explicit(&place->stamp, &old, LK_FOREIGN_BUSY,
                                                    memory_order_acquire, memory_order_relaxed));
    atomic_thread_fence(memory_order_release);
    memcpy(place, r, offsetof(struct lk_foreign_record, stamp));
    atomic_store_explicit(&place->stamp, i + 1, memory_order_release);
}

void lk_foreign_emit(const struct lk_foreign_record *r)
{
    int64_t none = 0;

    if (!lk_foreign_on())
        return;
    if (r->kind == LK_FOREIGN_COLLECTIVE_CALL &&
        !atomic_load_explicit(&first_collective_ns, memory_order_relaxed))
        atomic_compare_exchange_strong(&first_collective_ns, &none, r->end_ns);
    if (!atomic_load_explicit(&window_takes, memory_order_acquire) || !emit_in_window(r))
        emit_in_ring(r);
    refresh_pairs(r->end_ns);
}

int64_t lk_foreign_first_collective(void)
{
    return atomic_load_explicit(&first_collective_ns, memory_order_relaxed);
}

/* ---- The window ---- */

/* Append the window to the file, which is opened anew: a descriptor that stays open would be the
 * program's to close. */
static bool append_window(int64_t start_ns)
{
    const uint64_t at = header->records_at + (mask + 1) * sizeof *records;
    struct stat there;
    int fd = open(file_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return false;
    if (fstat(fd, &there) == 0 && (uint64_t)there.st_size == at)
        window = reserve(fd, at, (mask + 1) * sizeof *records);
    close(fd);
    if (!window)
        return false;
    header->window_at = at;
    atomic_store_explicit(&header->window_start_ns, start_ns, memory_order_relaxed);
    atomic_store_explicit(&header->window_end_ns, LK_FOREIGN_NO_END, memory_order_relaxed);
    header->n_window = mask + 1;
    return true;
}

bool lk_foreign_window_open(int64_t start_ns)
{
    int64_t since;
    int s = NEW;

    if (!lk_foreign_begin())
        return false;
    if (atomic_compare_exchange_strong(&window_state, &s, OPENING)) {
        since = lk_foreign_now();
        s = append_window(start_ns) ? ON : OFF;
        count_making(since);
        lk_foreign_cupti(s == ON ? LK_FOREIGN_CUPTI_RECORDED : LK_FOREIGN_CUPTI_NO_ROOM, 0);
        atomic_store_explicit(&window_takes, s == ON, memory_order_release);
        atomic_store_explicit(&window_state, s, memory_order_release);
    }
    while ((s = atomic_load_explicit(&window_state, memory_order_acquire)) == OPENING)
        sched_yield();
    return s == ON;
}

bool lk_foreign_window_is_full(void)
{
    return atomic_load_explicit(&window_state, memory_order_acquire) == ON &&
           atomic_load_explicit(&header->window_head, memory_order_relaxed) > header->n_window;
}

static void end_window_at(int64_t ns)
{
    int64_t end = atomic_load_explicit(&header->window_end_ns, memory_order_relaxed);

    while (ns < end && !atomic_compare_exchange_weak(&header->window_end_ns, &end, ns))
        ;
}

void lk_foreign_window_emit(const struct lk_foreign_record *r)
{
    if (lk_foreign_on() && !emit_in_window(r))
        end_window_at(r->start_ns);
}

void lk_foreign_window_close(int64_t end_ns)
{
    if (atomic_load_explicit(&window_state, memory_order_acquire) != ON || !lk_foreign_on())
        return;
    atomic_store_explicit(&window_takes, false, memory_order_relaxed);
    end_window_at(end_ns);
}

void lk_foreign_window_drop(uint64_t n)
{
    if (atomic_load_explicit(&window_state, memory_order_acquire) == ON)
        atomic_fetch_add_explicit(&header->window_dropped, n, memory_order_relaxed);
}

void lk_foreign_cupti(enum lk_foreign_cupti what, uint32_t error)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != ON)
        return;
    atomic_store_explicit(&header->cupti_error, error, memory_order_relaxed);
    atomic_store_explicit(&header->cupti, (uint32_t)what, memory_order_relaxed);
}

/* ---- The cost ---- */

void lk_foreign_spent(int64_t ns)
{
    if (ns > 0 && atomic_load_explicit(&state, memory_order_acquire) == ON)
        atomic_fetch_add_explicit(&header->spent_ns, (uint64_t)ns, memory_order_relaxed);
}

int64_t lk_foreign_cost_begin(void)
{
    return n_calls++ % COST_EVERY == COST_FIRST ? lk_foreign_now() : 0;
}

void lk_foreign_cost_end(int64_t since)
{
    if (since)
        lk_foreign_spent(COST_EVERY * (lk_foreign_now() - since));
}
