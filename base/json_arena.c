/* The arena of a JSON document. */
#include "base/json_node.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

/* A chunk holds at least this much, so that small documents take one allocation. */
enum { CHUNK_BYTES = 16 * 1024 };

struct lk_arena_chunk {
    struct lk_arena_chunk *next;
    size_t size;
    max_align_t data[];
};

void *lk_arena_take(struct lk_arena *a, size_t size)
{
    size_t align = alignof(max_align_t);
    struct lk_arena_chunk *c = a->chunks;
    void *p;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    if (!c || c->size - a->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

        c = malloc(sizeof *c + room);
        if (!c)
            return NULL;
        c->size = room;
        c->next = a->chunks;
        a->chunks = c;
        a->used = 0;
    }
    p = (char *)c->data + a->used;
    a->used += size;
    return p;
}

void lk_arena_reset(struct lk_arena *a)
{
    struct lk_arena_chunk *keep = a->chunks;

    if (!keep)
        return;
    while (keep->next) {
        struct lk_arena_chunk *c = keep->next;

        keep->next = c->next;
        free(c);
    }
    a->used = 0;
}

void lk_arena_fini(struct lk_arena *a)
{
    lk_arena_reset(a);
    free(a->chunks);
    *a = (struct lk_arena){0};
}
