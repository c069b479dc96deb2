/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/driver_queue.h"

#include <assert.h>
#include <stddef.h>

#include "base/clock.h"

void lull_driver_queue_init(struct lull_driver_queue *queue,
                            const struct lull_driver_queue_config *config)
{
    assert(config->gpu_count >= 1 && config->gpu_count <= LULL_DRIVER_PLAN_GPUS);
    assert(config->prior != NULL && config->least_gain_ns >= 0);
    *queue = (struct lull_driver_queue){.config = *config};
}

/* ---- what calls take --------------------------------------------------------------------- */

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

/* ---- what it should serve ---------------------------------------------------------------- */

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
    int64_t best_ns = queue->config.least_gain_ns;

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

/* ---- trust ------------------------------------------------------------------------------- */

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
