/*
 * The plan controller's state, private to its files. Calls go down this list only:
 *   plan_controller.c           inputs and outputs: operations, results, time, commands
 *   plan_controller_detour.c    clocks for a while that no trial requests
 *   plan_controller_queue.c     requests to the one driver, and their times
 *   plan_controller_trial.c     which iterations run at which plan, and what their lengths say
 *   plan_controller_forecast.c  the plan's forecast, and the clock for the present moment
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_PLAN_CONTROLLER_STATE_H
#define LULL_CORE_PIPELINE_FOLLOW_PLAN_CONTROLLER_STATE_H

#include "core/pipeline/follow/plan_controller.h"
#include "core/switching/driver_queue.h"
#include "core/switching/trial.h"

enum {
    LULL_PLAN_CONTROLLER_RECENT = 4,
    LULL_PLAN_CONTROLLER_SLOTS = 8,
    LULL_PLAN_CONTROLLER_REPORTED = 64,
    LULL_PLAN_CONTROLLER_PLANS = 256
};
/* Detours take turns in two places after those of the plans. */
enum { LULL_PLAN_CONTROLLER_DETOURS = 2 };

#define LULL_PLAN_CONTROLLER_HIGHEST (-1)

/* The latest intervals of an operation: from its start to the next one's, and its length. */
struct lull_plan_controller_recent {
    uint32_t count;
    uint32_t next;
    int64_t interval_ns[LULL_PLAN_CONTROLLER_RECENT];
    int64_t length_ns[LULL_PLAN_CONTROLLER_RECENT];
};

struct lull_plan_controller_gpu {
    uint32_t op_count;
    bool is_lost;
    bool is_running;
    uint32_t op; /* the operation that runs, or has ended last */
    int64_t begin_ns;
    int64_t end_ns;
    uint64_t iteration;
    bool is_same_plan; /* this iteration and the one before ran at the plan: intervals are learnt */
    uint32_t requested;
    int64_t requested_ns;
    int64_t raised_ns; /* latest raising, while its outcome is open; 0: none is */
    int64_t needed_ns; /* begin of the first operation after it; 0: none has started yet */
    int32_t learnt_plan;
    struct lull_plan_controller_recent *recent; /* per operation, at the plan learnt_plan */
    struct lull_switch_cost cost;
    int64_t lead_ns;  /* a raising is requested this long before its operation begins */
    int64_t down_ns;  /* a lowering that lasts for less has no effect */
    int64_t ahead_ns; /* a lowering requested this long ahead cannot have effect before its time */
};

struct lull_plan_controller_plan {
    double slowdown_ratio;
    int64_t makespan_ns;
    struct lull_plan_controller_op *ops[LULL_PLAN_CONTROLLER_MAX_GPUS];
    uint32_t raises[LULL_PLAN_CONTROLLER_MAX_GPUS]; /* in an iteration */
};

/* Decision for an iteration. */
struct lull_plan_controller_slot {
    uint64_t number;
    uint64_t test;
    int32_t plan;
    bool is_mixed; /* other clocks than these held for some of it */
    bool has_place;
    struct lull_pair_slot place; /* in the pairs of the test */
};

struct lull_plan_controller_trial {
    enum lull_plan_controller_phase phase;
    int32_t plan;
    uint64_t test; /* number of the present one: iterations of other tests are no evidence */
    uint32_t warming;
    bool is_held; /* the plan is not tried */
};

struct lull_plan_controller {
    struct lull_plan_controller_config config;
    uint32_t gpu_count;
    uint32_t plan_count;
    struct lull_plan_controller_plan
        *plans[LULL_PLAN_CONTROLLER_PLANS + LULL_PLAN_CONTROLLER_DETOURS];
    struct lull_plan_controller_trial trial;
    struct lull_plan_controller_trial
        resting;                 /* the trial of the plan while a detour is under way */
    struct lull_trial evidence;  /* for the plan; a detour has none */
    struct lull_trial_rank rank; /* the leader's part of it */
    int32_t used_plan;           /* the one that is tried again once it has given way */
    uint64_t retry_spacing;      /* 0: none has given way yet */
    uint64_t next_retry;         /* iteration */
    bool is_detoured;
    uint32_t detours;                                                   /* so far */
    struct lull_plan_controller_slot slots[LULL_PLAN_CONTROLLER_SLOTS]; /* by number */
    int32_t leader;       /* GPU whose iterations count, -1: none yet */
    uint64_t iteration;   /* of the leader */
    int64_t iteration_ns; /* when it began; 0: not known */
    bool is_whole;        /* so far */
    bool is_disturbed;    /* so far */
    struct lull_plan_controller_iteration reported[LULL_PLAN_CONTROLLER_REPORTED];
    uint64_t reported_written;
    uint64_t reported_read;
    uint64_t late;
    struct lull_driver_queue queue;
    bool is_disobedient; /* a GPU does not follow: nothing is lowered any more */
    bool has_update;     /* since the last poll */
    int64_t wake_ns;
    struct lull_plan_controller_gpu gpus[LULL_PLAN_CONTROLLER_MAX_GPUS];
};

