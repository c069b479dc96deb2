/*
 * Watts under a cap: when running jobs will leave room, whichever others have ended by then;
 * sums and ends, against a plain list; the power available under caps on an empty cluster.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/power/power_budget.h"

#include <errno.h>

#include "tests/core/property.h"

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

/* ---- against a plain list of running jobs --------------------------------------------------- */

enum { MANY = 12, NODES = 3, NODE_GPUS = 8 };

static const struct lull_cluster_node wide[NODES] = {
    {.gpus = NODE_GPUS}, {.gpus = NODE_GPUS}, {.gpus = NODE_GPUS}};
static const struct lull_cluster wide_cluster = {&type, 1, wide, NODES, 1};

/* Two operating points of 2 GPUs, one on each of two nodes; they draw 100 and 180 W more. */
static const struct lull_cluster_point clocks[] = {
    {.gpus = 2, .time_ns = 10 * S, .energy_j = 2 * 150.0 * 10.0},
    {.gpus = 2, .time_ns = 7 * S, .energy_j = 2 * 230.0 * 7.0},
};
static const double more_w[] = {100.0, 180.0};

struct running {
    bool is_running;
    uint32_t point;
    uint32_t node; /* and the next one */
    int64_t end_ns;
};

/* The power of a node's GPUs above idle. */
static double load_w(const struct running *jobs, uint32_t node)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < MANY; i++)
        if (jobs[i].is_running && (jobs[i].node == node || (jobs[i].node + 1) % NODES == node))
            sum_w += more_w[jobs[i].point];
    return sum_w;
}

/* Returns the time at which that many watts will be free; now_ns: never, or now. */
static int64_t when_gone(const struct running *jobs, double needed_w, int64_t now_ns)
{
    int64_t best_ns = now_ns;

    for (uint32_t i = 0; i < MANY && needed_w > 0.0; i++) {
        double gone_w = 0.0;

        for (uint32_t j = 0; j < MANY; j++)
            if (jobs[j].is_running && jobs[j].end_ns <= jobs[i].end_ns)
                gone_w += 2.0 * more_w[jobs[j].point];
        if (jobs[i].is_running && gone_w >= needed_w &&
            (best_ns == now_ns || jobs[i].end_ns < best_ns))
            best_ns = jobs[i].end_ns;
    }
    return best_ns;
}

/* One thing happens to a job: it starts, or it is reclocked, ends at another time, or ends. The
 * times are few, so that ends meet, and come back to where they were. */
static void happen(struct lull_power_budget *budget, struct running *job, uint32_t number,
                   struct lull_random *random)
{
    const int64_t now_ns = (int64_t)lull_random_below(random, 4) * S;
    const uint32_t point = (uint32_t)lull_random_below(random, 2);
    const uint32_t node = (uint32_t)lull_random_below(random, NODES);
    const struct lull_cluster_share shares[] = {{node, 1}, {(node + 1) % NODES, 1}};

    if (!job->is_running) {
        assert_int_equal(lull_power_budget_add(budget, number, point, shares, 2, now_ns), 0);
        *job = (struct running){true, point, node, now_ns + clocks[point].time_ns};
        return;
    }
    switch (lull_random_below(random, 8)) {
    case 0:
        lull_power_budget_remove(budget, number);
        job->is_running = false;
        break;
    case 1:
        assert_int_equal(lull_power_budget_reclock(budget, number, point, now_ns), 0);
        job->point = point;
        job->end_ns = now_ns + clocks[point].time_ns;
        break;
    default:
        job->end_ns = 10 * S + now_ns;
        lull_power_budget_expect_end(budget, number, job->end_ns);
        assert_true(budget->ends.count <= 64 || budget->ends.count <= 4 * budget->running);
        break;
    }
}

static void test_watts_and_ends_are_those_of_who_runs(void **state)
{
    const struct lull_power_cap cap = {
        .cluster_w = NODES * NODE_GPUS * 50.0 + 1000.0, .node_w = 1000.0, .peak_ratio = 1.0};
    struct lull_cluster_job all[MANY];
    const struct lull_cluster_jobs jobs = {all, MANY};

    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        all[i] = (struct lull_cluster_job){
            .deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 2, .points = clocks};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct running running[MANY] = {0};
        struct lull_power_budget budget;
        struct lull_random random;

        lull_random_init(&random, seed);
        assert_int_equal(lull_power_budget_init(&budget, &wide_cluster, &jobs, &cap, NULL), 0);
        for (int step = 0; step < 500; step++) {
            const uint32_t job = (uint32_t)lull_random_below(&random, MANY);
            const double asked_w = 50.0 * (double)lull_random_below(&random, 20) + 1.0;
            double sum_w = 0.0;
            double spare_w;

            happen(&budget, &running[job], job, &random);
            for (uint32_t node = 0; node < NODES; node++) {
                const double node_w = NODE_GPUS * 50.0 + load_w(running, node);

                assert_near(budget.node_w[node], node_w, 1e-6);
                holds(lull_power_budget_has_on(&budget, node, asked_w) ==
                          (node_w + asked_w <= cap.node_w),
                      seed);
                sum_w += node_w;
            }
            holds(lull_power_budget_has(&budget, asked_w) == (sum_w + asked_w <= cap.cluster_w),
                  seed);
            holds(lull_power_budget_when(&budget, asked_w, -1, &spare_w) ==
                      when_gone(running, sum_w + asked_w - cap.cluster_w, -1),
                  seed);
        }
        lull_power_budget_fini(&budget);
    }
}

