/* Inside the plan runner; shared by plan_runner.c (ranks), plan_decider.c (events and commands) and
 * plan_runner_plans.c (what the plan controller is given). No other process includes this.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_GOVERNOR_PLAN_PLAN_RUNNER_STATE_H
#define LULL_GOVERNOR_PLAN_PLAN_RUNNER_STATE_H

#include "core/pipeline/follow/op_tracker.h"
#include "core/pipeline/follow/device_plan.h"
#include "governor/plan/plan_runner.h"

enum { COMMUNICATORS = 64, LENGTHS = 64, ENDS = 8, NOBODYS = -1 };

/* A communicator of one process. */
struct lull_runner_communicator {
    uint32_t ranks; /* 0: not announced */
    int32_t own;    /* the rank that the process itself has in it */
};

/* The operations of a GPU that ended in one iteration. */
struct lull_runner_lengths {
    uint64_t iteration;
    uint32_t count[2]; /* forward, backward */
    double sum_ms[2];
};

/* The plan that has one of the numbers of the plan controller. */
struct lull_runner_conducted {
    int32_t file;  /* index in the runner's plans; NOBODYS: it is none of them */
    int32_t point; /* the point that all operations are held at; NOBODYS: they are not */
};

struct lull_runner_gpu {
    const struct lull_device_info *info;
    int32_t device; /* which device of the plan it is; -1: none */
    uint32_t copy;  /* the copy of all that is planned that it belongs to */
    bool has_sections;
    struct lull_op_tracker *tracker;
    struct lull_switch_cost known;
    struct lull_runner_communicator communicators[COMMUNICATORS];
    int64_t begin_ns; /* begin of the operation that runs */
    struct lull_op_tracker_op *ops;
    struct lull_runner_lengths lengths[LENGTHS]; /* by the number of the iteration */
    uint32_t op_count;
    /* Of the latest ENDS iterations, by the remainder of their numbers. */
    uint64_t begins_of[ENDS];    /* the number of the iteration that begins_ns is of */
    int64_t begins_ns[ENDS];     /* when its first operation began */
    uint64_t ends_of[ENDS];      /* the number of the iteration that ends_ns is of */
    uint32_t ends_counted[ENDS]; /* number of operations that have ended in it */
    int64_t *ends_ns;            /* when each of them ended: ENDS times op_count */
};

struct lull_plan_runner {
    const struct lull_plan_file *plans; /* borrowed */
    uint32_t plan_count;
    struct lull_plan_controller_config config;
    uint64_t shared_seed;
    struct lull_control *control; /* the control whose decider this is; borrowed */
    int64_t logged_until_ns;      /* end of the last iteration in the run logs; 0: none */
    uint32_t node_gpu_count;
    uint32_t stages;    /* devices of one copy of the pipeline */
    uint32_t world;     /* ranks of the job, once one is bound */
    uint32_t first;     /* the rank of the node's first GPU, once one is bound */
    uint32_t gpu_count; /* GPUs that the job uses on this node; 0 before the first rank */
    uint32_t copies;    /* copies of all that is planned, in the whole job */
    bool is_refused;
    struct lull_plan_controller *plan_controller;
    uint32_t conducted_count;
    /* By the numbers that the plan controller gave them. */
    struct lull_runner_conducted conducted[LULL_PLAN_RUNNER_MAX_CONDUCTED];
    struct lull_plan_controller_iteration *recorded;
    size_t recorded_count;
    size_t recorded_room;
    struct lull_runner_gpu gpus[LULL_PLAN_CONTROLLER_MAX_GPUS];
};

static inline struct lull_pipeline_problem
lull_plan_runner_problem(const struct lull_plan_file *plan)
{
    return (struct lull_pipeline_problem){&plan->profile, &plan->graph, plan->blocking_w};
}

/*
 * A rank of the job begins on this GPU. The first one determines the devices of all ranks. Errors:
 * -EINVAL the job does not fit the plan, does not report its ranks, or its ranks do not use the
 * GPUs in their order; then no plan is executed, or its execution ends. -ENOMEM.
 */
int lull_plan_runner_bind(struct lull_plan_runner *runner, uint32_t gpu,
                          const struct lull_process_info *info, struct lull_error *err);

/* Gives the plan controller one of the runner's plans. Errors: -ENOMEM. */
int lull_plan_runner_add_plan(struct lull_plan_runner *runner, const struct lull_plan_file *plan);

#endif
