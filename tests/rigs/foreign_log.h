/* The file that the preload library (preload/) leaves of this process, for tests. */
#ifndef LK_TESTS_RIGS_FOREIGN_LOG_H
#define LK_TESTS_RIGS_FOREIGN_LOG_H

#include "facts/foreign_file.h"

#include <stddef.h>

struct foreign_log {
    void *map;
    size_t bytes;
    const struct lk_foreign_header *header;
    const struct lk_foreign_group *groups;
    const char *names;
    struct lk_foreign_record *records; /* whole ones, by their order; a copy; the window's last */
    size_t n;
};

/* Let the library record into a folder, with so much room; before it is opened. */
void foreign_log_to(const char *folder, int mib);
/* Read the one file of the folder; the test fails if there is none. */
void foreign_log_read(struct foreign_log *l, const char *folder);
void foreign_log_fini(struct foreign_log *l);

/* Count the records of a kind. */
size_t foreign_log_count(const struct foreign_log *l, enum lk_foreign_kind kind);
/* Return the i-th record of a kind, from 0; the test fails if there is none. */
const struct lk_foreign_record *foreign_log_at(const struct foreign_log *l,
                                               enum lk_foreign_kind kind, size_t i);
/* Return the longest record of a kind with this link, or NULL. */
const struct lk_foreign_record *foreign_log_of(const struct foreign_log *l,
                                               enum lk_foreign_kind kind, uint64_t link);

#endif
