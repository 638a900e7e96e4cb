/*
 * Kineto's daemon: its messages, what processes are told, and messages that make no sense. The
 * bytes are those that libkineto's structs have (profiler/daemon/protocol.h).
 */
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "profiler/daemon/process.h"
#include "profiler/daemon/protocol.h"
#include "profiler/daemon/server.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- Messages ---- */

struct message {
    uint64_t size;
    char type[32];
    union {
        struct {
            int32_t kinds, n;
            int64_t job;
            int32_t pids[4];
        } request;
        struct {
            int32_t gpu, pid;
            int64_t job;
        } context;
    } u;
};

#define HEADER sizeof(uint64_t) + 32

/* Make a request of n processes, the first of which is pid. */
static struct message request_of(int32_t kinds, int32_t n, int32_t pid)
{
    struct message m = {.size = 16 + 4 * (uint64_t)n, .type = "req"};

    m.u.request.kinds = kinds;
    m.u.request.n = n;
    m.u.request.job = 77;
    m.u.request.pids[0] = pid;
    return m;
}

START_TEST(reads_messages)
{
    struct message m = request_of(2, 3, 4711);
    struct lk_kineto_message read;

    must(lk_kineto_parse(&m, HEADER + m.size, &read));
    ck_assert_int_eq(read.type, LK_KINETO_REQUEST);
    ck_assert_int_eq(read.pid, 4711);
    ck_assert_int_eq(read.job, 77);
    ck_assert(read.ready);
    m.u.request.kinds = 1;
    must(lk_kineto_parse(&m, HEADER + m.size, &read));
    ck_assert(!read.ready);
    m = (struct message){.size = 16, .type = "ctxt", .u.context = {3, 4712, 78}};
    must(lk_kineto_parse(&m, HEADER + 16, &read));
    ck_assert_int_eq(read.type, LK_KINETO_CONTEXT);
    ck_assert_int_eq(read.pid, 4712);
    ck_assert_int_eq(read.job, 78);
}
END_TEST

/* Each differs from a request of one process, of 60 bytes, in one value. */
static const struct {
    size_t bytes; /* of the datagram */
    uint64_t size;
    const char *type;
    int32_t n, pid;
    const char *says;
} bad[] = {
    {60, 20, "req", 1, 9, NULL},
    {0, 20, "req", 1, 9, "shorter than its header"},
    {39, 20, "req", 1, 9, "shorter than its header"},
    {40, 20, "req", 1, 9, "says that it has 20 bytes, and has 0"},
    {60, UINT64_MAX, "req", 1, 9, "says that it has 18446744073709551615 bytes"},
    {60, 19, "req", 1, 9, "says that it has 19 bytes, and has 20"},
    {60, 20, "", 1, 9, "unknown type"},
    {60, 20, "re", 1, 9, "unknown type"},
    {60, 20, "request of more than thirty-two bytes", 1, 9, "unknown type"},
    {60, 20, "ctxt", 1, 9, "a context has 16 bytes, not 20"},
    {52, 12, "req", 1, 9, "at least 16 bytes, not 12"},
    {60, 20, "req", 0, 9, "a request of 0 processes"},
    {60, 20, "req", -1, 9, "a request of -1 processes"},
    {60, 20, "req", INT32_MAX, 9, "a request of 2147483647 processes"},
    {60, 20, "req", 2, 9, "a request of 2 processes has 20 bytes"},
    {60, 20, "req", 1, 0, "process 0 does not exist"},
    {60, 20, "req", 1, -9, "process -9 does not exist"},
};

START_TEST(refuses_messages)
{
    struct message m = request_of(2, bad[_i].n, bad[_i].pid);
    struct lk_kineto_message read = {.pid = 5};
    enum lk_status st;

    m.size = bad[_i].size;
    memset(m.type, 0, sizeof m.type);
    memcpy(m.type, bad[_i].type,
           strlen(bad[_i].type) < sizeof m.type ? strlen(bad[_i].type) : sizeof m.type);
    st = lk_kineto_parse(&m, bad[_i].bytes, &read);
    ck_assert_int_eq(st, bad[_i].says ? LK_EPARSE : LK_OK);
    ck_assert_int_eq(read.pid, bad[_i].says ? 5 : bad[_i].pid);
    if (bad[_i].says)
        ck_assert_msg(strstr(lk_error_text(), bad[_i].says) != NULL, "%s", lk_error_text());
}
END_TEST

