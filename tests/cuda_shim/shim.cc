/* Blocks, their threads as fibers, and waiting; see shim.h. */
#include "shim_impl.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

/* Stacks and shadows live as long as the process. Of freed buffers 16 MB are kept from use: the
 * default of 256 MB gives each case fresh pages. */
extern "C" const char *__asan_default_options(void)
{
    return "detect_leaks=0:exitcode=4:quarantine_size_mb=16";
}

uintptr_t shim_stack;
shim_actor shim_now;
shim_index threadIdx, blockIdx, blockDim, gridDim;

namespace
{

constexpr size_t PAGE = 4096;
enum { MOST_THREADS = 1024, MOST_BLOCKS = 65535 };
constexpr size_t SHARED_UNASKED = 48 << 10, SHARED_MOST = 227 << 10;

enum state { READY, AT_BARRIER, AT_WARP, EXITED };

/* Deposits of an operation's lanes. Reused when all of them have continued. */
struct gathered {
    unsigned char bytes[SHIM_WARP][SHIM_DEPOSIT];
    int users;
};

/* An asynchronous copy that its thread has not waited for. */
struct pending {
    char *to;
    const void *from;
    size_t bytes;
};
enum { COPY_BYTES = 16 };

struct fiber {
    void *resume[5]; /* of __builtin_setjmp */
    char *stack;
    void *fake_stack; /* AddressSanitizer's */
    bool started;
    enum state state;
    shim_index index;
    unsigned number;
    /* The place where it waits. */
    const char *file;
    int line;
    int flag;           /* AT_BARRIER */
    unsigned mask;      /* AT_WARP */
    bool orders_memory; /* AT_WARP: __syncwarp */
    unsigned char deposit[SHIM_DEPOSIT];
    gathered *got;
    std::vector<pending> copies;
};

struct array {
    void *p;
    size_t bytes;
};

struct {
    uint64_t random = 1;
    std::vector<fiber *> pool; /* by number; made at first use */
    unsigned n;                /* threads of the running block */
    fiber *running;
    void *scheduler[5], *scheduler_stack;
    const void *scheduler_bottom;
    size_t scheduler_bytes;
    void (*run)(void *);
    void *arg;
    uint32_t launch, block, epoch, warp_epochs[SHIM_WARP];
    int barrier_flag;
    std::map<std::pair<const char *, int>, array> arrays; /* by file (its literal) and line */
    array of_launch;
    std::map<const void *, size_t> allowed;
    std::vector<gathered *> gathers[SHIM_WARP];
    uint64_t clock_ns;
} shim;

/* ---- Switching ---- */

/* A function of its own, since a function may not both set and use jump buffers. */
[[noreturn]] __attribute__((noinline)) void jump(void **to)
{
    __builtin_longjmp(to, 1);
}

[[noreturn]] void back_to_scheduler()
{
    fiber *f = shim.running;

    __sanitizer_start_switch_fiber(&f->fake_stack, shim.scheduler_bottom, shim.scheduler_bytes);
    jump(shim.scheduler);
}

__attribute__((noinline)) void park()
{
    fiber *f = shim.running;

    if (__builtin_setjmp(f->resume) == 0)
        back_to_scheduler();
    __sanitizer_finish_switch_fiber(shim.running->fake_stack, nullptr, nullptr);
}

void let_go(fiber *f)
{
    if (f->got)
        f->got->users--;
    f->got = nullptr;
}

/* A fiber is one thread of each block in turn. */
[[noreturn]] void fiber_main()
{
    __sanitizer_finish_switch_fiber(nullptr, &shim.scheduler_bottom, &shim.scheduler_bytes);
    for (;;) {
        fiber *f = shim.running;

        shim.run(shim.arg);
        if (!f->copies.empty())
            shim_found("thread %u of block %u exits without a wait for its asynchronous copies",
                       f->number, shim.block);
        f->state = EXITED;
        let_go(f);
        park();
    }
}

/* Enter a fiber for the first time. ucontext is used for nothing else: its switches cost a system
 * call, and ASan loses track of the stack. */
__attribute__((noinline)) void enter(fiber *f)
{
    ucontext_t context;

    getcontext(&context);
    context.uc_stack.ss_sp = f->stack;
    context.uc_stack.ss_size = SHIM_STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, fiber_main, 0);
    f->started = true;
    setcontext(&context);
}

