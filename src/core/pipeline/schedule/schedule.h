/*
 * Schedules: the order in which every device of a pipeline runs its operations. Below, M is the
 * number of micro-batches, S that of devices, s the number of a device, and w its forwards of
 * warm-up.
 *
 *   gpipe              all forwards, then all backwards (Huang et al. 2019)
 *   1f1b               w = min(S - s, M), then backward and forward in turn (PipeDream-flush,
 *                      Narayanan et al. 2021): min(S - s, M) micro-batches in flight
 *   1f1b-recompute     the same, the forward repeated ahead of every backward, by an operation of
 *                      its own that does not wait for the gradient: in a bubble it costs no time
 *                      (early recomputation, Merak 2023; lowtime's schedule joins the two where no
 *                      bubble lies between)
 *   interleaved:V[,G]  V model chunks per device in a loop, groups of G micro-batches (0: S);
 *                      w = min(2(S - s - 1) + (V - 1)G, MV), then forward and backward in turn
 *                      (Megatron-LM core 0.12)
 *   envpipe[:R[,R..]]  1f1b with r_s more forwards of warm-up, so that bubbles lie between
 *                      backwards (EnvPipe, ATC'23); at most R micro-batches more in memory: one
 *                      number for all devices or one for each, none: no limit
 *   zb-h1              the backward split in two, w = S - s - 1; weight gradients fill the end; at
 *                      most S micro-batches in flight (Qi et al. 2024)
 *   zbv                two chunks per device in a V, backward split; at most 2S in flight of half
 *                      a stage each (Qi et al. 2024b)
 *   dualpipev          two chunks per device in a V, forward of one and backward of the other at
 *                      once (DeepSeek's DualPipe cut in half, 2025); M >= 2S; at most 2S + 1 in
 *                      flight of half a stage each
 *
 * tests/trace compares the orders with torch.distributed.pipelining's: gpipe, 1f1b, interleaved (G
 * = M / max(1, M / S)), zb-h1 (InterleavedZeroBubble with one chunk), zbv and dualpipev are equal.
 *
 * Stages of the pipeline are model chunks: stage c * S + d is chunk c of device d; in a V, chunk 1
 * of device d is stage 2S - 1 - d.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SCHEDULE_SCHEDULE_H
#define LULL_CORE_PIPELINE_SCHEDULE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/fit.h"
#include "core/pipeline/model/graph.h"
#include "core/pipeline/schedule/order.h"

enum { LULL_PIPELINE_MAX_LIMITS = 1024, LULL_PIPELINE_MAX_CHUNKS = 64 };

enum lull_pipeline_family {
    LULL_PIPELINE_GPIPE,
    LULL_PIPELINE_1F1B,
    LULL_PIPELINE_1F1B_RECOMPUTE,
    LULL_PIPELINE_INTERLEAVED,
    LULL_PIPELINE_ENVPIPE,
    LULL_PIPELINE_ZB_H1,
    LULL_PIPELINE_ZBV,
    LULL_PIPELINE_DUALPIPEV,
    LULL_PIPELINE_FAMILIES
};

struct lull_pipeline_schedule {
    enum lull_pipeline_family family;
    uint32_t chunks; /* model chunks per device */
    uint32_t group;  /* interleaved: micro-batches of a group; 0: as many as devices */
    uint32_t limits; /* envpipe: how many numbers limit has; 0: no limit, 1: one for all devices */
    uint32_t limit[LULL_PIPELINE_MAX_LIMITS];
};

/* The pipeline that a schedule is for. */
struct lull_pipeline_shape {
    uint32_t devices; /* of one copy; a device is all GPUs of a stage together */
    uint32_t microbatches;
    struct lull_pipeline_links links; /* count 0: transfers take no time */
    struct lull_pipeline_replicas replicas;
    bool by_chunk; /* the profile's stages are model chunks, not devices' whole stages */
};

/* Reads "1f1b", "interleaved:2,8" and similar ones. Error: -EINVAL, the text says what is wrong,
 * and lists all schedules where there is none of that name. */
int lull_pipeline_schedule_parse(const char *text, struct lull_pipeline_schedule *schedule_out,
                                 struct lull_error *err);

/* The name by which lull_pipeline_schedule_parse knows a family, without numbers. */
const char *lull_pipeline_family_name(enum lull_pipeline_family family);

/*
 * Finds the order of every device. Only envpipe needs measured, for its r_s; it may be null for
 * others. order_out need not be initialised; it is written on success. Errors: -EINVAL the schedule
 * cannot have this shape (the text says which number), -ENOENT a class is missing that envpipe
 * needs; -ENOMEM. O(actions).
 */
int lull_pipeline_schedule_order(const struct lull_pipeline_schedule *schedule,
                                 const struct lull_pipeline_shape *shape,
                                 const struct lull_pipeline_profile *measured,
                                 struct lull_pipeline_order *order_out, struct lull_error *err);

/*
 * Makes the finished task graph, and the profile whose classes its operations have: measured,
 * fitted to the pipeline's stages (fit.h). Neither need be initialised; both are written on
 * success, and the caller calls fini. Errors: as lull_pipeline_schedule_order and
 * lull_pipeline_order_build.
 */
int lull_pipeline_schedule_build(const struct lull_pipeline_schedule *schedule,
                                 const struct lull_pipeline_shape *shape,
                                 const struct lull_pipeline_profile *measured,
                                 struct lull_pipeline_profile *fitted_out,
                                 struct lull_pipeline_graph *graph_out, struct lull_error *err);

/*
 * Finds EnvPipe's r_s for every device (reference: ATC'23, section 4.2; runtime/pipe/schedule.py):
 * the least of t_B(highest clock) * (S - s - 1) / t_F(clock of the least energy), the memory limit,
 * and M - (S - s), and 0 on the last device; then r_{s+1} = r_s where r_s < r_{s+1} and device s
 * still has forwards to issue. hoist_out has shape->devices places. Error: -ENOENT a class is
 * missing.
 */
int lull_pipeline_envpipe_hoist(const struct lull_pipeline_schedule *schedule,
                                const struct lull_pipeline_shape *shape,
                                const struct lull_pipeline_profile *measured, uint32_t *hoist_out,
                                struct lull_error *err);

#endif
