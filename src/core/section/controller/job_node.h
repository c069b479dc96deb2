/*
 * A job's node: this one among those of its job. It reports the points that its controller accepts
 * and refuses, and how its ranks arrive. It takes the reports of the others, and makes the
 * controller follow the result (agreement.h, arrival.h). Other modules deliver the reports:
 * governor/peers between governors, simulator/nodes.h in virtual time.
 *
 * If the nodes do not connect, it agrees with itself alone after some time.
 *
 * Pure; create/destroy; one thread, the controller's. Time is passed in: ns of a monotonic clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_CONTROLLER_JOB_NODE_H
#define LULL_CORE_SECTION_CONTROLLER_JOB_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/agreement.h"
#include "core/section/controller/controller.h"

/* This node's GPUs. */
struct lull_job_node_view {
    struct lull_controller *controller;
    uint32_t gpu_count;
    uint64_t present;                                     /* bits: GPUs that have a rank */
    const uint32_t *clocks_mhz[LULL_CONTROLLER_MAX_GPUS]; /* the clock list of each, from the
                                                           * highest; NULL: it has none */
};

struct lull_job_node;

/* Returns NULL if memory runs out. self < nodes, 2 <= nodes <= LULL_AGREEMENT_MAX_NODES;
 * incarnation: see struct lull_proposal. */
struct lull_job_node *lull_job_node_create(uint32_t self, uint32_t nodes, uint64_t incarnation);
void lull_job_node_destroy(struct lull_job_node *node);

/* Returns whether this node has something to say to the others, which is then filled in. */
bool lull_job_node_send(struct lull_job_node *node, const struct lull_job_node_view *view,
                        int64_t now_ns, struct lull_proposal *proposal_out);

/* Fills in the word by which this node leaves, as its part of the job has ended. Returns whether
 * there are others to hear it. */
bool lull_job_node_leave(struct lull_job_node *node, struct lull_proposal *proposal_out);

/* Takes what a node has said. GPUs that others wait for may be raised at the next poll. */
void lull_job_node_take(struct lull_job_node *node, struct lull_controller *controller,
                        const struct lull_proposal *proposal, int64_t now_ns);

/* Returns how the nodes stand to each other now. */
enum lull_agreement_state lull_job_node_state(struct lull_job_node *node, int64_t now_ns);

/* Gives up the others where they have not come together in patience_ns
 * (lull_agreement_is_hopeless): this node agrees with itself from now on. Returns whether it has
 * just done so. */
bool lull_job_node_part(struct lull_job_node *node, int64_t patience_ns, int64_t now_ns);

/* Holds the controller to what the nodes have agreed on. */
void lull_job_node_apply(struct lull_job_node *node, const struct lull_job_node_view *view,
                         int64_t now_ns);

/* Number of nodes that were heard from, this one included; number of targets for which all apply a
 * lowered clock; number of times that this node went higher than it would have alone; and whether
 * it has given up the others. */
uint32_t lull_job_node_received(const struct lull_job_node *node);
uint32_t lull_job_node_agreed(const struct lull_job_node *node);
uint64_t lull_job_node_disagreements(const struct lull_job_node *node);
bool lull_job_node_is_alone(const struct lull_job_node *node);

#endif
