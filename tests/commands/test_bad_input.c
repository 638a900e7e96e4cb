/*
 * Give bad input to the program as a user might: every kind of damage to every kind of file,
 * through the commands that read it. Each must end with exit code 1 and one line that names the
 * file, the line and the key, print no results, and write nothing.
 *
 * The good files are the seeds of the fuzz targets, tests/fuzz/corpus.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CORPUS  "tests/fuzz/corpus/"
#define JOB     CORPUS "job/full.json"
#define CLUSTER CORPUS "cluster/full.json"

enum kind {
    KIND_JOB,
    KIND_CLUSTER,
    KIND_THROUGHPUT,
    KIND_GRADIENTS,
    KIND_COLLECTIVES,
    KIND_LOG,
    KIND_JSON
};
enum { COMMANDS_MAX = 4 };

/* The good file of a kind and the commands that read it: %1$s is the file, %2$s where to write. */
static const struct {
    const char *good;
    const char *commands[COMMANDS_MAX];
} kinds[] = {
    [KIND_JOB] = {JOB,
                  {"predict %1$s " CLUSTER " --gpus=1,2 --draws=20 --out=%2$s",
                   "whatif %1$s " CLUSTER " --gpus=2 --draws=20 --out=%2$s",
                   "validate %1$s --cluster=" CLUSTER " --draws=20 --out=%2$s",
                   "replay %1$s --steps=1 --out=%2$s"}},
    [KIND_CLUSTER] = {CLUSTER,
                      {"predict " JOB " %1$s --gpus=1,2 --draws=20 --out=%2$s",
                       "whatif " JOB " %1$s --gpus=2 --draws=20 --out=%2$s",
                       "validate " JOB " --cluster=%1$s --draws=20 --out=%2$s",
                       "import --collectives=" CORPUS "csv/points.csv --base=%1$s --gpu=x "
                       "--out=%2$s"}},
    [KIND_THROUGHPUT] = {CORPUS "throughput/nodes.csv",
                         {"predict --throughput=%1$s --gpus=128 --out=%2$s",
                          "validate --throughput=%1$s --out=%2$s"}},
    [KIND_GRADIENTS] = {CORPUS "gradients/tensors.csv",
                        {"predict --throughput=" CORPUS "throughput/nodes.csv --gradients=%1$s "
                         "--cluster=dgx-h100 --gpus=128 --out=%2$s",
                         "validate --throughput=" CORPUS "throughput/nodes.csv --gradients=%1$s "
                         "--cluster=dgx-h100 --out=%2$s"}},
    [KIND_COLLECTIVES] = {CORPUS "csv/points.csv", {"import --collectives=%1$s --out=%2$s"}},
    [KIND_LOG] = {CORPUS "nccl_tests/plain.log", {"import %1$s --out=%2$s"}},
    [KIND_JSON] = {CORPUS "nccl_tests/j.json", {"import %1$s --out=%2$s"}},
};

/*
 * One change to the good file: `from` becomes `to`. The message must name the line of `at` in the
 * good file (NULL: of `from`), and contain `says`.
 */
struct damage {
    enum kind kind;
    const char *from, *to, *at, *says;
};

