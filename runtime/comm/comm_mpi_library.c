/* MPI's library: found, and told apart by its objects; see runtime/comm/comm_mpi.h. */
#include "runtime/comm/comm_mpi.h"

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_library_symbol symbols[] = {
#define ROW(name, arguments) {"MPI_" #name, offsetof(struct lk_mpi_calls, name)},
    LK_MPI_CALL_LIST(ROW)
#undef ROW
};

/* Sonames of Open MPI 4 and 5, 2 and 3; of MPICH in Debian and elsewhere, Intel MPI and MVAPICH. A
 * file's objects tell which it is. The library of whoever started the ranks comes first: in another
 * one each rank would be alone. */
static const char *const open_first[] = {"libmpi.so.40", "libmpi.so.20", "libmpich.so.12",
                                         "libmpi.so.12", "libmpi.so",    NULL};
static const char *const mpich_first[] = {"libmpich.so.12", "libmpi.so.12", "libmpi.so.40",
                                          "libmpi.so.20",   "libmpi.so",    NULL};

/* Find the predefined handles: an object of Open MPI's tells that all of them are. */
static enum lk_status find_handles(struct lk_mpi_library *l)
{
    static const struct {
        const char *name;
        size_t offset;
        lk_mpi_handle value;
    } rows[] = {
#define ROW(member, name, value) {name, offsetof(struct lk_mpi_library, member), value},
        LK_MPI_HANDLE_LIST(ROW)
#undef ROW
    };
    void *world = NULL;

    lk_library_function(l->library, "ompi_mpi_comm_world", &world);
    l->in_place = world ? LK_OPEN_MPI_IN_PLACE : LK_MPICH_IN_PLACE;
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        lk_mpi_handle h = rows[i].value;

        if (world)
            lk_library_function(l->library, rows[i].name, &h);
        if (!h)
            return lk_fail(LK_EUNSUPPORTED, "MPI (%s) lacks %s", lk_library_path(l->library),
                           rows[i].name);
        memcpy((char *)l + rows[i].offset, &h, sizeof h);
    }
    return LK_OK;
}

static enum lk_status find_version(struct lk_mpi_library *l)
{
    char *text = NULL;
    int n = 0;

    LK_PASS(lk_alloc(&text, LK_MPI_VERSION_BYTES + 1, 1));
    if (l->call.Get_library_version(text, &n) == LK_MPI_SUCCESS)
        snprintf(l->version, sizeof l->version, "%.*s", (int)strcspn(text, ",\n"), text);
    for (char *p = l->version; (p = strchr(p, '\t'));)
        *p = ' ';
    free(text);
    return LK_OK;
}

enum lk_status lk_mpi_library_open(struct lk_mpi_library *out)
{
    const bool hydra = getenv("PMI_RANK") && !getenv("OMPI_COMM_WORLD_RANK");
    const struct lk_library_spec spec = {.name = "MPI",
                                         .files = hydra ? mpich_first : open_first,
                                         .symbols = symbols,
                                         .n_symbols = LK_COUNT(symbols),
                                         .stays = true};
    struct lk_mpi_library l = {.library = NULL};
    enum lk_status st = LK_OK;

    LK_TRY(lk_library_open(&spec, &l.call, &l.library));
    LK_TRY(find_handles(&l));
    LK_TRY(find_version(&l));
    *out = l;
    l.library = NULL;
out:
    lk_mpi_library_close(&l);
    return st;
}

void lk_mpi_library_close(struct lk_mpi_library *l)
{
    lk_library_close(l->library);
    l->library = NULL;
}
