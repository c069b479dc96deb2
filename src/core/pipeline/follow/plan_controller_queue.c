/*
 * What GPUs want of the node's one driver, and when it is asked for: raisings one after the other,
 * each early enough for those behind it (driver_plan.h), a lowering where there is room for it, and
 * nothing of a driver that is not to be trusted (call_trust.h).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/follow/plan_controller_state.h"
#include "core/section/gaps/driver_plan.h"

static const int64_t ms_ns = 1000000;
/* A lowered clock is asked for again in time, and undone soon if nobody does. */
static const int64_t renewal_ns = 1500 * ms_ns;
static const int64_t validity_ns = 4000 * ms_ns;
static const int64_t overdue_ns = 250 * ms_ns;
/* A lowering that the driver has not begun so soon is left out, unless there is more time. */
static const int64_t least_patience_ns = 2 * ms_ns;
/* How much slower computation runs at a plan's low clocks, about. */
static const double low_loss_ratio = 0.5;

/* ---- the driver -------------------------------------------------------------------------- */

void plan_controller_learn_call(struct lull_plan_controller *plan_controller, double driver_ms)
{
    struct lull_plan_controller_driver *driver = &plan_controller->driver;

    lull_quantile_add(&driver->call_ms, driver_ms);
    driver->call_ns =
        (int64_t)(lull_quantile_get(&driver->call_ms, LULL_PLAN_CONTROLLER_PLANNED_CALL) * 1e6);
}

static int64_t call_ns(const struct lull_plan_controller *plan_controller)
{
    if (plan_controller->driver.call_ms.count > 0)
        return plan_controller->driver.call_ns;
    return (int64_t)(lull_switch_cost_call_ms(&plan_controller->gpus[0].cost, LULL_DIRECTION_UP,
                                              LULL_PLAN_CONTROLLER_PLANNED_CALL) *
                     1e6);
}

static void keep_busy(struct lull_plan_controller *plan_controller, int64_t now_ns)
{
    struct lull_plan_controller_driver *driver = &plan_controller->driver;

    if (driver->free_ns < now_ns)
        driver->free_ns = now_ns;
    driver->free_ns += call_ns(plan_controller);
}

static void heed_trust(struct lull_plan_controller *plan_controller, int64_t now_ns)
{
    struct lull_plan_controller_driver *driver = &plan_controller->driver;
    const bool is_trusted = lull_call_trust_poll(&driver->trust, now_ns);

    if (is_trusted == !driver->is_withheld || plan_controller->config.observe_only)
        return;
    driver->is_withheld = !is_trusted;
    driver->withdrawals += !is_trusted;
    plan_controller->has_news = true;
    lull_plan_controller_end_detour(plan_controller);
    plan_controller_trial_interrupt(plan_controller);
}

void lull_plan_controller_take_blocked(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double blocked_ms)
{
    lull_call_trust_take_call(&plan_controller->driver.trust, now_ns, blocked_ms,
                              lull_call_trust_limit_ms(0.0, plan_controller->gpu_count),
                              low_loss_ratio);
    heed_trust(plan_controller, now_ns);
}

void lull_plan_controller_take_waiting(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                       double waiting_ms)
{
    lull_call_trust_take_waiting(&plan_controller->driver.trust, waiting_ms,
                                 lull_call_trust_waiting_limit_ms(0.0, plan_controller->gpu_count));
    heed_trust(plan_controller, now_ns);
}

void plan_controller_withdraw_for_good(struct lull_plan_controller *plan_controller)
{
    if (plan_controller->driver.is_disobedient)
        return;
    plan_controller->driver.is_disobedient = true;
    plan_controller->driver.withdrawals++;
    plan_controller->has_news = true;
    plan_controller_trial_interrupt(plan_controller);
    lull_plan_controller_use_plan(plan_controller, CONDUCTOR_HIGHEST);
}

/* ---- what is asked for ------------------------------------------------------------------- */

