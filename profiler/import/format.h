/*
 * The formats of other programs' files: one row each, told by content. A format that is not read
 * has the command that makes one that is.
 */
#ifndef LK_PROFILER_IMPORT_FORMAT_H
#define LK_PROFILER_IMPORT_FORMAT_H

#include "profiler/import/event.h"

#include <stdbool.h>
#include <stddef.h>

/* The start of a file, gunzipped. */
struct lk_head {
    const char *path;
    unsigned char bytes[1 << 16];
    size_t n;
};

struct lk_format {
    const char *name;
    bool (*is)(const struct lk_head *head);
    /* Read a rank's events; as lk_kineto_read. NULL: not read here. */
    enum lk_status (*read)(const char *path, const char *step_range, struct lk_events *out);
    bool own;   /* it is lockstep's: the folder that it is in is a run directory */
    bool sizes; /* it has no times, but the sizes of collectives, for a trace of the same rank */
    bool
        order; /* it has the order of collectives: beside a trace of the rank it is only compared */
    bool collectives;    /* it has times of collectives alone: points of a cluster file */
    const char *instead; /* why a format is not read, or what to do with it; NULL: it is read */
};

/* Find the format of a file; *out NULL: none of them. LK_EIO. */
enum lk_status lk_format_of(const char *path, const struct lk_format **out);
/* Fail with what the file looks like, and what to do. */
enum lk_status lk_format_refuse(const char *path, const struct lk_format *format);

#endif
