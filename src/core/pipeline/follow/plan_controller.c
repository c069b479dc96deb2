/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/plan_controller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/follow/plan_controller_state.h"

static const int64_t ms_ns = 1000000;
/* The clock is read back every so often: a raising that is later than that is late. */
static const int64_t late_ns = 2 * ms_ns;

void lull_plan_controller_config_default(struct lull_plan_controller_config *config)
{
    *config = (struct lull_plan_controller_config){
        .tolerance_ratio = 0.01,
        .confidence = 0.95,
        .window_iterations = 2,
        .min_pairs = 4,
        .max_pairs = 40,
    };
}

/* ---- creating ---------------------------------------------------------------------------- */

struct lull_plan_controller *
lull_plan_controller_create(const struct lull_plan_controller_config *config, uint32_t gpu_count,
                            const uint32_t *op_counts)
{
    struct lull_plan_controller *plan_controller = calloc(1, sizeof(*plan_controller));

    if (plan_controller == NULL)
        return NULL;
    plan_controller->config = *config;
    plan_controller->gpu_count = gpu_count;
    plan_controller->leader = -1;
    plan_controller->wake_ns = INT64_MAX;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        gpu->op_count = op_counts[i];
        gpu->is_lost = true;
        gpu->learnt_plan = CONDUCTOR_HIGHEST;
        gpu->recent = calloc(op_counts[i], sizeof(gpu->recent[0]));
        if (gpu->recent == NULL) {
            lull_plan_controller_destroy(plan_controller);
            return NULL;
        }
    }
    plan_controller_trial_init(plan_controller, CONDUCTOR_HIGHEST, 1);
    return plan_controller;
}

void plan_controller_destroy_plan(struct lull_plan_controller_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_MAX_GPUS; i++)
        free(plan->ops[i]);
    free(plan);
}

void lull_plan_controller_destroy(struct lull_plan_controller *plan_controller)
{
    if (plan_controller == NULL)
        return;
    for (uint32_t i = 0; i < CONDUCTOR_PLANS + CONDUCTOR_DETOURS; i++)
        plan_controller_destroy_plan(plan_controller->plans[i]);
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        free(plan_controller->gpus[i].recent);
    free(plan_controller);
}

static int copy_ops(struct lull_plan_controller *plan_controller,
                    struct lull_plan_controller_plan *plan, uint32_t gpu,
                    const struct lull_plan_controller_op *ops)
{
    const uint32_t count = plan_controller->gpus[gpu].op_count;

    plan->ops[gpu] = malloc(count * sizeof(ops[0]));
    if (plan->ops[gpu] == NULL)
        return -ENOMEM;
    memcpy(plan->ops[gpu], ops, count * sizeof(ops[0]));
    for (uint32_t i = 0; i < count; i++) {
        plan->raises[gpu] += ops[(i + 1) % count].point < ops[i].point;
        if (ops[i].end_ns > plan->makespan_ns)
            plan->makespan_ns = ops[i].end_ns;
    }
    return 0;
}

struct lull_plan_controller_plan *
plan_controller_create_plan(struct lull_plan_controller *plan_controller,
                            const struct lull_plan_controller_op *const *ops, double slowdown_ratio)
{
    struct lull_plan_controller_plan *plan = calloc(1, sizeof(*plan));
    int result = plan == NULL ? -ENOMEM : 0;

    for (uint32_t i = 0; i < plan_controller->gpu_count && result == 0; i++)
        result = copy_ops(plan_controller, plan, i, ops[i]);
    if (result < 0) {
        plan_controller_destroy_plan(plan);
        return NULL;
    }
    plan->slowdown_ratio = slowdown_ratio;
    return plan;
}

