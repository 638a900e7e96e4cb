/*
 * The formats of other programs' files: one row each, told by content. A format that is not read
 * has the command that makes one that is.
 */
#ifndef LK_PROFILER_IMPORT_FORMAT_H
#define LK_PROFILER_IMPORT_FORMAT_H

#include "profiler/import/event.h"

#include <stdbool.h>
#include <stddef.h>

/* An import uses a file for one of these. */
enum lk_format_role {
    LK_FORMAT_REFUSED, /* for nothing here */
    LK_FORMAT_OWN,     /* it is lockstep's: the folder that it is in is a run directory */
    LK_FORMAT_TRACE,   /* it has times of a rank's events */
    LK_FORMAT_ORDER,   /* the order of a rank's collectives: compared beside a trace of the rank */
    LK_FORMAT_SIZES,   /* no times, but sizes of collectives, for a trace of the same rank */
    LK_FORMAT_POINTS   /* times of collectives alone: points of a cluster file */
};

struct lk_bench;
struct lk_inspector;
struct lk_format {
    const char *name;
    enum lk_format_role role;
    /* Read a rank's events; as lk_kineto_read. TRACE, ORDER, SIZES. */
    enum lk_status (*read)(const char *path, const char *step_range, struct lk_events *out);
    /* Append the points of all ranks' files; as lk_nccl_inspector_read. POINTS. */
    enum lk_status (*points)(const char *const *paths, size_t n, struct lk_bench *out,
                             struct lk_inspector *what);
    const char *instead; /* what to give instead, or do with it: where it has no `read` */
};

/* Find the format of a file; *out NULL: none of them. LK_EIO. */
enum lk_status lk_format_of(const char *path, const struct lk_format **out);
/* Fail with what the file looks like, and what to do. */
enum lk_status lk_format_refuse(const char *path, const struct lk_format *format);

#endif
