/* The hash table of keys and values; see the header. */
#include "runtime/rendezvous/store_keys.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/units.h"
#include "runtime/rendezvous/store_wire.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAP_FIRST = 64 };
static const size_t values_max_bytes = (size_t)256 << 20;

void lk_store_keys_fini(struct lk_store_keys *k)
{
    for (size_t i = 0; i < k->cap; i++) {
        free(k->entries[i].key);
        free(k->entries[i].value);
    }
    free(k->entries);
    *k = (struct lk_store_keys){0};
}

/* Return the key's entry, or the free one where it belongs. pre: an entry is free. */
static struct lk_store_entry *slot(struct lk_store_entry *entries, size_t cap, const char *key)
{
    for (size_t i = (size_t)lk_rng_stream(key, 0) & (cap - 1);; i = (i + 1) & (cap - 1))
        if (!entries[i].key || !strcmp(entries[i].key, key))
            return &entries[i];
}

static enum lk_status grow(struct lk_store_keys *k)
{
    size_t cap = k->cap ? 2 * k->cap : CAP_FIRST;
    struct lk_store_entry *bigger = NULL;
    enum lk_status st = lk_alloc(&bigger, cap, sizeof *bigger);

    if (st != LK_OK)
        return st;
    for (size_t i = 0; i < k->cap; i++)
        if (k->entries[i].key)
            *slot(bigger, cap, k->entries[i].key) = k->entries[i];
    free(k->entries);
    k->entries = bigger;
    k->cap = cap;
    return LK_OK;
}

const struct lk_store_entry *lk_store_keys_find(const struct lk_store_keys *k, const char *key)
{
    const struct lk_store_entry *e = k->cap ? slot(k->entries, k->cap, key) : NULL;

    return e && e->key ? e : NULL;
}

enum lk_status lk_store_keys_put(struct lk_store_keys *k, const char *key, const char *value,
                                 size_t bytes, const struct lk_store_entry **out)
{
    enum lk_status st = LK_OK;
    struct lk_store_entry *e, fresh = {.bytes = bytes};

    if (lk_store_keys_find(k, key))
        return lk_fail(LK_EUSAGE, "key '%s' is set already", key);
    if (k->values_bytes + bytes > values_max_bytes)
        return lk_fail(LK_ENOMEM, "the store is full");
    if (2 * k->n >= k->cap)
        LK_TRY(grow(k));
    LK_TRY(lk_strdup(&fresh.key, key));
    LK_TRY(lk_alloc(&fresh.value, bytes, 1));
    if (bytes)
        memcpy(fresh.value, value, bytes);
    e = slot(k->entries, k->cap, key);
    *e = fresh;
    fresh.key = NULL;
    k->n++;
    k->values_bytes += bytes;
    *out = e;
out:
    free(fresh.key);
    return st;
}

enum lk_status lk_store_keys_text(const struct lk_store_keys *k, const char *key, char **out,
                                  size_t *out_size)
{
    const struct lk_store_entry *e = lk_store_keys_find(k, key);
    char number[32] = "", part[LK_STORE_KEY_MAX + 1];
    enum lk_status st = LK_OK;
    char *text = NULL;
    int64_t size = 0;
    size_t at = 0;

    if (e)
        snprintf(number, sizeof number, "%.*s", (int)e->bytes, e->value);
    if (lk_parse_int64(number, 0, (int64_t)k->values_bytes, &size) != LK_OK)
        return lk_fail(LK_EPEER, "no rank set '%s'", key);
    LK_TRY(lk_alloc(&text, (size_t)size + 1, 1));
    for (size_t i = 0; at < (size_t)size; i++, at += e->bytes) {
        snprintf(part, sizeof part, LK_STORE_PART, key, i);
        e = lk_store_keys_find(k, part);
        if (!e || !e->bytes || e->bytes > (size_t)size - at) {
            st = lk_fail(LK_EPEER, "'%s': %zu of %lld bytes are in the store", key, at,
                         (long long)size);
            goto out;
        }
        memcpy(text + at, e->value, e->bytes);
    }
    text[size] = '\0';
    *out = text;
    *out_size = (size_t)size;
    text = NULL;
out:
    free(text);
    return st;
}