int lull_plan_controller_add_plan(struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_op *const *ops,
                                  double slowdown_ratio)
{
    struct lull_plan_controller_plan *plan =
        plan_controller->plan_count == CONDUCTOR_PLANS
            ? NULL
            : plan_controller_create_plan(plan_controller, ops, slowdown_ratio);

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
    if (plan_controller->driver.is_disobedient)
        plan = CONDUCTOR_HIGHEST;
    plan_controller_trial_init(plan_controller, plan,
                               plan_controller->leader < 0 ? 2 : plan_controller->iteration + 2);
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

static void end_iteration(struct lull_plan_controller *plan_controller, int64_t time_ns)
{
    const struct lull_plan_controller_slot *slot =
        plan_controller_slot_of(plan_controller, plan_controller->iteration);
    const struct lull_plan_controller_slot *before =
        plan_controller_slot_of(plan_controller, plan_controller->iteration - 1);
    const struct lull_plan_controller_iteration iteration = {
        .number = plan_controller->iteration,
        .begin_ns = plan_controller->iteration_ns,
        .end_ns = time_ns,
        .plan = slot->plan,
        .is_measured = slot->plan == before->plan && !slot->is_mixed,
        .is_whole = plan_controller->is_whole,
    };

    plan_controller->told[plan_controller->told_written++ % CONDUCTOR_TOLD] = iteration;
    plan_controller_take_iteration(plan_controller, &iteration);
}

static void begin_iteration(struct lull_plan_controller *plan_controller, int64_t time_ns)
{
    if (plan_controller->iteration_ns != 0)
        end_iteration(plan_controller, time_ns);
    plan_controller->iteration++;
    plan_controller->iteration_ns = time_ns;
    plan_controller->is_whole = true;
    plan_controller_decide(plan_controller, plan_controller->iteration + 1);
}

bool lull_plan_controller_next_iteration(struct lull_plan_controller *plan_controller,
                                         struct lull_plan_controller_iteration *iteration_out)
{
    if (plan_controller->told_written - plan_controller->told_read > CONDUCTOR_TOLD)
        plan_controller->told_read = plan_controller->told_written - CONDUCTOR_TOLD;
    if (plan_controller->told_read == plan_controller->told_written)
        return false;
    *iteration_out = plan_controller->told[plan_controller->told_read++ % CONDUCTOR_TOLD];
    return true;
}

/* The leader counts; the others take its number, at most one ahead of it. */
static void number_iteration(struct lull_plan_controller *plan_controller, uint32_t index,
                             int64_t time_ns)
{
    struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[index];

    if (plan_controller->leader < 0 || (int32_t)index < plan_controller->leader) {
        plan_controller->leader = (int32_t)index;
        plan_controller->iteration_ns = 0; /* counted from another GPU so far */
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
    recent->next = (recent->next + 1) % CONDUCTOR_RECENT;
    if (recent->count < CONDUCTOR_RECENT)
        recent->count++;
}

/* An iteration teaches if it and the one before ran at the plan that is tried. */
static bool teaches(const struct lull_plan_controller *plan_controller, uint64_t iteration)
{
    const int32_t plan = plan_controller->trial.plan;

    return plan >= 0 && plan_controller_slot_of(plan_controller, iteration)->plan == plan &&
           plan_controller_slot_of(plan_controller, iteration - 1)->plan == plan;
}

static void take_begin(struct lull_plan_controller *plan_controller, uint32_t index, uint32_t op,
                       int64_t time_ns)
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
        plan_controller_update_costs(plan_controller, gpu);
    }
    gpu->is_same_plan = teaches(plan_controller, gpu->iteration);
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
    plan_controller->has_news = true;
    if (!is_end) {
        take_begin(plan_controller, gpu, op, time_ns);
    } else if (of->is_running && of->op == op) {
        of->is_running = false;
        of->end_ns = time_ns;
    }
}

void lull_plan_controller_take_lost(struct lull_plan_controller *plan_controller, uint32_t gpu)
{
    plan_controller->has_news = true;
    plan_controller->gpus[gpu].is_lost = true;
    plan_controller->gpus[gpu].is_running = false;
    plan_controller->gpus[gpu].is_same_plan = false;
    plan_controller->is_whole = false;
    if (plan_controller->leader == (int32_t)gpu)
        plan_controller->iteration_ns = 0;
}

void lull_plan_controller_take_switch(struct lull_plan_controller *plan_controller, uint32_t gpu,
                                      const struct lull_switch_outcome *outcome)
{
    struct lull_plan_controller_gpu *of = &plan_controller->gpus[gpu];

    if (outcome->failed)
        plan_controller_withdraw_for_good(plan_controller);
    if (outcome->failed || outcome->was_point == outcome->point)
        return;
    if (outcome->point < outcome->was_point && of->raised_ns != 0) {
        plan_controller->late += of->needed_ns != 0 && outcome->effect_ns > of->needed_ns + late_ns;
        of->raised_ns = 0;
    }
    plan_controller_learn_call(plan_controller, outcome->driver_ms);
    /* What waited in the driver's queue is planned for by itself. */
    lull_switch_cost_add_outcome(
        &of->cost, outcome->point > outcome->was_point ? LULL_DIRECTION_DOWN : LULL_DIRECTION_UP,
        outcome->driver_ms, outcome);
    plan_controller_update_costs(plan_controller, of);
}

/* ---- looking ----------------------------------------------------------------------------- */

/* What goes on behind a detour. */
static const struct lull_plan_controller_trial *
planned_trial(const struct lull_plan_controller *plan_controller)
{
    return plan_controller->is_detoured ? &plan_controller->suspended : &plan_controller->trial;
}

enum lull_plan_controller_phase
lull_plan_controller_phase(const struct lull_plan_controller *plan_controller)
{
    if (plan_controller->driver.is_withheld || plan_controller->driver.is_disobedient)
        return LULL_PLAN_CONTROLLER_WITHDRAWN;
    return plan_controller->leader < 0 ? LULL_PLAN_CONTROLLER_WAITING
                                       : planned_trial(plan_controller)->phase;
}

int32_t lull_plan_controller_plan(const struct lull_plan_controller *plan_controller)
{
    return planned_trial(plan_controller)->plan;
}

uint64_t lull_plan_controller_iteration_of(const struct lull_plan_controller *plan_controller,
                                           uint32_t gpu)
{
    return plan_controller->gpus[gpu].iteration;
}

uint32_t lull_plan_controller_planned(const struct lull_plan_controller *plan_controller,
                                      uint32_t gpu)
{
    const struct lull_plan_controller_gpu *of = &plan_controller->gpus[gpu];

    return of->is_lost ? 0 : plan_controller_point_of(plan_controller, of, of->op);
}

void lull_plan_controller_slowdown(const struct lull_plan_controller *plan_controller,
                                   struct lull_guard_estimate *estimate_out)
{
    lull_guard_estimate(&planned_trial(plan_controller)->watch, estimate_out);
}

uint64_t lull_plan_controller_late(const struct lull_plan_controller *plan_controller)
{
    return plan_controller->late;
}
