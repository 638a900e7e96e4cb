#include "preload/mpi_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(void *) >= sizeof(int), "a handle of either kind fits a pointer");

enum { PATH_BYTES = 4096 };

/* ---- Functions ---- */

/* ISO C has no conversion from an object's address, which dlsym returns. */
static lk_mpi_function as_function(void *symbol)
{
    lk_mpi_function f;

    memcpy(&f, &symbol, sizeof f);
    return f;
}

/* Copy the path of a loaded MPI library to *data. */
static int take_path(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash ? slash + 1 : info->dlpi_name;

    (void)size;
    if (strncmp(file, "libmpi.so", 9) && strncmp(file, "libmpich.so", 11))
        return 0;
    snprintf(data, PATH_BYTES, "%s", info->dlpi_name);
    return 1;
}

/* Return a symbol of MPI's own: of the program, or of a library that some other one alone loaded.
 * MPI_COMM_WORLD is where the program says, which may have a copy of it. */
static void *symbol_of(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    char path[PATH_BYTES] = "";
    void *library;

    if (found || !dl_iterate_phdr(take_path, path))
        return found;
    library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    if (library) {
        found = dlsym(library, name);
        dlclose(library); /* its other users keep it */
    }
    return found;
}

lk_mpi_function lk_mpi_find(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);
    char profiling[64];

    if (next)
        return as_function(next);
    snprintf(profiling, sizeof profiling, "P%s", name);
    return as_function(symbol_of(profiling));
}

/* ---- The library ---- */

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"PMPI_Comm_rank", offsetof(struct lk_mpi, comm_rank)},
    {"PMPI_Comm_size", offsetof(struct lk_mpi, comm_size)},
    {"PMPI_Comm_test_inter", offsetof(struct lk_mpi, comm_test_inter)},
    {"PMPI_Comm_group", offsetof(struct lk_mpi, comm_group)},
    {"PMPI_Group_free", offsetof(struct lk_mpi, group_free)},
    {"PMPI_Group_translate_ranks", offsetof(struct lk_mpi, group_translate_ranks)},
    {"PMPI_Type_size", offsetof(struct lk_mpi, type_size)},
    {"PMPI_Type_get_name", offsetof(struct lk_mpi, type_get_name)},
};

static struct lk_mpi mpi;
static bool known;

/* Return whether a function is of MPI 5's standard ABI, whose handles are pointers. */
static bool is_standard_abi(int (*function)(char *, int *))
{
    Dl_info info;
    void *symbol;

    memcpy(&symbol, &function, sizeof symbol);
    return dladdr(symbol, &info) && info.dli_fname && strstr(info.dli_fname, "libmpi_abi");
}

/* Return whether the library has the ABI of MPICH, by what it says of itself. */
static bool is_mpich(void)
{
    static const char *const texts[] = {"MPICH", "Intel(R) MPI", "MVAPICH"};
    int (*get)(char *, int *) =
        (int (*)(char *, int *))as_function(symbol_of("PMPI_Get_library_version"));
    char text[LK_MPI_VERSION_BYTES] = "";
    int n = 0;

    if (!get || is_standard_abi(get) || get(text, &n) != LK_MPI_SUCCESS)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strstr(text, texts[i]))
            return true;
    return false;
}

static void find_library(void)
{
    void *world = symbol_of("ompi_mpi_comm_world");

    if (!world && !is_mpich())
        return;
    mpi.integers = !world;
    mpi.world = world ? (lk_mpi_handle)world : LK_MPICH_COMM_WORLD;
    mpi.in_place = world ? LK_OPEN_MPI_IN_PLACE : LK_MPICH_IN_PLACE;
    known = true;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = symbol_of(functions[i].name);

        memcpy((char *)&mpi + functions[i].offset, &found, sizeof found);
        known = known && found;
    }
}

static void open_library(void)
{
    int error = errno;

    find_library();
    errno = error;
}

const struct lk_mpi *lk_mpi_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_library);
    return known ? &mpi : NULL;
}

lk_mpi_handle lk_mpi_key(const struct lk_mpi *m, lk_mpi_handle h)
{
    return m->integers ? (uint32_t)h : h;
}

lk_mpi_handle lk_mpi_handle_at(const struct lk_mpi *m, const void *handles, int i)
{
    lk_mpi_handle h;
    uint32_t n;

    if (m->integers) {
        memcpy(&n, (const char *)handles + (size_t)i * sizeof n, sizeof n);
        return n;
    }
    memcpy(&h, (const char *)handles + (size_t)i * sizeof h, sizeof h);
    return h;
}
