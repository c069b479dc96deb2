/*
 * Recorded series of a recurring job under Zeus's policy, run by run, with each random draw: a
 * table with the columns
 *
 *   step,recurrence,attempt,phase,bs,pl,profile_power,cost_ub,n_paths,path_pos,run,target_epoch,
 *   max_epochs,energy_j,time_s,reached,cost_seen,perm,arms
 *
 * where phase is P (pruning) or M (bandit), perm lists sizes, and arms lists size:mean:sd:sample of
 * rewards, which are minus the cost; both lists are separated by spaces. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_SERIES_H
#define LULL_LAB_REPRODUCE_ZEUS_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/lines.h"

enum { LULL_BATCH_GOLDEN_ARMS = 64 };

struct lull_batch_golden_arm {
    uint32_t size;
    double mean; /* of rewards, minus J */
    double deviation;
    double sample;
};

struct lull_batch_golden_row {
    uint32_t step;
    uint32_t recurrence;
    uint32_t attempt;
    bool is_pruning;
    uint32_t size;
    double limit_w;
    bool is_profiling;
    double bound; /* J; INFINITY: none */
    uint32_t path_count;
    uint32_t path_index; /* below path_count, unless that is 0 */
    uint32_t path_run;
    double epochs; /* to the target; NAN: never */
    uint32_t max_epochs;
    double energy_j;
    double time_s;
    bool has_reached;
    double cost; /* J */
    uint32_t order_count;
    uint32_t order[LULL_BATCH_GOLDEN_ARMS]; /* sizes */
    uint32_t arm_count;
    struct lull_batch_golden_arm arms[LULL_BATCH_GOLDEN_ARMS];
};

/* Checks the header. Errors: LULL_E_FORMAT; those of lull_lines_next. */
int lull_batch_golden_begin(struct lull_lines *lines, struct lull_error *err);

/* Reads the next row. Returns 1, or 0 after the last row. Errors: LULL_E_FORMAT with line and
 * column, those of lull_lines_next; *row_out is undefined then. */
int lull_batch_golden_next(struct lull_lines *lines, struct lull_batch_golden_row *row_out,
                           struct lull_error *err);

#endif