/* ---- plan_controller_forecast.c ---- */

/* A plan with its own copies of ops; null: out of memory. */
struct lull_plan_controller_plan *
lull_plan_controller_create_plan(const struct lull_plan_controller *plan_controller,
                                 const struct lull_plan_controller_op *const *ops,
                                 double slowdown_ratio);
void lull_plan_controller_destroy_plan(struct lull_plan_controller_plan *plan);

struct lull_plan_controller_decision {
    uint32_t point;
    int64_t raise_ns; /* when a higher clock must be requested; INT64_MAX: not in sight */
    int64_t wake_ns;  /* when a lower one may be wanted without a new event */
};

/*
 * The clock that the GPU is to have: high enough for all operations whose raising must be requested
 * until until_ns (>= now_ns), and no lower than lowest_point.
 */
struct lull_plan_controller_decision
lull_plan_controller_decide_clock(const struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_gpu *gpu, int64_t now_ns,
                                  int64_t until_ns, uint32_t lowest_point);

/* Returns the plan's point for an operation, counted from the first one of the GPU's iteration; the
 * operation may belong to the next iteration. */
uint32_t lull_plan_controller_point_of(const struct lull_plan_controller *plan_controller,
                                       const struct lull_plan_controller_gpu *gpu, uint32_t op);

/* Returns the decision for an iteration; the highest clocks if there was none. */
const struct lull_plan_controller_slot *
lull_plan_controller_slot_of(const struct lull_plan_controller *plan_controller, uint64_t number);

/* Finds lead_ns, down_ns and ahead_ns again from what switching costs: the quantiles they come from
 * cost too much to be computed at every poll. */
void lull_plan_controller_update_costs(const struct lull_plan_controller *plan_controller,
                                       struct lull_plan_controller_gpu *gpu);

/* ---- plan_controller_trial.c ---- */

/* A new test of the trial's plan, from iteration since on: a proof while it is tried, and a watch
 * once it is kept. */
void lull_plan_controller_begin_test(struct lull_plan_controller *plan_controller,
                                     enum lull_plan_controller_phase phase, uint64_t since);

/* No plan has been tried yet. */
void lull_plan_controller_init_evidence(struct lull_plan_controller *plan_controller);

/* A new trial of this plan, from iteration since on. */
void lull_plan_controller_trial_init(struct lull_plan_controller *plan_controller, int32_t plan,
                                     uint64_t since);

/* This plan is used from iteration since on; nothing has given way to it. */
void lull_plan_controller_start_plan(struct lull_plan_controller *plan_controller, int32_t plan,
                                     uint64_t since);

/* The trial of the plan, whether a detour is under way or not. */
const struct lull_plan_controller_trial *
lull_plan_controller_trial_of_plan(const struct lull_plan_controller *plan_controller);

/* Decides how an iteration runs: the one after the latest that was decided. */
void lull_plan_controller_decide(struct lull_plan_controller *plan_controller, uint64_t number);

/* From the present iteration on the highest clocks hold; the trial starts again once it resumes. */
void lull_plan_controller_trial_interrupt(struct lull_plan_controller *plan_controller);

/* An iteration of the leader has ended. */
void lull_plan_controller_take_iteration(struct lull_plan_controller *plan_controller,
                                         const struct lull_plan_controller_iteration *iteration);

/* ---- plan_controller_queue.c ---- */

/* Asks the driver for what is due at now_ns; returns how many commands were written, at most max.
 * Sets when to do so again. */
uint32_t lull_plan_controller_ask_driver(struct lull_plan_controller *plan_controller,
                                         int64_t now_ns,
                                         struct lull_plan_controller_command *commands_out,
                                         uint32_t max);

#endif
