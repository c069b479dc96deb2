/*
 * Private to calendar*.c: how many GPUs of one node are free over time.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_CALENDAR_NODE_H
#define LULL_CORE_CLUSTER_MODEL_CALENDAR_NODE_H

#include <stdbool.h>
#include <stdint.h>

/* From from_ns until the next step this many GPUs are free. */
struct lull_calendar_step {
    int64_t from_ns;
    uint32_t free;
};

struct lull_calendar_node {
    struct lull_calendar_step *steps; /* ascending; the first from INT64_MIN on */
    uint32_t count;
    uint32_t room;
};

/* When a step ends; LULL_CLUSTER_NEVER: it is the last one. */
int64_t lull_calendar_until(const struct lull_calendar_node *node, uint32_t step);

/* The step that a time lies in. */
uint32_t lull_calendar_step_at(const struct lull_calendar_node *node, int64_t at_ns);

/* Forgets the steps that end before now_ns. */
void lull_calendar_forget(struct lull_calendar_node *node, int64_t now_ns);

/* The first window from *step on in which `gpus` GPUs are free for time_ns: it begins at *from_ns
   or later. False: none begins before before_ns. *step is the last one of the window then. */
bool lull_calendar_next_window(const struct lull_calendar_node *node, uint32_t gpus,
                               int64_t time_ns, int64_t before_ns, uint32_t *step, int64_t *from_ns,
                               int64_t *until_ns);

/* Whether `gpus` GPUs are free from from_ns to until_ns without a break. */
bool lull_calendar_is_free(const struct lull_calendar_node *node, uint32_t gpus, int64_t from_ns,
                           int64_t until_ns);

/* Makes room for one more change. -ENOMEM: nothing has changed. */
int lull_calendar_make_room(struct lull_calendar_node *node);

/* Takes GPUs, which are free, or gives them back. There is room for it. */
void lull_calendar_change(struct lull_calendar_node *node, uint32_t gpus, bool is_taken,
                          int64_t from_ns, int64_t until_ns);

#endif
