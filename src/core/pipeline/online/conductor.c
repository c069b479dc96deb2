/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/online/conductor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/pipeline/online/conductor_state.h"

/* The clock is read back this often: a raising is late only if it is later than that. */
static const int64_t late_ns = INT64_C(2000000);
/* How much slower computation runs at the low clocks of a plan, about: half the highest clock. */
static const double low_loss_ratio = 0.5;

void lull_conductor_config_default(struct lull_conductor_config *config)
{
    *config = (struct lull_conductor_config){
        .tolerance_ratio = 0.01,
        .confidence = LULL_GUARD_CONFIDENCE,
        .window_iterations = 2,
        .min_pairs = 4,
        .max_pairs = 40,
    };
}

/* ---- creating ---------------------------------------------------------------------------- */

struct lull_conductor *lull_conductor_create(const struct lull_conductor_config *config,
                                             uint32_t gpu_count, const uint32_t *op_counts)
{
    struct lull_conductor *conductor = calloc(1, sizeof(*conductor));

    assert(gpu_count >= 1 && gpu_count <= LULL_CONDUCTOR_MAX_GPUS);
    if (conductor == NULL)
        return NULL;
    lull_driver_queue_init(&conductor->queue, &(struct lull_driver_queue_config){
                                                  .gpu_count = gpu_count,
                                                  .planned_quantile = LULL_CONDUCTOR_PLANNED_CALL,
                                                  .prior_quantile = LULL_CONDUCTOR_PLANNED_CALL,
                                                  .prior = &conductor->gpus[0].cost,
                                                  .never_suspends = config->observe_only,
                                              });
    conductor->config = *config;
    conductor->gpu_count = gpu_count;
    conductor->leader = -1;
    conductor->wake_ns = INT64_MAX;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct conductor_gpu *gpu = &conductor->gpus[i];

        gpu->op_count = op_counts[i];
        gpu->is_lost = true;
        gpu->learnt_plan = CONDUCTOR_HIGHEST;
        gpu->recent = calloc(op_counts[i], sizeof(gpu->recent[0]));
        if (gpu->recent == NULL) {
            lull_conductor_destroy(conductor);
            return NULL;
        }
    }
    conductor_trial_init(conductor, CONDUCTOR_HIGHEST, 1);
    return conductor;
}

void lull_conductor_destroy(struct lull_conductor *conductor)
{
    if (conductor == NULL)
        return;
    for (uint32_t i = 0; i < CONDUCTOR_PLANS + CONDUCTOR_DETOURS; i++)
        conductor_destroy_plan(conductor->plans[i]);
    for (uint32_t i = 0; i < conductor->gpu_count; i++)
        free(conductor->gpus[i].recent);
    free(conductor);
}

int lull_conductor_add_plan(struct lull_conductor *conductor,
                            const struct lull_conductor_op *const *ops, double slowdown_ratio)
{
    struct conductor_plan *plan;

    if (conductor->plan_count == CONDUCTOR_PLANS)
        return -ENOMEM;
    plan = conductor_create_plan(conductor, ops, slowdown_ratio);
    if (plan == NULL)
        return -ENOMEM;
    conductor->plans[conductor->plan_count++] = plan;
    if (conductor->plan_count == 1)
        lull_conductor_use_plan(conductor, 0);
    return 0;
}

void lull_conductor_use_plan(struct lull_conductor *conductor, int32_t plan)
{
    conductor->is_detoured = false;
    if (conductor->is_disobedient)
        plan = CONDUCTOR_HIGHEST;
    conductor_trial_init(conductor, plan, conductor->leader < 0 ? 2 : conductor->iteration + 2);
}

void lull_conductor_hold_plan(struct lull_conductor *conductor, int32_t plan)
{
    lull_conductor_use_plan(conductor, plan);
    conductor->trial.is_held = true;
}

struct lull_switch_cost *lull_conductor_switch_cost(struct lull_conductor *conductor, uint32_t gpu)
{
    return &conductor->gpus[gpu].cost;
}

/* ---- iterations -------------------------------------------------------------------------- */

static void end_iteration(struct lull_conductor *conductor, int64_t time_ns)
{
    const struct conductor_slot *slot = conductor_slot_of(conductor, conductor->iteration);
    const struct conductor_slot *before = conductor_slot_of(conductor, conductor->iteration - 1);
    const struct lull_conductor_iteration iteration = {
        .number = conductor->iteration,
        .begin_ns = conductor->iteration_ns,
        .end_ns = time_ns,
        .plan = slot->plan,
        .is_measured = slot->plan == before->plan && !slot->is_mixed,
        .is_whole = conductor->is_whole,
    };

    conductor->told[conductor->told_written++ % CONDUCTOR_TOLD] = iteration;
    conductor_take_iteration(conductor, &iteration);
}

static void begin_iteration(struct lull_conductor *conductor, int64_t time_ns)
{
    if (conductor->iteration_ns != 0)
        end_iteration(conductor, time_ns);
    conductor->iteration++;
    conductor->iteration_ns = time_ns;
    conductor->is_whole = true;
    conductor_decide(conductor, conductor->iteration + 1);
}

