/*
 * What a GPU's clock should be at a moment: what its operations want, forecast as far as a raising
 * must be asked for ahead. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/follow/plan_controller_state.h"

/* All raisings of an iteration together may be late by so much of what the tolerance allows. */
static const double late_share = 0.1;
/* Without better knowledge of an iteration's length, a raising may be late so much. */
static const double usual_late_ms = 0.1;
/* Each switch counts a quarter more than it takes. */
static const double margin = 1.25;
/* Raisings are looked for so far ahead of the lead. */
static const int64_t sight_ns = INT64_C(1500000000);

/* ---- what the plan says ------------------------------------------------------------------ */

static const struct lull_plan_controller_op *
ops_of(const struct lull_plan_controller *plan_controller,
       const struct lull_plan_controller_gpu *gpu, uint64_t iteration)
{
    const int32_t plan = plan_controller_slot_of(plan_controller, iteration)->plan;

    return plan < 0 ? NULL : plan_controller->plans[plan]->ops[gpu - plan_controller->gpus];
}

/* An operation, counted from the first one of the GPU's iteration; may reach into the next one. */
uint32_t plan_controller_point_of(const struct lull_plan_controller *plan_controller,
                                  const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const struct lull_plan_controller_op *ops =
        ops_of(plan_controller, gpu, gpu->iteration + op / gpu->op_count);

    return ops == NULL ? 0 : ops[op % gpu->op_count].point;
}

static int64_t planned_interval_ns(const struct lull_plan_controller_plan *plan, uint32_t gpu,
                                   uint32_t op, uint32_t op_count)
{
    const struct lull_plan_controller_op *ops = plan->ops[gpu];

    return op + 1 < op_count ? ops[op + 1].begin_ns - ops[op].begin_ns
                             : plan->makespan_ns - ops[op].begin_ns + ops[0].begin_ns;
}

/* How soon after the begin of an operation the next one may begin. */
static int64_t least_interval_ns(const struct lull_plan_controller *plan_controller,
                                 const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const int32_t plan = plan_controller->trial.plan;
    const struct lull_plan_controller_recent *recent = &gpu->recent[op % gpu->op_count];
    int64_t least_ns = INT64_MAX;

    if (plan < 0)
        return 0;
    if (gpu->learnt_plan != plan || recent->count == 0)
        return planned_interval_ns(plan_controller->plans[plan],
                                   (uint32_t)(gpu - plan_controller->gpus), op % gpu->op_count,
                                   gpu->op_count);
    for (uint32_t i = 0; i < recent->count; i++)
        if (recent->interval_ns[i] < least_ns)
            least_ns = recent->interval_ns[i];
    return least_ns;
}

static int64_t longest_ns(const struct lull_plan_controller *plan_controller,
                          const struct lull_plan_controller_gpu *gpu, uint32_t op)
{
    const struct lull_plan_controller_recent *recent = &gpu->recent[op];
    int64_t most_ns = 0;

    if (ops_of(plan_controller, gpu, gpu->iteration) == NULL ||
        gpu->learnt_plan != plan_controller->trial.plan || recent->count < CONDUCTOR_RECENT)
        return INT64_MAX / 4; /* not known well enough to be early */
    for (uint32_t i = 0; i < recent->count; i++)
        if (recent->length_ns[i] > most_ns)
            most_ns = recent->length_ns[i];
    return most_ns;
}

/* ---- what switching takes ---------------------------------------------------------------- */

static int64_t ns_from_ms(double ms)
{
    return (int64_t)(ms * 1e6);
}

/* How late a raising may be on average. */
static double allowed_late_ms(const struct lull_plan_controller *plan_controller,
                              const struct lull_plan_controller_gpu *gpu)
{
    const int32_t plan = plan_controller->trial.plan;
    uint32_t raises;

    if (plan < 0)
        return usual_late_ms;
    raises = plan_controller->plans[plan]->raises[gpu - plan_controller->gpus];
    return (double)plan_controller->plans[plan]->makespan_ns * 1e-6 *
           plan_controller->config.tolerance_ratio * late_share / (raises > 0 ? raises : 1);
}

/* Quantiles cost too much to be asked for at every poll. */
void plan_controller_update_costs(const struct lull_plan_controller *plan_controller,
                                  struct lull_plan_controller_gpu *gpu)
{
    gpu->lead_ns =
        ns_from_ms(lull_switch_cost_lead_ms(&gpu->cost, allowed_late_ms(plan_controller, gpu)));
    gpu->down_ns =
        ns_from_ms(margin * lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5));
    gpu->ahead_ns = ns_from_ms(lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.0));
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* What the operation that runs, or the pause behind it, wants. */
static struct lull_plan_controller_decision
decide_present(const struct lull_plan_controller *plan_controller,
               const struct lull_plan_controller_gpu *gpu, int64_t now_ns)
{
    const uint32_t here = plan_controller_point_of(plan_controller, gpu, gpu->op);
    const uint32_t next = plan_controller_point_of(plan_controller, gpu, gpu->op + 1);
    struct lull_plan_controller_decision decision = {
        .point = here, .raise_ns = INT64_MAX, .wake_ns = INT64_MAX};
    int64_t lower_ns;

    if (!gpu->is_running) {
        decision.point = next > gpu->requested ? next : gpu->requested;
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

/* Raises for what must be asked for until until_ns; finds when the next raising is due. */
static void look_ahead(const struct lull_plan_controller *plan_controller,
                       const struct lull_plan_controller_gpu *gpu, int64_t now_ns, int64_t until_ns,
                       struct lull_plan_controller_decision *decision)
{
    const int64_t horizon_ns = until_ns + gpu->lead_ns + sight_ns;
    int64_t begin_ns = gpu->begin_ns;

    for (uint32_t ahead = 1; ahead <= gpu->op_count && begin_ns < horizon_ns; ahead++) {
        const uint32_t op = gpu->op + ahead;
        const uint32_t point = plan_controller_point_of(plan_controller, gpu, op);

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

struct lull_plan_controller_decision
plan_controller_decide_clock(const struct lull_plan_controller *plan_controller,
                             const struct lull_plan_controller_gpu *gpu, int64_t now_ns,
                             int64_t until_ns, uint32_t lowest_point)
{
    struct lull_plan_controller_decision decision = {.raise_ns = INT64_MAX, .wake_ns = INT64_MAX};

    if (gpu->is_lost || plan_controller->driver.is_withheld ||
        plan_controller->driver.is_disobedient || plan_controller->config.observe_only)
        return decision;
    decision = decide_present(plan_controller, gpu, now_ns);
    if (decision.point > lowest_point)
        decision.point = lowest_point;
    look_ahead(plan_controller, gpu, now_ns, until_ns, &decision);
    return decision;
}