/* A poll: what the GPUs want, and the driver's plan for it. */
struct round {
    struct lull_plan_controller *plan_controller;
    int64_t now_ns;
    struct lull_plan_controller_decision
        wanted[LULL_PLAN_CONTROLLER_MAX_GPUS]; /* lowerings included */
    struct lull_driver_plan plan;              /* of raisings, as the clocks are now */
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    struct lull_plan_controller_command *commands;
    uint32_t count;
    uint32_t max;
};

static void look_around(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    round->plan.count = plan_controller->gpu_count;
    round->plan.call_ns = call_ns(plan_controller);
    for (uint32_t i = 0; i < plan_controller->gpu_count; i++) {
        const struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];
        const int64_t now_ns = round->now_ns;
        struct lull_plan_controller_decision kept;

        round->wanted[i] =
            plan_controller_decide_clock(plan_controller, gpu, now_ns, now_ns, UINT32_MAX);
        kept = round->wanted[i].point <= gpu->requested
                   ? round->wanted[i]
                   : plan_controller_decide_clock(plan_controller, gpu, now_ns, now_ns,
                                                  gpu->requested);
        round->plan.raise_by_ns[i] = kept.raise_ns;
    }
    lull_driver_plan_begins(&round->plan, round->begins_ns);
}

/* deadline_ns: of a lowering's call; raise_ns: of the raising that undoes it. */
static void post(struct round *round, uint32_t index, uint32_t point, int64_t deadline_ns,
                 int64_t raise_ns)
{
    struct lull_plan_controller_gpu *gpu = &round->plan_controller->gpus[index];
    const bool is_bounded = raise_ns < round->now_ns + validity_ns - overdue_ns;

    round->commands[round->count++] = (struct lull_plan_controller_command){
        .gpu = index,
        .point = point,
        .deadline_ns = deadline_ns,
        .valid_until_ns = is_bounded ? raise_ns + overdue_ns : round->now_ns + validity_ns,
    };
    if (point < gpu->requested) {
        gpu->raised_ns = round->now_ns;
        gpu->needed_ns = 0;
    }
    if (point != gpu->requested)
        keep_busy(round->plan_controller, round->now_ns);
    gpu->requested = point;
    gpu->requested_ns = round->now_ns;
}

/* What must be asked for by now, so that none of the raisings behind it is late. */
static void post_raisings(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    for (uint32_t i = 0; i < plan_controller->gpu_count && round->count < round->max; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];
        struct lull_plan_controller_decision *wanted = &round->wanted[i];

        if (round->begins_ns[i] <= round->now_ns)
            *wanted = plan_controller_decide_clock(plan_controller, gpu, round->now_ns,
                                                   round->plan.raise_by_ns[i], gpu->requested);
        if (wanted->point >= gpu->requested)
            continue;
        post(round, i, wanted->point, INT64_MAX, wanted->raise_ns);
        round->plan.raise_by_ns[i] = wanted->raise_ns;
    }
    lull_driver_plan_begins(&round->plan, round->begins_ns);
}

static int64_t sooner_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_begin_ns(const struct round *round)
{
    int64_t next_ns = INT64_MAX;

    for (uint32_t i = 0; i < round->plan.count; i++)
        next_ns = sooner_ns(next_ns, round->begins_ns[i]);
    return next_ns;
}

/* The lowering that wins most: time low, less what it takes to have effect, less what others lose.
 * -1: none wins anything. */
static int32_t find_lowering(const struct round *round)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    int64_t best_ns = 0;
    int32_t best = -1;

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++) {
        int64_t gain_ns;

        if (round->wanted[i].point <= plan_controller->gpus[i].requested)
            continue;
        gain_ns =
            lull_driver_plan_gain_ns(&round->plan, i, round->now_ns, round->wanted[i].raise_ns) -
            plan_controller->gpus[i].down_ns;
        if (gain_ns <= best_ns)
            continue;
        best_ns = gain_ns;
        best = (int32_t)i;
    }
    return best;
}

