/*
 * Order: what each device runs, one action after the other. The common form of schedules, whether
 * generated (schedule.h) or read from a file (trace/torch_schedule.h); it becomes a task graph.
 *
 * Data edges, for stage s and micro-batch m (pytorch's pipelining, Megatron and the zero-bubble
 * papers agree): F(s,m) -> F(s+1,m); B or I(s+1,m) -> B or I(s,m); F(s,m) -> B, I or R(s,m);
 * R(s,m) -> B or I(s,m); I(s,m) -> W(s,m). An overlap is a forward and a backward at once.
 *
 * Pure. Threads: any, one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_ORDER_H
#define LULL_CORE_PIPELINE_SCHEDULE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/fit.h"
#include "core/pipeline/graph.h"

enum {
    LULL_PIPELINE_MAX_MICROBATCHES = 1 << 16,
    LULL_PIPELINE_MAX_ACTIONS = 1 << 22, /* of all devices */
};

struct lull_pipeline_action {
    enum lull_pipeline_kind kind;
    uint32_t stage;
    uint32_t microbatch;
    uint32_t partner_stage; /* of an overlap: its backward; else 0 */
    uint32_t partner_microbatch;
    int64_t time_ns; /* of a fixed one; else 0 */
    int64_t energy_nj;
};

struct lull_pipeline_row {
    struct lull_pipeline_action *actions;
    size_t count;
    size_t capacity;
};

struct lull_pipeline_order {
    struct lull_pipeline_row *rows; /* one per device */
    uint32_t devices;
    uint32_t stages;       /* model chunks counted: every stage is on one device */
    uint32_t microbatches; /* each passes every stage once */
};

/* Errors: -EINVAL devices is 0 or more than LULL_PIPELINE_MAX_STAGES; -ENOMEM. */
int lull_pipeline_order_init(struct lull_pipeline_order *order, uint32_t devices,
                             struct lull_error *err);
void lull_pipeline_order_fini(struct lull_pipeline_order *order);

/* Appends to a device's row. Errors: -E2BIG a row beyond LULL_PIPELINE_MAX_ACTIONS; -ENOMEM. */
int lull_pipeline_order_add(struct lull_pipeline_order *order, uint32_t device,
                            const struct lull_pipeline_action *action);

/* Where in an order. */
struct lull_pipeline_place {
    uint32_t device; /* as many as there are: nowhere in particular */
    size_t index;    /* of an action in the device's row; its count: one is missing */
};

/*
 * Checks that every micro-batch passes every stage exactly once, forward and backward, on one
 * device. Errors: -EINVAL, with stage, micro-batch and device in the text, and in *place_out (may
 * be NULL) where; -ENOMEM. O(n).
 */
int lull_pipeline_order_check(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out, struct lull_error *err);

/* The transfer between stage s and s + 1, if they are on two devices: latency_ns[s], or
 * latency_ns[0] for all where count is 1; none where count is 0. */
struct lull_pipeline_links {
    const int64_t *latency_ns;
    size_t count; /* 0, 1 or stages - 1 */
};

/* Data parallel copies of the pipeline. At the end the copies of a device wait for each other: its
 * gradients are reduced, its optimizer runs. */
struct lull_pipeline_replicas {
    uint32_t count;         /* 1..; device d of copy r is device r * devices + d of the graph */
    const int64_t *sync_ns; /* of the operation at the end of device d of every copy: sync_ns[d], or
                             * sync_ns[0] for all where sync_count is 1; 0: there is none */
    const int64_t *sync_energy_nj; /* of it, each the same place; NULL: none */
    size_t sync_count;             /* 0: no sync, 1 or devices */
    /* What was measured of each copy, count of them; NULL, or one that is NULL: as fit->measured.
     */
    const struct lull_pipeline_profile *const *measured;
};

/*
 * Checks the order and makes a finished task graph of it; classes come from fit (fit->stages is set
 * here). graph_out: not initialised before; written on success. Errors: as
 * lull_pipeline_order_check, lull_pipeline_fit_class and lull_pipeline_graph_finish (-ELOOP: a
 * device waits for what comes later on it); -EINVAL links or syncs of another count, a sync or a
 * replica count out of range.
 */
int lull_pipeline_order_build(const struct lull_pipeline_order *order,
                              const struct lull_pipeline_links *links,
                              const struct lull_pipeline_replicas *replicas,
                              struct lull_pipeline_fit *fit, struct lull_pipeline_graph *graph_out,
                              struct lull_error *err);

/*
 * Replays the order without times. Returns 0 if every action gets its turn; else 1, and where the
 * first device (lowest number) that is stuck waits in vain. Only for orders that pass
 * lull_pipeline_order_check. -ENOMEM.
 */
int lull_pipeline_order_stuck(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out);

/* The most micro-batches (one stage of one micro-batch each) that a device holds activations of at
 * a time: from the begin of the forward to the end of the weight gradient. */
uint32_t lull_pipeline_order_in_flight(const struct lull_pipeline_order *order, uint32_t device);

#endif
