/* The table of keys and values in the store's server. Private to the store. */
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

/* Return a key's entry, valid until the next put, or NULL. */
const struct lk_store_entry *lk_store_keys_find(const struct lk_store_keys *k, const char *key);
/* Add a key with a copy of its value. LK_EUSAGE: the key exists already. LK_ENOMEM: no memory, or
 * more than the store's limit of 256 MiB of values. */
enum lk_status lk_store_keys_put(struct lk_store_keys *k, const char *key, const char *value,
                                 size_t bytes, const struct lk_store_entry **out);
/*
 * Copy the text that lk_store_set_text put under the key. *out is NUL-terminated and freed by the
 * caller. LK_EPEER: the key or a part is missing.
 */
enum lk_status lk_store_keys_text(const struct lk_store_keys *k, const char *key, char **out,
                                  size_t *out_size);

#endif