/* When lowerings that have to wait may be looked at again. */
static int64_t lowering_wake_ns(const struct round *round)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    const int64_t next_ns = next_begin_ns(round);
    bool is_waiting = false;

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++)
        is_waiting |= round->wanted[i].point > plan_controller->gpus[i].requested;
    if (!is_waiting)
        return INT64_MAX;
    if (plan_controller->driver.free_ns > round->now_ns)
        return plan_controller->driver.free_ns;
    return next_ns == INT64_MAX ? INT64_MAX : next_ns + round->plan.call_ns;
}

static void post_lowering(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;
    int32_t index = -1;
    int64_t begun_by_ns;

    if (plan_controller->driver.free_ns <= round->now_ns && round->count < round->max)
        index = find_lowering(round);
    if (index < 0)
        return;
    round->plan.raise_by_ns[index] = round->wanted[index].raise_ns;
    lull_driver_plan_begins(&round->plan, round->begins_ns);
    begun_by_ns = next_begin_ns(round);
    begun_by_ns =
        begun_by_ns == INT64_MAX ? round->now_ns + renewal_ns : begun_by_ns - round->plan.call_ns;
    if (begun_by_ns < round->now_ns + least_patience_ns)
        begun_by_ns = round->now_ns + least_patience_ns;
    post(round, (uint32_t)index, round->wanted[index].point, begun_by_ns,
         round->wanted[index].raise_ns);
}

static void renew(struct round *round)
{
    struct lull_plan_controller *plan_controller = round->plan_controller;

    for (uint32_t i = 0; i < plan_controller->gpu_count && round->count < round->max; i++) {
        struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        if (gpu->requested != 0 && round->now_ns >= gpu->requested_ns + renewal_ns)
            post(round, i, gpu->requested, round->now_ns + renewal_ns, round->plan.raise_by_ns[i]);
    }
}

static int64_t wake_ns(const struct round *round)
{
    const struct lull_plan_controller *plan_controller = round->plan_controller;
    int64_t due_ns = sooner_ns(lowering_wake_ns(round), next_begin_ns(round));

    for (uint32_t i = 0; i < plan_controller->gpu_count; i++) {
        const struct lull_plan_controller_gpu *gpu = &plan_controller->gpus[i];

        due_ns = sooner_ns(due_ns, round->wanted[i].wake_ns);
        if (gpu->requested != 0)
            due_ns = sooner_ns(due_ns, gpu->requested_ns + renewal_ns);
    }
    return due_ns;
}

uint32_t lull_plan_controller_poll(struct lull_plan_controller *plan_controller, int64_t now_ns,
                                   struct lull_plan_controller_command *commands_out, uint32_t max)
{
    struct round round = {
        .plan_controller = plan_controller, .now_ns = now_ns, .commands = commands_out, .max = max};

    heed_trust(plan_controller, now_ns);
    if (!plan_controller->has_news && now_ns < plan_controller->wake_ns)
        return 0;
    plan_controller->has_news = false;
    look_around(&round);
    post_raisings(&round);
    post_lowering(&round);
    renew(&round);
    plan_controller->wake_ns = wake_ns(&round);
    return round.count;
}

int64_t lull_plan_controller_wake_ns(const struct lull_plan_controller *plan_controller)
{
    return sooner_ns(plan_controller->wake_ns,
                     lull_call_trust_wake_ns(&plan_controller->driver.trust));
}

/* ---- looking ----------------------------------------------------------------------------- */

double lull_plan_controller_call_ms(const struct lull_plan_controller *plan_controller)
{
    return (double)call_ns(plan_controller) * 1e-6;
}

enum lull_plan_controller_trouble
lull_plan_controller_trouble(const struct lull_plan_controller *plan_controller,
                             uint32_t *withdrawals_out)
{
    *withdrawals_out = plan_controller->driver.withdrawals;
    if (plan_controller->driver.is_disobedient)
        return LULL_PLAN_CONTROLLER_DISOBEYS;
    return plan_controller->driver.withdrawals > 0 ? LULL_PLAN_CONTROLLER_BLOCKS
                                                   : LULL_PLAN_CONTROLLER_NO_TROUBLE;
}
