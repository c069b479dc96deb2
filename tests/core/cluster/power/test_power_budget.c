/*
 * Watts under a cap: when running jobs will have left room, whoever else has gone by then.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/power/power_budget.h"
#include "../../property.h"

#define S INT64_C(1000000000)

/* Four GPUs at 250 W each, an idle one draws 50. */
static const struct lull_cluster_type type = {.name = "A", .idle_w = 50.0};
static const struct lull_cluster_node nodes[] = {{.gpus = 4}, {.gpus = 4}};
static const struct lull_cluster cluster = {&type, 1, nodes, 2, 1};
static const struct lull_cluster_point points[] = {
    {.gpus = 4, .time_ns = 100 * S, .energy_j = 100.0 * 1000.0},
    {.gpus = 4, .time_ns = 200 * S, .energy_j = 200.0 * 1000.0},
};

static void test_the_next_room_is_that_of_who_still_runs(void **state)
{
    struct lull_cluster_job all[2];
    const struct lull_cluster_jobs jobs = {all, 2};
    const struct lull_power_cap cap = {.cluster_w = 2000.0, .peak_ratio = 1.0};
    struct lull_power_budget budget;
    double spare_w;

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        all[i] = (struct lull_cluster_job){.deadline_ns = LULL_CLUSTER_NEVER,
                                           .weight = 1.0,
                                           .point_count = 1,
                                           .points = &points[i]};
    assert_int_equal(lull_power_budget_init(&budget, &cluster, &jobs, &cap, NULL), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(
            lull_power_budget_add(&budget, i, 0, &(struct lull_cluster_share){i, 4}, 1, 0), 0);
    assert_true(lull_power_budget_has(&budget, 0.0));
    assert_false(lull_power_budget_has(&budget, 1.0));
    assert_int_equal(lull_power_budget_when(&budget, 800.0, 0, &spare_w), 100 * S);
    assert_near(spare_w, 0.0, 1e-9);
    assert_int_equal(lull_power_budget_when(&budget, 900.0, 0, &spare_w), 200 * S);
    assert_near(spare_w, 700.0, 1e-9);
    lull_power_budget_remove(&budget, 1); /* it was to end last */
    assert_int_equal(lull_power_budget_when(&budget, 800.0, 0, &spare_w), 0);
    assert_int_equal(lull_power_budget_when(&budget, 900.0, 0, &spare_w), 100 * S);
    assert_near(spare_w, 700.0, 1e-9);
    assert_int_equal(lull_power_budget_when(&budget, 1601.0, 7, &spare_w), 7); /* never */
    lull_power_budget_fini(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_room_is_that_of_who_still_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
