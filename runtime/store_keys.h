/* The keys and values that the store's server holds. Private to the store. */
#ifndef LK_RUNTIME_STORE_KEYS_H
#define LK_RUNTIME_STORE_KEYS_H

#include "base/status.h"

#include <stddef.h>

struct lk_store_entry {
    char *key; /* NULL: free */
    char *value;
    size_t bytes;
};

/* A hash table with linear probing. All zero: empty. */
struct lk_store_keys {
    struct lk_store_entry *entries;
    size_t n, cap; /* cap is a power of 2, or 0 */
    size_t values_bytes;
};
void lk_store_keys_fini(struct lk_store_keys *k);

/* The entry of a key, valid until the next put; NULL when there is none. */
const struct lk_store_entry *lk_store_keys_find(const struct lk_store_keys *k, const char *key);
/*
 * Adds a key with a copy of its value. LK_EUSAGE: it is there already. LK_ENOMEM: no memory, or
 * more than the store's 256 MiB of values.
 */
enum lk_status lk_store_keys_put(struct lk_store_keys *k, const char *key, const char *value,
                                 size_t bytes, const struct lk_store_entry **out);

#endif
