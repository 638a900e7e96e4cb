/* A temporary directory for the files of one test. */
#include "tests/rigs/scratch.h"

#include "base/file.h"

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *scratch_create(void)
{
    const char *tmp = getenv("TMPDIR");
    char *dir;

    ck_assert_int_gt(asprintf(&dir, "%s/lockstep-test-XXXXXX", tmp && *tmp ? tmp : "/tmp"), 0);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    return dir;
}

char *scratch_create_for_gpus(void)
{
    char *dir = scratch_create();

    ck_assert_int_eq(setenv("LOCKSTEP_GPU_LOCKS", dir, 1), 0);
    return dir;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

void scratch_remove(char *dir)
{
    ck_assert_int_eq(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(dir);
}

char *scratch_dir;

void scratch_set_up(void)
{
    scratch_dir = scratch_create();
}

void scratch_tear_down(void)
{
    scratch_remove(scratch_dir);
}

char *scratch_path(const char *dir, const char *name)
{
    char *path;

    ck_assert_int_gt(asprintf(&path, "%s/%s", dir, name), 0);
    return path;
}

char *scratch_read(const char *dir, const char *name)
{
    char *path = scratch_path(dir, name), *text = NULL;
    size_t size;

    ck_assert_msg(lk_file_read(path, &text, &size) == LK_OK, "%s", lk_error_text());
    free(path);
    return text;
}

void scratch_same(const char *dir, const char *a, const char *b)
{
    char *paths[] = {scratch_path(dir, a), scratch_path(dir, b)}, *texts[2];
    size_t sizes[2];

    for (int i = 0; i < 2; i++) {
        ck_assert_msg(lk_file_read(paths[i], &texts[i], &sizes[i]) == LK_OK, "%s", lk_error_text());
        free(paths[i]);
    }
    ck_assert_uint_gt(sizes[0], 0);
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(texts[0], texts[1], sizes[0]);
    free(texts[0]);
    free(texts[1]);
}

char *scratch_put(const char *name, const void *data, size_t n)
{
    char *path = scratch_path(scratch_dir, name);
    struct lk_writer *w = NULL;

    ck_assert_int_eq(lk_writer_open(path, lk_ends_with(path, ".gz"), &w), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, data, n), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    return path;
}
