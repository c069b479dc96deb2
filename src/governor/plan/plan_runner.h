/*
 * Plan runner: carries a pipeline's plan out in a running job. Finds which device of the plan each
 * GPU of the node is, translates what the probes tell into operations (sections "forward" and
 * "backward", or sends and receives between stages), and hands the conductor's commands on.
 *
 * Ranks stand in Megatron's and DeepSpeed's order: rank = tensor + T (replica + R stage), with T
 * GPUs to a device of the plan.
 *
 * Threads: one at a time; the control loop calls it under its lock. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_PLAN_RUNNER_H
#define LULL_GOVERNOR_PLAN_PLAN_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/online/conductor.h"
#include "device/device.h"
#include "trace/plan_file.h"
#include "wire/event.h"

enum {
    LULL_PLAN_RUNNER_MAX_PLANS = 8,
    LULL_PLAN_RUNNER_MAX_RECORDED = 1 << 20,
    LULL_PLAN_RUNNER_MAX_CONDUCTED = 256
};

struct lull_plan_runner;

/* Everything is borrowed until destroy. */
struct lull_plan_runner_config {
    const struct lull_plan_file *plans; /* of one and the same pipeline; tried in this order */
    uint32_t plan_count;                /* 1..LULL_PLAN_RUNNER_MAX_PLANS */
    struct lull_conductor_config config;
    const struct lull_device_info *gpus[LULL_CONDUCTOR_MAX_GPUS]; /* of the job, by local rank */
    uint32_t gpu_count;
};

/* Errors: -EINVAL plans of different pipelines; -ENOMEM. */
int lull_plan_runner_create(const struct lull_plan_runner_config *setup,
                            struct lull_plan_runner **runner_out, struct lull_error *err);
void lull_plan_runner_destroy(struct lull_plan_runner *runner);

/*
 * A rank of the job runs on this GPU; with the first one it becomes known where the others stand.
 * Errors: -EINVAL the job does not fit the plan, or does not say its ranks (torchrun, mpirun and
 * srun do); nothing is carried out then. -ENOMEM.
 */
int lull_plan_runner_bind(struct lull_plan_runner *runner, uint32_t gpu,
                          const struct lull_process_info *info, struct lull_error *err);

/* The rank on this GPU has left. */
void lull_plan_runner_take_exit(struct lull_plan_runner *runner, uint32_t gpu);

/* A section of computation of the rank begins or ends, in the time of the GPU. */
void lull_plan_runner_take_section(struct lull_plan_runner *runner, uint32_t gpu, bool is_backward,
                                   bool is_end, int64_t time_ns);

/* COMMUNICATOR, KERNEL_BEGIN and KERNEL_END; others say nothing. */
void lull_plan_runner_take_event(struct lull_plan_runner *runner, uint32_t gpu,
                                 const struct lull_event *event);

/* Whether the ranks need to tell when communication kernels run: they say no sections. */
bool lull_plan_runner_wants_times(const struct lull_plan_runner *runner, uint32_t gpu);

/* As lull_conductor_take_switch(), _take_blocked(), _take_waiting(), _poll(), _wake_ns(),
 * _next_iteration(). */
void lull_plan_runner_take_switch(struct lull_plan_runner *runner, uint32_t gpu,
                                  const struct lull_switch_outcome *outcome);
void lull_plan_runner_take_blocked(struct lull_plan_runner *runner, int64_t now_ns,
                                   double blocked_ms);
void lull_plan_runner_take_waiting(struct lull_plan_runner *runner, int64_t now_ns,
                                   double waiting_ms);
uint32_t lull_plan_runner_poll(struct lull_plan_runner *runner, int64_t now_ns,
                               struct lull_conductor_command *commands_out, uint32_t max);
int64_t lull_plan_runner_wake_ns(const struct lull_plan_runner *runner);
bool lull_plan_runner_next_iteration(struct lull_plan_runner *runner,
                                     struct lull_conductor_iteration *iteration_out);

/* Keeps an iteration for the report; beyond LULL_PLAN_RUNNER_MAX_RECORDED they are dropped. */
void lull_plan_runner_record(struct lull_plan_runner *runner,
                             const struct lull_conductor_iteration *iteration);
