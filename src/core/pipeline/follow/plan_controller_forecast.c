/*
 * Plans, and what a GPU's clock should be at a moment: what its operations want, forecast as far as
 * a raising must be requested ahead. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/pipeline/follow/plan_controller_state.h"

/* All raisings of an iteration together may be late by this share of what the tolerance allows. */
static const double late_share = 0.1;
/* A raising may be late by this much where the length of an iteration is not known. */
static const double typical_late_ms = 0.1;
/* Each switch counts a quarter more than it takes, as in the break-even of a section
 * (feed_forward.c). */
static const double margin = 1.25;
/* Raisings are looked for this far ahead of the lead: as far as to the next renewal of a lowered
 * clock (plan_controller_queue.c). */
static const int64_t lock_state_ns = INT64_C(1500000000);

/* ---- plans ------------------------------------------------------------------------------- */

void lull_plan_controller_destroy_plan(struct lull_plan_controller_plan *plan)
{
    if (plan == NULL)
        return;
    for (uint32_t i = 0; i < LULL_PLAN_CONTROLLER_MAX_GPUS; i++)
        free(plan->ops[i]);
    free(plan);
}

/* Counts the raisings of an iteration as well: all of them together share the lateness that the
 * tolerance allows. */
static bool copy_ops(const struct lull_plan_controller *plan_controller,
                     struct lull_plan_controller_plan *plan, uint32_t gpu,
                     const struct lull_plan_controller_op *ops)
{
    const uint32_t count = plan_controller->gpus[gpu].op_count;

    plan->ops[gpu] = malloc(count * sizeof(ops[0]));
    if (plan->ops[gpu] == NULL)
        return false;
    memcpy(plan->ops[gpu], ops, count * sizeof(ops[0]));
    for (uint32_t i = 0; i < count; i++) {
        plan->raises[gpu] += ops[(i + 1) % count].point < ops[i].point;
        if (ops[i].end_ns > plan->makespan_ns)
            plan->makespan_ns = ops[i].end_ns;
    }
    return true;
}

struct lull_plan_controller_plan *
lull_plan_controller_create_plan(const struct lull_plan_controller *plan_controller,
                                 const struct lull_plan_controller_op *const *ops,
                                 double slowdown_ratio)
{
    struct lull_plan_controller_plan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL)
        return NULL;
    plan->slowdown_ratio = slowdown_ratio;
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        if (!copy_ops(plan_controller, plan, i, ops[i])) {
            lull_plan_controller_destroy_plan(plan);
            return NULL;
        }
    return plan;
}

/* ---- what a plan says -------------------------------------------------------------------- */

const struct lull_plan_controller_slot *
lull_plan_controller_slot_of(const struct lull_plan_controller *plan_controller, uint64_t number)
{
    static const struct lull_plan_controller_slot highest = {.plan = LULL_PLAN_CONTROLLER_HIGHEST};
    const struct lull_plan_controller_slot *slot =
        &plan_controller->slots[number % LULL_PLAN_CONTROLLER_SLOTS];

    if (slot->number != number || number == 0)
        return &highest;
    return slot;
}

static const struct lull_plan_controller_op *
ops_of(const struct lull_plan_controller *plan_controller,
       const struct lull_plan_controller_gpu *gpu, uint64_t iteration)
{
    const int32_t plan = lull_plan_controller_slot_of(plan_controller, iteration)->plan;

    if (plan < 0)
        return NULL;
    return plan_controller->plans[plan]->ops[gpu - plan_controller->gpus];
}

uint32_t lull_plan_controller_point_of(const struct lull_plan_controller *plan_controller,
                                       const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const struct lull_plan_controller_op *ops =
        ops_of(plan_controller, gpu, gpu->iteration + op / gpu->op_count);

    if (ops == NULL)
        return 0;
    return ops[op % gpu->op_count].point;
}

static int64_t planned_interval_ns(const struct lull_plan_controller_plan *plan, uint32_t gpu,
                                   uint32_t op, uint32_t op_count)
{
    const struct lull_plan_controller_op *ops = plan->ops[gpu];

    if (op + 1 < op_count)
        return ops[op + 1].begin_ns - ops[op].begin_ns;
    return plan->makespan_ns - ops[op].begin_ns + ops[0].begin_ns;
}

/* The least time from the start of an operation to the start of the next one. */
static int64_t least_interval_ns(const struct lull_plan_controller *plan_controller,
                                 const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const int32_t plan = plan_controller->trial.plan;
    const struct lull_plan_controller_recent *recent = &gpu->recent[op % gpu->op_count];
    int64_t min_ns = INT64_MAX;

    if (plan < 0)
        return 0;
    if (gpu->learnt_plan != plan || recent->count == 0)
        return planned_interval_ns(plan_controller->plans[plan],
                                   (uint32_t)(gpu - plan_controller->gpus), op % gpu->op_count,
                                   gpu->op_count);
    for (uint32_t i = 0; i < recent->count; i++)
        min_ns = lull_earlier_ns(recent->interval_ns[i], min_ns);
    return min_ns;
}

