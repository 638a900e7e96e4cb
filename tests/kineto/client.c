/*
 * A stand-in for a PyTorch process under KINETO_USE_DAEMON=1: it trains nothing, asks the daemon as
 * libkineto does (IpcFabricConfigClient.cpp, FabricManager.h), takes what it is told by libkineto's
 * rules (Config.cpp, AsyncActivityProfilerHandler.cpp), and writes a trace of a DDP step over gloo.
 *
 *     kineto_client ITERATIONS MS [die|no-steps|noise]
 *
 * It makes so many iterations of MS each. die: SIGKILL ends it as it writes the trace; no-steps: it
 * has no optimizer; noise: it sends messages that make no sense before each question. Exit 9: it
 * was told something that libkineto would not understand.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* libkineto waits for 90 ms for an answer; a test on a busy machine has to wait longer. */
enum { STEPS_MAX = 4096, TEXT_MAX = 8192, NOT_UNDERSTOOD = 9, ANSWER_S = 100 };

struct header {
    uint64_t size;
    char type[32];
};

struct request {
    struct header header;
    int32_t kinds, n;
    int64_t job;
    int32_t pids[2];
};

struct recording {
    char file[512];
    long start, multiple, iterations, warmup; /* start -1: none */
    bool pending, active, done;
};

struct step {
    int64_t start_us, end_us;
};

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void nap_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static void refuse(const char *what)
{
    fprintf(stderr, "kineto_client: %s\n", what);
    exit(NOT_UNDERSTOOD);
}

/* ---- Messages ---- */

static struct sockaddr_un address_of(const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *folder = getenv("KINETO_IPC_SOCKET_DIR");

    if (!folder || !getenv("KINETO_USE_DAEMON"))
        exit(0); /* then PyTorch asks nobody, too */
    snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", folder, name);
    return a;
}

static int open_socket(void)
{
    char name[80];
    struct sockaddr_un own;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

    snprintf(name, sizeof name, "dynoconfigclient%08d-0000-4000-8000-000000000000", (int)getpid());
    own = address_of(name);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&own, sizeof own))
        refuse("cannot bind");
    return fd;
}

static void send_noise(int fd, const struct sockaddr_un *to)
{
    struct request r = {.header = {.size = UINT64_MAX, .type = "req"}};
    char zeros[100] = {0};

    (void)sendto(fd, zeros, 1, 0, (const struct sockaddr *)to, sizeof *to);
    (void)sendto(fd, zeros, sizeof zeros, 0, (const struct sockaddr *)to, sizeof *to);
    (void)sendto(fd, &r, sizeof r, 0, (const struct sockaddr *)to, sizeof *to);
}

/* Ask the daemon; return the text that it answers in a static buffer, "" if it has none. */
static const char *ask(int fd, bool ready)
{
    static char answer[sizeof(struct header) + TEXT_MAX];
    const struct sockaddr_un to = address_of("dynolog");
    const struct request r = {
        .header = {.size = sizeof r - sizeof r.header, .type = "req"},
        .kinds = ready ? 2 : 0,
        .n = 2,
        .pids = {getpid(), getppid()},
    };
    const struct timeval patience = {.tv_sec = ANSWER_S};
    struct header h;
    ssize_t n;

    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ||
        sendto(fd, &r, sizeof r, 0, (const struct sockaddr *)&to, sizeof to) != sizeof r)
        return "";
    n = recv(fd, answer, sizeof answer - 1, 0);
    if (n < 0)
        return "";
    memcpy(&h, answer, sizeof h);
    if ((size_t)n < sizeof h || strcmp(h.type, "req") != 0 || h.size != (size_t)n - sizeof h)
        refuse("a malformed answer");
    answer[n] = '\0';
    return answer + sizeof h;
}

/* ---- What to record ---- */

static void set_file(struct recording *r, const char *value)
{
    const char *folder = getenv("KINETO_ONDEMAND_TRACE_DIR");
    const char *dot = strstr(value, ".json");

    if (!folder || strncmp(value, folder, strlen(folder)) != 0 || strstr(value, "..") || !dot)
        refuse("a file that is not allowed");
    snprintf(r->file, sizeof r->file, "%.*s_%d%s", (int)(dot - value), value, (int)getpid(), dot);
}

static void read_line(struct recording *r, char *line)
{
    char *equals = strchr(line, '=');
    long v;

    if (!equals || strchr(equals + 1, '='))
        refuse(line);
    *equals = '\0';
    v = strtol(equals + 1, NULL, 10);
    if (!strcmp(line, "ACTIVITIES_LOG_FILE"))
        set_file(r, equals + 1);
    else if (!strcmp(line, "PROFILE_START_ITERATION"))
        r->start = v;
    else if (!strcmp(line, "PROFILE_START_ITERATION_ROUNDUP"))
        r->multiple = v;
    else if (!strcmp(line, "ACTIVITIES_ITERATIONS"))
        r->iterations = v;
    else if (!strcmp(line, "ACTIVITIES_WARMUP_ITERATIONS"))
        r->warmup = v;
    else if (strcmp(line, "ACTIVITIES_DURATION_MSECS") != 0 &&
             strcmp(line, "PROFILE_REPORT_INPUT_SHAPES") != 0)
        refuse(line);
}

