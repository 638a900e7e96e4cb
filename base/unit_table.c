/* The units and their spellings; see the header. */
#include "base/unit_table.h"

#include <stddef.h>

#define KIBI 1024.0
#define MEBI (1024.0 * KIBI)
#define GIBI (1024.0 * MEBI)
#define TEBI (1024.0 * GIBI)

/* clang-format off */

static const struct lk_unit none_units[] = {
    {"1", "", 1, 1, LK_UNIT_SHOWN}, {"%", "", 1, 100, LK_UNIT_READ}, {0}};

/* A letter behind a count of things is 1000-based; "7B" are seven billion parameters. */
static const struct lk_unit count_units[] = {
    {"T", "",  1e12, 1, LK_UNIT_READ},
    {"G", "B", 1e9,  1, LK_UNIT_READ},
    {"M", "",  1e6,  1, LK_UNIT_READ},
    {"k", "",  1e3,  1, LK_UNIT_READ},
    {"1", "",  1,    1, LK_UNIT_SHOWN}, {0}};

/* A letter alone is 1024-based, as in the sizes of nccl-tests, fio and GNU dd, and MB is 1000-based
 * as in GNU dd. A small b is a bit, and no size. */
static const struct lk_unit bytes_units[] = {
    {"TiB",     "T",              TEBI, 1, LK_UNIT_SHOWN},
    {"TB",      "",               1e12, 1, LK_UNIT_EXACT},
    {"GiB",     "G",              GIBI, 1, LK_UNIT_SHOWN},
    {"GB",      "",               1e9,  1, LK_UNIT_EXACT},
    {"MiB",     "M",              MEBI, 1, LK_UNIT_SHOWN},
    {"MB",      "",               1e6,  1, LK_UNIT_EXACT},
    {"KiB",     "K",              KIBI, 1, LK_UNIT_SHOWN},
    {"kB",      "KB",             1e3,  1, LK_UNIT_EXACT},
    {"B",       "byte bytes",     1,    1, LK_UNIT_SHOWN},
    {"TiB TB",  "Tb Tbit",        0,    1, LK_UNIT_READ},
    {"GiB GB",  "Gb Gbit",        0,    1, LK_UNIT_READ},
    {"MiB MB",  "Mb Mbit",        0,    1, LK_UNIT_READ},
    {"KiB kB",  "kb Kb kbit",     0,    1, LK_UNIT_READ},
    {"B",       "b bit",          0,    1, LK_UNIT_READ}, {0}};

/* A job may fail once in many days; "m" could be minutes or milliseconds. */
static const struct lk_unit time_units[] = {
    {"d",       "day days",         86400, 1,   LK_UNIT_EXACT},
    {"h",       "hr hour hours",    3600,  1,   LK_UNIT_EXACT},
    {"min",     "minute minutes",   60,    1,   LK_UNIT_EXACT},
    {"s",       "sec second seconds", 1,   1,   LK_UNIT_SHOWN},
    {"ms",      "msec",             1,     1e3, LK_UNIT_SHOWN},
    {"us",      "usec \xC2\xB5s \xCE\xBCs", 1, 1e6, LK_UNIT_SHOWN},
    {"ns",      "nsec",             1,     1e9, LK_UNIT_SHOWN},
    {"min ms",  "m",                0,     1,   LK_UNIT_READ}, {0}};