__attribute__((noinline)) void resume(fiber *f)
{
    shim.running = f;
    shim_stack = reinterpret_cast<uintptr_t>(f->stack);
    threadIdx = f->index;
    shim_now = {shim.launch, shim.block, shim.epoch, f->number,
                shim.warp_epochs[f->number / SHIM_WARP]};
    if (__builtin_setjmp(shim.scheduler) == 0) {
        __sanitizer_start_switch_fiber(&shim.scheduler_stack, f->stack, SHIM_STACK_BYTES);
        if (f->started)
            jump(f->resume);
        enter(f);
    }
    __sanitizer_finish_switch_fiber(shim.scheduler_stack, nullptr, nullptr);
    shim.running = nullptr;
    shim_now.launch = 0;
}

fiber *fiber_of(unsigned number)
{
    while (shim.pool.size() <= number) {
        fiber *f = new fiber();
        char *p = static_cast<char *>(mmap(nullptr, SHIM_STACK_BYTES + 2 * PAGE, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));

        if (p == MAP_FAILED || mprotect(p + PAGE, SHIM_STACK_BYTES, PROT_READ | PROT_WRITE)) {
            perror("shim: stack of a fiber");
            exit(1);
        }
        f->stack = p + PAGE;
        shim.pool.push_back(f);
    }
    return shim.pool[number];
}

/* ---- Waiting ---- */

const char *where(const fiber *f, char *text, size_t bytes)
{
    if (f->state == EXITED)
        snprintf(text, bytes, "has exited");
    else if (f->state == READY)
        snprintf(text, bytes, "runs on");
    else
        snprintf(text, bytes, "waits at %s:%d (%s)", f->file, f->line,
                 f->state == AT_BARRIER ? "__syncthreads" : "an operation of its warp");
    return text;
}

[[noreturn]] void report_divergence(const fiber *a, const fiber *b)
{
    char of_a[256], of_b[256];

    shim_found("divergence: thread %u of block %u %s, thread %u %s", a->number, shim.block,
               where(a, of_a, sizeof of_a), b->number, where(b, of_b, sizeof of_b));
}

bool same_place(const fiber *a, const fiber *b)
{
    return a->state == b->state && a->line == b->line && a->file == b->file;
}

/* Release a barrier when no thread can run: all have exited, or all are at one barrier;
 * anything else is a finding. */
void release_barrier()
{
    const fiber *first = nullptr;
    int flag = 0;

    for (unsigned i = 0; i < shim.n && !first; i++)
        if (shim.pool[i]->state != EXITED)
            first = shim.pool[i];
    if (!first)
        return;
    for (unsigned i = 0; i < shim.n; i++) {
        if (!same_place(first, shim.pool[i]))
            report_divergence(first, shim.pool[i]);
        flag |= shim.pool[i]->flag;
    }
    if (first->state != AT_BARRIER)
        report_divergence(first, first); /* same place, but different masks */
    shim.barrier_flag = flag;
    shim.epoch++;
    for (unsigned i = 0; i < shim.n; i++)
        shim.pool[i]->state = READY;
}

gathered *free_gathered(unsigned warp)
{
    for (gathered *g : shim.gathers[warp])
        if (g->users == 0)
            return g;
    shim.gathers[warp].push_back(new gathered());
    return shim.gathers[warp].back();
}

/* Let the lanes of f's operation continue if all of them have arrived. */
void try_warp(fiber *f)
{
    unsigned base = f->number / SHIM_WARP * SHIM_WARP, warp = f->number / SHIM_WARP;
    unsigned left = shim.n - base, lanes = left < SHIM_WARP ? left : (unsigned)SHIM_WARP;
    gathered *g;

    for (unsigned lane = 0; lane < SHIM_WARP; lane++) {
        const fiber *other = lane < lanes ? shim.pool[base + lane] : nullptr;

        if (!(f->mask >> lane & 1))
            continue;
        if (!other)
            shim_found("thread %u waits for lane %u at %s:%d, which its block does not have",
                       f->number, lane, f->file, f->line);
        if (other->state == EXITED)
            report_divergence(f, other);
        if (other->state != AT_WARP)
            return;
        if (other->mask != f->mask || other->line != f->line || other->file != f->file)
            return;
    }
    g = free_gathered(warp);
    for (unsigned lane = 0; lane < lanes; lane++) {
        fiber *other = shim.pool[base + lane];

        if (!(f->mask >> lane & 1))
            continue;
        memcpy(g->bytes[lane], other->deposit, SHIM_DEPOSIT);
        g->users++;
        other->got = g;
        other->state = READY;
    }
    if (f->orders_memory && f->mask == 0xffffffffU)
        shim.warp_epochs[warp]++;
}

