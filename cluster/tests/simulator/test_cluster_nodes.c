/*
 * Nodes that fail, are turned off and are kept under a power cap: small cases by hand, and the cost
 * of turning nodes off, against all schedules of doing so. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/core/property.h"
#include "cluster_case.h"

static const struct lull_cluster_type gpu = {
    .name = "A", .idle_w = 50.0, .turn_on_j = 4000.0, .turn_on_ns = 20 * CASE_S, .off_w = 10.0};
static const struct lull_cluster_node node_pair[] = {{.gpus = 2}, {.gpus = 2}};

static struct lull_cluster_point full = {.gpus = 2, .time_ns = 100 * CASE_S, .energy_j = 60000.0};

static struct lull_cluster_run *run_hand(uint32_t nodes, const struct lull_cluster_job *all,
                                         size_t count,
                                         const struct lull_cluster_conditions *conditions)
{
    static struct lull_cluster cluster;
    static struct lull_cluster_jobs jobs;
    struct lull_cluster_run *run = NULL;

    cluster = (struct lull_cluster){&gpu, 1, node_pair, nodes, 1};
    jobs = (struct lull_cluster_jobs){all, count};
    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"),
                                           conditions, &run, NULL),
                     0);
    return run;
}

/* It runs for 30 s, loses 10 of them, and continues when the node works again. */
static void test_a_failure(void **state)
{
    const struct lull_cluster_failure failure = {0, 30 * CASE_S, 50 * CASE_S};
    const struct lull_cluster_conditions conditions = {.failures = &failure, .failure_count = 1};
    struct lull_cluster_job job = {.deadline_ns = LULL_CLUSTER_NEVER,
                                   .weight = 1.0,
                                   .checkpoint_ns = 20 * CASE_S,
                                   .point_count = 1,
                                   .points = &full};
    struct lull_cluster_run *run = run_hand(1, &job, 1, &conditions);
    const struct lull_cluster_outcome *outcome = lull_cluster_run_outcomes(run);
    double run_j, idle_j;

    (void)state;
    assert_int_equal(outcome->fate, LULL_CLUSTER_DONE);
    assert_int_equal(outcome->failures, 1);
    assert_int_equal(outcome->lost_ns, 10 * CASE_S);
    assert_int_equal(outcome->start_ns, 0);
    assert_int_equal(outcome->end_ns, 130 * CASE_S);
    assert_int_equal(lull_cluster_run_nodes(run).failures, 1);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    assert_near(run_j, 600.0 * 110.0, 1e-6);
    assert_near(idle_j, 0.0, 1e-9);
    lull_cluster_run_destroy(run);

    /* Without checkpoints all 30 s are lost; with another node it moves there at once. */
    job.checkpoint_ns = 0;
    run = run_hand(2, &job, 1, &conditions);
    outcome = lull_cluster_run_outcomes(run);
    assert_int_equal(outcome->lost_ns, 30 * CASE_S);
    assert_int_equal(outcome->end_ns, 130 * CASE_S);
    assert_int_equal(outcome->shares[0].node, 1);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    /* One node idles until 30 s, the other from 50 s on. */
    assert_near(idle_j, 100.0 * (30.0 + 80.0), 1e-6);
    lull_cluster_run_destroy(run);
}

/* Idle nodes save 90 W when off, so 4000 J are idle for 44.4 s. The second job waits for 20 s. */
static void test_ski_rental(void **state)
{
    const struct lull_cluster_conditions conditions = {.turns_nodes_off = true};
    const struct lull_cluster_job jobs[] = {
        {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 1, .points = &full},
        {.arrival_ns = 200 * CASE_S,
         .deadline_ns = LULL_CLUSTER_NEVER,
         .weight = 1.0,
         .point_count = 1,
         .points = &full},
    };
    struct lull_cluster_run *run = run_hand(1, jobs, 2, &conditions);
    const struct lull_cluster_outcome *outcomes = lull_cluster_run_outcomes(run);
    const double patience_s = floor(4000.0 / 90.0 * 1e9) * 1e-9;
    double run_j, idle_j;

    (void)state;
    assert_int_equal(outcomes[0].end_ns, 100 * CASE_S);
    assert_int_equal(outcomes[1].start_ns, 220 * CASE_S);
    assert_int_equal(lull_cluster_run_nodes(run).turn_offs, 1);
    assert_int_equal(lull_cluster_run_nodes(run).turn_ons, 1);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    assert_near(run_j, 120000.0, 1e-6);
    assert_near(idle_j, 100.0 * patience_s + 10.0 * (100.0 - patience_s), 1e-6);
    assert_near(lull_power_meter_j(lull_cluster_run_meter(run), 0, LULL_POWER_TURN_ON), 4000.0,
                1e-6);
    lull_cluster_run_destroy(run);
}