/* clang-format off */
static const struct damage damages[] = {
    /* Damage to the document. */
    {KIND_JOB, "lockstep-job", "lockstep-cluster", NULL, "schema: expected \"lockstep-job\""},
    {KIND_JOB, "\"version\": 1", "\"version\": 2", NULL, "version: version 2 was written by a newer"},
    {KIND_JOB, "\"version\": 1", "\"version\": \"1\"", NULL, "version: expected a number"},
    {KIND_JOB, "\"version\": 1", "\"version\": 0", NULL, "version: 0 is out of range"},
    {KIND_JOB, "\"version\": 1,", "", "{\n  \"schema\"", "version: missing"},
    {KIND_JOB, "\"name\": \"tiny\"", "\"name\": \"tiny\", \"name\": \"two\"", NULL, "name"},
    {KIND_JOB, "\"name\": \"tiny\",", "", "{\n  \"schema\"", "name: missing"},
    {KIND_JOB, "\"name\": \"tiny\"", "\"nmae\": \"tiny\"", "{\n  \"schema\"", "name: missing (there is \"nmae\")"},
    {KIND_JOB, "\"name\": \"tiny\"", "\"name\": \"t\xFFny\"", NULL, "name: a string has bytes that are no UTF-8"},
    {KIND_JOB, "\"name\": \"tiny\"", "\"name\": tiny", NULL, ""},
    {KIND_JOB, "\"name\": \"tiny\"", "\"name\": null", NULL, "name: expected a string, got null"},
    {KIND_JOB, "\"prefetch_depth\": 2", "\"prefetch\": 2", NULL, "prefetch: unknown key"},
    {KIND_JOB, "\"no_sync\": true,\n  \"pre", "\"no_sync\": 1,\n  \"pre", NULL, "no_sync: expected true or false"},
    /* Damage to numbers and their units. */
    {KIND_JOB, "\"value\": 3,", "\"value\": NaN,", NULL, ""},
    {KIND_JOB, "\"value\": 3,", "\"value\": Infinity,", NULL, ""},
    {KIND_JOB, "\"value\": 3,", "\"value\": \"3\",", NULL, "compute[0].forward.value: expected a number"},
    {KIND_JOB, "\"value\": 3,", "\"value\": -3,", NULL, "compute[0].forward: must not be negative"},
    {KIND_JOB, "\"value\": 3,", "\"value\": 1e999,", NULL, "compute[0].forward.value: 1e999 is too large"},
    {KIND_JOB, "\"value\": 3, \"unit\": \"ms\"", "\"value\": 1e308, \"unit\": \"h\"", NULL, "compute[0].forward: out of range"},
    {KIND_JOB, "\"value\": 3, \"unit\": \"ms\"", "\"value\": 3, \"unit\": \"MiB\"", NULL, "compute[0].forward.unit"},
    {KIND_JOB, "\"value\": 3, \"unit\": \"ms\"", "\"value\": 3", NULL, "compute[0].forward.unit: missing"},
    {KIND_JOB, "{\"value\": 3, \"unit\": \"ms\", \"source\": \"by hand\"}", "3", NULL, "compute[0].forward: expected an object"},
    {KIND_JOB, "\"forward\": {\"value\": 3", "\"forwards\": {\"value\": 3", "{\"local_batch\": 8,\n     \"forward\"", "compute[0].forward: missing"},
    {KIND_JOB, "\"lo\": 5.5, \"hi\"", "\"hi\"", NULL, "compute[0].backward: has one bound"},
    {KIND_JOB, "\"lo\": 5.5", "\"lo\": 6.2", NULL, "compute[0].backward: the value lies outside"},
    {KIND_JOB, "\"n\": 20", "\"n\": -1", NULL, "compute[0].backward.n: -1 is out of range"},
    {KIND_JOB, "\"Mflop\", \"source\": \"by hand\"},\n  \"mem", "\"Mflop\"},\n  \"mem", NULL, "flops_per_sample.source: missing"},
    /* Damage to settings. */
    {KIND_JOB, "\"first_bucket_bytes\": 1048576,\n  \"bucket", "\"first_bucket_bytes\": -1,\n  \"bucket", NULL, "first_bucket_bytes: -1 is out of range"},
    {KIND_JOB, "\"bucket_cap_bytes\": 26214400,\n  \"acc", "\"bucket_cap_bytes\": 0,\n  \"acc", NULL, "bucket_cap_bytes: must be above 0"},
    {KIND_JOB, "\"bucket_cap_bytes\": 26214400,\n  \"acc", "\"bucket_cap_bytes\": 18446744073709551616,\n  \"acc", NULL, "bucket_cap_bytes: 18446744073709551616 is out of range"},
    {KIND_JOB, "\"accumulation\": 1,\n  \"no", "\"accumulation\": 0,\n  \"no", NULL, "accumulation: 0 is out of range"},
    {KIND_JOB, "\"accumulation\": 1,\n  \"no", "\"accumulation\": 1e9999,\n  \"no", NULL, "accumulation"},
    {KIND_JOB, "\"accumulation\": 1,\n  \"no", "\"accumulation\": 1000000000,\n  \"no", NULL, "accumulation: 1000000000 is out of range"},
    {KIND_JOB, "\"accumulation\": 1,\n  \"no", "\"accumulation\": 1.5,\n  \"no", NULL, "accumulation: expected a whole number"},
    {KIND_JOB, "torch-2.x", "torch-3", NULL, "ddp_rule"},
    {KIND_JOB, "\"adamw\"", "\"adma\"", NULL, "optimizer: unknown word 'adma'; did you mean 'adam'?"},
    {KIND_JOB, "\"prefetch_depth\": 2", "\"prefetch_depth\": 10000000000", NULL, "prefetch_depth: 10000000000 is out of range"},
    /* Damage to gradients and their order: repeats are the only cycles that a job can have. */
    {KIND_JOB, "\"elements\": 300000", "\"elements\": 0", NULL, "gradients[0].elements: 0 is out of range"},
    {KIND_JOB, "\"elements\": 300000", "\"elements\": -4", NULL, "gradients[0].elements: -4 is out of range"},
    {KIND_JOB, "\"elements\": 300000", "\"elements\": 1e30", NULL, "gradients[0].elements: 1e30 is out of range"},
    {KIND_JOB, "\"elements\": 300000", "\"elements\": 9223372036854775808", NULL, "gradients[0].elements"},
    {KIND_JOB, "\"elements\": 300000, ", "", "{\"name\": \"conv\", \"el", "gradients[0].elements: missing"},
    {KIND_JOB, "\"bfloat16\"", "\"bf16x\"", NULL, "gradients[1].dtype"},
    {KIND_JOB, "\"ready\": 0.5", "\"ready\": 1.5", NULL, "gradients[1].ready: must be from 0 to 1"},
    {KIND_JOB, ", \"ready\": 0.5", "", NULL, "gradients[1]: ready: is missing"},
    {KIND_JOB, "\"rows\": 100", "\"rows\": 7", NULL, "gradients[0].rows: must divide"},
    {KIND_JOB, "\"gradients\": [", "\"gradients\": [], \"was\": [", NULL, "gradients: must not be empty"},
    {KIND_JOB, "\"gradients\": [", "\"gradients\": 1000000000, \"was\": [", NULL, "gradients: expected an array"},
    {KIND_JOB, "[2, 1, 0]", "[2, 1, 2]", NULL, "ready_order[2]: gradient 2 is there twice"},
    {KIND_JOB, "[2, 1, 0]", "[2, 1, 3]", NULL, "ready_order[2]: 3 is out of range"},
    {KIND_JOB, "[2, 1, 0]", "[2, 1, -1]", NULL, "ready_order[2]: -1 is out of range"},
    {KIND_JOB, "[2, 1, 0]", "[2, 1]", NULL, "ready_order: has 2 entries for 3 gradients"},
    {KIND_JOB, "[2, 1, 0]", "[]", NULL, "ready_order: has 0 entries for 3 gradients"},
    {KIND_JOB, "\"channels\": 64", "\"channels\": 0", NULL, "sync_batch_norm[0].channels: 0 is out of range"},
    {KIND_JOB, "\"at\": 0.5", "\"at\": -0.5", NULL, "sync_batch_norm[0].at: must be from 0 to 1"},
    {KIND_JOB, "\"layers\": [", "\"layers\": 3, \"was\": [", NULL, "layers: expected an array"},
    /* Damage to compute and runs. */
    {KIND_JOB, "\"local_batch\": 16", "\"local_batch\": 8", "{\"local_batch\": 16", "compute[1]: local_batch: rows must be in rising order, each batch once"},
    {KIND_JOB, "\"local_batch\": 16", "\"local_batch\": 4", "{\"local_batch\": 16", "compute[1]: local_batch: rows must be in rising order"},
    {KIND_JOB, "\"local_batch\": 16", "\"local_batch\": 0", NULL, "compute[1].local_batch: 0 is out of range"},
    {KIND_JOB, "\"compute\": [", "\"compute\": [], \"was\": [", NULL, "compute: must not be empty"},
    {KIND_JOB, "\"compute\": [", "\"compute\": null, \"was\": [", NULL, "compute: expected an array, got null"},
    {KIND_JOB, "\"gpus\": 2", "\"gpus\": 0", NULL, "runs[1].gpus: 0 is out of range"},
    {KIND_JOB, "\"gpus\": 2", "\"gpus\": 1000000000", NULL, "runs[1].gpus: 1000000000 is out of range"},
    {KIND_JOB, "\"nodes\": 2", "\"nodes\": 3", NULL, "runs[1].nodes: 3 is out of range"},
    {KIND_JOB, "[0.012, 0.0121, 0.0122]", "[]", NULL, "runs[1].step_s: must not be empty"},
    {KIND_JOB, "[0.012, 0.0121, 0.0122]", "[0.012, 0, 1]", NULL, "runs[1].step_s[1]: must be above 0"},
    {KIND_JOB, "[0.009, 0.0091]", "[0.009]", NULL, "runs[1].rank_compute_s: has 1 entries for 2 GPUs"},
    /* Clusters. */
    {KIND_CLUSTER, "lockstep-cluster", "lockstep-job", NULL, "schema: expected \"lockstep-cluster\""},
    {KIND_CLUSTER, "\"version\": 1", "\"version\": 9", NULL, "version: version 9 was written by a newer"},
    {KIND_CLUSTER, "\"gpus_per_node\": 1", "\"gpus_per_node\": 0", NULL, "gpus_per_node: 0 is out of range"},
    {KIND_CLUSTER, "\"gpus_per_node\": 1", "\"gpus_per_node\": 1000000000", NULL, "gpus_per_node: 1000000000 is out of range"},
    {KIND_CLUSTER, "\"gpus_per_node\": 1", "\"gpus_per_nod\": 1", "{\n  \"schema\"", "gpus_per_node: missing (there is \"gpus_per_nod\")"},
    {KIND_CLUSTER, "\"nodes\": 4,\n  \"gpus_per_node\": 1,", "\"nodes\": 16777216, \"gpus_per_node\": 2,", NULL, "nodes: 16777216 nodes of 2 GPUs are too many"},
    {KIND_CLUSTER, "\"nodes\": 4", "\"nodes\": -1", NULL, "nodes: -1 is out of range"},
    {KIND_CLUSTER, "\"preset\": false", "\"preset\": 0", NULL, "preset: expected true or false"},
    {KIND_CLUSTER, "\"compute_capability\": 90", "\"compute_capability\": 9.0e9", NULL, "device.compute_capability"},
    {KIND_CLUSTER, "\"nvswitch\"", "\"nvswich\"", NULL, "topology.gpu_link: unknown word 'nvswich'; did you mean 'nvswitch'?"},
    {KIND_CLUSTER, "\"tcp\"", "\"token ring\"", NULL, "topology.network: unknown word"},
    {KIND_CLUSTER, "\"nics_per_node\": 1", "\"nics_per_node\": 0", NULL, "topology.nics_per_node: 0 is out of range"},
    {KIND_CLUSTER, "\"oversubscription\": {\"value\": 2", "\"oversubscription\": {\"value\": 0.5", NULL, "topology.oversubscription: must be 1 or more"},
    {KIND_CLUSTER, "\"sharp\": false", "\"sharp\": \"no\"", NULL, "topology.sharp: expected true or false"},
    {KIND_CLUSTER, "\"bandwidth\": {\"value\": 10,", "\"bandwidth\": {\"value\": 0,", NULL, "inter.bandwidth: must be above 0"},
    {KIND_CLUSTER, "\"bandwidth\": {\"value\": 10,", "\"bandwidth\": {\"value\": -10,", NULL, "inter.bandwidth: must not be negative"},
    {KIND_CLUSTER, "\"unit\": \"Gbit/s\"", "\"unit\": \"GB\"", NULL, "inter.bandwidth.unit"},
    {KIND_CLUSTER, "\"latency\": {\"value\": 20,", "\"latncy\": {\"value\": 20,", "\"inter\": {", "inter.latency: missing (there is \"latncy\")"},
    {KIND_CLUSTER, "\"bytes\": 1024", "\"bytes\": -1024", NULL, "collectives[0].bytes: -1024 is out of range"},
    {KIND_CLUSTER, "\"bytes\": 1024", "\"bytes\": 1e400", NULL, "collectives[0].bytes"},
    {KIND_CLUSTER, "\"ranks\": 2, \"nodes\": 2, \"bytes\": 1024", "\"ranks\": 0, \"nodes\": 2, \"bytes\": 1024", NULL, "collectives[0].ranks: 0 is out of range"},
    {KIND_CLUSTER, "\"ranks\": 2, \"nodes\": 2, \"bytes\": 1024", "\"ranks\": 1000000000, \"nodes\": 2, \"bytes\": 1024", NULL, "collectives[0].ranks: 1000000000 is out of range"},
    {KIND_CLUSTER, "\"ranks\": 2, \"nodes\": 2, \"bytes\": 1024", "\"ranks\": 2, \"nodes\": 3, \"bytes\": 1024", NULL, "collectives[0].nodes: 3 is out of range"},
    {KIND_CLUSTER, "\"all_reduce\", \"algorithm\": \"auto\"", "\"allreduce\", \"algorithm\": \"auto\"", NULL, "collectives[0].collective"},
    {KIND_CLUSTER, "\"algorithm\": \"ring\", \"timing\"", "\"algorithm\": \"rnig\", \"timing\"", NULL, "collectives[2].algorithm"},
    {KIND_CLUSTER, "\"alone\"", "\"together\"", NULL, "collectives[2].timing: unknown word 'together'"},
    {KIND_CLUSTER, "\"value\": 60,", "\"value\": 0,", NULL, "collectives[0].time"},
    {KIND_CLUSTER, "\"collectives\": [", "\"collectives\": {}, \"was\": [", NULL, "collectives: expected an array"},
    {KIND_CLUSTER, "\"link\": \"inter\"", "\"link\": \"outer\"", NULL, "fits[0].link: unknown word 'outer'"},
    {KIND_CLUSTER, "\"value\": 1.1,", "\"value\": 0,", NULL, "fits[0].bandwidth: must be above 0"},
    {KIND_CLUSTER, "{\"ranks\": 1, \"kappa\"", "{\"ranks\": 2, \"kappa\"", "\"colocation\"", "colocation: 2 ranks are there twice"},
    {KIND_CLUSTER, "\"proxy\": true", "\"proxi\": true", "\"overlap\": {", "overlap.proxy: missing (there is \"proxi\")"},
    {KIND_CLUSTER, "\"rank_sd\"", "\"gpu_sd\"", NULL, "stragglers.gpu_sd: unknown key"},
    {KIND_CLUSTER, "{\"rank\": 3,", "{\"rank\": -3,", NULL, "stragglers.known[0].rank: -3 is out of range"},
    {KIND_CLUSTER, "{\"rank\": 3,", "{\"rank\": 3, \"node\": 1,", NULL, "stragglers.known[0]: expected a rank or a node, and not both"},
    {KIND_CLUSTER, "\"compute\": {\"value\": 1.2", "\"compute\": {\"value\": 0", NULL, "stragglers.known[0].compute: must be above 0"},
    {KIND_CLUSTER, "{\"node\": 1, \"link\"", "{\"node\": 9, \"link\"", NULL, "stragglers.known[1]: node 9: there are 4"},
    {KIND_CLUSTER, "{\"node\": 1, \"link\": {\"value\": 2, \"unit\": \"1\", \"source\": \"by hand\"}, \"since\": true}", "{\"rank\": 3, \"compute\": {\"value\": 2, \"unit\": \"1\", \"source\": \"x\"}}", NULL, "stragglers.known[1]: rank 3 is there twice"},
    {KIND_CLUSTER, "\"price_per_hour\": {\"value\": 2.5, \"unit\": \"1/h\"", "\"price_per_hour\": {\"value\": 2.5, \"unit\": \"$\"", NULL, "price_per_hour.unit"},
    /* Tables of throughputs. */
    {KIND_THROUGHPUT, "gpus,nodes", "gpu_count,nodes", NULL, "gpu_count"},
    {KIND_THROUGHPUT, ",throughput", ",thruput", NULL, "thruput"},
    {KIND_THROUGHPUT, "gpus,nodes", "gpus,gpus", NULL, "gpus"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "0,1,32,1,2600", NULL, "'gpus': 0 is not from 1"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "-8,1,32,1,2600", NULL, "'gpus': -8 is not from 1"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "1000000000,1,32,1,2600", NULL, "'gpus': 1000000000 is not from 1"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,0,32,1,2600", NULL, "'nodes': 0 is not from 1"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,9,32,1,2600", NULL, "'nodes'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,NaN", NULL, "'throughput': 'NaN'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,inf", NULL, "'throughput': 'inf'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,1e999", NULL, "'throughput': '1e999'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,0", NULL, "'throughput': 0 is not above 0"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,-2600", NULL, "'throughput'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,2600 images", NULL, "'throughput': '2600 images'"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1,", NULL, "'throughput': nothing there"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,32,1", NULL, "has 4 fields"},
    {KIND_THROUGHPUT, "8,1,32,1,2600", "8,1,\"32,1,2600", NULL, ""},
    /* Lists of gradients. */
    {KIND_GRADIENTS, "name,shape", "nmae,shape", NULL, "'nmae'"},
    {KIND_GRADIENTS, "64x3x7x7", "64x0x7x7", NULL, "'shape': '64x0x7x7' has no, or more than 2^48, elements"},
    {KIND_GRADIENTS, "64x3x7x7", "64x-3x7x7", NULL, "'shape': "},
    {KIND_GRADIENTS, "64x3x7x7", "1000000000x1000000000x1000000000", NULL, "more than 2^48"},
    {KIND_GRADIENTS, "64x3x7x7", "", NULL, "'shape': nothing there"},
    {KIND_GRADIENTS, "bfloat16", "bf17", NULL, "'dtype': 'bf17' is no dtype"},
    {KIND_GRADIENTS, ",0.5", ",1.5", NULL, "'ready': 1.5 is not from 0 to 1"},
    {KIND_GRADIENTS, ",0.5", ",nan", NULL, "'ready': 'nan'"},
    {KIND_GRADIENTS, ",0.5", "", NULL, "fields"},
    /* Tables of collectives. */
    {KIND_COLLECTIVES, "gpus", "gpu_count", NULL, "'gpu_count'"},
    {KIND_COLLECTIVES, "busbw", "buswb", NULL, "did you mean 'busbw'?"},
    {KIND_COLLECTIVES, "seconds", "secs", NULL, "unknown column 'secs'"},
    {KIND_COLLECTIVES, "all_reduce,8", "all_redcue,8", NULL, "'all_redcue' is not a collective"},
    {KIND_COLLECTIVES, "all_reduce,8,1", "all_reduce,0,1", NULL, "'gpus': 0 is not from 1"},
    {KIND_COLLECTIVES, "all_reduce,8,1", "all_reduce,1000000000,1", NULL, "'gpus': 1000000000 is not from 1"},
    {KIND_COLLECTIVES, "all_reduce,8,1", "all_reduce,8,3", NULL, "8 GPUs do not divide over 3"},
    {KIND_COLLECTIVES, "1048576", "-1048576", NULL, "'bytes': -1048576"},
    {KIND_COLLECTIVES, "1048576", "99999999999999999999", NULL, "'bytes'"},
    {KIND_COLLECTIVES, "50e-6", "NaN", NULL, "'seconds': 'NaN'"},
    {KIND_COLLECTIVES, "50e-6", "50us", NULL, "'seconds': '50us'"},
    {KIND_COLLECTIVES, "50e-6", "0", NULL, "'seconds': 0 is not above 0"},
    {KIND_COLLECTIVES, "\"all_gather\"", "\"all_gather", NULL, ""},
    {KIND_COLLECTIVES, "\"all_gather\"", "\"all\"gather", NULL, ""},
    /* nccl-tests. */
    {KIND_LOG, "    21.00", "   -21.00", NULL, "a negative time"},
    {KIND_LOG, "    21.00", "   x21.00", NULL, "no number"},
    {KIND_LOG, "    21.00", "     nan", NULL, ""},
    {KIND_LOG, "   20.56", "   99.56", NULL, "algbw is 99.56 GB/s"},
    {KIND_LOG, "#  Rank  1 ", "#  Rank  9 ", NULL, ""},
    {KIND_LOG, "mpirun -np 16 ./build/all_reduce_perf", "./build/all_gather_perf", "        1024", "busbw"},
    {KIND_JSON, "\"size\":1024", "\"size\":-1024", NULL, "results[0].size: -1024"},
    {KIND_JSON, "\"size\":1024", "\"size\":\"1 KiB\"", NULL, "results[0].size: expected a number"},
    {KIND_JSON, "\"time\":21.0", "\"time\":-21.0", NULL, "results[0].in_place.time: must not be negative"},
    {KIND_JSON, "\"time\":21.0", "\"time\":1e999", NULL, "time"},
    {KIND_JSON, "\"time\":21.0,", "", "\"in_place\":{\"time\":21", "time: missing"},
    {KIND_JSON, "\"results\":[", "\"results\":[],\"was\":[", NULL, ""},
    {KIND_JSON, "\"ngpus\":2", "\"ngpus\":0", NULL, "config.ngpus: 0 is out of range"},
};
/* clang-format on */

/* ---- Runs ---- */

static char *dir, *file, *out;

static void make_dir(void)
{
    dir = scratch_create();
    file = scratch_path(dir, "file");
    out = scratch_path(dir, "out");
}

static void remove_dir(void)
{
    scratch_remove(dir);
    free(file);
    free(out);
}

static void write_bytes(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

/* The file is unchanged, and beside it there is only the command's output. */
static void check_nothing_written(const char *command)
{
    char **names;
    size_t n;

    ck_assert_int_eq(lk_dir_list(dir, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!strcmp(names[i], "file") || !strcmp(names[i], "stdout") ||
                          !strcmp(names[i], "stderr"),
                      "%s left %s", command, names[i]);
    lk_names_free(names, n);
}

/*
 * Run a command on `path`, which it must refuse: exit code 1, nothing on standard output, nothing
 * written, one line of error that begins with `where` and contains `says`.
 */
static void check_refused(const char *command, const char *path, const char *where,
                          const char *says)
{
    char words[1024], begin[512];
    struct program p;

    ck_assert_int_lt(snprintf(words, sizeof words, command, path, out), (int)sizeof words);
    program_start(&p, dir, NULL, NULL, "%s", words);
    program_wait(&p);
    snprintf(begin, sizeof begin, "lockstep %.*s: %s", (int)strcspn(words, " "), words, where);
    ck_assert_msg(p.code == 1, "'%s' gave %d (signal %d): %s", words, p.code, p.signal, p.err);
    ck_assert_msg(!strncmp(p.err, begin, strlen(begin)), "'%s' does not begin with '%s'", p.err,
                  begin);
    ck_assert_msg(strstr(p.err, says) != NULL, "'%s' is not in '%s'", says, p.err);
    ck_assert_str_eq(p.out, "");
    check_nothing_written(words);
    program_fini(&p);
}

/* Check every command of the kind. */
static void check_all_refuse(enum kind kind, const char *path, const char *where, const char *says)
{
    for (size_t i = 0; i < COMMANDS_MAX && kinds[kind].commands[i]; i++)
        check_refused(kinds[kind].commands[i], path, where, says);
}

static void read_good(enum kind kind, char **good, size_t *size)
{
    ck_assert_msg(lk_file_read(kinds[kind].good, good, size) == LK_OK, "%s", lk_error_text());
}

/* ---- Tests ---- */

/* Check that the good file is accepted; otherwise the refusals below would prove nothing. */
static void check_all_take(enum kind kind, const char *path)
{
    for (size_t i = 0; i < COMMANDS_MAX && kinds[kind].commands[i]; i++) {
        char words[1024], result[512];
        struct program p;

        snprintf(result, sizeof result, "%s%zu", out, i);
        snprintf(words, sizeof words, kinds[kind].commands[i], path, result);
        program_start(&p, dir, NULL, NULL, "%s", words);
        program_wait(&p);
        /* The base of this import has single-GPU nodes, the points are of eight GPUs. */
        ck_assert_msg(p.code == 0 || strstr(p.err, "but a node of the base has 1"),
                      "'%s' gave %d: %s", words, p.code, p.err);
        program_fini(&p);
    }
}

START_TEST(good_files_are_taken)
{
    check_all_take((enum kind)_i, kinds[_i].good);
}
END_TEST

static size_t line_of(const char *text, const char *at)
{
    size_t line = 1;

    for (; text < at; text++)
        line += *text == '\n';
    return line;
}

START_TEST(damage_is_located)
{
    const struct damage *d = &damages[_i];
    char *good, *text, where[512];
    const char *from, *at;
    size_t size;

    read_good(d->kind, &good, &size);
    from = strstr(good, d->from);
    ck_assert_msg(from != NULL, "the good file lacks '%s'", d->from);
    at = d->at ? strstr(good, d->at) : from;
    ck_assert_msg(at != NULL, "the good file lacks '%s'", d->at);
    size += strlen(d->to) + 1;
    text = malloc(size);
    ck_assert_ptr_nonnull(text);
    snprintf(text, size, "%.*s%s%s", (int)(from - good), good, d->to, from + strlen(d->from));
    write_bytes(file, text, strlen(text));
    snprintf(where, sizeof where, "%s:%zu: ", file, line_of(good, at));
    check_all_refuse(d->kind, file, where, d->says);
    free(text);
    free(good);
}
END_TEST

/* Cut the file after every tenth of it, and to nothing. Whole lines of a
 * table or log are a table. */
START_TEST(cut_files)
{
    static const enum kind whole[] = {KIND_JOB, KIND_CLUSTER, KIND_JSON};
    enum kind kind = whole[_i];
    size_t size;
    char *good, where[512];

    read_good(kind, &good, &size);
    snprintf(where, sizeof where, "%s:", file);
    for (size_t part = 0; part < 10; part++) {
        write_bytes(file, good, size * part / 10);
        check_refused(kinds[kind].commands[0], file, where, "");
    }
    free(good);
}
END_TEST

/* Files of a completely different kind. */
START_TEST(no_such_files)
{
    static const struct {
        const char *text;
        size_t size;
    } texts[] = {
        {"", 0},
        {"\n\n\n", 3},
        {"\0\0\0\0", 4},
        {"\x1f\x8b\x08\0\0\0\0\0\0\x03", 10}, /* a gzip header, and no more */
        {"\xff\xfe{\0}\0", 6},                /* UTF-16 */
        {"hello\n", 6},
    };
    enum kind kind = (enum kind)_i;

    for (size_t i = 0; i < LK_COUNT(texts); i++) {
        write_bytes(file, texts[i].text, texts[i].size);
        check_all_refuse(kind, file, file, "");
    }
    ck_assert_int_eq(unlink(file), 0);
    check_all_refuse(kind, file, file, "");
    check_all_refuse(kind, "/proc/self/mem",
                     "/proc/self/mem: ", ""); /* opens, but cannot be read */
    if (kind != KIND_JOB) {                   /* a directory is a run, for jobs */
        ck_assert_int_eq(mkdir(file, 0700), 0);
        check_all_refuse(kind, file, file, "irectory");
    }
}
END_TEST

static void fill(char *to, const char *text, size_t times)
{
    for (size_t n = strlen(text); times; times--, to += n)
        memcpy(to, text, n);
    *to = '\0';
}

/* Files with deeper nesting than any of ours, or with a number or text of a megabyte. */
START_TEST(monsters)
{
    enum { MANY = 1 << 20 };
    static char text[MANY + 64];
    char where[512];

    snprintf(where, sizeof where, "%s:1: ", file);
    fill(text, "[", MANY / 16);
    write_bytes(file, text, strlen(text));
    check_all_refuse(KIND_JOB, file, where, "deep");
    fill(text, "{\"a\":", MANY / 16);
    write_bytes(file, text, strlen(text));
    check_all_refuse(KIND_CLUSTER, file, where, "deep");
    strcpy(text, "{\"schema\": \"lockstep-job\", \"version\": ");
    fill(text + strlen(text), "9", MANY / 2);
    strcat(text, "}");
    write_bytes(file, text, strlen(text));
    check_all_refuse(KIND_JOB, file, where, "version: ");
    strcpy(text, "{\"schema\": \"");
    fill(text + strlen(text), "x", MANY / 2);
    strcat(text, "\"}");
    write_bytes(file, text, strlen(text));
    check_all_refuse(KIND_CLUSTER, file, where, "schema: ");
    fill(text, "gpus,", MANY / 8);
    write_bytes(file, text, strlen(text));
    check_all_refuse(KIND_THROUGHPUT, file, file, "");
}
END_TEST

/* A byte order mark and CRLF line ends, as on Windows, are no damage. */
START_TEST(line_ends_and_byte_order_marks)
{
    enum kind kind = (enum kind)_i;
    size_t size, n = 3;
    char *good, *text;

    read_good(kind, &good, &size);
    text = malloc(2 * size + 4);
    ck_assert_ptr_nonnull(text);
    memcpy(text, "\xEF\xBB\xBF", 3);
    for (size_t i = 0; i < size; i++) {
        if (good[i] == '\n')
            text[n++] = '\r';
        text[n++] = good[i];
    }
    write_bytes(file, text, n);
    check_all_take(kind, file);
    free(text);
    free(good);
}
END_TEST

/* ---- Where results go ---- */

static void full_stdout(void *ctx)
{
    int fd = open("/dev/full", O_WRONLY);

    (void)ctx;
    if (fd >= 0)
        (void)dup2(fd, STDOUT_FILENO);
}

/* Results that could not be written are a failure in every command. */
static const struct {
    const char *arguments;
    bool to_stdout;
} full[] = {
    {"predict " JOB " " CLUSTER " --gpus=2 --draws=20 --out=/dev/full", false},
    {"predict " JOB " " CLUSTER " --gpus=2 --draws=20 --csv=/dev/full", false},
    {"predict " JOB " " CLUSTER " --gpus=2 --draws=20", true},
    {"whatif " JOB " " CLUSTER " --gpus=2 --draws=20 --out=/dev/full", false},
    {"whatif " JOB " " CLUSTER " --gpus=2 --draws=20 --csv=/dev/full", false},
    {"whatif " JOB " " CLUSTER " --gpus=2 --draws=20 --format=json", true},
    {"validate " JOB " --cluster=" CLUSTER " --draws=20 --out=/dev/full", false},
    {"validate " JOB " --cluster=" CLUSTER " --draws=20 --format=csv", true},
    {"import " CORPUS "nccl_tests/plain.log --out=/dev/full", false},
    {"import " CORPUS "nccl_tests/plain.log --out=/dev/null", true},
    {"predict --throughput=" CORPUS "throughput/nodes.csv --gpus=128 --out=/dev/full", false},
    {"predict --throughput=" CORPUS "throughput/nodes.csv --gpus=128 --csv=/dev/full", false},
    {"validate --throughput=" CORPUS "throughput/nodes.csv --out=/dev/full", false},
    {"predict --help", true},
};

START_TEST(full_disks)
{
    const char *says = full[_i].to_stdout ? "standard output" : "/dev/full: cannot write";
    struct program p;

    program_start(&p, dir, full[_i].to_stdout ? full_stdout : NULL, NULL, "%s", full[_i].arguments);
    program_wait(&p);
    ck_assert_msg(p.code == 1 && strstr(p.err, says), "'%s' gave %d: %s", full[_i].arguments,
                  p.code, p.err);
    program_fini(&p);
}
END_TEST

SUITE(bad_input, tc)
{
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_loop_test(tc, good_files_are_taken, 0, LK_COUNT(kinds));
    tcase_add_loop_test(tc, damage_is_located, 0, LK_COUNT(damages));
    tcase_add_loop_test(tc, cut_files, 0, 3);
    tcase_add_loop_test(tc, no_such_files, 0, LK_COUNT(kinds));
    tcase_add_test(tc, monsters);
    tcase_add_loop_test(tc, line_ends_and_byte_order_marks, 0, LK_COUNT(kinds));
    tcase_add_loop_test(tc, full_disks, 0, LK_COUNT(full));
}
