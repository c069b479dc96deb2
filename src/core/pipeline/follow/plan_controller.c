/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/plan_controller.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/pipeline/follow/plan_controller_state.h"

/* The clock is read back every 2 ms: a raising is late only if it is later than that. */
static const int64_t late_ns = INT64_C(2000000);
/* Share of computing speed that is lost at the low clocks of a plan, which are about half the
 * highest clock. */
static const double low_loss_ratio = 0.5;

void lull_plan_controller_config_default(struct lull_plan_controller_config *config)
{
    *config = (struct lull_plan_controller_config){
        .tolerance_ratio = 0.01,
        .confidence = LULL_GUARD_CONFIDENCE,
        .window_iterations = 2,
    };
}

/* ---- creating ---------------------------------------------------------------------------- */

struct lull_plan_controller *
lull_plan_controller_create(const struct lull_plan_controller_config *config, uint32_t gpu_count,
                            const uint32_t *op_counts)
{
    struct lull_plan_controller *plan_controller = calloc(1, sizeof(*plan_controller));

    assert(gpu_count >= 1 && gpu_count <= LULL_PLAN_CONTROLLER_MAX_GPUS);
    if (plan_controller == NULL)
        return NULL;
    lull_driver_queue_init(&plan_controller->queue,
                           &(struct lull_driver_queue_config){
                               .gpu_count = gpu_count,
                               .planned_quantile = LULL_PLAN_CONTROLLER_PLANNED_CALL,
                               .prior_quantile = LULL_PLAN_CONTROLLER_PLANNED_CALL,
                               .prior = &plan_controller->gpus[0].cost,
                               .never_suspends = config->observe_only,
                           });
    plan_controller->config = *config;
    plan_controller->gpu_count = gpu_count;
    plan_controller->leader = -1;
    plan_controller->wake_ns = INT64_MAX;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        gpu->op_count = op_counts[i];
        gpu->is_lost = true;
        gpu->learnt_plan = LULL_PLAN_CONTROLLER_HIGHEST;
        gpu->recent = calloc(op_counts[i], sizeof(gpu->recent[0]));
        if (gpu->recent == NULL) {
            lull_plan_controller_destroy(plan_controller);
            return NULL;
        }
    }
    lull_plan_controller_init_evidence(plan_controller);
    lull_plan_controller_start_plan(plan_controller, LULL_PLAN_CONTROLLER_HIGHEST, 1);
    return plan_controller;
}

void lull_plan_controller_destroy(struct lull_plan_controller *plan_controller)
{
    if (plan_controller == NULL)
        return;
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_PLANS + LULL_PLAN_CONTROLLER_DETOURS; i++)
        lull_plan_controller_destroy_plan(plan_controller->plans[i]);
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        free(plan_controller->gpus[i].recent);
    free(plan_controller);
}

int lull_plan_controller_add_plan(struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_op *const *ops,
                                  double slowdown_ratio)
{
    struct lull_plan_controller_plan *plan;

    if (plan_controller->plan_count == LULL_PLAN_CONTROLLER_PLANS)
        return -ENOMEM;
    plan = lull_plan_controller_create_plan(plan_controller, ops, slowdown_ratio);
    if (plan == NULL)
        return -ENOMEM;
    plan_controller->plans[plan_controller->plan_count++] = plan;
    if (plan_controller->plan_count == 1)
        lull_plan_controller_use_plan(plan_controller, 0);
    return 0;
}

void lull_plan_controller_use_plan(struct lull_plan_controller *plan_controller, int32_t plan)
{
    plan_controller->is_detoured = false;
    if (plan_controller->is_disobedient)
        plan = LULL_PLAN_CONTROLLER_HIGHEST;
    lull_plan_controller_start_plan(
        plan_controller, plan, plan_controller->leader < 0 ? 2 : plan_controller->iteration + 2);
}

void lull_plan_controller_hold_plan(struct lull_plan_controller *plan_controller, int32_t plan)
{
    lull_plan_controller_use_plan(plan_controller, plan);
    plan_controller->trial.is_held = true;
}

struct lull_switch_cost *
lull_plan_controller_switch_cost(struct lull_plan_controller *plan_controller, uint32_t gpu)
{
    return &plan_controller->gpus[gpu].cost;
}

