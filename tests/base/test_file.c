/* Files: whole reads and atomic writes, also on a full disk. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Return the number of names in the directory. */
static size_t count_files(void)
{
    char **names;
    size_t n;

    ck_assert_int_eq(lk_dir_list(scratch_dir, "", &names, &n), LK_OK);
    lk_names_free(names, n);
    return n;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static void check_content(const char *path, const void *data, size_t size)
{
    char *text;
    size_t got;

    ck_assert_msg(lk_file_read(path, &text, &got) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(got, size);
    ck_assert_int_eq(memcmp(text, data, size), 0);
    ck_assert_int_eq(text[size], '\0');
    free(text);
}

/* Return data that do not compress: a multiplicative generator's high bytes. */
static char *noise(size_t size)
{
    char *data = malloc(size);
    uint64_t x = 1;

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        data[i] = (char)(x >> 56);
    }
    return data;
}

static const size_t sizes[] = {0, 1, 2, 65535, 65536, 65537, 1000003};

/* Write and read back, plain and gzip, of every size. */
START_TEST(write_then_read)
{
    bool gz = _i % 2;
    size_t size = sizes[_i / 2];
    char *path = scratch_path(scratch_dir, "file");
    char *data = noise(size + 1);
    struct lk_writer *w;

    ck_assert_int_eq(lk_writer_open(path, gz, &w), LK_OK);
    ck_assert(!lk_file_exists(path));
    ck_assert_int_eq(lk_writer_put(w, data, size / 3), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, data + size / 3, size - size / 3), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    check_content(path, data, size);
    ck_assert_uint_eq(count_files(), 1);
    free(data);
    free(path);
}
END_TEST

START_TEST(formatted)
{
    char *path = scratch_path(scratch_dir, "file");
    char expected[5004];
    struct lk_writer *w;

    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_printf(w, "%d,", 42), LK_OK);
    ck_assert_int_eq(lk_writer_printf(w, "%05000d", 7), LK_OK); /* longer than any buffer */
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    snprintf(expected, sizeof expected, "42,%05000d", 7);
    check_content(path, expected, 5003);
    free(path);
}
END_TEST

START_TEST(old_file_stays_until_commit)
{
    char *path = scratch_path(scratch_dir, "file");
    struct lk_writer *w;

    write_file(path, "old", 3);
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, "new", 3), LK_OK);
    check_content(path, "old", 3);
    lk_writer_abandon(w);
    check_content(path, "old", 3);
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_int_eq(lk_writer_open(path, true, &w), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, "new", 3), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    check_content(path, "new", 3);
    ck_assert_uint_eq(count_files(), 1);
    lk_writer_abandon(NULL);
    ck_assert_int_eq(lk_writer_commit(NULL), LK_OK);
    free(path);
}
END_TEST

START_TEST(a_link_stays_a_link)
{
    char *target = scratch_path(scratch_dir, "target");
    char *path = scratch_path(scratch_dir, "link");
    struct lk_writer *w;
    struct stat s;

    write_file(target, "old", 3);
    ck_assert_int_eq(symlink("target", path), 0);
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, "new", 3), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_int_eq(lstat(path, &s), 0);
    ck_assert(S_ISLNK(s.st_mode));
    check_content(target, "new", 3);
    free(target);
    free(path);
}
END_TEST

/* A dead process with our number left its temporary file. */
START_TEST(left_over_temporary_file)
{
    char *path = scratch_path(scratch_dir, "file");
    char *left;
    struct lk_writer *w;
    struct lk_writer *second;

    ck_assert_int_gt(asprintf(&left, "%s.tmp.%ld", path, (long)getpid()), 0);
    write_file(left, "half", 4);
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_open(path, false, &second), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, "1", 1), LK_OK);
    ck_assert_int_eq(lk_writer_put(second, "2", 1), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    check_content(path, "1", 1);
    ck_assert_int_eq(lk_writer_commit(second), LK_OK);
    check_content(path, "2", 1);
    check_content(left, "half", 4);
    free(left);
    free(path);
}
END_TEST

