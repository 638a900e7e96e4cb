#include "tests/rigs/bad_file.h"

#include "base/rng.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bad_file_write(const char *text, size_t size, char path[64])
{
    FILE *f;
    int fd;

    strcpy(path, "/tmp/lockstep-file-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    f = fdopen(fd, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static enum lk_status read_text(const char *text, size_t size, bad_file_reader read, char path[64])
{
    enum lk_status st;

    bad_file_write(text, size, path);
    st = read(path);
    ck_assert_int_eq(unlink(path), 0);
    return st;
}

void bad_file_check(const char *good, const struct bad_file *bad, bad_file_reader read)
{
    const char *at = strstr(good, bad->from);
    size_t size = strlen(good) + strlen(bad->to) + 1;
    char *text = malloc(size);
    char path[64];

    ck_assert_ptr_nonnull(text);
    ck_assert_msg(at != NULL, "the good file lacks %s", bad->from);
    snprintf(text, size, "%.*s%s%s", (int)(at - good), good, bad->to, at + strlen(bad->from));
    ck_assert_msg(read_text(text, strlen(text), read, path) == LK_EPARSE, "%s was taken", bad->to);
    ck_assert_msg(strstr(lk_error_text(), path) == lk_error_text(), "%s", lk_error_text());
    ck_assert_msg(lk_error_text()[strlen(path)] == ':', "no line: %s", lk_error_text());
    ck_assert_msg(atoi(lk_error_text() + strlen(path) + 1) > 0, "no line: %s", lk_error_text());
    ck_assert_msg(strstr(lk_error_text(), bad->expect) != NULL, "'%s' is not in: %s", bad->expect,
                  lk_error_text());
    free(text);
}

void bad_file_torture(const char *good, int mutations, bad_file_reader read)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("bad file", 0));
    size_t size = strlen(good);
    size_t last = size;
    char *text = strdup(good);
    char path[64];

    ck_assert_ptr_nonnull(text);
    while (last && strchr(" \n\t", good[last - 1]))
        last--;
    for (size_t n = 0; n < last; n++)
        ck_assert_msg(read_text(text, n, read, path) != LK_OK, "the first %zu bytes were taken", n);
    for (int i = 0; i < mutations; i++) {
        size_t at = (size_t)lk_rng_below(&g, size);

        text[at] = (char)lk_rng_below(&g, 256);
        (void)read_text(text, size, read, path); /* accepted or refused: it only has to return */
        text[at] = good[at];
    }
    free(text);
}
