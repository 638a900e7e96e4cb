/*
 * Play back records that a real CUPTI wrote: tests/data/cupti-*.txt, which test_gpu makes
 * (tests/rigs/cupti_capture_cuda.h). The same spans must result as on the GPU. Without such a file
 * only a capture made by hand is played, and a message says so.
 */

#include "tests/rigs/suite.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "base/file.h"
#include "profiler/record/cupti.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/rigs/cupti_capture_cuda.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"
#include "tests/rigs/waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SYMBOLS = 4096 };

static struct {
    struct lk_recorder *recorder;
    struct lk_cupti *cupti;
    uint64_t t0;            /* time of the first record */
    char *symbols[SYMBOLS]; /* names that records point to */
    size_t n_symbols;
    size_t next[KEPT_TRACKS]; /* span to compare */
    size_t n_spans, n_records;
    char wrong[512]; /* "" or the first difference */
} play;

static void start(void)
{
    memset(&play, 0, sizeof play);
    fake_cupti_reset();
    must(lk_recorder_create(&play.recorder));
    must(lk_cupti_open(
        &(struct lk_cupti_config){.recorder = play.recorder, .calls = &fake_cupti_calls},
        &play.cupti));
    must(lk_recorder_attach(play.recorder, &lk_cupti_ops, play.cupti));
    must(lk_recorder_attach(play.recorder, &kept_ops, &kept));
}

static void end_session(void)
{
    must(lk_cupti_close(play.cupti, lk_deadline_in(WAIT_PLENTY_NS), NULL));
    play.cupti = NULL;
}

static void stop(void)
{
    if (play.cupti)
        end_session();
    lk_recorder_destroy(play.recorder);
    kept_reset();
    for (size_t i = 0; i < play.n_symbols; i++)
        free(play.symbols[i]);
}

/* ---- Lines ---- */

static void play_name(const char *rest)
{
    uint16_t id = 0;
    size_t before = kept.n_names;

    must(lk_recorder_name(play.recorder, rest, &id));
    ck_assert_uint_eq(id, before + 1);
}

static void play_track(const char *rest)
{
    struct lk_track *t = NULL;
    int kind, stream, at = 0;

    ck_assert_int_eq(sscanf(rest, "%d %d %n", &kind, &stream, &at), 2);
    must(lk_recorder_track(play.recorder,
                           &(struct lk_track_info){.name = rest + at,
                                                   .kind = (enum lk_track_kind)kind,
                                                   .stream = stream},
                           &t));
}

static const char *keep_symbol(const char *text)
{
    ck_assert_uint_lt(play.n_symbols, SYMBOLS);
    must(lk_strdup(&play.symbols[play.n_symbols], text));
    return play.symbols[play.n_symbols++];
}

static void play_record(const char *rest)
{
    unsigned char record[1024];
    unsigned int byte;
    uint32_t kind;
    size_t n = 0;
    int at = 0;

    ck_assert_int_eq(sscanf(rest, "%" SCNu32 " %n", &kind, &at), 1);
    for (rest += at; n < sizeof record && sscanf(rest, "%2x", &byte) == 1; rest += 2)
        record[n++] = (unsigned char)byte;
    if (play.t0 == 0)
        play.t0 = lk_now_ns();
    capture_shift(kind, record, play.t0);
    if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const char *symbol;

        ck_assert_int_eq(*rest, ' ');
        symbol = keep_symbol(rest + 1);
        memcpy(record + offsetof(CUpti_ActivityKernel4, name), &symbol, sizeof symbol);
    }
    ck_assert_uint_lt(kind, LK_COUNT(fake_cupti.sizes));
    fake_cupti.sizes[kind] = n;
    ck_assert(fake_cupti_put(record, n));
    play.n_records++;
}

static void play_buffer(const char *rest)
{
    (void)rest;
    fake_cupti_deliver(0);
}

static struct lk_span *next_span(const char *track)
{
    for (size_t i = 0; i < kept.n_tracks; i++)
        if (!strcmp(kept.tracks[i].name, track) && play.next[i] < kept.tracks[i].n)
            return &kept.tracks[i].spans[play.next[i]++];
    return NULL;
}

static void play_span(const char *rest)
{
    char kind[32], track[80], got[512];
    const struct lk_span *s;
    uint64_t start_ns;
    int at = 0;

    if (play.cupti)
        end_session();
    ck_assert_int_eq(
        sscanf(rest, "%31s %" SCNu64 " %*u %*d %*d %*u %79[^:]: %n", kind, &start_ns, track, &at),
        3);
    s = next_span(track);
    snprintf(got, sizeof got, "nothing on %s", track);
    if (s)
        snprintf(got, sizeof got,
                 "%s %" PRIu64 " %" PRIu64 " %" PRId32 " %" PRId32 " %" PRIu64 " %s: %s",
                 lk_span_kind_name((enum lk_span_kind)s->kind), s->start_ns - play.t0,
                 s->end_ns - play.t0, (int32_t)s->step, s->index, s->bytes, track,
                 kept.names[s->name]);
    play.n_spans++;
    if (strcmp(got, rest) != 0 && !play.wrong[0])
        snprintf(play.wrong, sizeof play.wrong, "%s", got);
}