/* Limit files to 8 KiB, like a full disk. */
static void limit_file_size(rlim_t size)
{
    struct rlimit limit;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static enum lk_status write_in_pieces(const char *path, bool gz, const char *data, size_t size,
                                      size_t piece, bool look)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_writer_open(path, gz, &w));
    for (size_t i = 0; i < size; i += piece) {
        st = lk_writer_put(w, data + i, size - i < piece ? size - i : piece);
        if (look && st != LK_OK)
            goto out;
    }
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}

/* Bits of the loop index: gzip or plain, in one write or several, results checked or ignored. */
START_TEST(full_disk)
{
    bool gz = _i & 1;
    size_t piece = _i & 2 ? 100 : 400000;
    bool look = _i & 4;
    char *path = scratch_path(scratch_dir, "file");
    char *data = noise(400000);

    write_file(path, "old", 3);
    limit_file_size(8192);
    ck_assert_int_eq(write_in_pieces(path, gz, data, 400000, piece, look), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), path));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), ": cannot write: File too large"));
    limit_file_size(RLIM_INFINITY);
    check_content(path, "old", 3);
    ck_assert_uint_eq(count_files(), 1);
    free(data);
    free(path);
}
END_TEST

/* All data fit in buffers, so only the flush at the end can fail. */
START_TEST(full_disk_at_commit)
{
    char *path = scratch_path(scratch_dir, "file");

    limit_file_size(0);
    ck_assert_int_eq(write_in_pieces(path, _i == 1, "x", 1, 1, true), LK_EIO);
    limit_file_size(RLIM_INFINITY);
    ck_assert(!lk_file_exists(path));
    ck_assert_uint_eq(count_files(), 0);
    free(path);
}
END_TEST

START_TEST(devices_are_written_in_place)
{
    struct stat s;

    ck_assert_int_eq(write_in_pieces("/dev/null", _i == 1, "x", 1, 1, true), LK_OK);
    ck_assert_int_eq(stat("/dev/null", &s), 0);
    ck_assert(S_ISCHR(s.st_mode));
    ck_assert_int_eq(write_in_pieces("/dev/full", _i == 1, "x", 1, 1, true), LK_EIO);
    ck_assert_str_eq(lk_error_text(), "/dev/full: cannot write: No space left on device");
    ck_assert_int_eq(stat("/dev/full", &s), 0);
    ck_assert(S_ISCHR(s.st_mode));
}
END_TEST

START_TEST(standard_output)
{
    char *path = scratch_path(scratch_dir, "stdout");
    int old = dup(STDOUT_FILENO);
    struct lk_writer *w;

    fflush(stdout);
    ck_assert_ptr_nonnull(freopen(path, "wb", stdout));
    fputs("before ", stdout);
    ck_assert_int_eq(lk_writer_open("-", false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_printf(w, "results"), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    fputs(" after", stdout);
    fflush(stdout);
    ck_assert_int_eq(dup2(old, STDOUT_FILENO), STDOUT_FILENO);
    close(old);
    check_content(path, "before results after", 20);
    free(path);
}
END_TEST

START_TEST(into_memory)
{
    char *text = NULL;
    size_t size = 99;
    struct lk_writer *w;

    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_writer_printf(w, "%d", 42), LK_OK);
    lk_writer_abandon(w);
    ck_assert_ptr_null(text);
    ck_assert_uint_eq(size, 99);
    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_writer_printf(w, "%d", 42), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_str_eq(text, "42");
    ck_assert_uint_eq(size, 2);
    free(text);
    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_str_eq(text, "");
    ck_assert_uint_eq(size, 0);
    free(text);
}
END_TEST

START_TEST(cannot_write_here)
{
    struct lk_writer *w = NULL;
    char *path = scratch_path(scratch_dir, "missing/file");

    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "missing/file: cannot create: No such file"));
    ck_assert_int_eq(lk_writer_open(scratch_dir, false, &w), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "is a directory"));
    ck_assert_ptr_null(w);
    free(path);
}
END_TEST

