#include "profiler/record/cupti_buffers.h"

#include "base/array.h"

#include <stdlib.h>

enum { BUFFERS = 64, BUFFERS_AHEAD = 8 };

enum lk_status lk_cupti_buffers_init(struct lk_cupti_buffers *b, const struct lk_cupti_config *c,
                                     bool refusable)
{
    *b = (struct lk_cupti_buffers){.bytes = c->buffer_bytes ? c->buffer_bytes
                                                            : (size_t)LK_CUPTI_BUFFER_BYTES,
                                   .n_first = c->buffer_bytes ? 0 : LK_CUPTI_FIRST_BUFFERS,
                                   .most = c->buffers ? c->buffers : (size_t)BUFFERS,
                                   .refusable = refusable};
    if (pthread_mutex_init(&b->lock, NULL))
        return lk_fail(LK_ENOMEM, "cannot make a mutex");
    b->ready = true;
    LK_PASS(lk_alloc(&b->free, b->most, sizeof *b->free));
    while (b->n_free < b->most && b->n_free < BUFFERS_AHEAD) {
        LK_PASS(lk_alloc(&b->free[b->n_free], b->bytes, 1));
        b->n_free++;
        b->n_made++;
    }
    return LK_OK;
}

void lk_cupti_buffers_fini(struct lk_cupti_buffers *b)
{
    while (b->n_free > 0)
        free(b->free[--b->n_free]);
    free(b->free);
    if (b->ready)
        pthread_mutex_destroy(&b->lock);
    b->ready = false;
}

uint8_t *lk_cupti_buffers_lend(struct lk_cupti_buffers *b, size_t *out_bytes)
{
    uint8_t *buffer = NULL;
    bool first;

    pthread_mutex_lock(&b->lock);
    if (b->n_free > 0)
        buffer = b->free[--b->n_free];
    else if ((b->n_made < b->most || !b->refusable) && lk_alloc(&buffer, b->bytes, 1) == LK_OK)
        b->n_made++;
    first = buffer && b->n_first > 0;
    b->n_first -= first;
    b->n_lent += buffer != NULL;
    pthread_mutex_unlock(&b->lock);
    *out_bytes = !buffer ? 0 : first ? LK_CUPTI_FIRST_BYTES : b->bytes;
    return buffer;
}

void lk_cupti_buffers_return(struct lk_cupti_buffers *b, uint8_t *buffer, size_t bytes)
{
    bool ours;

    pthread_mutex_lock(&b->lock);
    ours = b->n_lent > 0 && (bytes == b->bytes ||
                             (b->bytes == LK_CUPTI_BUFFER_BYTES && bytes == LK_CUPTI_FIRST_BYTES));
    b->n_lent -= ours;
    if (ours && b->n_made <= b->most) {
        b->free[b->n_free++] = buffer;
    } else {
        b->n_made -= ours;
        free(buffer);
    }
    pthread_mutex_unlock(&b->lock);
}

bool lk_cupti_buffers_idle(struct lk_cupti_buffers *b)
{
    bool idle;

    pthread_mutex_lock(&b->lock);
    idle = b->n_lent == 0;
    pthread_mutex_unlock(&b->lock);
    return idle;
}
