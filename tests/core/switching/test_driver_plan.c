/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include "core/switching/driver_queue.h"

enum { GPUS = 6 };

struct order {
    uint32_t gpus[GPUS];
    uint32_t count;
};

/* Sum of the latest starts if raisings are served in this order; the earliest of them. */
static int64_t serve(const struct lull_driver_plan *plan, const struct order *order,
                     int64_t *earliest_out)
{
    int64_t sum_ns = 0;
    int64_t next_ns = INT64_MAX;

    for (uint32_t i = order->count; i > 0; i--) {
        const int64_t alone_ns = plan->raise_by_ns[order->gpus[i - 1]];
        const int64_t packed_ns = i == order->count ? alone_ns : next_ns - plan->call_ns;

        next_ns = packed_ns < alone_ns ? packed_ns : alone_ns;
        sum_ns += next_ns;
    }
    *earliest_out = next_ns;
    return sum_ns;
}

/* The best sum over all orders, by trying each of them. */
static int64_t try_orders(const struct lull_driver_plan *plan, struct order *order, uint32_t from)
{
    int64_t best_ns = INT64_MIN;
    int64_t earliest_ns;

    if (from + 1 >= order->count)
        return serve(plan, order, &earliest_ns);
    for (uint32_t i = from; i < order->count; i++) {
        const struct order kept = *order;
        int64_t ns;

        order->gpus[from] = kept.gpus[i];
        order->gpus[i] = kept.gpus[from];
        ns = try_orders(plan, order, from + 1);
        best_ns = ns > best_ns ? ns : best_ns;
        *order = kept;
    }
    return best_ns;
}

static int64_t best_sum_ns(const struct lull_driver_plan *plan)
{
    struct order order = {.count = 0};

    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->raise_by_ns[i] != INT64_MAX)
            order.gpus[order.count++] = i;
    return order.count == 0 ? 0 : try_orders(plan, &order, 0);
}

static struct lull_driver_plan draw(struct lull_random *random)
{
    struct lull_driver_plan plan = {
        .count = 1 + (uint32_t)lull_random_below(random, GPUS),
        .call_ns = (int64_t)lull_random_below(random, 20),
    };

    for (uint32_t i = 0; i < plan.count; i++)
        plan.raise_by_ns[i] =
            lull_random_below(random, 4) == 0 ? INT64_MAX : (int64_t)lull_random_below(random, 100);
    return plan;
}

/* One call at a time, none later than it may be, and no order leaves GPUs low for longer. */
static void test_raisings_are_in_time_and_as_late_as_can_be(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_random random;
        struct lull_driver_plan plan;
        int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
        int64_t sum_ns = 0;

        lull_random_init(&random, seed);
        plan = draw(&random);
        lull_driver_plan_begins(&plan, begins_ns);
        for (uint32_t i = 0; i < plan.count; i++) {
            holds((begins_ns[i] == INT64_MAX) == (plan.raise_by_ns[i] == INT64_MAX), seed);
            holds(begins_ns[i] <= plan.raise_by_ns[i], seed);
            sum_ns += begins_ns[i] == INT64_MAX ? 0 : begins_ns[i];
            for (uint32_t k = 0; k < i; k++)
                holds(begins_ns[i] == INT64_MAX || begins_ns[k] == INT64_MAX ||
                          begins_ns[i] >= begins_ns[k] + plan.call_ns ||
                          begins_ns[k] >= begins_ns[i] + plan.call_ns,
                      seed);
        }
        holds(sum_ns == best_sum_ns(&plan), seed);
    }
}

/* The gain is the difference of the best plans with and without the new raising, if every raising
 * is in time. */
static void test_a_gain_is_what_the_node_wins(void **state)
{
    uint32_t worth = 0;
    uint32_t refused = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct lull_random random;
        struct lull_driver_plan plan;
        struct lull_driver_plan with;
        int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
        int64_t gain_ns;
        bool in_time = true;

        lull_random_init(&random, seed);
        plan = draw(&random);
        plan.raise_by_ns[0] = INT64_MAX;
        with = plan;
        with.raise_by_ns[0] = (int64_t)lull_random_below(&random, 100);
        gain_ns = lull_driver_plan_gain_ns(&plan, 0, 10, with.raise_by_ns[0]);
        lull_driver_plan_begins(&with, begins_ns);
        for (uint32_t i = 0; i < plan.count; i++)
            in_time = in_time && begins_ns[i] >= 10 + plan.call_ns;
        if (in_time)
            holds(gain_ns == best_sum_ns(&with) - best_sum_ns(&plan) - 10, seed);
        else
            holds(gain_ns == 0, seed);
        worth += gain_ns > 0;
        refused += gain_ns <= 0;
    }
    assert_true(worth > 100 && refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raisings_are_in_time_and_as_late_as_can_be),
        cmocka_unit_test(test_a_gain_is_what_the_node_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
