/* The request and the result of lull-bound, printed and written to files.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_SOLVER_REPORT_H
#define LULL_CLUSTER_SOLVER_REPORT_H

#include <stdbool.h>

#include "cluster/solver/solve_ilp.h"
#include "cluster/solver/solve_lp.h"
#include "cluster/trace/slot_file.h"

/* The command line; texts are those of argv. */
struct lull_bound_options {
    bool is_by_prices; /* no linear program */
    bool is_integer;
    double gap_ratio;
    double time_limit_s;
    const char *prices_out;   /* null: none */
    const char *schedule_out; /* null: none */
    bool is_json;
};

struct lull_bound_run {
    const struct lull_bound_options *options;
    struct lull_slot_file file;
    struct lull_time_indexed program;
    struct lull_lp_result lp;
    bool is_by_prices;          /* lp was found by prices, without a linear program */
    struct lull_ilp_result ilp; /* with --ilp, unless the linear program is infeasible */
};

/* Prints the result for users, or as one JSON document. -ENOMEM. */
int lull_bound_print(const struct lull_bound_run *run, struct lull_error *err);

/* Writes the files that the options name, each whole or not at all. Errors: -ENOMEM; those of
 * lull_file_write_atomic. */
int lull_bound_write(const struct lull_bound_run *run, struct lull_error *err);

#endif
