#include "tests/rigs/foreign_log.h"

#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void foreign_log_to(const char *folder, int mib)
{
    char text[16];

    snprintf(text, sizeof text, "%d", mib);
    ck_assert_int_eq(setenv("LOCKSTEP_PROFILE_DIR", folder, 1), 0);
    ck_assert_int_eq(setenv("LOCKSTEP_PROFILE_MIB", text, 1), 0);
}

static int by_stamp(const void *a, const void *b)
{
    uint64_t x = ((const struct lk_foreign_record *)a)->stamp,
             y = ((const struct lk_foreign_record *)b)->stamp;

    return x < y ? -1 : x > y;
}

static void take(struct foreign_log *l, uint64_t at, uint64_t n, uint64_t mark)
{
    const struct lk_foreign_record *place = (const void *)((const char *)l->map + at);

    for (uint64_t i = 0; i < n; i++)
        if (place[i].stamp && place[i].stamp != LK_FOREIGN_BUSY) {
            l->records[l->n] = place[i];
            l->records[l->n++].stamp |= mark;
        }
}

void foreign_log_read(struct foreign_log *l, const char *folder)
{
    char pattern[4096];
    struct stat st;
    glob_t found;
    int fd;

    snprintf(pattern, sizeof pattern, "%s/*" LK_FOREIGN_FILE_SUFFIX, folder);
    ck_assert_msg(glob(pattern, 0, NULL, &found) == 0, "no file %s", pattern);
    ck_assert_uint_eq(found.gl_pathc, 1);
    fd = open(found.gl_pathv[0], O_RDONLY);
    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    globfree(&found);
    memset(l, 0, sizeof *l);
    l->bytes = (size_t)st.st_size;
    l->map = mmap(NULL, l->bytes, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(l->map, MAP_FAILED);
    close(fd);
    l->header = l->map;
    ck_assert_int_eq(memcmp(l->header->magic, LK_FOREIGN_FILE_MAGIC, sizeof l->header->magic), 0);
    l->groups = (const void *)((const char *)l->map + l->header->groups_at);
    l->names = (const char *)l->map + l->header->names_at;
    l->records = calloc(l->header->n_records + l->header->n_window, sizeof *l->records);
    ck_assert_ptr_nonnull(l->records);
    take(l, l->header->records_at, l->header->n_records, 0);
    take(l, l->header->window_at, l->header->n_window, UINT64_C(1) << 63);
    qsort(l->records, l->n, sizeof *l->records, by_stamp);
}

void foreign_log_fini(struct foreign_log *l)
{
    munmap(l->map, l->bytes);
    free(l->records);
}

size_t foreign_log_count(const struct foreign_log *l, enum lk_foreign_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->records[i].kind == kind;
    return n;
}

const struct lk_foreign_record *foreign_log_at(const struct foreign_log *l,
                                               enum lk_foreign_kind kind, size_t i)
{
    for (size_t k = 0; k < l->n; k++)
        if (l->records[k].kind == kind && i-- == 0)
            return &l->records[k];
    ck_abort_msg("no such record of kind %d", kind);
    return NULL;
}

const struct lk_foreign_record *foreign_log_of(const struct foreign_log *l,
                                               enum lk_foreign_kind kind, uint64_t link)
{
    const struct lk_foreign_record *best = NULL;

    for (size_t i = 0; i < l->n; i++) {
        const struct lk_foreign_record *r = &l->records[i];

        if (r->kind == kind && r->link == link &&
            (!best || r->end_ns - r->start_ns > best->end_ns - best->start_ns))
            best = r;
    }
    return best;
}
