/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/driver_queue.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "base/clock.h"

/* ---- trust in the driver ------------------------------------------------------------------- */

/* Calls take 5 ms, and 10 ms now and then (published); the rest of the limit is for busy machines.
 */
static const double queue_ms = 10.0;
static const double min_limit_ms = 200.0;
/* After a breach nothing is lowered for this many times the time that it has cost, between the two
 * limits. test_slow_driver measures the effect: calls of 500 ms cost 0.01 % instead of 7.6 %. */
static const double spread = 200.0;
static const double min_wait_s = 20.0;
static const double max_wait_s = 3600.0;
/* After this many times the last wait without a breach, the driver is trusted as before any breach.
 */
static const int64_t clean_waits = 4;

double lull_call_trust_limit_ms(double longest_section_ms, uint32_t gpu_count)
{
    return fmax(longest_section_ms / gpu_count, min_limit_ms);
}

double lull_call_trust_waiting_limit_ms(double longest_section_ms, uint32_t gpu_count)
{
    return fmax(longest_section_ms, min_limit_ms + queue_ms * gpu_count);
}

void lull_call_trust_take_call(struct lull_call_trust *trust, int64_t now_ns, double blocked_ms,
                               double limit_ms, double loss_ratio)
{
    double wait_s = fmax(spread * loss_ratio * blocked_ms * 1e-3, min_wait_s);

    /* A call that was under way already when another one breached is the same breach. */
    if (!(blocked_ms > limit_ms) || now_ns < trust->until_ns)
        return;
    if (now_ns - trust->since_ns <= clean_waits * trust->wait_ns)
        wait_s = fmax(wait_s, 2.0 * (double)trust->wait_ns * 1e-9);
    trust->wait_ns = (int64_t)(fmin(wait_s, max_wait_s) * 1e9);
    trust->until_ns = now_ns + trust->wait_ns;
    assert(trust->wait_ns > 0);
}

void lull_call_trust_take_waiting(struct lull_call_trust *trust, double waiting_ms, double limit_ms)
{
    trust->is_overdue = waiting_ms > limit_ms;
}

bool lull_call_trust_poll(struct lull_call_trust *trust, int64_t now_ns)
{
    if (trust->is_overdue || now_ns < trust->until_ns)
        return false;
    if (trust->until_ns != 0) {
        trust->until_ns = 0;
        trust->since_ns = now_ns;
    }
    return true;
}

int64_t lull_call_trust_wake_ns(const struct lull_call_trust *trust)
{
    if (trust->until_ns == 0 || trust->is_overdue)
        return INT64_MAX;
    return trust->until_ns;
}

/* ---- a plan of its calls ------------------------------------------------------------------- */

/* Orders the GPUs that are to be raised, the latest first; returns their number. */
static uint32_t order_raisings(const struct lull_driver_plan *plan,
                               uint32_t order_out[LULL_DRIVER_PLAN_GPUS])
{
    uint32_t count = 0;

    assert(plan->count <= LULL_DRIVER_PLAN_GPUS);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t place = count;

        if (plan->raise_by_ns[i] == INT64_MAX)
            continue;
        for (; place > 0 && plan->raise_by_ns[order_out[place - 1]] < plan->raise_by_ns[i]; place--)
            order_out[place] = order_out[place - 1];
        order_out[place] = i;
        count++;
    }
    return count;
}

void lull_driver_plan_begins(const struct lull_driver_plan *plan,
                             int64_t begins_out[LULL_DRIVER_PLAN_GPUS])
{
    uint32_t order[LULL_DRIVER_PLAN_GPUS];
    const uint32_t count = order_raisings(plan, order);

    for (uint32_t i = 0; i < plan->count; i++)
        begins_out[i] = INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t alone_ns = plan->raise_by_ns[order[i]];

        begins_out[order[i]] = alone_ns;
        if (i > 0)
            begins_out[order[i]] =
                lull_earlier_ns(alone_ns, begins_out[order[i - 1]] - plan->call_ns);
    }
}

int64_t lull_driver_plan_next_ns(const int64_t *begins_ns, uint32_t count, int64_t after_ns)
{
    int64_t next_ns = INT64_MAX;

    for (uint32_t i = 0; i < count; i++)
        if (begins_ns[i] > after_ns)
            next_ns = lull_earlier_ns(next_ns, begins_ns[i]);
    return next_ns;
}

int64_t lull_driver_plan_gain_ns(const struct lull_driver_plan *plan, uint32_t gpu, int64_t now_ns,
                                 int64_t raise_by_ns)
{
    const int64_t lowered_ns = now_ns + plan->call_ns;
    struct lull_driver_plan with = *plan;
    int64_t before_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t after_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t gain_ns;

    with.raise_by_ns[gpu] = raise_by_ns;
    lull_driver_plan_begins(plan, before_ns);
    lull_driver_plan_begins(&with, after_ns);
    gain_ns = after_ns[gpu] - now_ns;
    for (uint32_t i = 0; i < plan->count; i++) {
        /* NOLINTNEXTLINE(*UndefinedBinaryOperatorResult): lull_driver_plan_begins() wrote it. */
        if (after_ns[i] <
            lowered_ns) /* the lowering, or its own raising, would make this one late */
            return 0;
        if (i != gpu && after_ns[i] != INT64_MAX)
            gain_ns -= before_ns[i] - after_ns[i];
    }
    return gain_ns;
}

