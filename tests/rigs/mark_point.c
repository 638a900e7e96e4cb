/*
 * libcheck notes where a test is at every assertion that holds, by a system call, to name the place
 * after a crash. In a loop these are the same few places again, millions in all suites: this
 * function, which the linker puts in its way (--wrap), lets a place through that is not among the
 * last ones. Assertions of a fake or a rig are no place of the test.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { RECENT = 16 };

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    static const char fakes[] = "tests/fakes/", rigs[] = "tests/rigs/";
    static _Atomic uint64_t recent[RECENT];
    static atomic_uint next;
    const uint64_t place = (uint64_t)(uintptr_t)file << 16 ^ (unsigned)line;

    for (int i = 0; i < RECENT; i++)
        if (atomic_load_explicit(&recent[i], memory_order_relaxed) == place)
            return;
    atomic_store_explicit(&recent[atomic_fetch_add(&next, 1) % RECENT], place,
                          memory_order_relaxed);
    if (strncmp(file, fakes, sizeof fakes - 1) != 0 && strncmp(file, rigs, sizeof rigs - 1) != 0)
        __real__mark_point(file, line);
}
