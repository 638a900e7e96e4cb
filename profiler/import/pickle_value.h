/*
 * The values of a pickle of plain data: numbers, texts, lists, tuples and dicts. They lie in arrays
 * and refer to each other by index. A value may be in several containers, even in itself, so the
 * number of visits is bounded: the functions below return NULL once a reader has visited far more
 * values, and bytes of texts, than there are. Nothing here recurses.
 *
 *     entries = lk_pickle_member(p, lk_pickle_root(p), "entries");
 *     for (uint32_t i = 0; (entry = lk_pickle_item(p, entries, i)) != NULL; i++)
 *         ...
 */
#ifndef LK_PROFILER_IMPORT_PICKLE_VALUE_H
#define LK_PROFILER_IMPORT_PICKLE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lk_pickle_type {
    LK_PICKLE_NONE, /* also an integer of more than 64 bits */
    LK_PICKLE_BOOL,
    LK_PICKLE_INTEGER,
    LK_PICKLE_NUMBER,
    LK_PICKLE_TEXT, /* also bytes; in whatever encoding */
    LK_PICKLE_LIST, /* also tuples */
    LK_PICKLE_DICT
};

struct lk_pickle_value {
    uint8_t type;
    uint32_t n; /* bytes of a text, items of a list, members of a dict */
    union {
        int64_t integer; /* of a bool 0 or 1 */
        double number;
        struct {
            uint32_t first, room; /* where its bytes or items lie, and for how many there is room */
        };
    };
};

struct lk_pickle {
    struct lk_pickle_value *values;
    size_t n_values, values_capacity;
    uint32_t *items; /* indices of values; of a dict, key and value in turn */
    size_t n_items, items_capacity;
    char *texts; /* each with a NUL */
    size_t texts_bytes, texts_capacity;
    uint32_t root;
    bool cut;             /* the file ended too early; what was open is closed */
    uint64_t visits_left; /* 0: a reader visited too many */
};

void lk_pickle_fini(struct lk_pickle *p); /* zeroes it; safe on a zeroed one */

/* Return the outermost value. */
const struct lk_pickle_value *lk_pickle_root(const struct lk_pickle *p);
/* Return item i of a list, or NULL: v is NULL or no list, has no such item, or no visit is left. */
const struct lk_pickle_value *lk_pickle_item(struct lk_pickle *p, const struct lk_pickle_value *v,
                                             uint32_t i);
/* Return the value of member i of a dict, and its key, or NULL as lk_pickle_item does. */
const struct lk_pickle_value *lk_pickle_pair(struct lk_pickle *p, const struct lk_pickle_value *v,
                                             uint32_t i, const struct lk_pickle_value **key);
/* Return the value of a key, or NULL; of several the last one. */
const struct lk_pickle_value *lk_pickle_member(struct lk_pickle *p, const struct lk_pickle_value *v,
                                               const char *key);
/* Return the bytes of a text, v->n and a NUL, or NULL: v is NULL or no text, or no visit is left.
 */
const char *lk_pickle_text(struct lk_pickle *p, const struct lk_pickle_value *v);

#endif
