/* `predict` and `validate` from a table of throughputs alone (sim/throughput.h). */
#ifndef LK_COMMANDS_PREDICT_THROUGHPUT_H
#define LK_COMMANDS_PREDICT_THROUGHPUT_H

#include "base/option.h"
#include "base/status.h"
#include "sim/throughput.h"

/* Where results go: a forecast file, its points, and how standard output looks (enum lk_format). */
struct throughput_output {
    const char *json, *csv;
    int format;
};

enum lk_status predict_throughput(const char *path, const struct lk_throughput_request *request,
                                  const struct throughput_output *out);
enum lk_status validate_throughput(const char *path, double level,
                                   const struct throughput_output *out);

#endif
