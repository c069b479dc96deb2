/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/driver_plan.h"

#include <assert.h>

#include "base/clock.h"

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
        if (after_ns[i] <
            lowered_ns) /* the lowering, or its own raising, would make this one late */
            return 0;
        if (i != gpu && after_ns[i] != INT64_MAX)
            gain_ns -= before_ns[i] - after_ns[i];
    }
    return gain_ns;
}
