/*
 * Which order of operations needs least energy at equal time, where memory is limited.
 *
 * 1F1B, EnvPipe's hoisted warm-up, GPipe and, where the profile has the two parts of a backward
 * measured, ZB-H1: orders of the same operations on the same devices, so that a time means the same
 * to all of them. More forwards ahead take activations' memory and let bubbles fall between
 * backwards, where clocks can use them. EnvPipe's r_s are searched for one by one; what an order
 * needs is the exact relaxed optimum at the time (frontier.h), of which plans of real clocks miss
 * less than orders differ.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_CHOOSE_H
#define LULL_CORE_PIPELINE_SCHEDULE_CHOOSE_H

#include "core/pipeline/schedule/schedule.h"

/* An order that was looked at. */
struct lull_pipeline_choice {
    struct lull_pipeline_schedule schedule;
    uint32_t in_flight; /* micro-batches, of the device that holds most */
    bool fits;          /* into the memory of every device */
    bool is_in_time;    /* some plan of it holds the deadline; looked at only where it fits */
    double energy_j;    /* the least at the deadline, relaxed; where it is in time */
};

enum { LULL_PIPELINE_CHOICES = 5 };

struct lull_pipeline_choices {
    struct lull_pipeline_choice choices[LULL_PIPELINE_CHOICES]; /* 1F1B is the first */
    size_t count;
    size_t best; /* of least energy */
};

/* What is to be equal. */
struct lull_pipeline_order_wish {
    const struct lull_pipeline_shape *shape;
    const struct lull_pipeline_profile *measured;
    const double *blocking_w;  /* of every device of every copy */
    const uint32_t *in_flight; /* the most micro-batches in memory, of every device of one copy */
    int64_t deadline_ns;       /* > 0 */
    int64_t straggler_ns;      /* the iteration takes no less than this; 0: nobody to wait for */
};

/*
 * Looks at all of them. Errors: -ERANGE none fits, or none is in time (the text says what 1F1B
 * would need); those of lull_pipeline_schedule_build; -ENOMEM. Some 60 frontiers of pipelines of up
 * to 300 operations, fewer of longer ones, five at least.
 */
int lull_pipeline_choose_order(const struct lull_pipeline_order_wish *wish,
                               struct lull_pipeline_choices *choices_out, struct lull_error *err);

#endif