START_TEST(cannot_read)
{
    char *path = scratch_path(scratch_dir, "missing");
    char *text = NULL;
    size_t size = 7;

    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "missing: cannot open: No such file"));
    ck_assert_int_eq(lk_file_read(scratch_dir, &text, &size), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "Is a directory"));
    ck_assert_ptr_null(text);
    ck_assert_uint_eq(size, 7);
    free(path);
}
END_TEST

/* Read the raw bytes of a file on disk. */
static size_t raw_bytes(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(buf, 1, size, f);
    ck_assert_int_eq(fclose(f), 0);
    return n;
}

/* A file cut anywhere, or with one wrong bit in data or checksum, is never accepted. */
START_TEST(damaged_gzip)
{
    char *path = scratch_path(scratch_dir, "x.gz");
    char *data = noise(3000);
    char raw[4096];
    char *text = NULL;
    size_t size = 0;
    size_t n;

    ck_assert_int_eq(write_in_pieces(path, true, data, 3000, 3000, true), LK_OK);
    n = raw_bytes(path, raw, sizeof raw);
    ck_assert_uint_gt(n, 3000);
    for (size_t cut = 2; cut < n; cut += cut < 20 || cut > n - 20 ? 1 : 97) {
        write_file(path, raw, cut);
        ck_assert_msg(lk_file_read(path, &text, &size) == LK_EIO, "cut to %zu of %zu", cut, n);
        ck_assert_ptr_null(text);
    }
    for (size_t at = 10; at<n; at += at> n - 12 ? 1 : 131) {
        raw[at] = (char)(raw[at] ^ 4);
        write_file(path, raw, n);
        ck_assert_msg(lk_file_read(path, &text, &size) == LK_EIO, "bit at %zu of %zu", at, n);
        raw[at] = (char)(raw[at] ^ 4);
    }
    write_file(path, raw, n);
    check_content(path, data, 3000);
    free(data);
    free(path);
}
END_TEST

/* "cat a.gz b.gz" is a gzip file too. */
START_TEST(members_one_after_another)
{
    char *path = scratch_path(scratch_dir, "x.gz");
    char raw[256];
    size_t n;

    ck_assert_int_eq(write_in_pieces(path, true, "abc", 3, 3, true), LK_OK);
    n = raw_bytes(path, raw, sizeof raw / 2);
    memcpy(raw + n, raw, n);
    write_file(path, raw, 2 * n);
    check_content(path, "abcabc", 6);
    free(path);
}
END_TEST

enum { THREADS = 4, ROUNDS = 50 };

static void *write_many(void *argument)
{
    char data[1000];
    const char *path = argument;

    for (int i = 0; i < ROUNDS; i++) {
        memset(data, 'a' + i % 26, sizeof data);
        if (write_in_pieces(path, false, data, sizeof data, 7, true) != LK_OK)
            return argument;
    }
    return NULL;
}

/* With concurrent writers of a file a reader sees the whole of one of them. */
START_TEST(writers_at_once)
{
    char *path = scratch_path(scratch_dir, "file");
    pthread_t threads[THREADS];

    write_file(path, "", 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_many, path), 0);
    for (int i = 0; i < ROUNDS; i++) {
        char *text;
        size_t size;

        ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
        ck_assert(size == 0 || size == 1000);
        for (size_t j = 1; j < size; j++)
            ck_assert_int_eq(text[j], text[0]);
        free(text);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;

        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert_uint_eq(count_files(), 1);
    free(path);
}
END_TEST