/* ---- ski rental against foresight ----------------------------------------------------------- */

enum { GAPS = 10, RENTALS = 300 };

/* The least that idling and turning on can take: of all ways to be off in some gaps and not in
 * others. A node that is turned off is turned off at once. */
static double min_j(const struct lull_cluster_type *type, const double *gaps_s)
{
    double least = INFINITY;

    for (unsigned ways = 0; ways < 1U << GAPS; ways++) {
        double sum_j = 0.0;

        for (int i = 0; i < GAPS; i++)
            sum_j += (ways >> i & 1) ? type->turn_on_j + type->off_w * gaps_s[i]
                                     : 2.0 * type->idle_w * gaps_s[i];
        least = fmin(least, sum_j);
    }
    return least;
}

static void test_at_most_twice_foresight(void **state)
{
    const struct lull_cluster_conditions conditions = {.turns_nodes_off = true};
    static struct lull_cluster_job jobs[GAPS];
    double worst_ratio = 0.0;

    (void)state;
    for (uint64_t seed = 1; seed <= RENTALS; seed++) {
        struct lull_cluster_type type = gpu;
        const struct lull_cluster cluster = {&type, 1, node_pair, 1, 1};
        const struct lull_cluster_jobs all = {jobs, GAPS};
        struct lull_cluster_run *run = NULL;
        struct lull_random random;
        double gaps_s[GAPS];
        double run_j, idle_j;
        int64_t now_ns = 0;

        lull_random_init(&random, seed);
        type.turn_on_ns = 0;
        type.turn_on_j = 100.0 + 20000.0 * lull_random_uniform(&random);
        type.off_w = 30.0 * lull_random_uniform(&random);
        for (int i = 0; i < GAPS; i++) {
            /* Around the break-even, and now and then just beyond it, which is worst. */
            gaps_s[i] =
                type.turn_on_j / (100.0 - type.off_w) *
                (lull_random_below(&random, 2) ? 1.0001 : 3.0 * lull_random_uniform(&random));
            gaps_s[i] = round(gaps_s[i] * 1e9) * 1e-9;
            now_ns += (int64_t)round(gaps_s[i] * 1e9);
            jobs[i] = (struct lull_cluster_job){.arrival_ns = now_ns,
                                                .deadline_ns = LULL_CLUSTER_NEVER,
                                                .weight = 1.0,
                                                .point_count = 1,
                                                .points = &full};
            now_ns += full.time_ns;
        }
        assert_int_equal(lull_cluster_simulate(&cluster, &all, lull_cluster_policy_find("fifo"),
                                               &conditions, &run, NULL),
                         0);
        lull_cluster_run_energy(run, &run_j, &idle_j);
        idle_j += lull_cluster_run_turn_on_j(run);
        holds(idle_j <= 2.0 * min_j(&type, gaps_s) * (1.0 + 1e-9), seed);
        holds(idle_j >= min_j(&type, gaps_s) * (1.0 - 1e-9), seed);
        worst_ratio = fmax(worst_ratio, idle_j / min_j(&type, gaps_s));
        lull_cluster_run_destroy(run);
    }
    /* The bound is nearly reached: nothing is spared by chance. */
    assert_true(worst_ratio > 1.5);
}

/* ---- prices and caps ------------------------------------------------------------------------ */

/* 600 W for 100 s, then 100 W idle for 50 s, then 600 W; the price changes at 60 s. */
static void test_price_and_carbon(void **state)
{
    static const int64_t times_ns[] = {10 * CASE_S, 60 * CASE_S};
    static const double prices[] = {0.2, -0.1};
    static const double grams[] = {300.0, 500.0};
    const struct lull_tariff price = {times_ns, prices, 2};
    const struct lull_tariff carbon = {times_ns, grams, 2};
    const struct lull_cluster_conditions conditions = {.price = &price, .carbon = &carbon};
    const struct lull_cluster_job jobs[] = {
        {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 1, .points = &full},
        {.arrival_ns = 150 * CASE_S,
         .deadline_ns = LULL_CLUSTER_NEVER,
         .weight = 1.0,
         .point_count = 1,
         .points = &full},
    };
    struct lull_cluster_run *run = run_hand(1, jobs, 2, &conditions);
    const struct lull_power_meter *meter = lull_cluster_run_meter(run);
    const double before_kwh = 600.0 * 60.0 / 3.6e6;
    const double after_kwh = (600.0 * 140.0 + 100.0 * 50.0) / 3.6e6;

    (void)state;
    assert_near(lull_power_meter_price(meter), before_kwh * 0.2 - after_kwh * 0.1, 1e-12);
    assert_near(lull_power_meter_carbon(meter), before_kwh * 300.0 + after_kwh * 500.0, 1e-9);
    lull_cluster_run_destroy(run);
}

