/*
 * Chooses the order of operations that needs least energy at equal time, where memory is limited.
 *
 * 1F1B, EnvPipe's hoisted warm-up, GPipe and, where the profile has the two parts of a backward
 * measured, ZB-H1 are orders of the same operations on the same devices, so that a time means the
 * same to all of them. More forwards ahead take activations' memory and let bubbles fall between
 * backwards, where clocks can use them. EnvPipe's r_s are searched for one by one. An order is
 * judged by the exact relaxed optimum at the time (frontier.h): plans of real clocks miss it by
 * less than orders differ.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_CHOOSE_H
#define LULL_CORE_PIPELINE_SCHEDULE_CHOOSE_H

#include "core/pipeline/schedule/schedule.h"

/* An order that was compared. */
struct lull_pipeline_choice {
    struct lull_pipeline_schedule schedule;
    uint32_t in_flight; /* the micro-batches of the device that holds most */
    bool fits;          /* it fits into the memory of every device */
    bool is_in_time;    /* it fits, and some plan of it holds the deadline */
    double energy_j;    /* the relaxed optimum at the deadline, where it is in time */
};

enum { LULL_PIPELINE_CHOICES = 5 };

struct lull_pipeline_choices {
    struct lull_pipeline_choice choices[LULL_PIPELINE_CHOICES]; /* 1F1B is the first */
    size_t count;
    size_t best; /* the one of least energy */
};

/* Options that all orders share. */
struct lull_pipeline_order_options {
    const struct lull_pipeline_shape *shape;
    const struct lull_pipeline_profile *measured;
    const double *blocking_w;  /* of every device of every copy, W */
    const uint32_t *in_flight; /* the most micro-batches in memory, of every device of one copy */
    int64_t deadline_ns;       /* > 0 */
    int64_t straggler_ns; /* the iteration takes at least this long; 0: there is no straggler */
};

/*
 * Compares all of them. Errors: -ERANGE none fits, or none is in time (the text says what 1F1B
 * would need); those of lull_pipeline_schedule_build; -ENOMEM. It solves some 60 frontiers for
 * pipelines of up to 300 operations, and fewer for longer ones, at least five.
 */
int lull_pipeline_choose_order(const struct lull_pipeline_order_options *options,
                               struct lull_pipeline_choices *choices_out, struct lull_error *err);

#endif
