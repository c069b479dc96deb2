/*
 * The options of lull plan. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_OPTIONS_H
#define LULL_CLI_PLAN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/plan/solve.h"
#include "cli/plan/task.h"

struct lull_plan_arguments {
    struct lull_plan_source source;
    struct lull_plan_options options;
    double deadline_ms;    /* 0: not given */
    double slowdown_ratio; /* below 0: not given */
    double straggler_ms;
    double down_ms;
    double up_ms;
    double early_ms; /* below 0: not fed forward */
    double
        driver_ms; /* how long a call takes where a node's devices share a driver; 0: they do not */
    int64_t nodes;
    double dwell_ms;
    double fall_ms; /* until a clock for waiting holds; used where wake_ms is given */
    double wake_ms; /* until the device is awake again; below 0: both as switching */
    const char *waiting;
    const char *memory;
    bool is_frontier;
    bool is_json;
    const char *svg;
    const char *output;
    const char *perseus;
    const char *verify;
};

/*
 * Reads the command line. Where an option is wrong or options do not go together it complains and
 * exits, as argp does. Strings are those of argv.
 */
void lull_plan_parse(int argc, char **argv, struct lull_plan_arguments *arguments_out);

/* Whether the order is to be chosen (--schedule best). */
bool lull_plan_is_best(const struct lull_plan_arguments *arguments);

#endif
