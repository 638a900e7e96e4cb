/*
 * Completion of command lines, tried in the shells that are installed. All know every command and
 * every option.
 */
#include "base/array.h"
#include "base/clock.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM LK_BUILD_DIR "/lockstep"

static bool has_shell(const char *shell)
{
    if (shell_run("command -v %s > /dev/null", shell).code == 0)
        return true;
    skip("no %s here", shell);
    return false;
}

/* The words before the cursor as bash has them, each in quotes; the last one is completed. */
static const struct {
    const char *words, *has, *has_not;
} tried[] = {
    {"'pre'", "predict\n", "run"},
    {"'w'", "whatif\n", "predict"},
    {"''", "help\n", "-o"},
    {"'predict' '--bu'", "--bucket-cap=\n", "--gpus"},
    {"'predict' '--mem'", "--memory\n", "="},
    {"'run' '--no-sh'", "--no-shuffle\n", "--shuffle"},
    {"'predict' '--dtype' '='", "bfloat16\n", "bf16\n"},
    {"'predict' '--dtype' '=' 'bf'", "bfloat16\n", "float32"},
    {"'predict' '--dtype=bf'", "--dtype=bfloat16\n", "float32"}, /* as COMP_WORDBREAKS without = */
    {"'calibrate' '--dtypes=half,bf'", "--dtypes=half,bfloat16\n", "float32"},
    {"'predict' '--dtype' 'float1'", "float16\n", "--"},
    {"'calibrate' '--dtypes' '=' 'float32,bf'", "float32,bfloat16\n", "float32\n"},
    {"'calibrate' '--algorithms' '=' 'ring,tr'", "ring,tree\n", "ring,ring"},
    {"'predict' 'job.json' 'dgx-a'", "dgx-a100\n", "ethernet"},
    {"'predict' '--cluster' '=' 'ethernet-2'", "ethernet-25g\n", "dgx"},
    {"'whatif' '--gpu' '=' 'own,dgx-h1'", "own,dgx-h100\n", "a100"},
    {"'predict' 'READM'", "README.md\n", "dgx"},
    {"'predict' '--out' '=' 'READM'", "README.md\n", "dgx"},
    {"'predict' '--draws' '='", "\n", "README.md"},
    {"'analyze' 'READM'", "README.md\n", "dgx"},
    {"'help' 'prof'", "profile\n", "run"},
    {"'help' '--completion' '=' 'z'", "zsh\n", "fish"},
};

START_TEST(bash_completes)
{
    struct shell_result r;

    if (!has_shell("bash"))
        return;
    r = shell_run("bash <<'E'\nsource <(" PROGRAM
                  " help --completion bash)\ncomplete -p lockstep > /dev/null || exit 9\n"
                  "COMP_WORDS=(" PROGRAM " %s)\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_lockstep\n"
                  "printf '%%s\\n' \"${COMPREPLY[@]}\"\nE",
                  tried[_i].words);
    ck_assert_int_eq(r.code, 0);
    ck_assert_msg(strstr(r.text, tried[_i].has) != NULL, "%s: %s", tried[_i].words, r.text);
    ck_assert_msg(!strstr(r.text, tried[_i].has_not), "%s: %s", tried[_i].words, r.text);
}
END_TEST

static const char *const shells[] = {"bash", "zsh", "fish"};

/* The shell can read its script, where it is installed. */
START_TEST(scripts_are_valid)
{
    char *path;
    struct shell_result r;

    if (!has_shell(shells[_i]))
        return;
    path = scratch_path(scratch_dir, "script");
    r = shell_run(PROGRAM " help --completion %s > %s && %s -n %s 2>&1", shells[_i], path,
                  shells[_i], path);
    ck_assert_msg(r.code == 0 && !*r.text, "%s", r.text);
    free(path);
}
END_TEST

/* Lines, and the words to which fish and zsh complete their last ones. */
static const struct {
    const char *line, *word;
} completed[] = {
    {"lockstep pre", "predict"},
    {"lockstep repl", "replay"}, /* its help has an apostrophe */
    {"lockstep predict --bucket-c", "--bucket-cap"},
    {"lockstep predict --dtype=bf", "--dtype=bfloat16"},
    {"lockstep calibrate --dtypes=float32,bf", "--dtypes=float32,bfloat16"},
    {"lockstep whatif --gpu=own,dgx-h1", "--gpu=own,dgx-h100"},
    {"lockstep predict job.json dgx-h1", "dgx-h100"},
    {"lockstep predict READM", "README.md"},
    {"lockstep predict --out=READM", "--out=README.md"},
    {"lockstep help prof", "profile"},
    {"lockstep help --completion=z", "--completion=zsh"},
};

/* Put the build's folder first in PATH: the scripts ask `lockstep`. */
static void find_lockstep(void)
{
    char path[8192], *build = realpath(LK_BUILD_DIR, NULL);
    const char *old = getenv("PATH");

    ck_assert_ptr_nonnull(build);
    snprintf(path, sizeof path, "%s:%s", build, old ? old : "/usr/bin:/bin");
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    free(build);
}