START_TEST(answers_are_libkinetos)
{
    struct message expected = {.size = 2, .type = "req"};
    char *bytes = NULL;
    int32_t processes = 0;
    size_t size = 0;

    must(lk_kineto_answer(LK_KINETO_REQUEST, 3, "ab", &bytes, &size));
    ck_assert_uint_eq(size, HEADER + 2);
    ck_assert_mem_eq(bytes, &expected, HEADER);
    ck_assert_mem_eq(bytes + HEADER, "ab", 2);
    free(bytes);
    expected = (struct message){.size = 4, .type = "ctxt"};
    must(lk_kineto_answer(LK_KINETO_CONTEXT, 3, "ab", &bytes, &size));
    ck_assert_uint_eq(size, HEADER + 4);
    ck_assert_mem_eq(bytes, &expected, HEADER);
    memcpy(&processes, bytes + HEADER, 4);
    ck_assert_int_eq(processes, 3);
    free(bytes);
}
END_TEST

/* ---- What is to be recorded ---- */

START_TEST(recordings)
{
    struct lk_kineto_recording r = {
        .file = "/a/p0.json", .iterations = 20, .after = 50, .multiple = 500};
    char *text = NULL;

    must(lk_kineto_recording_text(&r, &text));
    ck_assert_str_eq(text, "ACTIVITIES_LOG_FILE=/a/p0.json\nPROFILE_START_ITERATION=50\n"
                           "PROFILE_START_ITERATION_ROUNDUP=500\nACTIVITIES_ITERATIONS=22\n"
                           "ACTIVITIES_WARMUP_ITERATIONS=2\nACTIVITIES_DURATION_MSECS=0\n"
                           "PROFILE_REPORT_INPUT_SHAPES=true\n");
    free(text);
    r = (struct lk_kineto_recording){
        .file = "/a/p0.json", .start_ms = 1700000000123, .length_ms = 2500};
    must(lk_kineto_recording_text(&r, &text));
    ck_assert_str_eq(text, "ACTIVITIES_LOG_FILE=/a/p0.json\nPROFILE_START_TIME=1700000000123\n"
                           "ACTIVITIES_DURATION_MSECS=2500\nACTIVITIES_WARMUP_PERIOD_SECS=2\n"
                           "PROFILE_REPORT_INPUT_SHAPES=true\n");
    free(text);
    r.file = "/a/../p0.json";
    ck_assert_int_eq(lk_kineto_recording_text(&r, &text), LK_EUSAGE);
}
END_TEST

START_TEST(paths)
{
    static const char *const refused[] = {"/a#b",  "/a=b", "/a/../b", "/a.json/b",
                                          "/a\nb", "/b ",  ""};

    must(lk_kineto_check_path("/home/a b/run-1_2.x"));
    for (size_t i = 0; i < LK_COUNT(refused); i++)
        ck_assert_int_eq(lk_kineto_check_path(refused[i]), LK_EUSAGE);
}
END_TEST

/* ---- Ranks ---- */

/* An environment's strings end with a NUL each; so does a C string. */
static const struct {
    const char *text;
    size_t size;
    int rank, world_size;
} environments[] = {
#define TEXT(t) t, sizeof(t)
    {TEXT("PATH=/bin\0RANK=3\0WORLD_SIZE=8"), 3, 8},
    {TEXT("SLURM_PROCID=1\0SLURM_NTASKS=2\0RANK=3\0WORLD_SIZE=8"), 3, 8},
    {TEXT("SLURM_PROCID=1\0SLURM_NTASKS=2"), 1, 2},
    {TEXT("OMPI_COMM_WORLD_RANK=0\0OMPI_COMM_WORLD_SIZE=1"), 0, 1},
    {TEXT("LOCAL_RANK=3\0LOCAL_WORLD_SIZE=8"), -1, -1},
    {TEXT("RANK=8\0WORLD_SIZE=8"), -1, -1},
    {TEXT("RANK=3"), -1, -1},
    {TEXT("RANK=-3\0WORLD_SIZE=8"), -1, -1},
    {TEXT("RANK=3x\0WORLD_SIZE=8"), -1, -1},
    {TEXT("RANK=99999999999999999999\0WORLD_SIZE=8"), -1, -1},
    {TEXT("RANK=\0WORLD_SIZE=8"), -1, -1},
    {TEXT(""), -1, -1},
    {"RANK=3\0WORLD_SIZE=88", 20, -1, -1}, /* cut off */
    {"", 0, -1, -1},
};

START_TEST(ranks)
{
    struct lk_process_rank r = lk_process_rank_in(environments[_i].text, environments[_i].size);

    ck_assert_int_eq(r.rank, environments[_i].rank);
    ck_assert_int_eq(r.world_size, environments[_i].world_size);
}
END_TEST

START_TEST(nobodys_rank)
{
    ck_assert_int_eq(lk_process_rank_of(0).rank, -1);
    ck_assert_int_eq(lk_process_rank_of(-1).rank, -1);
}
END_TEST

