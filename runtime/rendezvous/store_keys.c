/*
 * The keys and values in the store's server, and texts of several parts: a tree of tsearch(3), with
 * a limit on the bytes of all values.
 */
#include "runtime/rendezvous/store_server_impl.h"

#include "base/array.h"
#include "base/units.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t values_max_bytes = (size_t)256 << 20;

static int by_key(const void *a, const void *b)
{
    const struct lk_store_entry *x = a, *y = b;

    return strcmp(x->key, y->key);
}

void lk_store_keys_fini(struct lk_store_keys *k)
{
    tdestroy(k->root, free);
    *k = (struct lk_store_keys){0};
}

const struct lk_store_entry *lk_store_keys_find(const struct lk_store_keys *k, const char *key)
{
    const struct lk_store_entry wanted = {.key = key};
    void *node = tfind(&wanted, &k->root, by_key);

    return node ? *(struct lk_store_entry **)node : NULL;
}

enum lk_status lk_store_keys_put(struct lk_store_keys *k, const char *key, const char *value,
                                 size_t bytes, const struct lk_store_entry **out)
{
    size_t name = strlen(key) + 1;
    struct lk_store_entry *e = NULL;

    if (lk_store_keys_find(k, key))
        return lk_fail(LK_EUSAGE, "key '%s' is set already", key);
    if (k->values_bytes + bytes > values_max_bytes)
        return lk_fail(LK_ENOMEM, "the store is full");
    LK_PASS(lk_alloc(&e, 1, sizeof *e + bytes + name));
    e->key = memcpy(e->value + bytes, key, name);
    e->bytes = bytes;
    if (bytes)
        memcpy(e->value, value, bytes);
    if (!tsearch(e, &k->root, by_key)) {
        free(e);
        return lk_fail(LK_ENOMEM, "the store is full");
    }
    k->values_bytes += bytes;
    *out = e;
    return LK_OK;
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
        if (!e || !e->bytes || e->bytes > (size_t)size - at)
            LK_TRY(lk_fail(LK_EPEER, "'%s': %zu of %lld bytes are in the store", key, at,
                           (long long)size));
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
