/* Memory of the fake machine. */
#include "tests/fakes/fake_machine_cuda.h"

#include "base/clock.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GARBAGE = 0xa5, GARBAGE_MAX = 8 << 20 };

struct fake_memory *fake_memory_of(const void *p, size_t bytes)
{
    const char *at = p;

    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++) {
        struct fake_memory *m = &fake_cuda.memory[i];

        if (m->at && at >= m->at && bytes <= m->bytes && at <= m->at + (m->bytes - bytes))
            return m;
    }
    return NULL;
}

static void set_open(struct fake_memory *m, bool open)
{
    if (!m->at || m->host || m->open == open)
        return;
    m->open = open;
    if (mprotect(m->at, m->mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE))
        ck_abort_msg("mprotect: %s", strerror(errno));
}

static void set_all_open(bool open)
{
    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++)
        set_open(&fake_cuda.memory[i], open);
}

/* Make memory inaccessible that nothing uses. */
static void shut(void)
{
    if (fake_cuda.open == 0 && !fake_cuda.stepping)
        set_all_open(false);
}

void fake_work_begin(void)
{
    fake_lock();
    fake_cuda.open++;
}

void fake_cuda_open(void)
{
    fake_work_begin();
    set_all_open(true);
}

void fake_cuda_close(void)
{
    fake_cuda.open--;
    shut();
    fake_unlock();
}

void fake_step_begin(void)
{
    fake_lock();
    fake_cuda.stepping = true;
}

void fake_step_end(void)
{
    fake_cuda.stepping = false;
    shut();
    fake_unlock();
}

void fake_run_host(cudaHostFn_t fn, void *arg)
{
    bool stepping = fake_cuda.stepping;

    fake_cuda.stepping = false;
    shut();
    fn(arg);
    fake_cuda.stepping = stepping;
}

bool fake_cuda_is_host(const void *p)
{
    const struct fake_memory *m = fake_memory_of(p, 1);

    return m && m->host;
}

/* No assertion where none fails: libcheck notes each by a system call. */
static void check(const void *p, size_t bytes, bool host_too)
{
    struct fake_memory *m = fake_memory_of(p, bytes);

    if (!m || (m->host && !host_too))
        ck_abort_msg("%zu bytes at %p are not %s memory", bytes, p,
                     host_too ? "the machine's" : "device");
    set_open(m, m->open || fake_cuda.open > 0);
}

void fake_cuda_check_device(const void *p, size_t bytes)
{
    check(p, bytes, false);
}

void fake_check_any(const void *p, size_t bytes)
{
    check(p, bytes, true);
}

void fake_cuda_peek(void *to, const void *from, size_t bytes)
{
    fake_work_begin();
    fake_cuda_check_device(from, bytes);
    memcpy(to, from, bytes);
    fake_cuda_close();
}

/* A file of garbage, as long as any memory needed so far. */
static int garbage(size_t bytes)
{
    static int fd = -1;
    static size_t filled;
    char block[4096];

    memset(block, GARBAGE, sizeof block);
    if (fd < 0)
        fd = memfd_create("garbage", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    for (; filled < bytes; filled += sizeof block)
        ck_assert_int_eq(pwrite(fd, block, sizeof block, (off_t)filled), sizeof block);
    return fd;
}

/* Fill mapped memory with garbage, so that uninitialised reads show. Its pages are those of one
 * file until they are written: most of a workspace never is. */
static void spoil(char *at, size_t mapped)
{
    for (size_t i = 0; i < mapped; i += GARBAGE_MAX) {
        size_t n = mapped - i < GARBAGE_MAX ? mapped - i : GARBAGE_MAX;
        void *p = mmap(at + i, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, garbage(n), 0);

        ck_assert(p == at + i);
    }
}

static cudaError_t map(void **p, size_t bytes, bool host)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t mapped = (bytes + page - 1) / page * page;
    struct fake_memory *m = fake_cuda.memory;

    while (m < fake_cuda.memory + FAKE_ALLOCATIONS_MAX && m->at)
        m++;
    ck_assert(m < fake_cuda.memory + FAKE_ALLOCATIONS_MAX);
    m->at = mmap(NULL, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(m->at != MAP_FAILED);
    if (!fake_cuda.idle)
        spoil(m->at, mapped);
    ck_assert_int_eq(mprotect(m->at + mapped, page, PROT_NONE), 0);
    m->bytes = bytes;
    m->mapped = mapped;
    m->host = host;
    m->open = true;
    set_open(m, fake_cuda.open > 0);
    *p = m->at;
    fake_cuda.allocated++;
    return cudaSuccess;
}

/* Unmap memory; pending work on it will crash. */
static cudaError_t unmap(void *p, bool host)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    fake_lock();
    for (size_t i = 0; i < FAKE_ALLOCATIONS_MAX; i++) {
        struct fake_memory *m = &fake_cuda.memory[i];

        if (m->at != p)
            continue;
        ck_assert_int_eq(m->host, host);
        ck_assert_int_eq(munmap(m->at, m->mapped + page), 0);
        *m = (struct fake_memory){0};
        fake_cuda.allocated--;
        fake_unlock();
        return cudaSuccess;
    }
    ck_abort_msg("%p was not allocated", p);
    return cudaErrorInvalidValue;
}