/* Take a text, as libkineto schedules it: not before the first optimizer step. */
static void take(struct recording *r, const char *text, long iteration)
{
    struct recording told = {.start = -1};
    char copy[TEXT_MAX];

    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));)
        if (*line)
            read_line(&told, line);
    if (!*text || r->pending || iteration < 0)
        return;
    *r = told;
    r->pending = true;
}

/* Return true if a pending recording warms up from this iteration on. A start that is over is moved
 * to the next multiple. */
static bool begins(struct recording *r, long iteration)
{
    if (iteration > r->start - r->warmup) {
        r->start = iteration + r->warmup;
        if (r->multiple > 0 && r->start % r->multiple)
            r->start += r->multiple - r->start % r->multiple;
    }
    return iteration == r->start - r->warmup;
}

/* An optimizer has stepped: begin or end the recording. */
static void step(struct recording *r, long iteration)
{
    if (r->pending && begins(r, iteration)) {
        r->pending = false;
        r->active = true;
    }
    if (r->active && iteration >= r->start + r->iterations) {
        r->active = false;
        r->done = true;
    }
}

/* ---- The trace ---- */

static void event(FILE *f, const struct step *s, const char *name, int tid, double from, double to,
                  const char *args)
{
    double length = (double)(s->end_us - s->start_us);

    fprintf(f,
            "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,"
            "\"dur\":%.3f,\"args\":{%s}},\n",
            name, (int)getpid(), tid, (double)s->start_us + from * length, (to - from) * length,
            args);
}

/* A step of two parameters, reduced in one bucket. */
static void write_step(FILE *f, const struct step *s)
{
#define EVALUATE "autograd::engine::evaluate_function: "
    event(f, s, "DistributedDataParallel.forward", 1, 0.05, 0.3, "");
    event(f, s, EVALUATE "AddmmBackward0", 2, 0.35, 0.5, "");
    event(f, s, EVALUATE "torch::autograd::AccumulateGrad", 2, 0.5, 0.52, "");
    event(f, s, "torch::autograd::AccumulateGrad", 2, 0.505, 0.515,
          "\"Input Dims\":[[64]],\"Input type\":[\"float\"]");
    event(f, s, EVALUATE "MmBackward0", 2, 0.55, 0.65, "");
    event(f, s, EVALUATE "torch::autograd::AccumulateGrad", 2, 0.65, 0.7, "");
    event(f, s, "torch::autograd::AccumulateGrad", 2, 0.655, 0.665,
          "\"Input Dims\":[[64,32]],\"Input type\":[\"float\"]");
    event(f, s, "gloo:all_reduce", 3, 0.67, 0.8,
          "\"Input Dims\":[[2112]],\"Input type\":[\"float\"]");
    event(f, s, "Optimizer.step#SGD.step", 1, 0.85, 0.95, "");
}

static void write_trace(const struct recording *r, const struct step *steps, size_t n, bool die)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s.tmp", r->file);
    f = fopen(path, "w");
    if (!f)
        refuse(path);
    fputs("{\"schemaVersion\":1,\"record_shapes\":1,\"traceEvents\":[\n", f);
    for (size_t i = 0; i < n; i++)
        write_step(f, &steps[i]);
    if (die) {
        fflush(f);
        raise(SIGKILL);
    }
    fprintf(f, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"tid\":0,\"args\":{}}]}\n",
            (int)getpid());
    if (fclose(f) || rename(path, r->file))
        refuse("cannot write the trace");
}

/* ---- Interrupts ---- */

static volatile sig_atomic_t count_fd;

static void count(int signal)
{
    (void)signal;
    if (write(count_fd, "x", 1) != 1)
        _exit(1);
}

/* The file gets its name when all is ready for the first interrupt. */
static int count_interrupts(const char *folder)
{
    const struct sigaction action = {.sa_handler = count};
    char path[512], made[512];

    snprintf(path, sizeof path, "%s/count", folder);
    snprintf(made, sizeof made, "%s/count.new", folder);
    count_fd = open(made, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (count_fd < 0 || sigaction(SIGINT, &action, NULL) || rename(made, path))
        return 1;
    snprintf(path, sizeof path, "%s/stop", folder);
    while (access(path, F_OK) != 0)
        nap_ms(1);
    return 0;
}

int main(int argc, char **argv)
{
    static struct step steps[STEPS_MAX];
    const char *mode = argc > 3 ? argv[3] : "";
    long iterations = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    long ms = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    struct recording r = {.start = -1};
    struct sockaddr_un to;
    size_t n = 0;
    int fd;

    if (argc == 3 && !strcmp(argv[1], "interrupts"))
        return count_interrupts(argv[2]);
    to = address_of("dynolog");
    fd = open_socket();
    for (long i = -1; i < iterations; i++) {
        int64_t before = now_us();

        if (!strcmp(mode, "noise"))
            send_noise(fd, &to);
        take(&r, ask(fd, !r.active && !r.done), i);
        nap_ms(ms);
        if (r.active && i >= r.start && n < STEPS_MAX)
            steps[n++] = (struct step){before, now_us()};
        if (!strcmp(mode, "no-steps"))
            continue;
        step(&r, i + 1);
        if (r.done && n) {
            write_trace(&r, steps, n, !strcmp(mode, "die"));
            n = 0;
            r = (struct recording){.start = -1};
        }
    }
    close(fd);
    return 0;
}
