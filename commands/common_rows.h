/*
 * Option rows that several commands have. T is a command's target struct, with a member named like
 * the macro's second word; a row may be put into a group: {ROW_LEVEL(struct options), .group =
 * "x"}.
 */
#ifndef LK_COMMANDS_COMMON_ROWS_H
#define LK_COMMANDS_COMMON_ROWS_H

#include "base/forecast.h"
#include "base/log.h"
#include "base/option.h"
#include "reports/print.h"

#include <stddef.h>

/* clang-format off */

/* Intervals of a forecast: double level; int64_t draws, seed. */
#define ROW_LEVEL(T)                                                                               \
    .name = "level", .type = LK_OPT_REAL, .offset = offsetof(T, level), .min = 0.5, .max = 0.99,   \
    .fallback = "0.9", .help = "share of outcomes that an interval is to contain"
#define ROW_DRAWS(T)                                                                               \
    .name = "draws", .type = LK_OPT_INT, .offset = offsetof(T, draws), .min = 20, .max = 100000,   \
    .fallback = "200", .help = "Monte Carlo draws behind an interval"
#define ROW_SEED(T)                                                                                \
    .name = "seed", .type = LK_OPT_INT, .offset = offsetof(T, seed), .min = 0, .max = 1e15,        \
    .fallback = "1", .help = "seed of all draws: the same seed gives the same bytes"
/* int64_t global_batch */
#define ROW_GLOBAL_BATCH(T)                                                                        \
    .name = "global-batch", .type = LK_OPT_INT, .offset = offsetof(T, global_batch), .min = 1,     \
    .max = 1e12, .help = "strong scaling: samples of a step, the same at every count of GPUs"
/* const char *cluster; see job_and_cluster in inputs.h */
#define ROW_CLUSTER(T)                                                                             \
    .name = "cluster", .type = LK_OPT_TEXT, .offset = offsetof(T, cluster),                        \
    .help = "cluster file or name of a preset, in place of the operand"

/* Files that a forecast is written to: const char *out, *csv. */
#define ROW_FORECAST_OUT(T)                                                                        \
    .name = "out", .type = LK_OPT_FILE, .offset = offsetof(T, out),                                \
    .help = "write the forecast here (JSON)"
#define ROW_FORECAST_CSV(T)                                                                        \
    .name = "csv", .type = LK_OPT_FILE, .offset = offsetof(T, csv),                                \
    .help = "write its points here (CSV)"

/* Options of every command: int format (enum lk_format); const char *log, for lk_log_configure. */
#define ROW_FORMAT(T)                                                                              \
    .name = "format", .type = LK_OPT_CHOICE, .offset = offsetof(T, format),                        \
    .choices = lk_format_names, .fallback = "text", .help = "format of the tables on standard output"
#define ROW_LOG(T)                                                                                 \
    .name = "log", .type = LK_OPT_TEXT, .offset = offsetof(T, log), .fallback = "warn",            \
    .help = "log level: info, or comm=debug,train=info, ..."

/* clang-format on */

/* Write a forecast to `out` (JSON) and its points to `csv`; NULL: not asked for. */
enum lk_status forecast_write(const struct lk_forecast *f, const char *out, const char *csv);

#endif
