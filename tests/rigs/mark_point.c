/*
 * libcheck notes where a test is at every assertion that holds, by a system call, to name the place
 * after a crash. In a loop it is the same place again: this one, which the linker puts in its way
 * (--wrap), lets a place through once in a row. A fake's assertions, some hundred thousand in a
 * suite, are no place of the test.
 */
#include <check.h>
#include <stdatomic.h>
#include <string.h>

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    static const char fakes[] = "tests/fakes/";
    static _Atomic(const char *) last_file;
    static atomic_int last_line;

    if (!strncmp(file, fakes, sizeof fakes - 1))
        return;
    if (atomic_exchange_explicit(&last_line, line, memory_order_relaxed) == line &&
        atomic_load_explicit(&last_file, memory_order_relaxed) == file)
        return;
    atomic_store_explicit(&last_file, file, memory_order_relaxed);
    __real__mark_point(file, line);
}