START_TEST(fish_completes)
{
    struct shell_result r;

    if (!has_shell("fish"))
        return;
    find_lockstep();
    r = shell_run("HOME=%s fish -c 'lockstep help --completion fish | source; complete -C \"%s\"' "
                  "2>&1 | cut -f 1",
                  scratch_dir, completed[_i].line);
    ck_assert_int_eq(r.code, 0);
    r.text[strcspn(r.text, "\n")] = '\0';
    ck_assert_str_eq(r.text, completed[_i].word);
}
END_TEST

/* Read what a terminal shows until `what` is there. */
static void wait_for_text(int terminal, const char *what)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
    char text[1 << 14] = "";
    size_t n = 0;

    while (!strstr(text, what)) {
        struct pollfd p = {.fd = terminal, .events = POLLIN};
        ssize_t got = 0;

        ck_assert_msg(lk_deadline_left_ns(end) > 0, "no '%s' in: %s", what, text);
        if (poll(&p, 1, 10) == 1)
            got = read(terminal, text + n, sizeof text - 1 - n);
        ck_assert_msg(got >= 0 && n < sizeof text - 1, "no '%s' in: %s", what, text);
        text[n += (size_t)got] = '\0';
    }
}

/* zsh completes in its line editor alone, which wants a terminal. */
START_TEST(zsh_completes)
{
    static const char prepare[] =
        "TERM=dumb; PS1=; fpath=($SCRATCH $fpath); autoload -Uz compinit; "
        "compinit -u -D; echo rea''dy\n";
    char line[256], word[256];
    int terminal, status;
    pid_t pid;

    if (!has_shell("zsh"))
        return;
    find_lockstep();
    ck_assert_int_eq(setenv("SCRATCH", scratch_dir, 1), 0);
    ck_assert_int_eq(shell_run("lockstep help --completion zsh > %s/_lockstep", scratch_dir).code,
                     0);
    pid = forkpty(&terminal, NULL, NULL, NULL);
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        execlp("zsh", "zsh", "-f", "-i", (char *)NULL);
        _exit(125);
    }
    ck_assert_int_eq(write(terminal, prepare, sizeof prepare - 1), sizeof prepare - 1);
    wait_for_text(terminal, "ready");
    snprintf(line, sizeof line, "%s\t", completed[_i].line);
    ck_assert_int_eq(write(terminal, line, strlen(line)), (ssize_t)strlen(line));
    snprintf(word, sizeof word, " %s", completed[_i].word);
    wait_for_text(terminal, word);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(terminal);
}
END_TEST

/* Every option of every command's help is in the script. */
START_TEST(every_option_is_there)
{
    static const char *const before[] = {"--", "--", "-l "};
    struct shell_result r = shell_run(
        "for c in $(" PROGRAM
        " help | sed -n '/^commands:/,/^$/s/^  \\([a-z]*\\) .*/\\1/p'); do " PROGRAM
        " $c --help | grep -oE '^ {2,7}(-[a-z], )?--(\\[no-\\])?[a-z0-9-]+' | "
        "sed 's/.*--//; s/\\[no-\\]/no-/'; done | sort -u > %s/wanted; test -s %s/wanted "
        "&& " PROGRAM
        " help --completion %s | grep -oE -e '%s[a-z0-9-]+' | sed 's/^-[-l] *//' | sort -u | "
        "comm -13 - %s/wanted",
        scratch_dir, scratch_dir, shells[_i], before[_i], scratch_dir);

    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.text, "");
}
END_TEST

START_TEST(installation_is_complete)
{
    static const char *const files[] = {
        "bin/lockstep",
        "share/man/man1/lockstep.1",
        "share/man/man1/lockstep-whatif.1",
        "share/bash-completion/completions/lockstep",
        "share/zsh/site-functions/_lockstep",
        "share/fish/vendor_completions.d/lockstep.fish",
        "share/lockstep/clusters/dgx-a100.json",
    };
    struct shell_result r;

    if (shell_run("command -v make > /dev/null").code != 0) {
        skip("no make here");
        return;
    }
    r = shell_run("sed -n '/^MAN = /,$p' tools/targets.mk > %s/install.mk && "
                  "make -s -f %s/install.mk -o all BUILD=" LK_BUILD_DIR
                  " PREFIX=/opt/x DESTDIR=%s install 2>&1",
                  scratch_dir, scratch_dir, scratch_dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
    for (size_t i = 0; i < LK_COUNT(files); i++)
        ck_assert_msg(shell_run("test -s %s/opt/x/%s", scratch_dir, files[i]).code == 0, "%s",
                      files[i]);
    r = shell_run("make -s -f %s/install.mk BUILD=" LK_BUILD_DIR
                  " PREFIX=/opt/x DESTDIR=%s uninstall 2>&1 && find %s/opt -type f",
                  scratch_dir, scratch_dir, scratch_dir);
    ck_assert_msg(r.code == 0 && !*r.text, "%s", r.text);
}
END_TEST

SUITE(completion, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, bash_completes, 0, LK_COUNT(tried));
    tcase_add_loop_test(c, scripts_are_valid, 0, LK_COUNT(shells));
    tcase_add_loop_test(c, fish_completes, 0, LK_COUNT(completed));
    tcase_add_loop_test(c, zsh_completes, 0, LK_COUNT(completed));
    tcase_add_loop_test(c, every_option_is_there, 0, LK_COUNT(shells));
    tcase_add_test(c, installation_is_complete);
}
