/*
 * Private to calendar*.c: how many GPUs of one node are free over time.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_CALENDAR_NODE_H
#define LULL_CORE_CLUSTER_CALENDAR_NODE_H

#include <stdbool.h>
#include <stdint.h>

/* From a time on so many GPUs are free, until the next step. */
struct lull_calendar_step {
    int64_t from_ns;
    uint32_t free;
};

struct lull_calendar_node {
    struct lull_calendar_step *steps; /* ascending; the first from INT64_MIN on */
    uint32_t count;
    uint32_t room;
};

/* When a step ends; LULL_CLUSTER_NEVER: the last one. */
int64_t lull_calendar_until(const struct lull_calendar_node *node, uint32_t step);

/* The step that a time lies in. */
uint32_t lull_calendar_step_at(const struct lull_calendar_node *node, int64_t at_ns);

/* What lies before now_ns. */
void lull_calendar_forget(struct lull_calendar_node *node, int64_t now_ns);

/* The first window from *step on in which so many GPUs are free for so long: it begins at *from_ns
   or later. False: none begins before before_ns. *step is the last one of the window then. */
bool lull_calendar_next_window(const struct lull_calendar_node *node, uint32_t gpus,
                               int64_t time_ns, int64_t before_ns, uint32_t *step, int64_t *from_ns,
                               int64_t *until_ns);

/* Whether so many GPUs are free all the time. */
bool lull_calendar_is_free(const struct lull_calendar_node *node, uint32_t gpus, int64_t from_ns,
                           int64_t until_ns);

/* For one more change. -ENOMEM: nothing changed. */
int lull_calendar_make_room(struct lull_calendar_node *node);

/* Takes GPUs, which are free, or gives them back. There is room for it. */
void lull_calendar_change(struct lull_calendar_node *node, uint32_t gpus, bool is_taken,
                          int64_t from_ns, int64_t until_ns);

#endif