/* Three jobs, watts for two at their peak; an operating point of less; and none that fits. */
static void test_a_cap(void **state)
{
    static const struct lull_cluster_point one = {
        .gpus = 1, .time_ns = 100 * CASE_S, .energy_j = 30000.0};
    static const struct lull_cluster_point two[] = {
        {.gpus = 1, .time_ns = 100 * CASE_S, .energy_j = 30000.0},
        {.gpus = 1, .time_ns = 150 * CASE_S, .energy_j = 30000.0}};
    struct lull_cluster_job jobs[3];
    /* Idle 200 W; each job 300 W * 1.1 instead of 50 W. */
    struct lull_cluster_conditions conditions = {
        .cap = {.cluster_w = 200.0 + 2.0 * 280.0, .peak_ratio = 1.1}};
    struct lull_cluster_run *run;

    (void)state;
    for (int i = 0; i < 3; i++)
        jobs[i] = (struct lull_cluster_job){
            .deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 1, .points = &one};
    run = run_hand(2, jobs, 3, &conditions);
    assert_int_equal(lull_cluster_run_outcomes(run)[1].start_ns, 0);
    assert_int_equal(lull_cluster_run_outcomes(run)[2].start_ns, 100 * CASE_S);
    lull_cluster_run_destroy(run);

    /* The third draws 200 * 1.1 - 50 more in its other operating point. */
    jobs[2].points = two;
    jobs[2].point_count = 2;
    conditions.cap.cluster_w += 170.0;
    run = run_hand(2, jobs, 3, &conditions);
    assert_int_equal(lull_cluster_run_outcomes(run)[2].start_ns, 0);
    assert_int_equal(lull_cluster_run_outcomes(run)[2].point, 1);
    lull_cluster_run_destroy(run);

    conditions.cap.cluster_w = 250.0;
    run = run_hand(2, jobs, 3, &conditions);
    assert_int_equal(lull_cluster_run_outcomes(run)[0].fate, LULL_CLUSTER_REJECTED);
    assert_string_equal(lull_cluster_run_outcomes(run)[0].reason,
                        "no mode of it stays under the power cap");
    lull_cluster_run_destroy(run);

    /* Two on one node would draw 660 W; the second goes to the other node. */
    conditions.cap = (struct lull_power_cap){.node_w = 400.0, .peak_ratio = 1.1};
    run = run_hand(2, jobs, 2, &conditions);
    assert_int_equal(lull_cluster_run_outcomes(run)[1].start_ns, 0);
    assert_int_equal(lull_cluster_run_outcomes(run)[1].shares[0].node, 1);
    lull_cluster_run_destroy(run);
}

static void test_caps_that_cannot_be(void **state)
{
    const struct lull_cluster cluster = {&gpu, 1, node_pair, 2, 1};
    const struct lull_cluster_jobs jobs = {NULL, 0};
    struct lull_cluster_conditions conditions = {.cap = {.cluster_w = 199.0, .peak_ratio = 1.0}};
    struct lull_cluster_run *run = NULL;
    struct lull_error err;

    (void)state;
    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"),
                                           &conditions, &run, &err),
                     -EINVAL);
    assert_non_null(strstr(err.text, "199 W is below the 200 W"));
    conditions.cap = (struct lull_power_cap){.node_w = 99.0, .peak_ratio = 1.0};
    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"),
                                           &conditions, &run, &err),
                     -EINVAL);
    conditions.cap = (struct lull_power_cap){.node_w = 100.0, .peak_ratio = 0.9};
    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"),
                                           &conditions, &run, &err),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure),
        cmocka_unit_test(test_ski_rental),
        cmocka_unit_test(test_at_most_twice_foresight),
        cmocka_unit_test(test_price_and_carbon),
        cmocka_unit_test(test_a_cap),
        cmocka_unit_test(test_caps_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
