/*
 * lull plan --schedule best: the order of operations that needs least energy at equal time, in the
 * memory that there is. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_ORDERS_H
#define LULL_CLI_PLAN_ORDERS_H

#include "base/error.h"
#include "cli/plan/task.h"
#include "core/pipeline/schedule/choose.h"

enum { LULL_PLAN_ORDER_NAME = 512 };

/* Options that all orders share. Times are in nanoseconds; 0: not given. */
struct lull_plan_orders_options {
    const char *memory; /* micro-batches in flight, one number or one per stage; null: no limit */
    int64_t deadline_ns;
    int64_t straggler_ns;
    double slowdown_ratio; /* against 1f1b at the highest clocks; used where there is no deadline */
};

struct lull_plan_orders {
    struct lull_pipeline_choices choices;
    int64_t deadline_ns;
    char name[LULL_PLAN_ORDER_NAME]; /* the best order's, as --schedule takes it */
};

/*
 * Compares the orders of the pipeline that the source names, whose own schedule it ignores. Errors:
 * -EINVAL options->memory is no number of micro-batches; those of lull_plan_task_init and
 * lull_pipeline_choose_order.
 */
int lull_plan_orders_choose(const struct lull_plan_source *source,
                            const struct lull_plan_profiles *profiles,
                            const struct lull_plan_orders_options *options,
                            struct lull_plan_orders *orders_out, struct lull_error *err);

/* Print a table on standard output, and the members "schedule" and "orders" of the JSON document,
 * with a comma ahead of them. */
void lull_plan_orders_print(const struct lull_plan_orders *orders);
void lull_plan_orders_print_json(const struct lull_plan_orders *orders);

/* A time as it is printed to the microsecond: rounded up, so that a plan holds the deadline that is
 * given as it was printed. */
static inline int64_t lull_plan_shown_ns(int64_t time_ns)
{
    return (time_ns + 999) / 1000 * 1000;
}

#endif