/* ---- the queue ----------------------------------------------------------------------------- */

void lull_driver_queue_init(struct lull_driver_queue *queue,
                            const struct lull_driver_queue_config *config)
{
    assert(config->gpu_count >= 1 && config->gpu_count <= LULL_DRIVER_PLAN_GPUS);
    assert(config->prior != NULL && config->min_gain_ns >= 0);
    *queue = (struct lull_driver_queue){.config = *config};
}

/* ---- what calls take ----------------------------------------------------------------------- */

/* The quantile is kept because it costs too much to be computed at every poll. */
void lull_driver_queue_learn_call(struct lull_driver_queue *queue, double driver_ms)
{
    lull_quantile_add(&queue->call_ms, driver_ms);
    if (queue->call_ms.count > 0)
        queue->call_ns =
            lull_ns_from_ms(lull_quantile_get(&queue->call_ms, queue->config.planned_quantile));
}

int64_t lull_driver_queue_call_ns(const struct lull_driver_queue *queue)
{
    if (queue->call_ms.count > 0)
        return queue->call_ns;
    return lull_ns_from_ms(lull_switch_cost_call_ms(queue->config.prior, LULL_DIRECTION_UP,
                                                    queue->config.prior_quantile));
}

void lull_driver_queue_keep_busy(struct lull_driver_queue *queue, int64_t now_ns)
{
    if (queue->free_ns < now_ns)
        queue->free_ns = now_ns;
    queue->free_ns += lull_driver_queue_call_ns(queue);
}

/* ---- choice of lowerings ------------------------------------------------------------------- */

bool lull_driver_queue_may_lower(const struct lull_driver_queue *queue, int64_t now_ns)
{
    return !queue->suspended && queue->free_ns <= now_ns;
}

void lull_driver_queue_init_plan(const struct lull_driver_queue *queue,
                                 struct lull_driver_plan *plan_out)
{
    plan_out->count = queue->config.gpu_count;
    plan_out->call_ns = lull_driver_queue_call_ns(queue);
}

struct lull_lowering *lull_driver_queue_choose(const struct lull_driver_queue *queue,
                                               const struct lull_driver_plan *plan, int64_t now_ns,
                                               struct lull_lowering *lowerings, uint32_t count)
{
    struct lull_lowering *best = NULL;
    int64_t best_ns = queue->config.min_gain_ns;

    for (uint32_t i = 0; i < count; i++) {
        struct lull_lowering *lowering = &lowerings[i];

        assert(lowering->gpu < plan->count);
        lowering->gain_ns =
            lull_driver_plan_gain_ns(plan, lowering->gpu, now_ns, lowering->raise_by_ns) -
            lowering->cost_ns;
        if (lowering->gain_ns <= best_ns)
            continue;
        best_ns = lowering->gain_ns;
        best = lowering;
    }
    return best;
}

/* ---- trust --------------------------------------------------------------------------------- */

enum lull_driver_change lull_driver_queue_update_trust(struct lull_driver_queue *queue,
                                                       int64_t now_ns)
{
    const bool is_trusted = lull_call_trust_poll(&queue->trust, now_ns);

    if (is_trusted != queue->suspended || queue->config.never_suspends)
        return LULL_DRIVER_UNCHANGED;
    queue->suspended = !is_trusted;
    if (is_trusted)
        return LULL_DRIVER_RESUMED;
    queue->suspensions++;
    return LULL_DRIVER_SUSPENDED;
}

enum lull_driver_change lull_driver_queue_take_blocked(struct lull_driver_queue *queue,
                                                       int64_t now_ns, double blocked_ms,
                                                       double longest_section_ms,
                                                       uint32_t gpu_count, double loss_ratio)
{
    assert(loss_ratio > 0.0 && loss_ratio <= 1.0);
    lull_call_trust_take_call(&queue->trust, now_ns, blocked_ms,
                              lull_call_trust_limit_ms(longest_section_ms, gpu_count), loss_ratio);
    return lull_driver_queue_update_trust(queue, now_ns);
}

enum lull_driver_change lull_driver_queue_take_waiting(struct lull_driver_queue *queue,
                                                       int64_t now_ns, double waiting_ms,
                                                       double longest_section_ms)
{
    queue->waiting_ms = waiting_ms;
    lull_call_trust_take_waiting(
        &queue->trust, waiting_ms,
        lull_call_trust_waiting_limit_ms(longest_section_ms, queue->config.gpu_count));
    return lull_driver_queue_update_trust(queue, now_ns);
}

int64_t lull_driver_queue_wake_ns(const struct lull_driver_queue *queue)
{
    return lull_call_trust_wake_ns(&queue->trust);
}