/* ---- The daemon ---- */

/* A daemon, and a process that asks it. */
static struct lk_daemon *daemon_;
static char *folder; /* of the socket */
static int client;

static struct lk_daemon_request request = {.iterations = 5, .after = 7};

/* Return the value of a variable of the job's environment, or NULL. */
static const char *variable(const char *name)
{
    size_t n;
    const char *const *all = lk_daemon_environment(daemon_, &n);

    for (size_t i = 0; i < n; i++)
        if (!strncmp(all[i], name, strlen(name)) && all[i][strlen(name)] == '=')
            return all[i] + strlen(name) + 1;
    return NULL;
}

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", folder, name);
    return a;
}

static void open_daemon(void)
{
    struct sockaddr_un own;

    request.folder = scratch_dir;
    must(lk_daemon_open(&request, &daemon_));
    must(lk_strdup(&folder, variable("KINETO_IPC_SOCKET_DIR")));
    own = address_of("dynoconfigclient-x");
    client = socket(AF_UNIX, SOCK_DGRAM, 0);
    ck_assert_int_ge(client, 0);
    ck_assert_int_eq(bind(client, (const struct sockaddr *)&own, sizeof own), 0);
}

static void close_daemon(void)
{
    close(client);
    lk_daemon_close(daemon_);
    ck_assert(!lk_file_exists(folder));
    free(folder);
    request = (struct lk_daemon_request){.iterations = 5, .after = 7};
}

static void send_bytes(int fd, const void *data, size_t size)
{
    const struct sockaddr_un to = address_of("dynolog");

    ck_assert_int_eq(sendto(fd, data, size, 0, (const struct sockaddr *)&to, sizeof to),
                     (ssize_t)size);
    lk_daemon_serve(daemon_);
}

/* Ask as libkineto does; return the text of the answer, which the caller frees. */
static char *ask(int32_t kinds)
{
    struct message m = request_of(kinds, 2, getpid());
    char answer[4096], *text;
    struct pollfd p = {.fd = client, .events = POLLIN};
    ssize_t n;

    send_bytes(client, &m, HEADER + m.size);
    ck_assert_int_eq(poll(&p, 1, WAIT_PLENTY_S * 1000), 1);
    n = recv(client, answer, sizeof answer, 0);
    ck_assert_int_ge(n, (ssize_t)(HEADER));
    memcpy(&m, answer, HEADER);
    ck_assert_uint_eq(m.size, (size_t)n - (HEADER));
    ck_assert_str_eq(m.type, "req");
    must(lk_strndup(&text, answer + HEADER, m.size));
    return text;
}

static void assert_told(int32_t kinds, bool told)
{
    char *text = ask(kinds);

    ck_assert_msg((*text != '\0') == told, "told '%s'", text);
    free(text);
}

/* A process is told until it begins: libkineto forgets what came before its first step. */
START_TEST(tells_until_it_records)
{
    const struct lk_daemon_process *p;
    size_t n;
    char *text, *file = NULL, *tmp = NULL;

    open_daemon();
    ck_assert_str_eq(variable("KINETO_USE_DAEMON"), "1");
    ck_assert_str_eq(variable("KINETO_ONDEMAND_TRACE_DIR"), scratch_dir);
    assert_told(0, false);
    assert_told(1, false);
    text = ask(2);
    must(lk_asprintf(&file, "ACTIVITIES_LOG_FILE=%s/p0.json\n", scratch_dir));
    ck_assert_msg(strstr(text, file) == text, "%s", text);
    free(file);
    free(text);
    assert_told(3, true);
    must(lk_asprintf(&file, "%s/p0_%d.json", scratch_dir, (int)getpid()));
    p = lk_daemon_processes(daemon_, &n);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(p->trace, file);
    ck_assert_int_eq(p->told, 2);
    must(lk_asprintf(&tmp, "p0_%d.json.tmp", (int)getpid()));
    free(scratch_put(tmp, "{", 1));
    assert_told(2, false);
    free(tmp);
    close_daemon();
    free(file);
}
END_TEST

START_TEST(waits_for_the_delay)
{
    request.delay_ns = 3600 * LK_NS_PER_S;
    open_daemon();
    assert_told(2, false);
    close_daemon();
    request.delay_ns = 0;
    request.iterations = 0;
    request.length_ns = LK_NS_PER_S;
    open_daemon();
    assert_told(2, true);
    assert_told(2, false); /* by time it is told once */
    close_daemon();
}
END_TEST

