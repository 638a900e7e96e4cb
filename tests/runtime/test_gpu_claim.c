/* Two ranks on one GPU are refused, naming both, unless both share it. */
#include "runtime/device/gpu_claim.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *dir;

static void setup(void)
{
    dir = scratch_create_for_gpus();
}

static void teardown(void)
{
    unsetenv("LOCKSTEP_GPU_LOCKS");
    scratch_remove(dir);
}

START_TEST(second_rank_is_refused)
{
    struct lk_gpu_claim first = {0}, second = {0}, other = {0};

    ck_assert_int_eq(lk_gpu_claim(&first, "uuid-a", 2, false), LK_OK);
    ck_assert_int_eq(lk_gpu_claim(&second, "uuid-a", 5, false), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "local ranks 2 (process"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "and 5 would be on one GPU (uuid-a)"));
    ck_assert_int_eq(lk_gpu_claim(&second, "uuid-a", 5, true), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "the first does not share"));
    ck_assert_int_eq(lk_gpu_claim(&other, "uuid-b", 5, false), LK_OK);
    lk_gpu_claim_release(&first);
    ck_assert_int_eq(lk_gpu_claim(&second, "uuid-a", 5, false), LK_OK);
    lk_gpu_claim_release(&second);
    lk_gpu_claim_release(&second);
    lk_gpu_claim_release(&other);
}
END_TEST

START_TEST(those_who_share_go_together)
{
    struct lk_gpu_claim first = {0}, second = {0}, third = {0};

    ck_assert_int_eq(lk_gpu_claim(&first, "uuid-a", 0, true), LK_OK);
    ck_assert_int_eq(lk_gpu_claim(&second, "uuid-a", 1, true), LK_OK);
    ck_assert_int_eq(lk_gpu_claim(&third, "uuid-a", 2, false), LK_EUSAGE);
    lk_gpu_claim_release(&first);
    lk_gpu_claim_release(&second);
}
END_TEST

/* A rank that dies without unlocking releases its GPU. */
START_TEST(the_dead_hold_nothing)
{
    struct lk_gpu_claim mine = {0};
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct lk_gpu_claim theirs = {0};

        _exit(lk_gpu_claim(&theirs, "uuid-a", 0, false) == LK_OK ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(lk_gpu_claim(&mine, "uuid-a", 1, false), LK_OK);
    lk_gpu_claim_release(&mine);
}
END_TEST

START_TEST(missing_folder_is_named)
{
    struct lk_gpu_claim c = {0};

    ck_assert_int_eq(setenv("LOCKSTEP_GPU_LOCKS", "/nowhere/at/all", 1), 0);
    ck_assert_int_eq(lk_gpu_claim(&c, "uuid-a", 0, false), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "/nowhere/at/all/lockstep-gpu-uuid-a"));
    ck_assert_int_eq(c.fd, 0);
}
END_TEST

/* In /tmp a file of another user can be opened by no one else, not even root. */
START_TEST(every_user_has_a_file)
{
    struct lk_gpu_claim claim = {0};
    char path[512];

    snprintf(path, sizeof path, "%s/lockstep-gpu-uuid-a-%u", dir, (unsigned)geteuid());
    ck_assert_int_eq(lk_gpu_claim(&claim, "uuid-a", 0, false), LK_OK);
    ck_assert_int_eq(access(path, F_OK), 0);
    lk_gpu_claim_release(&claim);
}
END_TEST

/* Login sessions may leave XDG_RUNTIME_DIR set to a folder that does not exist. */
START_TEST(a_session_without_its_folder_has_tmp)
{
    struct lk_gpu_claim claim = {0};
    char path[64], uuid[32];

    snprintf(uuid, sizeof uuid, "test-%ld", (long)getpid());
    snprintf(path, sizeof path, "/tmp/lockstep-gpu-%s-%u", uuid, (unsigned)geteuid());
    unsetenv("LOCKSTEP_GPU_LOCKS");
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "/nonexistent/run", 1), 0);
    ck_assert_msg(lk_gpu_claim(&claim, uuid, 0, false) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(access(path, F_OK), 0);
    lk_gpu_claim_release(&claim);
    (void)unlink(path);
    unsetenv("XDG_RUNTIME_DIR");
}
END_TEST

SUITE(gpu_claim, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, second_rank_is_refused);
    tcase_add_test(tc, those_who_share_go_together);
    tcase_add_test(tc, the_dead_hold_nothing);
    tcase_add_test(tc, missing_folder_is_named);
    tcase_add_test(tc, every_user_has_a_file);
    tcase_add_test(tc, a_session_without_its_folder_has_tmp);
}