/* A lowering ahead of an operation's end must not come before its longest recent length, or the
 * operation would run below its clock. */
static int64_t longest_ns(const struct lull_plan_controller *plan_controller,
                          const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const struct lull_plan_controller_recent *recent = &gpu->recent[op];
    int64_t max_ns = 0;

    if (ops_of(plan_controller, gpu, gpu->iteration) == NULL ||
        gpu->learnt_plan != plan_controller->trial.plan ||
        recent->count < LULL_PLAN_CONTROLLER_RECENT)
        return INT64_MAX / 4; /* it is not known well enough to lower ahead of its end */
    for (uint32_t i = 0; i < recent->count; i++)
        max_ns = lull_later_ns(recent->length_ns[i], max_ns);
    return max_ns;
}

/* ---- what switching takes ---------------------------------------------------------------- */

/* Mean lateness that is tolerated in a raising, ms. */
static double allowed_late_ms(const struct lull_plan_controller *plan_controller,
                              const struct lull_plan_controller_gpu *gpu)
{
    const int32_t plan = plan_controller->trial.plan;
    uint32_t raises;

    if (plan < 0)
        return typical_late_ms;
    raises = plan_controller->plans[plan]->raises[gpu - plan_controller->gpus];
    return (double)plan_controller->plans[plan]->makespan_ns * 1e-6 *
           plan_controller->config.tolerance_ratio * late_share / lull_max_u32(raises, 1);
}

void lull_plan_controller_update_costs(const struct lull_plan_controller *plan_controller,
                                       struct lull_plan_controller_gpu *gpu)
{
    gpu->lead_ns = lull_ns_from_ms(
        lull_switch_cost_lead_ms(&gpu->cost, allowed_late_ms(plan_controller, gpu)));
    gpu->down_ns =
        lull_ns_from_ms(margin * lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5));
    gpu->ahead_ns = lull_ns_from_ms(lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.0));
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* The clock that the operation that runs, or the pause after it, wants. */
static struct lull_plan_controller_decision
decide_present(const struct lull_plan_controller *plan_controller,
               const struct lull_plan_controller_gpu *gpu, int64_t now_ns)
{
    const uint32_t here = lull_plan_controller_point_of(plan_controller, gpu, gpu->op);
    const uint32_t next = lull_plan_controller_point_of(plan_controller, gpu, gpu->op + 1);
    struct lull_plan_controller_decision decision = {
        .point = here, .raise_ns = INT64_MAX, .wake_ns = INT64_MAX};
    int64_t lower_ns;

    if (!gpu->is_running) {
        decision.point = lull_max_u32(next, gpu->requested);
        return decision;
    }
    if (next <= here)
        return decision;
    lower_ns = gpu->begin_ns + longest_ns(plan_controller, gpu, gpu->op) - gpu->ahead_ns;
    if (lower_ns <= now_ns)
        decision.point = next;
    else
        decision.wake_ns = lower_ns;
    return decision;
}

/* Raises the decision for operations that must be requested until until_ns; finds when the next
 * raising is due. */
static void plan_forecast_look_ahead(const struct lull_plan_controller *plan_controller,
                                     const struct lull_plan_controller_gpu *gpu, int64_t now_ns,
                                     int64_t until_ns,
                                     struct lull_plan_controller_decision *decision)
{
    const int64_t horizon_ns = until_ns + gpu->lead_ns + lock_state_ns;
    int64_t begin_ns = gpu->begin_ns;

    for (uint32_t ahead = 1; ahead <= gpu->op_count && begin_ns < horizon_ns; ahead++) {
        const uint32_t op = gpu->op + ahead;
        const uint32_t point = lull_plan_controller_point_of(plan_controller, gpu, op);

        begin_ns += least_interval_ns(plan_controller, gpu, op - 1);
        if (begin_ns < now_ns)
            begin_ns = now_ns; /* it may begin at any time */
        if (point >= decision->point)
            continue;
        if (begin_ns - gpu->lead_ns > until_ns) {
            decision->raise_ns = begin_ns - gpu->lead_ns;
            break;
        }
        decision->point = point;
    }
}

/* If no plan may lower anything, the decision is the highest clock, which represents no lock at
 * all. */
struct lull_plan_controller_decision
lull_plan_controller_decide_clock(const struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_gpu *gpu, int64_t now_ns,
                                  int64_t until_ns, uint32_t lowest_point)
{
    struct lull_plan_controller_decision decision = {.raise_ns = INT64_MAX, .wake_ns = INT64_MAX};

    if (gpu->is_lost || plan_controller->queue.suspended || plan_controller->is_disobedient ||
        plan_controller->config.observe_only)
        return decision;
    decision = decide_present(plan_controller, gpu, now_ns);
    if (decision.point > lowest_point)
        decision.point = lowest_point;
    plan_forecast_look_ahead(plan_controller, gpu, now_ns, until_ns, &decision);
    return decision;
}
