/* A sink that keeps all spans, by track. One a process. */
#ifndef LK_TESTS_KEPT_SPANS_H
#define LK_TESTS_KEPT_SPANS_H

#include "facts/span.h"

#include <stddef.h>

enum { KEPT_TRACKS = 80, KEPT_NAMES = 2000, KEPT_FACTS = 8 };

struct kept_track {
    char name[64];
    enum lk_track_kind kind;
    int stream;
    struct lk_span *spans;
    size_t n, capacity;
};

struct kept_spans {
    struct kept_track tracks[KEPT_TRACKS];
    size_t n_tracks;
    char names[KEPT_NAMES][100]; /* by id */
    size_t n_names;              /* the last id */
    struct {
        char key[40], value[300];
    } facts[KEPT_FACTS];
    size_t n_facts;
};
extern struct kept_spans kept;
extern const struct lk_sink_ops kept_ops; /* attach it with &kept */

void kept_reset(void);
/* Return the track of that name; it must exist. */
const struct kept_track *kept_track(const char *name);

#endif
