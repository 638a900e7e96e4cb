/* Compare what all ranks must have alike; see the header. */
#include "runtime/rendezvous/agree.h"

#include "base/array.h"
#include "base/hash.h"
#include "runtime/rendezvous/rank_names.h"
#include "runtime/rendezvous/store_wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VALUE_SHOWN = 100 };

static const char ABSENT[] = "not there";

void lk_facts_fini(struct lk_facts *f)
{
    free(f->text);
    *f = (struct lk_facts){0};
}

/* Append a text with its NUL. */
static enum lk_status put(struct lk_facts *f, const char *text)
{
    size_t bytes = strlen(text) + 1;

    LK_PASS(lk_array_grow(&f->text, &f->cap, f->n + bytes, 1));
    memcpy(f->text + f->n, text, bytes);
    f->n += bytes;
    return LK_OK;
}

enum lk_status lk_facts_add(struct lk_facts *f, const char *name, const char *fmt, ...)
{
    enum lk_status st = LK_OK;
    size_t n = f->n;
    char *value = NULL;
    va_list ap;

    va_start(ap, fmt);
    st = lk_vasprintf(&value, fmt, ap);
    va_end(ap);
    LK_TRY(st);
    LK_TRY(put(f, name));
    LK_TRY(put(f, value));
out:
    if (st != LK_OK)
        f->n = n;
    free(value);
    return st;
}

/* ---- The comparison ---- */

/* Move behind the text at *at. Return it, or NULL at the end. */
static const char *next(const struct lk_facts *f, size_t *at)
{
    const char *text;
    size_t left = f->n - *at, bytes;

    if (!left) /* the end; an empty list has no text */
        return NULL;
    text = f->text + *at;
    bytes = strnlen(text, left);
    if (bytes == left) /* no NUL: another program's */
        return NULL;
    *at += bytes + 1;
    return text;
}

static const char *find(const struct lk_facts *f, const char *name)
{
    const char *key, *value;
    size_t at = 0;

    while ((key = next(f, &at)) && (value = next(f, &at)))
        if (!strcmp(key, name))
            return value;
    return ABSENT;
}

struct question {
    const struct lk_facts *lists;
    const char *name, *value; /* of a group of ranks */
    const char *host;         /* NULL: whichever */
};

static bool has_value(const void *ctx, int rank)
{
    const struct question *q = ctx;
    const struct lk_facts *f = &q->lists[rank];

    return !strcmp(find(f, q->name), q->value) && (!q->host || !strcmp(find(f, "host"), q->host));
}

static int count(const struct question *q, int n)
{
    int has = 0;

    for (int r = 0; r < n; r++)
        has += has_value(q, r);
    return has;
}

/* Say a value and who has it: "5 on rank 1 (host b)". */
static void say(const struct question *q, int n, char *buf, size_t size)
{
    char names[160], value[VALUE_SHOWN + 1], host[80] = "";
    struct question here = *q;

    for (int r = 0; r < n && !here.host; r++)
        if (has_value(q, r))
            here.host = find(&q->lists[r], "host");
    lk_rank_names(has_value, q, n, names, sizeof names);
    if (here.host && count(&here, n) == count(q, n))
        snprintf(host, sizeof host, " (host %.64s)", here.host);
    snprintf(value, sizeof value, "%s", q->value);
    for (char *at = value; (at = strpbrk(at, "\n\t")) != NULL;)
        *at = '?';
    snprintf(buf, size, "%s on %s%s", *value ? lk_printable(value) : "not given", names, host);
}

/* Return the value of the fewest ranks that is not `but` (NULL: any); of as many, the last rank's.
 */
static const char *rarest(const struct lk_facts *lists, int n, const char *name, const char *but)
{
    const char *best = NULL;
    int fewest = n + 1;

    for (int r = n; r-- > 0;) {
        struct question q = {lists, name, find(&lists[r], name), NULL};

        if (!best || count(&q, n) < fewest) {
            if (but && !strcmp(q.value, but))
                continue;
            best = q.value;
            fewest = count(&q, n);
        }
    }
    return best;
}

