/* The file that the preload library (preload/) leaves of this process, for tests. */
#ifndef LK_TESTS_RIGS_PROBE_LOG_H
#define LK_TESTS_RIGS_PROBE_LOG_H

#include "facts/probe_file.h"

#include <stddef.h>

struct probe_log {
    void *map;
    size_t bytes;
    const struct lk_probe_header *header;
    const struct lk_probe_group *groups;
    const char *names;
    struct lk_probe_record *records; /* whole ones, by their order; a copy; the window's last */
    size_t n;
};

/* Let the library record into a folder, with so much room; before it is opened. */
void probe_log_to(const char *folder, int mib);
/* Read the one file of the folder; the test fails if there is none. */
void probe_log_read(struct probe_log *l, const char *folder);
void probe_log_fini(struct probe_log *l);

/* Count the records of a kind. */
size_t probe_log_count(const struct probe_log *l, enum lk_probe_kind kind);
/* Return the i-th record of a kind, from 0; the test fails if there is none. */
const struct lk_probe_record *probe_log_at(const struct probe_log *l, enum lk_probe_kind kind,
                                           size_t i);
/* Return the longest record of a kind with this link, or NULL. */
const struct lk_probe_record *probe_log_of(const struct probe_log *l, enum lk_probe_kind kind,
                                           uint64_t link);

#endif
