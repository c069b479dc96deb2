/*
 * Plan runner: executes a pipeline's plan in a running job. It finds which device of the plan each
 * GPU of the node is, translates the probes' events into operations (sections "forward" and
 * "backward", or sends and receives between stages), and is the control's decider (plan_decider.c)
 * with what the plan controller (core/pipeline/follow/plan_controller.h) commands.
 *
 * Ranks are in the order of Megatron and DeepSpeed: rank = tensor + T (replica + R stage), with T
 * GPUs to a device of the plan.
 *
 * Threads: one at a time; the control loop calls it under its lock, and so must every other caller
 * while the control runs. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_PLAN_RUNNER_H
#define LULL_GOVERNOR_PLAN_PLAN_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/follow/plan_controller.h"
#include "governor/control/control.h"
#include "trace/plan_file.h"

enum {
    LULL_PLAN_RUNNER_MAX_PLANS = 8,
    LULL_PLAN_RUNNER_MAX_RECORDED = 1 << 20, /* iterations kept for the report */
    LULL_PLAN_RUNNER_MAX_CONDUCTED = 256     /* plans that the plan controller may be given */
};

/* Plans that were read from files; zero-initialised is empty. */
struct lull_pipeline_plans {
    struct lull_plan_file files[LULL_PLAN_RUNNER_MAX_PLANS];
    uint32_t count;
};

/* Loads up to LULL_PLAN_RUNNER_MAX_PLANS files. Errors, with which nothing is loaded: those of
 * lull_plan_file_read(); -E2BIG there are more. */
int lull_pipeline_plans_load(struct lull_pipeline_plans *plans, const char *const *paths,
                             uint32_t count, struct lull_error *err);
void lull_pipeline_plans_fini(struct lull_pipeline_plans *plans);

struct lull_plan_runner;

/* The inputs of a plan runner. Plans and devices must live until destroy. */
struct lull_plan_runner_setup {
    const struct lull_plan_file *plans; /* of the same pipeline, tried in this order */
    uint32_t plan_count;                /* 1..LULL_PLAN_RUNNER_MAX_PLANS */
    const struct lull_controller_config
        *config; /* tolerance, confidence, seed, observe_only count */
    struct lull_devices *devices;
    uint64_t shared_seed; /* of coins, on all nodes of the job the same. Where all ranks are on this
                           * node, config->seed is used. */
    const uint32_t *gpus; /* indices of devices, in the order in which the ranks must use them */
    uint32_t gpu_count;
};

/* Executes plans. Errors: -EINVAL plans of different pipelines, or a device without operations;
 * -ENOMEM. */
int lull_plan_runner_create(const struct lull_plan_runner_setup *setup,
                            struct lull_plan_runner **runner_out, struct lull_error *err);
void lull_plan_runner_destroy(struct lull_plan_runner *runner);

/*
 * Makes it the decider of a control that has not started; each must live until the other is
 * destroyed. Switching costs come from the control's section controller, as far as they were
 * calibrated. If a job does not fit the plan, or its ranks are unknown (torchrun, mpirun and srun
 * set them), a message is logged when its first rank starts, and its clocks stay unchanged.
 */
void lull_plan_runner_rule(struct lull_plan_runner *runner, struct lull_control *control);

/* Returns the iterations that have ended so far, LULL_PLAN_RUNNER_MAX_RECORDED at most; valid until
 * the control's lock is released. */
const struct lull_plan_controller_iteration *
lull_plan_runner_recorded(const struct lull_plan_runner *runner, size_t *count_out);

/* ---- profiling ---- */

/*
 * Lets every operation of every GPU run at this point from the next iteration on, without a trial.
 * Errors: -EAGAIN no rank has started yet; -ENOMEM.
 */
int lull_plan_runner_hold_point(struct lull_plan_runner *runner, uint32_t point);

/* Tries the plan in the array element after the plan_count plans given to create.
 * Errors: those of lull_plan_runner_hold_point. */
int lull_plan_runner_try_next(struct lull_plan_runner *runner);

/* Returns the point that an iteration was held at; -1: it was held at none. */
int32_t lull_plan_runner_held_point(const struct lull_plan_runner *runner,
                                    const struct lull_plan_controller_iteration *iteration);

/* Finds the mean lengths of a GPU's operations in one of the latest iterations, ms. False: they are
 * not known, or not from sections. */
bool lull_plan_runner_lengths(const struct lull_plan_runner *runner, uint32_t gpu,
                              uint64_t iteration, double *forward_out, double *backward_out);

/* Describes to a planner how the plan controller switches, by what it has seen so far: fed forward,
 * and all GPUs alike. False: no rank has started yet. */
bool lull_plan_runner_switching(const struct lull_plan_runner *runner,
                                struct lull_pipeline_switching *switching_out);

/* ---- stragglers ---- */

/* The times of an iteration on one copy of all that is planned, ns. */
struct lull_plan_runner_times {
    int64_t begin_ns; /* when its first operation began */
    int64_t end_ns;   /* when its last operation ended */
    int64_t next_ns;  /* when the next iteration's first operation began */
    double computed_ms[LULL_PLAN_CONTROLLER_MAX_GPUS]; /* time that each device computed */
};

/* Returns the number of a GPU's copy of the plan: the GPUs of one tensor index execute one copy. */
uint32_t lull_plan_runner_copy(const struct lull_plan_runner *runner, uint32_t gpu);

/* Finds the times of one of the latest iterations. False: they are not known (yet), because GPUs of
 * other nodes are part of the copy, its ranks report no sections, the iteration was not whole, or
 * the next one has not begun. */
bool lull_plan_runner_times(const struct lull_plan_runner *runner, uint32_t copy,
                            uint64_t iteration, struct lull_plan_runner_times *times_out);

/*
 * Begins a detour (lull_plan_controller_detour()): every GPU follows the options of its own array
 * for the operations of the plan that holds. Returns the detour's number. Errors: those of the plan
 * controller; -EAGAIN no plan that was given holds.
 */
int lull_plan_runner_detour(struct lull_plan_runner *runner, const uint32_t *const *option_of_gpu);
void lull_plan_runner_end_detour(struct lull_plan_runner *runner);

/* ---- looking ---- */

/* Returns the plan controller; NULL before the first rank has started. */
const struct lull_plan_controller *
lull_plan_runner_plan_controller(const struct lull_plan_runner *runner);

/* Returns the file of one of the plan controller's plans; NULL: it is none that was given. */
const struct lull_plan_file *lull_plan_runner_plan(const struct lull_plan_runner *runner,
                                                   uint32_t plan);

/* Returns which device of the plan a GPU is; -1: it is none, or none yet. */
int32_t lull_plan_runner_device(const struct lull_plan_runner *runner, uint32_t gpu);

#endif
