/*
 * What GPUs want of the node's one driver, and when it is asked for: raisings one after the other,
 * each early enough for those behind it (driver_plan.h), a lowering where there is room for it, and
 * nothing of a driver that is not to be trusted (call_trust.h).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/online/conductor_state.h"
#include "core/switching/driver_plan.h"

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

void conductor_learn_call(struct lull_conductor *conductor, double driver_ms)
{
    struct conductor_driver *driver = &conductor->driver;

    lull_quantile_add(&driver->call_ms, driver_ms);
    driver->call_ns =
        (int64_t)(lull_quantile_get(&driver->call_ms, LULL_CONDUCTOR_PLANNED_CALL) * 1e6);
}

static int64_t call_ns(const struct lull_conductor *conductor)
{
    if (conductor->driver.call_ms.count > 0)
        return conductor->driver.call_ns;
    return (int64_t)(lull_switch_cost_call_ms(&conductor->gpus[0].cost, LULL_DIRECTION_UP,
                                              LULL_CONDUCTOR_PLANNED_CALL) *
                     1e6);
}

static void keep_busy(struct lull_conductor *conductor, int64_t now_ns)
{
    struct conductor_driver *driver = &conductor->driver;

    if (driver->free_ns < now_ns)
        driver->free_ns = now_ns;
    driver->free_ns += call_ns(conductor);
}

static void heed_trust(struct lull_conductor *conductor, int64_t now_ns)
{
    struct conductor_driver *driver = &conductor->driver;
    const bool is_trusted = lull_call_trust_poll(&driver->trust, now_ns);

    if (is_trusted == !driver->is_withheld || conductor->config.observe_only)
        return;
    driver->is_withheld = !is_trusted;
    driver->withdrawals += !is_trusted;
    conductor->has_news = true;
    lull_conductor_end_detour(conductor);
    conductor_trial_interrupt(conductor);
}

void lull_conductor_take_blocked(struct lull_conductor *conductor, int64_t now_ns,
                                 double blocked_ms)
{
    lull_call_trust_take_call(&conductor->driver.trust, now_ns, blocked_ms,
                              lull_call_trust_limit_ms(0.0, conductor->gpu_count), low_loss_ratio);
    heed_trust(conductor, now_ns);
}

void lull_conductor_take_waiting(struct lull_conductor *conductor, int64_t now_ns,
                                 double waiting_ms)
{
    lull_call_trust_take_waiting(&conductor->driver.trust, waiting_ms,
                                 lull_call_trust_waiting_limit_ms(0.0, conductor->gpu_count));
    heed_trust(conductor, now_ns);
}

void conductor_withdraw_for_good(struct lull_conductor *conductor)
{
    if (conductor->driver.is_disobedient)
        return;
    conductor->driver.is_disobedient = true;
    conductor->driver.withdrawals++;
    conductor->has_news = true;
    conductor_trial_interrupt(conductor);
    lull_conductor_use_plan(conductor, CONDUCTOR_HIGHEST);
}

/* ---- what is asked for ------------------------------------------------------------------- */

/* A poll: what the GPUs want, and the driver's plan for it. */
struct round {
    struct lull_conductor *conductor;
    int64_t now_ns;
    struct conductor_decision wanted[LULL_CONDUCTOR_MAX_GPUS]; /* lowerings included */
    struct lull_driver_plan plan; /* of raisings, as the clocks are now */
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    struct lull_conductor_command *commands;
    uint32_t count;
    uint32_t max;
};

static void look_around(struct round *round)
{
    struct lull_conductor *conductor = round->conductor;

    round->plan.count = conductor->gpu_count;
    round->plan.call_ns = call_ns(conductor);
    for (uint32_t i = 0; i < conductor->gpu_count; i++) {
        const struct conductor_gpu *gpu = &conductor->gpus[i];
        const int64_t now_ns = round->now_ns;
        struct conductor_decision kept;

        round->wanted[i] = conductor_decide_clock(conductor, gpu, now_ns, now_ns, UINT32_MAX);
        kept = round->wanted[i].point <= gpu->requested
                   ? round->wanted[i]
                   : conductor_decide_clock(conductor, gpu, now_ns, now_ns, gpu->requested);
        round->plan.raise_by_ns[i] = kept.raise_ns;
    }
    lull_driver_plan_begins(&round->plan, round->begins_ns);
}

