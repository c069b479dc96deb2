/*
 * The tracker of operations: it finds which operation of its known order a device is at, from
 * what is seen of the device.
 *
 *   sections    the program says "forward" and "backward" when one begins and ends
 *   transfers   nothing is said; the kernels that send and receive between devices are seen. An
 *               operation has ended when its send begins; it begins when the one before has ended
 *               and what it waits for has been received. Ends of operations that send nothing
 *               (the first stage's backward, the last one's forward) are expected after their
 * typical length.
 *
 * Sections that a program marks take precedence; transfers are then ignored. Fixed operations are
 * not seen at all and not followed.
 *
 * Pure; create/destroy; one thread at a time. Times: ns of one clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_OP_TRACKER_H
#define LULL_CORE_PIPELINE_FOLLOW_OP_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

/* A device number that means "no other device". */
#define LULL_OP_TRACKER_NONE UINT32_MAX

struct lull_op_tracker_op {
    bool is_backward;
    uint32_t receives_from; /* device, or LULL_OP_TRACKER_NONE */
    uint32_t sends_to;
    int64_t length_ns; /* typical, > 0 */
};

/* A begin or end that has become known. Edges come in the order of operations, begins and ends in
 * turn. */
struct lull_op_tracker_edge {
    uint32_t op; /* place in the device's order, from 0 */
    bool is_end;
    bool is_lost; /* the order was left; nothing is known until operation 0 begins */
    int64_t time_ns;
};

struct lull_op_tracker;

/* Copies the operations of one iteration in the device's order, count >= 1. null: out of memory. */
struct lull_op_tracker *lull_op_tracker_create(const struct lull_op_tracker_op *ops,
                                               uint32_t count);
void lull_op_tracker_destroy(struct lull_op_tracker *tracker);

/* Notes that the program enters or leaves a section of computation. */
void lull_op_tracker_take_section(struct lull_op_tracker *tracker, bool is_backward, bool is_end,
                                  int64_t time_ns);

/* Notes that a kernel which sends to, or receives from, another device begins or ends. */
void lull_op_tracker_take_transfer(struct lull_op_tracker *tracker, uint32_t device, bool is_send,
                                   bool is_end, int64_t time_ns);

/* Takes the next edge that is known at now_ns. Returns false if there is none. */
bool lull_op_tracker_poll(struct lull_op_tracker *tracker, int64_t now_ns,
                          struct lull_op_tracker_edge *edge_out);

/* Expected time of the next end that no event reports; INT64_MAX: none is expected. */
int64_t lull_op_tracker_wake_ns(const struct lull_op_tracker *tracker);

#endif