/* ---- iterations -------------------------------------------------------------------------- */

/* The first iteration after a change is reported as not measured: its clocks were still changing.
 */
static void end_iteration(struct lull_plan_controller *plan_controller, int64_t time_ns)
{
    const struct lull_plan_controller_slot *slot =
        lull_plan_controller_slot_of(plan_controller, plan_controller->iteration);
    const struct lull_plan_controller_slot *before =
        lull_plan_controller_slot_of(plan_controller, plan_controller->iteration - 1);
    const struct lull_plan_controller_iteration iteration = {
        .number = plan_controller->iteration,
        .begin_ns = plan_controller->iteration_ns,
        .end_ns = time_ns,
        .plan = slot->plan,
        .is_measured = slot->plan == before->plan && !slot->is_mixed,
        .is_whole = plan_controller->is_whole,
        .is_disturbed = plan_controller->is_disturbed,
    };

    plan_controller->reported[plan_controller->reported_written++ % LULL_PLAN_CONTROLLER_REPORTED] =
        iteration;
    lull_plan_controller_take_iteration(plan_controller, &iteration);
}

static void begin_iteration(struct lull_plan_controller *plan_controller, int64_t time_ns)
{
    if (plan_controller->iteration_ns != 0)
        end_iteration(plan_controller, time_ns);
    plan_controller->iteration++;
    plan_controller->iteration_ns = time_ns;
    plan_controller->is_whole = true;
    plan_controller->is_disturbed = false;
    lull_plan_controller_decide(plan_controller, plan_controller->iteration + 1);
}

bool lull_plan_controller_next_iteration(struct lull_plan_controller *plan_controller,
                                         struct lull_plan_controller_iteration *iteration_out)
{
    if (plan_controller->reported_written - plan_controller->reported_read >
        LULL_PLAN_CONTROLLER_REPORTED)
        plan_controller->reported_read =
            plan_controller->reported_written - LULL_PLAN_CONTROLLER_REPORTED;
    if (plan_controller->reported_read == plan_controller->reported_written)
        return false;
    *iteration_out =
        plan_controller->reported[plan_controller->reported_read++ % LULL_PLAN_CONTROLLER_REPORTED];
    return true;
}

/* The leader counts iterations; the other GPUs take its number, or are one ahead of it at most. */
static void number_iteration(struct lull_plan_controller *plan_controller, uint32_t index,
                             int64_t time_ns)
{
    struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[index];

    if (plan_controller->leader < 0 || (int32_t)index < plan_controller->leader) {
        plan_controller->leader = (int32_t)index;
        plan_controller->iteration_ns = 0; /* that was the begin on another GPU */
    }
    if (plan_controller->leader == (int32_t)index) {
        begin_iteration(plan_controller, time_ns);
        gpu->iteration = plan_controller->iteration;
        return;
    }
    gpu->iteration++;
    if (gpu->is_lost || gpu->iteration < plan_controller->iteration ||
        gpu->iteration > plan_controller->iteration + 1)
        gpu->iteration = plan_controller->iteration;
}

/* ---- edges ------------------------------------------------------------------------------- */

/* Intervals of another plan say nothing about this one, so they are discarded when the plan
 * changes. */
static void learn_interval(struct lull_plan_controller *plan_controller,
                           struct lull_plan_controller_gpu *gpu, uint32_t op, int64_t begin_ns)
{
    struct lull_plan_controller_recent *recent = &gpu->recent[op];
    const int64_t end_ns = gpu->is_running ? begin_ns : gpu->end_ns;

    if (gpu->learnt_plan != plan_controller->trial.plan) {
        memset(gpu->recent, 0, gpu->op_count * sizeof(gpu->recent[0]));
        gpu->learnt_plan = plan_controller->trial.plan;
    }
    recent->interval_ns[recent->next] = begin_ns - gpu->begin_ns;
    recent->length_ns[recent->next] = end_ns - gpu->begin_ns;
    recent->next = (recent->next + 1) % LULL_PLAN_CONTROLLER_RECENT;
    if (recent->count < LULL_PLAN_CONTROLLER_RECENT)
        recent->count++;
}

/* Intervals are learnt from an iteration only if it and the one before ran at the plan that is
 * tried. */