START_TEST(counts_processes_of_a_context)
{
    struct message m = {.size = 16, .type = "ctxt", .u.context = {0, 9, 0}};
    int32_t processes = 0;
    char answer[100];

    open_daemon();
    send_bytes(client, &m, HEADER + 16);
    ck_assert_int_eq(recv(client, answer, sizeof answer, MSG_DONTWAIT), HEADER + 4);
    memcpy(&processes, answer + HEADER, 4);
    ck_assert_int_eq(processes, 1);
    close_daemon();
}
END_TEST

/* Messages that make no sense, and senders that nobody can answer. */
START_TEST(ignores_and_counts)
{
    static char long_one[LK_KINETO_MESSAGE_BYTES + 1];
    struct message m = request_of(2, 1, 9);
    int nameless = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct sockaddr_un gone;
    size_t n;

    open_daemon();
    gone = address_of("gone");
    send_bytes(client, "x", 1);
    send_bytes(client, long_one, sizeof long_one);
    m.size = UINT64_MAX;
    send_bytes(client, &m, sizeof m);
    ck_assert_uint_eq(lk_daemon_ignored(daemon_), 3);
    m = request_of(2, 1, 9);
    send_bytes(nameless, &m, HEADER + m.size);
    ck_assert_uint_eq(lk_daemon_ignored(daemon_), 4);
    (void)lk_daemon_processes(daemon_, &n);
    ck_assert_uint_eq(n, 0);
    /* A process that is killed as it asks. */
    ck_assert_int_eq(bind(nameless, (const struct sockaddr *)&gone, sizeof gone), 0);
    ck_assert_int_eq(unlink(gone.sun_path), 0);
    send_bytes(nameless, &m, HEADER + m.size);
    ck_assert_uint_eq(lk_daemon_ignored(daemon_), 5);
    assert_told(2, true);
    close(nameless);
    close_daemon();
}
END_TEST

/* libkineto asks every second by a file of ours, unless the user has one. */
START_TEST(leaves_a_users_config)
{
    const char *path;
    char *text = NULL;
    size_t size;

    ck_assert_int_eq(unsetenv("KINETO_CONFIG"), 0);
    open_daemon();
    path = variable("KINETO_CONFIG");
    ck_assert(path != NULL || lk_file_exists("/etc/libkineto.conf"));
    if (path) {
        must(lk_file_read(path, &text, &size));
        ck_assert_str_eq(text, "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n");
        free(text);
    }
    close_daemon();
    ck_assert_int_eq(setenv("KINETO_CONFIG", "mine", 1), 0);
    open_daemon();
    ck_assert_ptr_null(variable("KINETO_CONFIG"));
    close_daemon();
}
END_TEST

/* The delay without which some versions fail. */
START_TEST(leaves_a_users_delay)
{
    ck_assert_int_eq(unsetenv("KINETO_DAEMON_INIT_DELAY_S"), 0);
    open_daemon();
    ck_assert_str_eq(variable("KINETO_DAEMON_INIT_DELAY_S"), "3");
    close_daemon();
    ck_assert_int_eq(setenv("KINETO_DAEMON_INIT_DELAY_S", "0", 1), 0);
    open_daemon();
    ck_assert_ptr_null(variable("KINETO_DAEMON_INIT_DELAY_S"));
    close_daemon();
}
END_TEST

START_TEST(notices_another_daemon)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "\0dynolog"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    /* Where this fails, another one listens there. */
    if (bind(fd, (const struct sockaddr *)&name, offsetof(struct sockaddr_un, sun_path) + 9))
        ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert(lk_daemon_other());
    close(fd);
}
END_TEST

START_TEST(refuses_a_folder)
{
    struct lk_daemon *d = NULL;

    request.folder = "/tmp/a#b";
    ck_assert_int_eq(lk_daemon_open(&request, &d), LK_EUSAGE);
    ck_assert_ptr_null(d);
}
END_TEST

SUITE(daemon, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, reads_messages);
    tcase_add_loop_test(t, refuses_messages, 0, (int)LK_COUNT(bad));
    tcase_add_test(t, answers_are_libkinetos);
    tcase_add_test(t, recordings);
    tcase_add_test(t, paths);
    tcase_add_loop_test(t, ranks, 0, (int)LK_COUNT(environments));
    tcase_add_test(t, nobodys_rank);
    tcase_add_test(t, tells_until_it_records);
    tcase_add_test(t, waits_for_the_delay);
    tcase_add_test(t, counts_processes_of_a_context);
    tcase_add_test(t, ignores_and_counts);
    tcase_add_test(t, leaves_a_users_config);
    tcase_add_test(t, leaves_a_users_delay);
    tcase_add_test(t, notices_another_daemon);
    tcase_add_test(t, refuses_a_folder);
}