bool lull_conductor_next_iteration(struct lull_conductor *conductor,
                                   struct lull_conductor_iteration *iteration_out)
{
    if (conductor->told_written - conductor->told_read > CONDUCTOR_TOLD)
        conductor->told_read = conductor->told_written - CONDUCTOR_TOLD;
    if (conductor->told_read == conductor->told_written)
        return false;
    *iteration_out = conductor->told[conductor->told_read++ % CONDUCTOR_TOLD];
    return true;
}

/* The leader counts iterations; the other GPUs take its number, or are one ahead of it at most. */
static void number_iteration(struct lull_conductor *conductor, uint32_t index, int64_t time_ns)
{
    struct conductor_gpu *gpu = &conductor->gpus[index];

    if (conductor->leader < 0 || (int32_t)index < conductor->leader) {
        conductor->leader = (int32_t)index;
        conductor->iteration_ns = 0; /* it was the begin on another GPU */
    }
    if (conductor->leader == (int32_t)index) {
        begin_iteration(conductor, time_ns);
        gpu->iteration = conductor->iteration;
        return;
    }
    gpu->iteration++;
    if (gpu->is_lost || gpu->iteration < conductor->iteration ||
        gpu->iteration > conductor->iteration + 1)
        gpu->iteration = conductor->iteration;
}

/* ---- edges ------------------------------------------------------------------------------- */

static void learn_interval(struct lull_conductor *conductor, struct conductor_gpu *gpu, uint32_t op,
                           int64_t begin_ns)
{
    struct conductor_recent *recent = &gpu->recent[op];
    const int64_t end_ns = gpu->is_running ? begin_ns : gpu->end_ns;

    if (gpu->learnt_plan != conductor->trial.plan) {
        memset(gpu->recent, 0, gpu->op_count * sizeof(gpu->recent[0]));
        gpu->learnt_plan = conductor->trial.plan;
    }
    recent->interval_ns[recent->next] = begin_ns - gpu->begin_ns;
    recent->length_ns[recent->next] = end_ns - gpu->begin_ns;
    recent->next = (recent->next + 1) % CONDUCTOR_RECENT;
    if (recent->count < CONDUCTOR_RECENT)
        recent->count++;
}

/* An iteration teaches if it and the one before ran at the plan that is tried. */
static bool teaches(const struct lull_conductor *conductor, uint64_t iteration)
{
    const int32_t plan = conductor->trial.plan;

    return plan >= 0 && conductor_slot_of(conductor, iteration)->plan == plan &&
           conductor_slot_of(conductor, iteration - 1)->plan == plan;
}

static void take_begin(struct lull_conductor *conductor, uint32_t index, uint32_t op,
                       int64_t time_ns)
{
    struct conductor_gpu *gpu = &conductor->gpus[index];
    const bool is_next = !gpu->is_lost && op == (gpu->op + 1) % gpu->op_count;
    const uint32_t before = gpu->op;
    const bool was_taught = is_next && gpu->is_same_plan;

    if (gpu->is_lost && op != 0)
        return;
    if (!gpu->is_lost && !is_next) {
        lull_conductor_take_lost(conductor, index);
        return;
    }
    if (op == 0) {
        number_iteration(conductor, index, time_ns);
        conductor_update_costs(conductor, gpu);
    }
    gpu->is_same_plan = teaches(conductor, gpu->iteration);
    if (was_taught && gpu->is_same_plan)
        learn_interval(conductor, gpu, before, time_ns);
    gpu->is_lost = false;
    gpu->is_running = true;
    gpu->op = op;
    gpu->begin_ns = time_ns;
    if (gpu->raised_ns != 0 && gpu->needed_ns == 0)
        gpu->needed_ns = time_ns;
}

void lull_conductor_take_edge(struct lull_conductor *conductor, uint32_t gpu, uint32_t op,
                              bool is_end, int64_t time_ns)
{
    struct conductor_gpu *of = &conductor->gpus[gpu];

    if (op >= of->op_count)
        return;
    conductor->has_news = true;
    if (!is_end) {
        take_begin(conductor, gpu, op, time_ns);
    } else if (of->is_running && of->op == op) {
        of->is_running = false;
        of->end_ns = time_ns;
    }
}

void lull_conductor_take_lost(struct lull_conductor *conductor, uint32_t gpu)
{
    conductor->has_news = true;
    conductor->gpus[gpu].is_lost = true;
    conductor->gpus[gpu].is_running = false;
    conductor->gpus[gpu].is_same_plan = false;
    conductor->is_whole = false;
    if (conductor->leader == (int32_t)gpu)
        conductor->iteration_ns = 0;
}

/* ---- the driver -------------------------------------------------------------------------- */

