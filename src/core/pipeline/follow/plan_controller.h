/*
 * The plan controller: it carries a pipeline plan out on the GPUs of one node, and keeps it only
 * while the job is not degraded.
 *
 * Feed-forward, per GPU: the raising for an operation is requested ahead of its forecast begin, by
 * a lead that makes it late only little on average; the lowering is requested when the operation
 * before ends, or ahead of that by no more than a driver call takes at least, so that nothing runs
 * below what the plan says. Between two operations the clock stays where it is, or goes down
 * already. A lowering that would have to be taken back before it has effect is left out. All GPUs
 * share one driver, which serves one call after the other (core/switching/driver_queue.h): raisings
 * that fall together are requested earlier, each call taken to last as long as nine in ten of them
 * do; and a lowering is requested only where the driver is free, no raising is late for it, and its
 * GPU is low for longer than the lowering takes and the others lose. Forecasts come from the
 * intervals of the latest iterations at the same plan, and from the plan itself before there are
 * any. If the order of operations is left, the GPU is raised at once, until its operation 0 begins
 * again.
 *
 * Evidence: whole iterations at the highest clocks are interleaved with iterations at the plan
 * (core/switching/trial.h), on all GPUs alike, by the number of the iteration; the guard compares
 * their mean lengths. "Not degraded" allows what the plan itself costs, and the tolerance on top. A
 * plan that is not proven harmless is replaced by the next one, and the last one by the highest
 * clocks. A plan that is kept is watched: reference blocks continue, ever more rarely, and what
 * looks slow or has spent the loss budget is checked.
 *
 * Trust: while the driver blocks for too long (core/switching/driver_queue.h) the plan is withdrawn
 * and all clocks are raised; later the trial starts again. If a GPU does not follow, the plan is
 * withdrawn permanently.
 *
 * Points are indices into a GPU's clock list: 0 the highest, which represents no lock at all. Pure;
 * create/destroy; one thread at a time; time is passed in. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FOLLOW_PLAN_CONTROLLER_H
#define LULL_CORE_PIPELINE_FOLLOW_PLAN_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/switching/switch_cost.h"
#include "core/stats/guard.h"

enum { LULL_PLAN_CONTROLLER_MAX_GPUS = 64 };

struct lull_plan_controller_config {
    double tolerance_ratio;     /* slowdown that is allowed beyond the plan's own, (0, 1] */
    double confidence;          /* of all "not degraded" of a run together, (0.5, 1) */
    uint32_t window_iterations; /* measured in each block of a pair, >= 1 */
    uint64_t seed;              /* of the coins that order pairs; on all nodes of a job the same */
    bool observe_only;          /* counts iterations, never commands */
    bool is_trusted; /* no trial: the plan holds until it is replaced, nothing is measured */
};

/* Sets a tolerance of 1 %, a confidence of 95 % and blocks of 2 iterations. */
void lull_plan_controller_config_default(struct lull_plan_controller_config *config);

/* An operation of a GPU, in the order of a plan. */
struct lull_plan_controller_op {
    uint32_t point;
    int64_t begin_ns; /* in the plan's timeline; ascending */
    int64_t end_ns;
};

enum lull_plan_controller_phase {
    LULL_PLAN_CONTROLLER_WAITING,  /* no GPU is known to begin an iteration */
    LULL_PLAN_CONTROLLER_WARMING,  /* the first iterations at a plan: switching is being learnt */
    LULL_PLAN_CONTROLLER_TRYING,   /* reference and plan in turn */
    LULL_PLAN_CONTROLLER_KEPT,     /* the plan holds; references now and then */
    LULL_PLAN_CONTROLLER_GIVEN_UP, /* no plan was harmless: highest clocks */
    LULL_PLAN_CONTROLLER_WITHDRAWN /* the driver is not to be trusted: highest clocks */
};

/* Why a plan has been withdrawn, now or before. */
enum lull_plan_controller_trouble {
    LULL_PLAN_CONTROLLER_NO_TROUBLE,
    LULL_PLAN_CONTROLLER_BLOCKS,  /* calls blocked for too long */
    LULL_PLAN_CONTROLLER_DISOBEYS /* clocks did not follow, or calls were refused */
};

/* The quantile of call times that is planned with. Eight calls in a row hardly ever take longer
 * than eight times as long: in a thousandth of all cases if their logarithms deviate by 0.45. */
#define LULL_PLAN_CONTROLLER_PLANNED_CALL 0.9

struct lull_plan_controller_command {
    uint32_t gpu;
    uint32_t point;
    int64_t deadline_ns;    /* a lowering served later is worthless */
    int64_t valid_until_ns; /* a lowering not renewed until then is undone */
};

/* An iteration that has ended, of the GPU that leads: the first one that is known to be in the job.
 */
struct lull_plan_controller_iteration {
    uint64_t number;
    int64_t begin_ns;
    int64_t end_ns;
    int32_t plan;      /* index of the plan, -1: highest clocks */
    bool is_measured;  /* not the first after a change */
    bool is_whole;     /* no GPU left its order */
    bool is_disturbed; /* something other than clocks may have made it longer */
};

struct lull_plan_controller;

/* gpu_count 1..LULL_PLAN_CONTROLLER_MAX_GPUS; op_counts[i]
 * operations of GPU i, >= 1. Returns null if out of memory. */