const struct lull_conductor_iteration *
lull_plan_runner_recorded(const struct lull_plan_runner *runner, size_t *count_out);

/* What switching costs on this GPU as far as it is known beforehand; to be filled before bind. */
struct lull_switch_cost *lull_plan_runner_known_cost(struct lull_plan_runner *runner, uint32_t gpu);

/*
 * Profiling: from the next iteration on every operation of every GPU runs at this point, untried;
 * and the plan behind those given so far (in setup.plans) is tried. -EAGAIN no rank is bound yet;
 * -ENOMEM.
 */
int lull_plan_runner_hold_point(struct lull_plan_runner *runner, uint32_t point);
int lull_plan_runner_try_next(struct lull_plan_runner *runner);

/* The plan that try_next() would try, as it is now, holds untried from the next iteration on; it
 * may change and be held anew. Errors: as above; -ENOSPC too many so far. */
int lull_plan_runner_hold_next(struct lull_plan_runner *runner);

/* The point that an iteration was held at, -1: none. */
int32_t lull_plan_runner_held_point(const struct lull_plan_runner *runner,
                                    const struct lull_conductor_iteration *iteration);

/* Mean lengths of a GPU's operations in one of the latest iterations, ms. False: not known, or not
 * from sections. */
bool lull_plan_runner_lengths(const struct lull_plan_runner *runner, uint32_t gpu,
                              uint64_t iteration, double *forward_out, double *backward_out);

/* How the conductor switches by what it has seen so far, all GPUs alike, as a planner wants it: fed
 * forward. False: no rank is bound yet. */
bool lull_plan_runner_switching(const struct lull_plan_runner *runner,
                                struct lull_pipeline_switching *switching_out);

/* When the operations of one of the latest iterations ended, on all devices, ns; end_out: op_count
 * of the plans' graph. False: not known, because GPUs of other nodes or fixed operations are part
 * of it, or the iteration was not whole. */
bool lull_plan_runner_ends(const struct lull_plan_runner *runner, uint64_t iteration,
                           int64_t *end_out);

/* An iteration of one copy of all that is planned. */
struct lull_plan_runner_times {
    int64_t begin_ns;                            /* of its first operation */
    int64_t end_ns;                              /* of its last one */
    int64_t next_ns;                             /* begin of the next iteration's first operation */
    double computed_ms[LULL_CONDUCTOR_MAX_GPUS]; /* length of all operations of each device */
};

/* Copies of all that is planned, in the whole job; 0: no rank is bound yet. A GPU's copy. */
uint32_t lull_plan_runner_copy_count(const struct lull_plan_runner *runner);
uint32_t lull_plan_runner_copy(const struct lull_plan_runner *runner, uint32_t gpu);

/* How one of the latest iterations was. False: not known (yet): GPUs of other nodes are part of the
 * copy, its ranks say no sections, the iteration was not whole, or the next one has not begun. */
bool lull_plan_runner_times(const struct lull_plan_runner *runner, uint32_t copy,
                            uint64_t iteration, struct lull_plan_runner_times *times_out);

/*
 * A detour (lull_conductor_detour()): every GPU follows these options for the operations of the
 * plan that holds, one array for each GPU. Returns the detour's number; errors: those, -EAGAIN
 * without a plan that was given.
 */
int lull_plan_runner_detour(struct lull_plan_runner *runner, const uint32_t *const *option_of_gpu);
void lull_plan_runner_end_detour(struct lull_plan_runner *runner);

/* Looking. NULL before the first rank is bound. */
const struct lull_conductor *lull_plan_runner_conductor(const struct lull_plan_runner *runner);
/* Of a plan of the conductor; NULL: none that was given. */
const struct lull_plan_file *lull_plan_runner_plan(const struct lull_plan_runner *runner,
                                                   uint32_t plan);
uint32_t lull_plan_runner_plan_count(const struct lull_plan_runner *runner);

/* The plan's device that a GPU is, -1: none (yet). */
int32_t lull_plan_runner_device(const struct lull_plan_runner *runner, uint32_t gpu);

/* Whether a plan holds, or it is certain that none does. */
bool lull_plan_runner_has_settled(const struct lull_plan_runner *runner);

#endif
