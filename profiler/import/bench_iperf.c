/*
 * Read iperf3's JSON (iperf3 --json, esnet/iperf): end.sum_received of a TCP run, end.sum of UDP.
 * It is the rate of a link between two hosts, and no collective.
 */
#include "profiler/import/bench_impl.h"

#include "base/json.h"

#include <math.h>

static const double BITS = 8;

bool bench_is_iperf(struct lk_json *root)
{
    return lk_json_expect(root, LK_JSON_OBJECT) == LK_OK && lk_json_optional(root, "start") &&
           (lk_json_optional(root, "end") || lk_json_optional(root, "error"));
}

enum lk_status bench_read_iperf(const char *path, struct lk_json *root, struct lk_bench *out)
{
    struct lk_json *error = lk_json_optional(root, "error"), *end, *sum, *intervals;
    const char *text;
    double bits;

    if (error) {
        LK_PASS(lk_json_as_text(error, &text));
        return lk_json_error(error, "iperf3 failed: %s", text);
    }
    LK_PASS(lk_json_object(root, "end", &end));
    if (lk_json_optional(end, "sum_received"))
        LK_PASS(lk_json_object(end, "sum_received", &sum));
    else
        LK_PASS(lk_json_object(end, "sum", &sum));
    LK_PASS(lk_json_number(sum, "bits_per_second", &bits));
    if (!(bits > 0))
        return lk_json_error(sum, "bits_per_second must be above 0");
    LK_PASS(lk_json_array(root, "intervals", &intervals));
    return lk_quantity_set(&out->link_Bps, bits / BITS, NAN, NAN, lk_json_count(intervals),
                           "%s:%zu: iperf3", path, lk_json_line(sum));
}
