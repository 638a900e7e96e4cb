/*
 * Records the last accesses to bytes. The compiler calls a function of AddressSanitizer for every
 * access (--param asan-instrumentation-with-call-threshold=0); this file defines these functions,
 * which record the access and let AddressSanitizer check the bounds.
 *
 * Per two bytes it keeps the last write, and the reads since by up to two warps. Two are enough to
 * find every race of a write with an earlier read: of several readers, one is in another warp than
 * the writer or in the writer's own, and of each warp the lanes are kept as a mask.
 */
#include "shim_impl.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace
{

enum { GRAIN = 2, PAGE_CELLS = 256 };

struct readers {
    uint32_t launch, block, epoch, warp, warp_epoch, lanes;
};

struct cell {
    shim_actor writer; /* launch 0: none */
    bool atomic;
    readers read[2];
};

struct page {
    cell cells[PAGE_CELLS];
};

struct region {
    uintptr_t begin, end;
    std::string what;
    std::vector<std::unique_ptr<page>> pages; /* made at the first access */

    cell &at(uintptr_t p)
    {
        size_t i = (p - begin) / GRAIN;

        if (!pages[i / PAGE_CELLS])
            pages[i / PAGE_CELLS].reset(new page());
        return pages[i / PAGE_CELLS]->cells[i % PAGE_CELLS];
    }
};

/* Few and short-lived, so an unordered list with the last hit first; bounds lie beside each other,
 * since every access looks for its own. */
struct bounds {
    uintptr_t begin, end;
    region *of;
};
std::vector<bounds> regions;

region *region_of(uintptr_t p)
{
    for (bounds &b : regions)
        if (p - b.begin < b.end - b.begin) {
            std::swap(regions[0], b);
            return regions[0].of;
        }
    return nullptr;
}

/* Return true if the access of `then` is certainly complete before `now` acts. */
bool before(const shim_actor &then, const shim_actor &now)
{
    if (then.launch != now.launch || then.thread == now.thread)
        return then.launch != now.launch || then.block == now.block;
    if (then.block != now.block)
        return false;
    return then.epoch != now.epoch ||
           (then.thread / SHIM_WARP == now.thread / SHIM_WARP && then.warp_epoch != now.warp_epoch);
}

bool before(const readers &then, const shim_actor &now)
{
    uint32_t others = then.lanes;

    if (then.launch != now.launch)
        return true;
    if (then.block != now.block)
        return false;
    if (then.epoch != now.epoch)
        return true;
    if (then.warp != now.thread / SHIM_WARP)
        return false;
    others &= ~(1U << now.thread % SHIM_WARP);
    return then.warp_epoch != now.warp_epoch || others == 0;
}

bool same_time(const readers &r, const shim_actor &now)
{
    return r.launch == now.launch && r.block == now.block && r.epoch == now.epoch &&
           r.warp == now.thread / SHIM_WARP && r.warp_epoch == now.warp_epoch;
}

void note_read(cell &c, const shim_actor &now)
{
    readers fresh = {now.launch,     now.block,
                     now.epoch,      now.thread / SHIM_WARP,
                     now.warp_epoch, 1U << now.thread % SHIM_WARP};

    for (readers &r : c.read)
        if (same_time(r, now)) {
            r.lanes |= fresh.lanes;
            return;
        }
    for (readers &r : c.read)
        if (before(r, now) || (r.block == now.block && r.warp == fresh.warp)) {
            r = fresh;
            return;
        }
    c.read[1] = fresh;
}

const char *const verbs[] = {"reads", "writes", "adds atomically to"};

[[noreturn]] void report(const region &r, uintptr_t p, const shim_actor &now, shim_access how,
                         const char *did, uint32_t block, const char *who, uint32_t number)
{
    shim_found("race: thread %u of block %u %s byte %zu of %s, which %s %u of block %u %s with no "
               "barrier in between",
               now.thread, now.block, verbs[how], (size_t)(p - r.begin), r.what.c_str(), who,
               number, block, did);
}

void note(region &r, uintptr_t p, const shim_actor &now, shim_access how)
{
    cell &c = r.at(p);

    if (!before(c.writer, now) && !(how == SHIM_ATOMIC && c.atomic))
        report(r, p, now, how, "wrote", c.writer.block, "thread", c.writer.thread);
    if (how == SHIM_READ) {
        note_read(c, now);
        return;
    }
    for (const readers &reader : c.read)
        if (!before(reader, now))
            report(r, p, now, how, "read", reader.block, "warp", reader.warp);
    c.writer = now;
    c.atomic = how == SHIM_ATOMIC;
}

} // namespace

void shim_shadow_add(const void *p, size_t bytes, const char *what)
{
    uintptr_t begin = reinterpret_cast<uintptr_t>(p);
    region *r = new region{begin, begin + bytes, what, {}};

    r->pages.resize(bytes / GRAIN / PAGE_CELLS + 1);
    regions.push_back({begin, begin + bytes, r});
}

void shim_shadow_remove(const void *p)
{
    uintptr_t begin = reinterpret_cast<uintptr_t>(p);
    auto at = std::find_if(regions.begin(), regions.end(),
                           [&](const bounds &b) { return b.begin == begin; });

    if (at == regions.end())
        return;
    delete at->of;
    regions.erase(at);
}

void shim_shadow_access(uintptr_t p, size_t bytes, shim_access how)
{
    region *r = shim_now.launch ? region_of(p) : nullptr;

    for (uintptr_t at = p; r && at < p + bytes && at < r->end; at += GRAIN)
        note(*r, at, shim_now, how);
}

void shim_note_atomic(const void *p, size_t bytes)
{
    if (__asan_region_is_poisoned(const_cast<void *>(p), bytes))
        shim_found("atomic access out of bounds");
    shim_shadow_access(reinterpret_cast<uintptr_t>(p), bytes, SHIM_ATOMIC);
}