/* ---- power under caps on an empty cluster --------------------------------------------------- */

/* Returns whether caps are taken, with nodes that draw 200 and 100 W while idle, and 300 W each
 * while they turn on. */
static int take_caps(double cluster_w, double node_w, double peak_ratio, bool turns_nodes_on)
{
    static const struct lull_cluster_type slow = {
        .name = "A", .idle_w = 50.0, .turn_on_ns = 10 * S, .turn_on_j = 3000.0};
    static const struct lull_cluster_node unequal[] = {{.gpus = 4}, {.gpus = 2}};
    static const struct lull_cluster slow_cluster = {&slow, 1, unequal, 2, 1};
    const struct lull_cluster_jobs none = {NULL, 0};
    const struct lull_power_cap cap = {.cluster_w = cluster_w,
                                       .node_w = node_w,
                                       .peak_ratio = peak_ratio,
                                       .turns_nodes_on = turns_nodes_on};
    struct lull_power_budget budget;
    const int rc = lull_power_budget_init(&budget, &slow_cluster, &none, &cap, NULL);

    if (rc == 0) {
        assert_true(cluster_w > 0.0 || lull_power_budget_has(&budget, 1e12));
        assert_true(node_w > 0.0 || lull_power_budget_has_on(&budget, 1, 1e12));
        lull_power_budget_fini(&budget);
    }
    return rc;
}

static void test_caps_below_an_idle_cluster_are_refused(void **state)
{
    (void)state;
    assert_int_equal(take_caps(300.0, 200.0, 1.0, false), 0);
    assert_int_equal(take_caps(299.0, 200.0, 1.0, false), -EINVAL);
    assert_int_equal(take_caps(300.0, 199.0, 1.0, false), -EINVAL);
    assert_int_equal(take_caps(300.0, 200.0, 0.99, false), -EINVAL);
    assert_int_equal(take_caps(300.0, 200.0, INFINITY, false), -EINVAL);
    assert_int_equal(take_caps(300.0, 200.0, NAN, false), -EINVAL);
    assert_int_equal(take_caps(0.0, 0.0, 1.0, true), 0); /* none */
    /* The second node turns on beside the first. */
    assert_int_equal(take_caps(500.0, 300.0, 1.0, true), 0);
    assert_int_equal(take_caps(499.0, 300.0, 1.0, true), -EINVAL);
    assert_int_equal(take_caps(500.0, 299.0, 1.0, true), -EINVAL);
}

/* The slow clock needs 200 W more in all, and 450 W on each node that runs it alone; the fast one
 * 360 W and, at twice its mean power, 820 W. */
static void test_what_could_ever_run(void **state)
{
    static const struct {
        double cluster_w, node_w, peak_ratio;
        double min_w; /* INFINITY: nothing could */
    } cases[] = {
        {1400.0, 0.0, 1.0, 200.0},    {1399.0, 0.0, 1.0, INFINITY}, {0.0, 600.0, 1.0, 200.0},
        {0.0, 599.0, 1.0, INFINITY},  {0.0, 0.0, 2.0, 500.0},       {1700.0, 0.0, 2.0, 500.0},
        {1699.0, 0.0, 2.0, INFINITY},
    };
    struct lull_cluster_job job = {
        .deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 2, .points = clocks};
    const struct lull_cluster_jobs jobs = {&job, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct lull_power_cap cap = {cases[i].cluster_w, cases[i].node_w,
                                           cases[i].peak_ratio};
        struct lull_power_budget budget;

        assert_int_equal(lull_power_budget_init(&budget, &wide_cluster, &jobs, &cap, NULL), 0);
        assert_int_equal(lull_power_budget_expect(&budget, 0), isfinite(cases[i].min_w));
        if (budget.min_w[0] != cases[i].min_w)
            fail_msg("case %zu: %g W", i, budget.min_w[0]);
        lull_power_budget_fini(&budget);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_room_is_that_of_who_still_runs),
        cmocka_unit_test(test_watts_and_ends_are_those_of_who_runs),
        cmocka_unit_test(test_caps_below_an_idle_cluster_are_refused),
        cmocka_unit_test(test_what_could_ever_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