static const struct {
    const char *word;
    void (*play)(const char *rest);
} words[] = {
    {"name ", play_name},    {"track ", play_track}, {"record ", play_record},
    {"buffer", play_buffer}, {"span ", play_span},
};

static void play_line(const char *line)
{
    for (size_t i = 0; i < LK_COUNT(words); i++)
        if (!strncmp(line, words[i].word, strlen(words[i].word))) {
            words[i].play(line + strlen(words[i].word));
            return;
        }
    ck_assert_msg(*line == '#' || *line == '\0', "%s", line);
}

/* Play all lines of a capture; the text is cut into them. */
static void play_text(char *text)
{
    while (text && *text) {
        char *end = strchr(text, '\n');

        if (end)
            *end = '\0';
        play_line(text);
        text = end ? end + 1 : NULL;
    }
}

/* ---- By hand ---- */

struct text {
    char buf[1 << 14];
    size_t n;
};

static void add(struct text *t, const void *record, size_t bytes, const char *symbol)
{
    uint32_t kind;

    memcpy(&kind, record, sizeof kind);
    t->n += (size_t)snprintf(t->buf + t->n, sizeof t->buf - t->n, "record %" PRIu32 " ", kind);
    for (size_t i = 0; i < bytes; i++)
        t->n += (size_t)snprintf(t->buf + t->n, sizeof t->buf - t->n, "%02x",
                                 ((const unsigned char *)record)[i]);
    t->n += (size_t)snprintf(t->buf + t->n, sizeof t->buf - t->n, "%s%s\n", symbol ? " " : "",
                             symbol ? symbol : "");
}

/* Make a kernel record of an older, shorter layout, of op 1 in step 9 on track 1. */
static void by_hand(struct text *t, const char *span)
{
    const CUpti_ActivityKernel9 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                     .start = 1000,
                                     .end = 3000,
                                     .streamId = 13,
                                     .correlationId = 5};
    const CUpti_ActivityExternalCorrelation e = {
        .kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
        .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
        .externalId = UINT64_C(9) << 40 | 1 << 10 | LK_SPAN_KERNEL << 6 | 1,
        .correlationId = 5};
    const CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME, .correlationId = 5};

    t->n = (size_t)snprintf(t->buf, sizeof t->buf,
                            "# by hand\nname wait\ntrack 0 0 host\ntrack 1 1 compute stream\n");
    add(t, &k, sizeof k, "_Z4spinm");
    t->n += (size_t)snprintf(t->buf + t->n, sizeof t->buf - t->n, "buffer\n");
    add(t, &e, sizeof e, NULL);
    add(t, &a, sizeof a, NULL);
    snprintf(t->buf + t->n, sizeof t->buf - t->n, "buffer\n%s\n", span);
}

static const struct {
    const char *span;
    bool right;
} hand[] = {
    {"span kernel 1000 3000 9 -1 0 compute stream, GPU records: wait: spin", true},
    {"span kernel 1000 3000 8 -1 0 compute stream, GPU records: wait: spin", false},
    {"span kernel 1000 3001 9 -1 0 compute stream, GPU records: wait: spin", false},
    {"span kernel 1000 3000 9 -1 0 host: wait: spin", false},
};

START_TEST(a_capture_by_hand)
{
    struct text t;

    by_hand(&t, hand[_i].span);
    play_text(t.buf);
    ck_assert_uint_eq(play.n_spans, 1);
    ck_assert_msg(hand[_i].right == !play.wrong[0], "%s", play.wrong);
}
END_TEST

/* ---- From GPUs ---- */

START_TEST(captures_of_gpus)
{
    char **names = NULL;
    size_t n = 0, found = 0;

    must(lk_dir_list("tests/data", "", &names, &n));
    for (size_t i = 0; i < n; i++) {
        char *path = NULL, *text = NULL;
        size_t size;

        if (strncmp(names[i], "cupti-", 6) != 0)
            continue;
        if (found++ > 0) {
            stop();
            start();
        }
        must(lk_path_join(&path, "tests/data", names[i]));
        must(lk_file_read(path, &text, &size));
        play_text(text);
        ck_assert_uint_gt(play.n_spans, 0);
        ck_assert_msg(!play.wrong[0], "%s: %s", path, play.wrong);
        free(text);
        free(path);
    }
    lk_names_free(names, n);
    ck_assert_uint_gt(found, 0);
}
END_TEST

SUITE(cupti_capture_cuda, tc)
{
    tcase_add_checked_fixture(tc, start, stop);
    tcase_add_loop_test(tc, a_capture_by_hand, 0, (int)LK_COUNT(hand));
    tcase_add_test(tc, captures_of_gpus);
}

#else

SUITE(cupti_capture_cuda, c)
{
    (void)c;
}

#endif