cudaError_t fake_cudaMalloc(void **p, size_t bytes)
{
    cudaError_t e;

    FAKE_CALLED();
    FAKE_UNSAFE();
    fake_lock();
    e = map(p, bytes, false);
    fake_unlock();
    return e;
}

cudaError_t fake_cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    cudaError_t e;

    FAKE_CALLED();
    FAKE_UNSAFE();
    ck_assert_uint_eq(flags, cudaHostAllocDefault);
    fake_lock();
    e = map(p, bytes, true);
    fake_unlock();
    return e;
}

cudaError_t fake_cudaFree(void *p)
{
    FAKE_UNSAFE();
    fake_waits(NULL);
    return unmap(p, false);
}

cudaError_t fake_cudaFreeHost(void *p)
{
    FAKE_UNSAFE();
    fake_waits(NULL);
    return unmap(p, true);
}

cudaError_t fake_cudaMemset(void *p, int value, size_t bytes)
{
    struct fake_work w = {.kind = WORK_SET, .to = p, .value = value, .bytes = bytes};

    FAKE_CALLED();
    FAKE_UNSAFE();
    fake_work_begin();
    fake_cuda_check_device(p, bytes);
    if (!fake_cuda.idle)
        memset(p, value, bytes);
    if (fake_cuda.called && fake_cuda.ran) {
        uint64_t now_ns = lk_now_ns();

        w.call = fake_cuda.called(&w);
        fake_cuda.ran(&w, NULL, now_ns, now_ns + 1);
    }
    fake_cuda_close();
    return cudaSuccess;
}

cudaError_t fake_cuda_set_on(cudaStream_t s, void *p, int value, size_t bytes)
{
    FAKE_CALLED();
    fake_cuda_check_device(p, bytes);
    return fake_enqueue(
        s, (struct fake_work){.kind = WORK_SET, .to = p, .value = value, .bytes = bytes});
}

cudaError_t fake_cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t s)
{
    FAKE_CALLED();
    ck_assert_int_eq(kind, cudaMemcpyDefault);
    fake_lock();
    ck_assert_msg(fake_memory_of(to, bytes) && fake_memory_of(from, bytes),
                  "a copy of %zu bytes from %p to %p names ordinary memory", bytes, from, to);
    fake_unlock();
    return fake_enqueue(
        s, (struct fake_work){.kind = WORK_COPY, .to = to, .from = from, .bytes = bytes});
}

cudaError_t fake_cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    const struct fake_memory *m;

    FAKE_CALLED();
    fake_lock();
    m = fake_memory_of(p, 1);
    *a = (struct cudaPointerAttributes){.type = !m        ? cudaMemoryTypeUnregistered
                                                : m->host ? cudaMemoryTypeHost
                                                          : cudaMemoryTypeDevice};
    fake_unlock();
    return cudaSuccess;
}