START_TEST(directories)
{
    char *path = scratch_path(scratch_dir, "a//b/c/");
    char *file = scratch_path(scratch_dir, "file");
    char *under = scratch_path(scratch_dir, "file/x");
    struct stat s;

    ck_assert_int_eq(lk_mkdirs(path), LK_OK);
    ck_assert_int_eq(stat(path, &s), 0);
    ck_assert(S_ISDIR(s.st_mode));
    ck_assert_int_eq(lk_mkdirs(path), LK_OK);
    ck_assert_int_eq(lk_mkdirs("/"), LK_OK);
    write_file(file, "", 0);
    ck_assert_int_eq(lk_mkdirs(file), LK_EIO);
    ck_assert_int_eq(lk_mkdirs(under), LK_EIO);
    ck_assert_int_eq(lk_mkdirs(""), LK_EIO);
    free(path);
    free(file);
    free(under);
}
END_TEST

static const struct {
    const char *dir, *name, *path;
} joins[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}};

START_TEST(joined_paths)
{
    char *path;

    ck_assert_int_eq(lk_path_join(&path, joins[_i].dir, joins[_i].name), LK_OK);
    ck_assert_str_eq(path, joins[_i].path);
    free(path);
}
END_TEST

START_TEST(listed_names)
{
    static const char *const made[] = {"b.json", "a.json.gz", "a.json", ".json", "json"};
    char **names;
    size_t n;
    char *missing = scratch_path(scratch_dir, "missing");

    for (size_t i = 0; i < LK_COUNT(made); i++) {
        char *path = scratch_path(scratch_dir, made[i]);

        write_file(path, "", 0);
        free(path);
    }
    ck_assert_int_eq(lk_dir_list(scratch_dir, ".json", &names, &n), LK_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[0], ".json");
    ck_assert_str_eq(names[1], "a.json");
    ck_assert_str_eq(names[2], "b.json");
    lk_names_free(names, n);
    ck_assert_int_eq(lk_dir_list(scratch_dir, ".csv", &names, &n), LK_OK);
    ck_assert_uint_eq(n, 0);
    lk_names_free(names, n);
    ck_assert_int_eq(lk_dir_list(missing, "", &names, &n), LK_EIO);
    lk_names_free(NULL, 0);
    free(missing);
}
END_TEST

/* 100 MiB of zeros are 100 KiB: no data of a job are like that. */
START_TEST(what_unpacks_without_end)
{
    enum { PIECE = 1 << 20, PIECES = 100 };
    char *path = scratch_path(scratch_dir, "bomb.gz"), *text = NULL, *zeros = NULL;
    size_t size = 0;
    gzFile gz = gzopen(path, "wb");

    ck_assert_ptr_nonnull(gz);
    ck_assert_int_eq(lk_alloc(&zeros, PIECE, 1), LK_OK);
    for (int i = 0; i < PIECES; i++)
        ck_assert_int_eq(gzwrite(gz, zeros, PIECE), PIECE);
    ck_assert_int_eq(gzclose(gz), Z_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "bomb.gz: unpacks to over 200 times its size"));
    free(zeros);
    free(path);
}
END_TEST

SUITE(file, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, write_then_read, 0, 2 * (int)LK_COUNT(sizes));
    tcase_add_test(c, formatted);
    tcase_add_test(c, old_file_stays_until_commit);
    tcase_add_test(c, a_link_stays_a_link);
    tcase_add_test(c, left_over_temporary_file);
    tcase_add_loop_test(c, full_disk, 0, 8);
    tcase_add_loop_test(c, full_disk_at_commit, 0, 2);
    tcase_add_loop_test(c, devices_are_written_in_place, 0, 2);
    tcase_add_test(c, standard_output);
    tcase_add_test(c, into_memory);
    tcase_add_test(c, cannot_write_here);
    tcase_add_test(c, cannot_read);
    tcase_add_test(c, damaged_gzip);
    tcase_add_test(c, what_unpacks_without_end);
    tcase_add_test(c, members_one_after_another);
    tcase_add_test(c, writers_at_once);
    tcase_add_test(c, directories);
    tcase_add_loop_test(c, joined_paths, 0, (int)LK_COUNT(joins));
    tcase_add_test(c, listed_names);
}