const unsigned char *wait_for_warp(unsigned mask, const void *mine, size_t bytes, bool orders,
                                   const char *file, int line)
{
    fiber *f = shim.running;

    if (!(mask >> f->number % SHIM_WARP & 1))
        shim_found("thread %u is not in the mask %#x of %s:%d", f->number, mask, file, line);
    if (bytes > SHIM_DEPOSIT)
        shim_found("%zu bytes at %s:%d, more than a lane can hand in", bytes, file, line);
    let_go(f);
    f->state = AT_WARP;
    f->file = file;
    f->line = line;
    f->mask = mask;
    f->orders_memory = orders;
    memset(f->deposit, 0, sizeof f->deposit);
    if (bytes > 0)
        memcpy(f->deposit, mine, bytes);
    try_warp(f);
    park();
    return shim.running->got->bytes[0];
}

/* ---- Blocks ---- */

void fill_random(void *p, size_t bytes)
{
    unsigned char *at = static_cast<unsigned char *>(p);

    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = shim_random();

        memcpy(at + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

array make_array(size_t bytes, const char *what)
{
    array a = {malloc(bytes), bytes};

    if (!a.p) {
        perror("shim: shared memory");
        exit(1);
    }
    if (shim_only_counts())
        return a; /* nothing reads it */
    fill_random(a.p, bytes);
    shim_shadow_add(a.p, bytes, what);
    return a;
}

void free_array(array *a)
{
    if (!a->p)
        return;
    shim_shadow_remove(a->p);
    free(a->p);
    *a = {nullptr, 0};
}

void start_block(unsigned block)
{
    shim.block = block;
    shim.epoch = 0;
    memset(shim.warp_epochs, 0, sizeof shim.warp_epochs);
    blockIdx = {block % gridDim.x, block / gridDim.x % gridDim.y, block / gridDim.x / gridDim.y};
    for (unsigned i = 0; i < shim.n; i++) {
        fiber *f = fiber_of(i);

        f->state = READY;
        f->number = i;
        f->got = nullptr;
        f->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
    }
}

/* Run a block; the next thread is drawn from those that can run. */
void run_block(unsigned block, size_t shared_bytes)
{
    std::vector<fiber *> ready;

    start_block(block);
    if (shared_bytes > 0)
        shim.of_launch = make_array(shared_bytes, "the launch's shared memory");
    for (;;) {
        ready.clear();
        for (unsigned i = 0; i < shim.n; i++)
            if (shim.pool[i]->state == READY)
                ready.push_back(shim.pool[i]);
        if (ready.empty()) {
            release_barrier();
            for (unsigned i = 0; i < shim.n && ready.empty(); i++)
                if (shim.pool[i]->state == READY)
                    ready.push_back(shim.pool[i]);
            if (ready.empty())
                break;
            continue;
        }
        /* Run all ready ones in a random order; others may become ready meanwhile. */
        for (size_t left = ready.size(); left > 0; left--) {
            size_t at = shim_random() % left;
            fiber *f = ready[at];

            ready[at] = ready[left - 1];
            if (f->state == READY)
                resume(f);
        }
    }
    for (auto &entry : shim.arrays)
        free_array(&entry.second);
    shim.arrays.clear();
    free_array(&shim.of_launch);
}

bool launch_fits(const void *kernel, shim_index blocks, shim_index threads, size_t shared_bytes)
{
    auto allowed = shim.allowed.find(kernel);
    size_t most = allowed == shim.allowed.end() ? SHARED_UNASKED : allowed->second;

    if (most < SHARED_UNASKED)
        most = SHARED_UNASKED;
    return blocks.x > 0 && blocks.x <= INT32_MAX && blocks.y > 0 && blocks.y <= MOST_BLOCKS &&
           blocks.z > 0 && blocks.z <= MOST_BLOCKS && threads.x * threads.y * threads.z > 0 &&
           threads.x * threads.y * threads.z <= MOST_THREADS && shared_bytes <= most &&
           shared_bytes <= SHARED_MOST;
}

} // namespace

/* ---- For shadow.cc ---- */

void shim_found(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("shim: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    __sanitizer_print_stack_trace();
    fflush(nullptr);
    _exit(SHIM_EXIT_FOUND);
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t shim_random(void)
{
    uint64_t z = shim.random += 0x9e3779b97f4a7c15U;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

/* ---- For tests ---- */

void shim_seed(uint64_t seed)
{
    shim.random = seed;
}

void *shim_alloc(size_t bytes, const char *name)
{
    return make_array(bytes, name).p;
}

void shim_free(void *p)
{
    array a = {p, 0};

    free_array(&a);
}

uint64_t shim_launches(void)
{
    return shim.launch;
}

/* ---- For kernels ---- */

void shim_allow_shared(const void *kernel, size_t bytes)
{
    shim.allowed[kernel] = bytes;
}

bool shim_launch(const void *kernel, shim_index blocks, shim_index threads, size_t shared_bytes,
                 void (*run)(void *), void *arg)
{
    std::vector<unsigned> order;

    if (!launch_fits(kernel, blocks, threads, shared_bytes))
        return false;
    if (shim_is_counted(kernel))
        return true;
    shim.launch++;
    shim.n = threads.x * threads.y * threads.z;
    shim.run = run;
    shim.arg = arg;
    gridDim = blocks;
    blockDim = threads;
    for (unsigned i = 0; i < blocks.x * blocks.y * blocks.z; i++)
        order.push_back(i);
    while (!order.empty()) {
        size_t at = shim_random() % order.size();

        run_block(order[at], shared_bytes);
        order[at] = order.back();
        order.pop_back();
    }
    return true;
}

void *shim_shared(const char *file, int line, size_t bytes)
{
    array &a = shim.arrays[{file, line}];
    char what[256];

    if (!a.p) {
        snprintf(what, sizeof what, "the shared array of %s:%d", file, line);
        a = make_array(bytes, what);
    }
    return a.p;
}

void shim_copy_async(void *to, const void *from, size_t bytes, const char *file, int line)
{
    uintptr_t p = reinterpret_cast<uintptr_t>(to), q = reinterpret_cast<uintptr_t>(from);

    if (p % COPY_BYTES || q % COPY_BYTES)
        shim_found("an asynchronous copy at %s:%d is not aligned to %d bytes", file, line,
                   COPY_BYTES);
    shim_check_copies(p);
    if (__asan_region_is_poisoned(to, COPY_BYTES) ||
        (bytes > 0 && __asan_region_is_poisoned(const_cast<void *>(from), bytes)))
        shim_found("an asynchronous copy at %s:%d is out of bounds", file, line);
    /* The copy may write at once, or later. */
    shim_shadow_access(p, COPY_BYTES, SHIM_WRITE);
    __asan_poison_memory_region(to, COPY_BYTES);
    shim.running->copies.push_back({static_cast<char *>(to), from, bytes});
}

void shim_wait_for_copies(void)
{
    fiber *f = shim.running;

    for (const pending &copy : f->copies) {
        __asan_unpoison_memory_region(copy.to, COPY_BYTES);
        shim_shadow_access(reinterpret_cast<uintptr_t>(copy.from), copy.bytes, SHIM_READ);
        shim_shadow_access(reinterpret_cast<uintptr_t>(copy.to), COPY_BYTES, SHIM_WRITE);
        memset(copy.to, 0, COPY_BYTES);
        memcpy(copy.to, copy.from, copy.bytes);
    }
    f->copies.clear();
}

void shim_check_copies(uintptr_t p)
{
    for (unsigned i = 0; i < shim.n; i++)
        for (const pending &copy : shim.pool[i]->copies)
            if (p - reinterpret_cast<uintptr_t>(copy.to) < COPY_BYTES)
                shim_found(
                    "thread %u of block %u touches bytes that an asynchronous copy of thread "
                    "%u brings: no wait, or no barrier in between",
                    shim.running->number, shim.block, i);
}

void *shim_shared_of_launch(void)
{
    return shim.of_launch.p;
}

int shim_barrier(int flag, const char *file, int line)
{
    fiber *f = shim.running;

    let_go(f);
    f->state = AT_BARRIER;
    f->file = file;
    f->line = line;
    f->flag = flag;
    park();
    return shim.barrier_flag;
}

void shim_sync_warp(unsigned mask, const char *file, int line)
{
    wait_for_warp(mask, nullptr, 0, true, file, line);
}

const unsigned char *shim_exchange(unsigned mask, const void *mine, size_t bytes, const char *file,
                                   int line)
{
    return wait_for_warp(mask, mine, bytes, false, file, line);
}

unsigned shim_lane(void)
{
    return shim.running->number % SHIM_WARP;
}

uint64_t shim_timer_ns(void)
{
    return shim.clock_ns += 32;
}
