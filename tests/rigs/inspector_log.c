#include "tests/rigs/inspector_log.h"

#include "tests/rigs/scratch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *version_of(const struct inspector_rank *r)
{
    static const char *const versions[] = {"v4.0", "v4.0", "v4.1", "v4.2", "v4.3", "v4.4"};

    return r->version ? r->version : versions[r->form];
}

static void put_header(FILE *f, const struct inspector_rank *r)
{
    fprintf(f, "\"header\":{\"id\":\"%s\",", r->id ? r->id : "0x7f8c496ae9f661");
    if (r->form >= INSPECTOR_V40)
        fprintf(f, "\"comm_name\":\"unknown\",");
    fprintf(f,
            "\"rank\":%d,\"n_ranks\":%d,\"nnodes\":%d},\"metadata\":{"
            "\"inspector_output_format_version\":\"%s\",\"git_rev\":\"\",\"rec_mechanism\":"
            "\"nccl_profiler_interface\",\"dump_timestamp_us\":1748030377748202,\"hostname\":"
            "\"node-1\",\"pid\":%d},",
            r->rank, r->ranks, r->nodes, version_of(r), 1000 + r->rank);
}

/* Begin an object: until 4.2 each has a header of its own. */
static void begin(FILE *f, const struct inspector_rank *r)
{
    fprintf(f, "{");
    if (r->form < INSPECTOR_V43)
        put_header(f, r);
}

static void put_stats(FILE *f, const struct inspector_rank *r, size_t n)
{
    fprintf(f, "{");
    put_header(f, r);
    fprintf(f,
            "\"dump_stats\":{\"coll_records\":%zu,\"coll_dropped_total\":%zu,"
            "\"coll_dropped_since_last_dump\":%zu,\"p2p_records\":1,\"p2p_dropped_total\":7,"
            "\"p2p_dropped_since_last_dump\":7",
            n, 3 * r->lost, r->lost);
    if (r->form >= INSPECTOR_V43)
        fprintf(f, ",\"proxy_records\":1,\"proxy_dropped_total\":0,"
                   "\"proxy_dropped_since_last_dump\":0,\"proxy_steps_enabled\":1");
    if (r->form >= INSPECTOR_V44)
        fprintf(f, ",\"proxy_output_mode\":\"nested\",\"proxy_segment_step_capacity\":8");
    fprintf(f, "}}\n");
}

static void put_coll(FILE *f, const struct inspector_rank *r, const struct inspector_coll *c)
{
    const int parts = !strcmp(c->name, "AllGather") || !strcmp(c->name, "ReduceScatter");
    const double n = r->ranks, algbw = (r->rates > 0 ? r->rates : 1) * 1e-3 * (double)c->bytes *
                                       (parts ? n : 1) / (c->us ? c->us : 1);
    const double factor = !strcmp(c->name, "AllReduce") ? 2 * (n - 1) / n : parts ? (n - 1) / n : 1;

    begin(f, r);
    fprintf(f, "\"coll_perf\":{\"coll\":\"%s\",", c->name);
    if (r->form >= INSPECTOR_V42)
        fprintf(f, "\"coll_algo\":\"RING\",\"coll_proto\":\"SIMPLE\",");
    fprintf(f,
            "\"coll_sn\":%llu,\"coll_msg_size_bytes\":%llu,\"coll_exec_time_us\":%u,"
            "\"coll_timing_source\":\"%s\",\"coll_algobw_gbs\":%f,\"coll_busbw_gbs\":%f",
            (unsigned long long)c->number, (unsigned long long)c->bytes, c->us,
            c->source ? c->source : "kernel_gpu", algbw,
            algbw * factor * (r->bus > 0 ? r->bus : 1));
    if (r->is_verbose)
        fprintf(f,
                ",\"event_trace_sn\":{\"coll_start_sn\":1,\"kernel_events\":[{\"channel_id\":0,"
                "\"kernel_start_sn\":3}]},\"event_trace_ts\":{\"coll_start_ts\":1752867229235059,"
                "\"kernel_events\":[{\"channel_id\":0,\"rank\":99,\"kernel_stop_ts\":7}]}");
    fprintf(f, "}}\n");
}

static void put_send(FILE *f, const struct inspector_rank *r)
{
    begin(f, r);
    fprintf(f, "\"p2p_perf\":{\"p2p\":\"Send\",\"p2p_sn\":1,\"p2p_peer\":1,\"p2p_msg_size_bytes\":"
               "1048576,\"p2p_exec_time_us\":4,\"p2p_timing_source\":\"kernel_gpu\","
               "\"p2p_algobw_gbs\":262.144000,\"p2p_busbw_gbs\":262.144000}}\n");
}

/* Its rank is not a header's. */
static void put_proxy(FILE *f, const struct inspector_rank *r)
{
    begin(f, r);
    fprintf(f,
            "\"proxy_trace\":{\"record_type\":\"proxy_op\",\"record_sn\":42,\"parent_type\":"
            "\"coll\",\"parent_sn\":3,\"rank\":99,\"channel_id\":0,\"trans_size_bytes\":1048576");
    if (r->form >= INSPECTOR_V44)
        fprintf(f, ",\"is_final\":true,\"steps\":[{\"proxy_step_sn\":1,\"rank\":98}]");
    fprintf(f, "}}\n");
}

void inspector_dump(FILE *f, const struct inspector_rank *r, const struct inspector_coll *c,
                    size_t n)
{
    if (r->form >= INSPECTOR_V41)
        put_stats(f, r, n);
    for (size_t i = 0; i < n; i++)
        put_coll(f, r, &c[i]);
    if (r->form >= INSPECTOR_V40)
        put_send(f, r);
    if (r->form >= INSPECTOR_V43)
        put_proxy(f, r);
}

void inspector_put(const char *folder, const struct inspector_rank *r,
                   const struct inspector_coll *c, size_t n)
{
    char name[64], *path;
    FILE *f;

    snprintf(name, sizeof name, "node-1-pid%d.log", 1000 + r->rank);
    path = scratch_path(folder, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    inspector_dump(f, r, c, n);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}