static bool plan_ctl_is_lesson(const struct lull_plan_controller *plan_controller,
                               uint64_t iteration)
{
    const int32_t plan = plan_controller->trial.plan;

    return plan >= 0 && lull_plan_controller_slot_of(plan_controller, iteration)->plan == plan &&
           lull_plan_controller_slot_of(plan_controller, iteration - 1)->plan == plan;
}

/* An operation out of turn means that the order was left; the GPU is followed again from its
 * operation 0 on, where iterations can be counted. */
static void plan_ctl_take_begin(struct lull_plan_controller *plan_controller, uint32_t index,
                                uint32_t op, int64_t time_ns)
{
    struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[index];
    const bool is_next = !gpu->is_lost && op == (gpu->op + 1) % gpu->op_count;
    const uint32_t before = gpu->op;
    const bool was_taught = is_next && gpu->is_same_plan;

    if (gpu->is_lost && op != 0)
        return;
    if (!gpu->is_lost && !is_next) {
        lull_plan_controller_take_lost(plan_controller, index);
        return;
    }
    if (op == 0) {
        number_iteration(plan_controller, index, time_ns);
        lull_plan_controller_update_costs(plan_controller, gpu);
    }
    gpu->is_same_plan = plan_ctl_is_lesson(plan_controller, gpu->iteration);
    if (was_taught && gpu->is_same_plan)
        learn_interval(plan_controller, gpu, before, time_ns);
    gpu->is_lost = false;
    gpu->is_running = true;
    gpu->op = op;
    gpu->begin_ns = time_ns;
    if (gpu->raised_ns != 0 && gpu->needed_ns == 0)
        gpu->needed_ns = time_ns;
}

void lull_plan_controller_take_edge(struct lull_plan_controller *plan_controller, uint32_t gpu,
                                    uint32_t op, bool is_end, int64_t time_ns)
{
    struct lull_plan_controller_gpu *of = &plan_controller->gpus[gpu];

    if (op >= of->op_count)
        return;
    plan_controller->has_update = true;
    if (!is_end) {
        plan_ctl_take_begin(plan_controller, gpu, op, time_ns);
    } else if (of->is_running && of->op == op) {
        of->is_running = false;
        of->end_ns = time_ns;
    }
}

void lull_plan_controller_take_disturbance(struct lull_plan_controller *plan_controller)
{
    plan_controller->is_disturbed = true;
}

void lull_plan_controller_take_lost(struct lull_plan_controller *plan_controller, uint32_t gpu)
{
    plan_controller->has_update = true;
    plan_controller->gpus[gpu].is_lost = true;
    plan_controller->gpus[gpu].is_running = false;
    plan_controller->gpus[gpu].is_same_plan = false;
    plan_controller->is_whole = false;
}

/* ---- the driver -------------------------------------------------------------------------- */

/* A GPU does not apply requested clocks. From now on no plan may lower a clock. */
static void withdraw_for_good(struct lull_plan_controller *plan_controller)
{
    if (plan_controller->is_disobedient)
        return;
    plan_controller->is_disobedient = true;
    plan_controller->has_update = true;
    lull_plan_controller_trial_interrupt(plan_controller);
    lull_plan_controller_use_plan(plan_controller, LULL_PLAN_CONTROLLER_HIGHEST);
}

/* The driver was suspended or resumed. Either way the trial starts again. */
static void plan_ctl_act_on_driver(struct lull_plan_controller *plan_controller,
                                   enum lull_driver_change change)
{
    if (change == LULL_DRIVER_UNCHANGED)
        return;
    plan_controller->has_update = true;
    lull_plan_controller_end_detour(plan_controller);
    lull_plan_controller_trial_interrupt(plan_controller);
}

void lull_plan_controller_take_blocked(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double blocked_ms)
{
    plan_ctl_act_on_driver(plan_controller, lull_driver_queue_take_blocked(
                                                &plan_controller->queue, now_ns, blocked_ms, 0.0,
                                                plan_controller->gpu_count, low_loss_ratio));
}

void lull_plan_controller_take_waiting(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double waiting_ms)
{
    plan_ctl_act_on_driver(plan_controller, lull_driver_queue_take_waiting(
                                                &plan_controller->queue, now_ns, waiting_ms, 0.0));
}