/* In a rate b is a bit and B a byte, so that "gbps" could be either. */
#define RATE_UNITS(T_, G_, M_)                                                                     \
    {"TB/s",   "TBps",                          1e12, 1, LK_UNIT_SHOWN},                           \
    {"Tbit/s", T_ "Tbps Tb/s Tbits/s",          1e12, 8, LK_UNIT_READ},                            \
    {"GB/s",   "GBps",                          1e9,  1, LK_UNIT_SHOWN},                           \
    {"Gbit/s", G_ "Gbps Gb/s Gbits/s",          1e9,  8, LK_UNIT_READ},                            \
    {"MB/s",   "MBps",                          1e6,  1, LK_UNIT_SHOWN},                           \
    {"Mbit/s", M_ "Mbps Mb/s Mbits/s",          1e6,  8, LK_UNIT_READ},                            \
    {"kB/s",   "kBps KB/s KBps",                1e3,  1, LK_UNIT_SHOWN},                           \
    {"kbit/s", "kbps Kbps kb/s Kb/s kbits/s",   1e3,  8, LK_UNIT_READ},                            \
    {"B/s",    "Bps",                           1,    1, LK_UNIT_SHOWN},                           \
    {"bit/s",  "bps b/s bits/s",                1,    8, LK_UNIT_READ}

static const struct lk_unit rate_units[] = {
    RATE_UNITS("", "", ""),
    {"TB/s Tbit/s", "T", 0, 1, LK_UNIT_READ},
    {"GB/s Gbit/s", "G", 0, 1, LK_UNIT_READ},
    {"MB/s Mbit/s", "M", 0, 1, LK_UNIT_READ}, {0}};
/* Networks are named by a letter: 400G Ethernet moves 400 Gbit/s. */
static const struct lk_unit link_units[] = {RATE_UNITS("T ", "G ", "M "), {0}};

static const struct lk_unit flops_units[] = {
    {"Pflop/s", "Pflops", 1e15, 1, LK_UNIT_SHOWN},
    {"Tflop/s", "Tflops", 1e12, 1, LK_UNIT_SHOWN},
    {"Gflop/s", "Gflops", 1e9,  1, LK_UNIT_SHOWN},
    {"Mflop/s", "Mflops", 1e6,  1, LK_UNIT_SHOWN},
    {"kflop/s", "kflops", 1e3,  1, LK_UNIT_SHOWN},
    {"flop/s",  "",       1,    1, LK_UNIT_SHOWN}, {0}};
static const struct lk_unit flop_units[] = {
    {"Pflop", "", 1e15, 1, LK_UNIT_SHOWN},
    {"Tflop", "", 1e12, 1, LK_UNIT_SHOWN},
    {"Gflop", "", 1e9,  1, LK_UNIT_SHOWN},
    {"Mflop", "", 1e6,  1, LK_UNIT_SHOWN},
    {"kflop", "", 1e3,  1, LK_UNIT_SHOWN},
    {"flop",  "", 1,    1, LK_UNIT_SHOWN}, {0}};
static const struct lk_unit power_units[] = {
    {"MW", "", 1e6, 1, LK_UNIT_SHOWN},
    {"kW", "", 1e3, 1, LK_UNIT_SHOWN},
    {"W",  "", 1,   1, LK_UNIT_SHOWN},
    {"W MW", "mW", 0, 1, LK_UNIT_READ}, {0}};
static const struct lk_unit price_units[] = {
    {"/h", "", 1, 1, LK_UNIT_SHOWN}, {"1/h", "", 1, 1, LK_UNIT_READ}, {0}};

const struct lk_unit_dimension lk_unit_dimensions[] = {
    [LK_DIM_NONE]  = {none_units,  "1",      "a number or a percentage", false},
    [LK_DIM_COUNT] = {count_units, "1",      "a count",                  false},
    [LK_DIM_BYTES] = {bytes_units, "B",      "a size",                   true},
    [LK_DIM_TIME]  = {time_units,  "s",      "a time",                   true},
    [LK_DIM_RATE]  = {rate_units,  "B/s",    "a rate",                   true},
    [LK_DIM_LINK]  = {link_units,  "B/s",    "the rate of a link",       true},
    [LK_DIM_FLOPS] = {flops_units, "flop/s", "a rate of operations",     false},
    [LK_DIM_FLOP]  = {flop_units,  "flop",   "a count of operations",    false},
    [LK_DIM_POWER] = {power_units, "W",      "a power",                  false},
    [LK_DIM_PRICE] = {price_units, "1/h",    "a price per hour",         false},
};
/* clang-format on */