/* Say in which values ranks have the fact. */
static void describe(const struct lk_facts *lists, int n, const char *name, char *buf, size_t size)
{
    struct question q = {lists, name, rarest(lists, n, name, NULL), NULL};
    char few[384], others[384];

    say(&q, n, few, sizeof few);
    q.value = rarest(lists, n, name, q.value);
    say(&q, n, others, sizeof others);
    snprintf(buf, size, "%.100s is %s, %s", name, few, others);
}

bool lk_facts_compare(const struct lk_facts *lists, int n, char *buf, size_t size)
{
    for (int of = 0; of < n; of++) { /* rank 0's, then what others have besides */
        const char *name, *value;
        size_t at = 0;

        while ((name = next(&lists[of], &at)) && (value = next(&lists[of], &at))) {
            if (!strcmp(name, "host"))
                continue;
            for (int r = 0; r < n; r++)
                if (strcmp(value, find(&lists[r], name)) != 0) {
                    describe(lists, n, name, buf, size);
                    return true;
                }
        }
    }
    return false;
}

/* ---- Over the store ---- */

static void key_of(const char *what, int rank, char key[LK_STORE_KEY_MAX])
{
    snprintf(key, LK_STORE_KEY_MAX, "%.200s of rank %d", what, rank);
}

static enum lk_status publish(const struct lk_facts *f, struct lk_store *store, int rank,
                              const char *what)
{
    struct lk_facts own = {0};
    char key[LK_STORE_KEY_MAX], host[256] = "";
    enum lk_status st = LK_OK;

    if (gethostname(host, sizeof host - 1))
        snprintf(host, sizeof host, "unknown");
    LK_TRY(lk_facts_add(&own, "host", "%s", host));
    LK_TRY(lk_array_grow(&own.text, &own.cap, own.n + f->n, 1));
    if (f->n)
        memcpy(own.text + own.n, f->text, f->n);
    own.n += f->n;
    key_of(what, rank, key);
    LK_TRY(lk_store_set(store, key, own.text, own.n));
out:
    lk_facts_fini(&own);
    return st;
}

/* Read the lists of all ranks and end the run with what differs. */
static enum lk_status judge(struct lk_store *store, int world_size, const char *what)
{
    struct lk_facts *lists = NULL;
    char key[LK_STORE_KEY_MAX], text[LK_STORE_TEXT_MAX];
    enum lk_status st = LK_OK;
    size_t at = 0;

    LK_TRY(lk_alloc(&lists, (size_t)world_size, sizeof *lists));
    for (int r = 0; r < world_size; r++) {
        void *value = NULL;

        key_of(what, r, key);
        LK_TRY(lk_store_get(store, key, &value, &lists[r].n));
        lists[r].text = value;
    }
    at = (size_t)snprintf(text, sizeof text, "the ranks do not agree on %.200s: ", what);
    if (!lk_facts_compare(lists, world_size, text + at, sizeof text - at))
        snprintf(text + at, sizeof text - at, "what differs is not in their lists");
    st = lk_store_report_all(store, text);
out:
    for (int r = 0; lists && r < world_size; r++)
        lk_facts_fini(&lists[r]);
    free(lists);
    return st;
}

enum lk_status lk_facts_agree(const struct lk_facts *f, struct lk_store *store, int rank,
                              int world_size, const char *what)
{
    uint64_t sum[2] = {lk_hash(f->text, f->n), f->n};
    char never[LK_STORE_KEY_MAX];
    bool equal = false;
    size_t n = 0;
    void *value = NULL;

    if (!store || world_size == 1)
        return LK_OK;
    LK_PASS(lk_store_agree(store, what, sum, &equal));
    if (equal)
        return LK_OK;
    LK_PASS(publish(f, store, rank, what));
    if (rank == 0)
        return judge(store, world_size, what);
    /* Wait for rank 0's verdict under a key that nobody sets. */
    snprintf(never, sizeof never, "verdict on %.200s", what);
    LK_PASS(lk_store_get(store, never, &value, &n));
    free(value);
    return lk_fail(LK_EINTERNAL, "the ranks do not agree on %.200s", what);
}