/* A GPU does not do as it is told: no plan may lower anything any more. */
static void withdraw_for_good(struct lull_conductor *conductor)
{
    if (conductor->is_disobedient)
        return;
    conductor->is_disobedient = true;
    conductor->has_news = true;
    conductor_trial_interrupt(conductor);
    lull_conductor_use_plan(conductor, CONDUCTOR_HIGHEST);
}

/* Trust has been lost or has come back; either way the trial begins anew. */
static void act_on_driver(struct lull_conductor *conductor, enum lull_driver_change change)
{
    if (change == LULL_DRIVER_UNCHANGED)
        return;
    conductor->has_news = true;
    lull_conductor_end_detour(conductor);
    conductor_trial_interrupt(conductor);
}

void lull_conductor_take_blocked(struct lull_conductor *conductor, int64_t now_ns,
                                 double blocked_ms)
{
    act_on_driver(conductor,
                  lull_driver_queue_take_blocked(&conductor->queue, now_ns, blocked_ms, 0.0,
                                                 conductor->gpu_count, low_loss_ratio));
}

void lull_conductor_take_waiting(struct lull_conductor *conductor, int64_t now_ns,
                                 double waiting_ms)
{
    act_on_driver(conductor,
                  lull_driver_queue_take_waiting(&conductor->queue, now_ns, waiting_ms, 0.0));
}

void lull_conductor_take_switch(struct lull_conductor *conductor, uint32_t gpu,
                                const struct lull_switch_outcome *outcome)
{
    struct conductor_gpu *of = &conductor->gpus[gpu];

    if (outcome->failed)
        withdraw_for_good(conductor);
    if (outcome->failed || outcome->was_point == outcome->point)
        return;
    if (outcome->point < outcome->was_point && of->raised_ns != 0) {
        conductor->late += of->needed_ns != 0 && outcome->effect_ns > of->needed_ns + late_ns;
        of->raised_ns = 0;
    }
    lull_driver_queue_learn_call(&conductor->queue, outcome->driver_ms);
    /* Waiting in the driver's queue is no part of the cost: the queue plans for it. */
    lull_switch_cost_add_outcome(
        &of->cost, outcome->point > outcome->was_point ? LULL_DIRECTION_DOWN : LULL_DIRECTION_UP,
        outcome->driver_ms, outcome);
    conductor_update_costs(conductor, of);
}

/* ---- time -------------------------------------------------------------------------------- */

uint32_t lull_conductor_poll(struct lull_conductor *conductor, int64_t now_ns,
                             struct lull_conductor_command *commands_out, uint32_t max)
{
    act_on_driver(conductor, lull_driver_queue_update_trust(&conductor->queue, now_ns));
    if (!conductor->has_news && now_ns < conductor->wake_ns)
        return 0;
    conductor->has_news = false;
    return conductor_ask_driver(conductor, now_ns, commands_out, max);
}

int64_t lull_conductor_wake_ns(const struct lull_conductor *conductor)
{
    return lull_earlier_ns(conductor->wake_ns, lull_driver_queue_wake_ns(&conductor->queue));
}

/* ---- looking ----------------------------------------------------------------------------- */

enum lull_conductor_phase lull_conductor_phase(const struct lull_conductor *conductor)
{
    if (conductor->queue.suspended || conductor->is_disobedient)
        return LULL_CONDUCTOR_WITHDRAWN;
    if (conductor->leader < 0)
        return LULL_CONDUCTOR_WAITING;
    return conductor_trial_of_plan(conductor)->phase;
}

int32_t lull_conductor_plan(const struct lull_conductor *conductor)
{
    return conductor_trial_of_plan(conductor)->plan;
}

uint64_t lull_conductor_iteration_of(const struct lull_conductor *conductor, uint32_t gpu)
{
    return conductor->gpus[gpu].iteration;
}

uint32_t lull_conductor_planned(const struct lull_conductor *conductor, uint32_t gpu)
{
    const struct conductor_gpu *of = &conductor->gpus[gpu];

    return of->is_lost ? 0 : conductor_point_of(conductor, of, of->op);
}

void lull_conductor_slowdown(const struct lull_conductor *conductor,
                             struct lull_guard_estimate *estimate_out)
{
    lull_trial_estimate(&conductor_trial_of_plan(conductor)->evidence, estimate_out);
}

uint64_t lull_conductor_late(const struct lull_conductor *conductor)
{
    return conductor->late;
}

double lull_conductor_call_ms(const struct lull_conductor *conductor)
{
    return lull_ms_from_ns(lull_driver_queue_call_ns(&conductor->queue));
}

enum lull_conductor_trouble lull_conductor_trouble(const struct lull_conductor *conductor,
                                                   uint32_t *withdrawals_out)
{
    *withdrawals_out = conductor->queue.suspensions + conductor->is_disobedient;
    if (conductor->is_disobedient)
        return LULL_CONDUCTOR_DISOBEYS;
    return conductor->queue.suspensions > 0 ? LULL_CONDUCTOR_BLOCKS : LULL_CONDUCTOR_NO_TROUBLE;
}