struct lull_plan_controller *
lull_plan_controller_create(const struct lull_plan_controller_config *config, uint32_t gpu_count,
                            const uint32_t *op_counts);
void lull_plan_controller_destroy(struct lull_plan_controller *plan_controller);

/*
 * Adds a plan, to be tried after those before it. ops[i] are the operations of GPU i;
 * slowdown_ratio is the slowdown that the plan itself predicts, >= 0. Plans may be added at any
 * time, and take effect when their turn comes. Error: -ENOMEM.
 */
int lull_plan_controller_add_plan(struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_op *const *ops,
                                  double slowdown_ratio);

/* Continues with this plan and a new trial, from the next iteration that is not decided yet; -1:
 * the highest clocks, permanently. */
void lull_plan_controller_use_plan(struct lull_plan_controller *plan_controller, int32_t plan);

/* Continues with this plan without a trial: it holds until another one is used (for profiling). */
void lull_plan_controller_hold_plan(struct lull_plan_controller *plan_controller, int32_t plan);

/*
 * Begins a detour: these clocks hold from the next iteration that is not decided
 * yet, without a trial of their own, while the trial of the plan is paused. A detour may follow
 * another. While a trial is paused, _phase(), _plan() and _slowdown() still report it. Returns the
 * number that iterations of the detour report as their plan, at least LULL_PLAN_CONTROLLER_DETOUR.
 * Errors: -EAGAIN no plan holds or is tried, or the detour before the last one is still under way
 * (three iterations); -ENOMEM.
 */
enum { LULL_PLAN_CONTROLLER_DETOUR = 256 };
int lull_plan_controller_detour(struct lull_plan_controller *plan_controller,
                                const struct lull_plan_controller_op *const *ops);

/*
 * Returns to the plan at once, even in the middle of an iteration. The trial continues two
 * iterations later. Without a detour nothing happens.
 */
void lull_plan_controller_end_detour(struct lull_plan_controller *plan_controller);

/* Cost of switching on this GPU; the caller may fill in what is known beforehand. */
struct lull_switch_cost *
lull_plan_controller_switch_cost(struct lull_plan_controller *plan_controller, uint32_t gpu);

/* Notes that an operation of the GPU's order begins or ends. */
void lull_plan_controller_take_edge(struct lull_plan_controller *plan_controller, uint32_t gpu,
                                    uint32_t op, bool is_end, int64_t time_ns);

/* Notes that the GPU has left its order, or its rank the job. */
void lull_plan_controller_take_lost(struct lull_plan_controller *plan_controller, uint32_t gpu);

/* Notes that something other than clocks, such as heat or an error of a driver, may have made the
 * present iteration longer. Its pair is set aside as evidence, but not without limit: if
 * disturbances never end, a plan that is not accepted yet is given up, and an accepted plan is
 * judged despite them. */
void lull_plan_controller_take_disturbance(struct lull_plan_controller *plan_controller);

/* Takes the outcome of a command. If it failed, the plan is withdrawn permanently. */
void lull_plan_controller_take_switch(struct lull_plan_controller *plan_controller, uint32_t gpu,
                                      const struct lull_switch_outcome *outcome);

/* Note that a driver call has returned after blocked_ms, and that the oldest request without an
 * answer has waited for waiting_ms (0: all are answered). */
void lull_plan_controller_take_blocked(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double blocked_ms);
void lull_plan_controller_take_waiting(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double waiting_ms);

/* Writes the commands that are due at now_ns, at most one per GPU, and returns their number. */
uint32_t lull_plan_controller_poll(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                   struct lull_plan_controller_command *commands_out, uint32_t max);

/* Latest time at which the caller must poll again; INT64_MAX: only after the next edge. */
int64_t lull_plan_controller_wake_ns(const struct lull_plan_controller *plan_controller);

/* Takes the next iteration that has ended and was not reported yet. Returns false if there is none.
 */
bool lull_plan_controller_next_iteration(struct lull_plan_controller *plan_controller,
                                         struct lull_plan_controller_iteration *iteration_out);

enum lull_plan_controller_phase
lull_plan_controller_phase(const struct lull_plan_controller *plan_controller);

/* The plan that is tried or kept; -1: there is none. */
int32_t lull_plan_controller_plan(const struct lull_plan_controller *plan_controller);

/* The number of the GPU's present iteration, as in struct lull_plan_controller_iteration. */
uint64_t lull_plan_controller_iteration_of(const struct lull_plan_controller *plan_controller,
                                           uint32_t gpu);

/* Estimates how much slower the plan that is tried or kept is than its references, as far as that
 * has been measured. */
void lull_plan_controller_slowdown(const struct lull_plan_controller *plan_controller,
                                   struct lull_guard_estimate *estimate_out);

/* Length of a driver call that the plan controller assumes when it plans ahead, ms. */
double lull_plan_controller_call_ms(const struct lull_plan_controller *plan_controller);

/* Returns the reason why the plan controller withdrew plans, and the number of withdrawals. */
enum lull_plan_controller_trouble
lull_plan_controller_trouble(const struct lull_plan_controller *plan_controller,
                             uint32_t *withdrawals_out);

/* Returns the seed of its coins. */
uint64_t lull_plan_controller_seed(const struct lull_plan_controller *plan_controller);

/* Number of raisings that took effect only after the operation that they were for had started. */
uint64_t lull_plan_controller_late(const struct lull_plan_controller *plan_controller);

#endif