/* deadline_ns: of a lowering's call; raise_ns: of the raising that undoes it. */
static void post(struct round *round, uint32_t index, uint32_t point, int64_t deadline_ns,
                 int64_t raise_ns)
{
    struct conductor_gpu *gpu = &round->conductor->gpus[index];
    const bool is_bounded = raise_ns < round->now_ns + validity_ns - overdue_ns;

    round->commands[round->count++] = (struct lull_conductor_command){
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
        keep_busy(round->conductor, round->now_ns);
    gpu->requested = point;
    gpu->requested_ns = round->now_ns;
}

/* What must be asked for by now, so that none of the raisings behind it is late. */
static void post_raisings(struct round *round)
{
    struct lull_conductor *conductor = round->conductor;

    for (uint32_t i = 0; i < conductor->gpu_count && round->count < round->max; i++) {
        struct conductor_gpu *gpu = &conductor->gpus[i];
        struct conductor_decision *wanted = &round->wanted[i];

        if (round->begins_ns[i] <= round->now_ns)
            *wanted = conductor_decide_clock(conductor, gpu, round->now_ns,
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
    const struct lull_conductor *conductor = round->conductor;
    int64_t best_ns = 0;
    int32_t best = -1;

    for (uint32_t i = 0; i < conductor->gpu_count; i++) {
        int64_t gain_ns;

        if (round->wanted[i].point <= conductor->gpus[i].requested)
            continue;
        gain_ns =
            lull_driver_plan_gain_ns(&round->plan, i, round->now_ns, round->wanted[i].raise_ns) -
            conductor->gpus[i].down_ns;
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
    const struct lull_conductor *conductor = round->conductor;
    const int64_t next_ns = next_begin_ns(round);
    bool is_waiting = false;

    for (uint32_t i = 0; i < conductor->gpu_count; i++)
        is_waiting |= round->wanted[i].point > conductor->gpus[i].requested;
    if (!is_waiting)
        return INT64_MAX;
    if (conductor->driver.free_ns > round->now_ns)
        return conductor->driver.free_ns;
    return next_ns == INT64_MAX ? INT64_MAX : next_ns + round->plan.call_ns;
}

static void post_lowering(struct round *round)
{
    struct lull_conductor *conductor = round->conductor;
    int32_t index = -1;
    int64_t begun_by_ns;

    if (conductor->driver.free_ns <= round->now_ns && round->count < round->max)
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
    struct lull_conductor *conductor = round->conductor;

    for (uint32_t i = 0; i < conductor->gpu_count && round->count < round->max; i++) {
        struct conductor_gpu *gpu = &conductor->gpus[i];

        if (gpu->requested != 0 && round->now_ns >= gpu->requested_ns + renewal_ns)
            post(round, i, gpu->requested, round->now_ns + renewal_ns, round->plan.raise_by_ns[i]);
    }
}

static int64_t wake_ns(const struct round *round)
{
    const struct lull_conductor *conductor = round->conductor;
    int64_t due_ns = sooner_ns(lowering_wake_ns(round), next_begin_ns(round));

    for (uint32_t i = 0; i < conductor->gpu_count; i++) {
        const struct conductor_gpu *gpu = &conductor->gpus[i];

        due_ns = sooner_ns(due_ns, round->wanted[i].wake_ns);
        if (gpu->requested != 0)
            due_ns = sooner_ns(due_ns, gpu->requested_ns + renewal_ns);
    }
    return due_ns;
}

uint32_t lull_conductor_poll(struct lull_conductor *conductor, int64_t now_ns,
                             struct lull_conductor_command *commands_out, uint32_t max)
{
    struct round round = {
        .conductor = conductor, .now_ns = now_ns, .commands = commands_out, .max = max};

    heed_trust(conductor, now_ns);
    if (!conductor->has_news && now_ns < conductor->wake_ns)
        return 0;
    conductor->has_news = false;
    look_around(&round);
    post_raisings(&round);
    post_lowering(&round);
    renew(&round);
    conductor->wake_ns = wake_ns(&round);
    return round.count;
}

int64_t lull_conductor_wake_ns(const struct lull_conductor *conductor)
{
    return sooner_ns(conductor->wake_ns, lull_call_trust_wake_ns(&conductor->driver.trust));
}

/* ---- looking ----------------------------------------------------------------------------- */

double lull_conductor_call_ms(const struct lull_conductor *conductor)
{
    return (double)call_ns(conductor) * 1e-6;
}

enum lull_conductor_trouble lull_conductor_trouble(const struct lull_conductor *conductor,
                                                   uint32_t *withdrawals_out)
{
    *withdrawals_out = conductor->driver.withdrawals;
    if (conductor->driver.is_disobedient)
        return LULL_CONDUCTOR_DISOBEYS;
    return conductor->driver.withdrawals > 0 ? LULL_CONDUCTOR_BLOCKS : LULL_CONDUCTOR_NO_TROUBLE;
}
