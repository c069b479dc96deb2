/*
 * Order: what each device runs, one action after the other. All schedules take this form, whether
 * they are generated (schedule.h) or read from a file (trace/torch_schedule.h), and become task
 * graphs from it.
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
#include "core/pipeline/model/fit.h"
#include "core/pipeline/model/graph.h"

enum {
    LULL_PIPELINE_MAX_MICROBATCHES = 1 << 16,
    LULL_PIPELINE_MAX_ACTIONS = 1 << 22, /* of all devices together */
};

struct lull_pipeline_action {
    enum lull_pipeline_kind kind;
    uint32_t stage;
    uint32_t microbatch;
    uint32_t partner_stage; /* the stage of an overlap's backward; else 0 */
    uint32_t partner_microbatch;
};

struct lull_pipeline_row {
    struct lull_pipeline_action *actions;
    size_t count;
};

struct lull_pipeline_order {
    struct lull_pipeline_row *rows; /* one per device */
    uint32_t devices;
    uint32_t stages;       /* model chunks; every stage is on one device */
    uint32_t microbatches; /* each passes every stage once */
};

/* Errors: -EINVAL devices is 0 or more than LULL_PIPELINE_MAX_STAGES; -ENOMEM. */
int lull_pipeline_order_init(struct lull_pipeline_order *order, uint32_t devices,
                             struct lull_error *err);
void lull_pipeline_order_fini(struct lull_pipeline_order *order);

/* Appends to a device's row. Errors: -E2BIG a row beyond LULL_PIPELINE_MAX_ACTIONS; -ENOMEM. */
int lull_pipeline_order_add(struct lull_pipeline_order *order, uint32_t device,
                            const struct lull_pipeline_action *action);

/* A place in an order, which an error is about. */
struct lull_pipeline_place {
    uint32_t device; /* the number of devices: nowhere in particular */
    size_t index;    /* of an action in the device's row; the row's count: an action is missing */
};

/*
 * Checks that every micro-batch passes every stage exactly once, forward and backward, on one
 * device. Errors: -EINVAL, with stage, micro-batch and device in the text, and the place in
 * *place_out, which may be null; -ENOMEM. O(n).
 */
int lull_pipeline_order_check(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out, struct lull_error *err);

/* Durations of transfers. Between the stages s and s + 1, if they are on two devices, it is
 * latency_ns[s]. It is latency_ns[0] for all if count is 1, and 0 if count is 0. */
struct lull_pipeline_links {
    const int64_t *latency_ns;
    size_t count; /* 0, 1 or stages - 1 */
};

/* Data parallel copies of the pipeline. At the end the copies of a device wait for each other: its
 * gradients are reduced, its optimizer runs. */
struct lull_pipeline_replicas {
    uint32_t count; /* >= 1; device d of copy r is device r * devices + d of the graph */
    /* Duration of the operation at the end of device d of every copy: sync_ns[d], or sync_ns[0] for
     * all if sync_count is 1. If sync_count is 0, there is no such operation. */
    const int64_t *sync_ns;
    const int64_t *sync_energy_nj; /* its energy, at the same places; null: it takes none */
    size_t sync_count;             /* 0: no sync, 1 or devices */
    /* The profile of each copy, count of them. Copies whose pointer is null, or all where this is
     * null, have fit->measured. */
    const struct lull_pipeline_profile *const *measured;
};

/*
 * Checks the order and makes a finished task graph of it. Classes come from fit, whose stages it
 * sets. graph_out need not be initialised; it is written on success. Errors: as
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
 * Replays an order that passes lull_pipeline_order_check, without times. Returns 0 if every action
 * gets its turn; else 1, and in *place_out the action that the first stuck device (lowest number)
 * waits for in vain. Error: -ENOMEM.
 */
int lull_pipeline_order_stuck(const struct lull_pipeline_order *order,
                              struct lull_pipeline_place *place_out);

/* Largest number of micro-batches (one stage of one micro-batch each) whose activations a device
 * holds: from the start of the forward to the end of the weight gradient. */
uint32_t lull_pipeline_order_in_flight(const struct lull_pipeline_order *order, uint32_t device);

#endif
