/*
 * The time-indexed program of a slotted problem: a column for each (job, operating point, start)
 * that may be part of an optimum, a row for each job, then for each slot of a type, and of the
 * power cap, that could be too full. SPDX-License-Identifier: Apache-2.0
 *
 *   least sum of cost x        with, for each job, sum x = 1 (mandatory), or <= 1 and its cost less
 *                              what leaving it out costs, and for each slot what runs in it <= room
 *
 * Left out, since no optimum needs them: operating points that another operating point of the job
 * is never worse than (same type, no more GPUs, slots and watts, no more expensive at any start, at
 * least the same starts); columns no cheaper than leaving the job out, or than one of its columns
 * that no row limits; of those all but the cheapest; rows that all jobs together cannot fill.
 */
#ifndef LULL_CLUSTER_SOLVER_TIME_INDEXED_H
#define LULL_CLUSTER_SOLVER_TIME_INDEXED_H

#include <stdbool.h>

#include "cluster/core/model/slots.h"

/* Programs of up to this size are still solved in minutes. */
enum { LULL_TIME_INDEXED_MAX_COLUMNS = 1500000, LULL_TIME_INDEXED_MAX_ENTRIES = 40000000 };

/* Columns by job, operating point and start, compressed: entries begin[c] to begin[c + 1] of row
 * and value. */
struct lull_time_indexed {
    const struct lull_slot_problem *problem;
    int rows; /* jobs first */
    int columns;
    int *begin;
    int *row;
    double *value;
    double *cost; /* in units of scale_j */
    double *row_low;
    double *row_high;
    struct lull_time_indexed_column {
        uint32_t job;
        uint32_t point;
        uint32_t start;
    } * column;
    int *rows_before;  /* [resource * (slots + 1) + slot]: how many of its rows */
    int *row_of;       /* [(type or, behind them, power) * slots + slot]; -1: none */
    double scale_j;    /* > 0 */
    double constant_j; /* to be added to the objective, not scaled */
};

/*
 * Returns whether prices alone are the better choice (dual_search.h), which reach within 1e-4 of
 * the optimum: for programs so large, or with columns so long, that the solver may take minutes.
 * Measured: 400 jobs in 288 slots, 2.0 million entries, over 290 s and prices 0.4 s; four jobs in
 * 300 slots, 92 and 120 entries a column, 2.4 and 12 s and prices 0.06 s.
 */
bool lull_time_indexed_is_slow(const struct lull_time_indexed *program);

/*
 * Builds the program; the problem is checked, and borrowed. Errors: -E2BIG it would have more
 * columns or entries than the limits above; -ENOMEM.
 */
int lull_time_indexed_create(const struct lull_slot_problem *problem,
                             struct lull_time_indexed *program_out, struct lull_error *err);
void lull_time_indexed_fini(struct lull_time_indexed *program);

#endif