/* The outcome is learnt without the time in the driver's queue, which the queue plans for itself.
 * */
void lull_plan_controller_take_switch(struct lull_plan_controller *plan_controller, uint32_t gpu,
                                      const struct lull_switch_outcome *outcome)
{
    struct lull_plan_controller_gpu *of = &plan_controller->gpus[gpu];

    if (outcome->failed)
        withdraw_for_good(plan_controller);
    if (outcome->failed || outcome->was_point == outcome->point)
        return;
    if (outcome->point < outcome->was_point && of->raised_ns != 0) {
        plan_controller->late += of->needed_ns != 0 && outcome->effect_ns > of->needed_ns + late_ns;
        of->raised_ns = 0;
    }
    lull_driver_queue_learn_call(&plan_controller->queue, outcome->driver_ms);
    /* Time spent waiting in the driver's queue is not part of the cost: the queue plans for it. */
    lull_switch_cost_add_outcome(
        &of->cost, outcome->point > outcome->was_point ? LULL_DIRECTION_DOWN : LULL_DIRECTION_UP,
        outcome->driver_ms, outcome);
    lull_plan_controller_update_costs(plan_controller, of);
}

/* ---- time -------------------------------------------------------------------------------- */

uint32_t lull_plan_controller_poll(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                   struct lull_plan_controller_command *commands_out, uint32_t max)
{
    plan_ctl_act_on_driver(plan_controller,
                           lull_driver_queue_update_trust(&plan_controller->queue, now_ns));
    if (!plan_controller->has_update && now_ns < plan_controller->wake_ns)
        return 0;
    plan_controller->has_update = false;
    return lull_plan_controller_ask_driver(plan_controller, now_ns, commands_out, max);
}

int64_t lull_plan_controller_wake_ns(const struct lull_plan_controller *plan_controller)
{
    return lull_earlier_ns(plan_controller->wake_ns,
                           lull_driver_queue_wake_ns(&plan_controller->queue));
}

/* ---- looking ----------------------------------------------------------------------------- */

enum lull_plan_controller_phase
lull_plan_controller_phase(const struct lull_plan_controller *plan_controller)
{
    if (plan_controller->queue.suspended || plan_controller->is_disobedient)
        return LULL_PLAN_CONTROLLER_WITHDRAWN;
    if (plan_controller->leader < 0)
        return LULL_PLAN_CONTROLLER_WAITING;
    return lull_plan_controller_trial_of_plan(plan_controller)->phase;
}

int32_t lull_plan_controller_plan(const struct lull_plan_controller *plan_controller)
{
    return lull_plan_controller_trial_of_plan(plan_controller)->plan;
}

uint64_t lull_plan_controller_iteration_of(const struct lull_plan_controller *plan_controller,
                                           uint32_t gpu)
{
    return plan_controller->gpus[gpu].iteration;
}

void lull_plan_controller_slowdown(const struct lull_plan_controller *plan_controller,
                                   struct lull_guard_estimate *estimate_out)
{
    lull_trial_estimate(&plan_controller->evidence, estimate_out);
    if (estimate_out->pairs == 0)
        lull_trial_estimate_test(&plan_controller->evidence, estimate_out);
}

uint64_t lull_plan_controller_seed(const struct lull_plan_controller *plan_controller)
{
    return plan_controller->config.seed;
}

uint64_t lull_plan_controller_late(const struct lull_plan_controller *plan_controller)
{
    return plan_controller->late;
}

double lull_plan_controller_call_ms(const struct lull_plan_controller *plan_controller)
{
    return lull_ms_from_ns(lull_driver_queue_call_ns(&plan_controller->queue));
}

enum lull_plan_controller_trouble
lull_plan_controller_trouble(const struct lull_plan_controller *plan_controller,
                             uint32_t *withdrawals_out)
{
    *withdrawals_out = plan_controller->queue.suspensions + plan_controller->is_disobedient;
    if (plan_controller->is_disobedient)
        return LULL_PLAN_CONTROLLER_DISOBEYS;
    if (plan_controller->queue.suspensions > 0)
        return LULL_PLAN_CONTROLLER_BLOCKS;
    return LULL_PLAN_CONTROLLER_NO_TROUBLE;
}
