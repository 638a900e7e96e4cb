/*
 * Run the fuzz targets over their corpora, with every compiler and
 * sanitizer, even without libFuzzer.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/suite.h"

#include <stdint.h>
#include <stdlib.h>

/* X(target, folder): the Makefile gives each LLVMFuzzerTestOneInput the target's name here. */
#define TARGETS(X)                                                                                 \
    X(fuzz_job, "tests/fuzz/corpus/job")                                                           \
    X(fuzz_cluster, "tests/fuzz/corpus/cluster")                                                   \
    X(fuzz_cluster, "clusters")                                                                    \
    X(fuzz_csv, "tests/fuzz/corpus/csv")                                                           \
    X(fuzz_csv, "tests/fuzz/corpus/gradients")                                                     \
    X(fuzz_throughput, "tests/fuzz/corpus/throughput")                                             \
    X(fuzz_nccl_tests, "tests/fuzz/corpus/nccl_tests")                                             \
    X(fuzz_nsys, "tests/fuzz/corpus/nsys")                                                         \
    X(fuzz_torch_et, "tests/fuzz/corpus/torch_et")                                                 \
    X(fuzz_kineto, "tests/fuzz/corpus/kineto")                                                     \
    X(fuzz_training_log, "tests/fuzz/corpus/training_log")                                         \
    X(fuzz_step_times, "tests/fuzz/corpus/step_times")                                             \
    X(fuzz_flight_recorder, "tests/fuzz/corpus/flight_recorder")                                   \
    X(fuzz_preload, "tests/fuzz/corpus/preload")                                                   \
    X(fuzz_inspector, "tests/fuzz/corpus/inspector")                                               \
    X(fuzz_daemon, "tests/fuzz/corpus/daemon")                                                     \
    X(fuzz_chakra, "tests/fuzz/corpus/chakra")

#define DECLARE(target, folder) int target(const uint8_t *data, size_t size);
TARGETS(DECLARE)
#undef DECLARE

static const struct {
    int (*run)(const uint8_t *data, size_t size);
    const char *folder;
} targets[] = {
#define ROW(target, folder) {target, folder},
    TARGETS(ROW)
#undef ROW
};

START_TEST(corpus)
{
    char **names = NULL;
    size_t n = 0;

    ck_assert_msg(lk_dir_list(targets[_i].folder, "", &names, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        char *path, *text = NULL;
        size_t size = 0;

        ck_assert_int_eq(lk_path_join(&path, targets[_i].folder, names[i]), LK_OK);
        ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
        ck_assert_int_eq(targets[_i].run((const uint8_t *)text, size), 0);
        free(text);
        free(path);
    }
    lk_names_free(names, n);
}
END_TEST

SUITE(fuzz, tc)
{
    tcase_add_loop_test(tc, corpus, 0, LK_COUNT(targets));
}
