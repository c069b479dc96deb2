/*
 * PD-RATS on jobs that may be preempted: with any operating points of random jobs, no work is lost
 * when they get other numbers of GPUs; and small cases whose ends are computed by hand.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "policy_spy.h"

enum { SEEDS = 80 };

static struct spy_case it;
static struct spy_log spied, again;

static struct lull_cluster_policy_ops at_parameter(double second_j)
{
    struct lull_cluster_policy_ops set;

    assert_int_equal(
        lull_cluster_policy_set(lull_cluster_policy_find("pd-rats"), second_j, &set, NULL), 0);
    return set;
}

/* ---- random jobs ---------------------------------------------------------------------------- */

static struct spy_options options_of(uint64_t seed)
{
    return (struct spy_options){
        .types = 1 + (uint32_t)(seed % 2),
        .pools = 1 + (uint32_t)(seed / 2 % 2),
        .nodes = seed % 3 == 0 ? 4 : 12,
        .node_gpus = 4,
        .jobs = 48,
        .max_gpus = seed % 5 == 0 ? 1 : 6,
        .clocks = 1 + (uint32_t)(seed / 4 % 2),
        .elastic = seed % 3 == 0 ? 4 : 2,
        .is_preemptible = true,
        .has_deadlines = seed % 4 < 2,
        .has_weights = seed % 6 == 0,
        .max_s = seed % 11 == 0 ? 20 : 4000,
        .span_s = 500 + 400 * (int64_t)(seed % 50),
    };
}

/* Stops after which a job continued with more GPUs, and with fewer. */
static void count_resizes(size_t *grown, size_t *shrunk)
{
    uint32_t gpus[SPY_JOBS] = {0};

    for (size_t i = 0; i < spied.count; i++) {
        const struct spy_event *event = &spied.events[i];
        const uint32_t now = it.points[event->job][event->point].gpus;

        if (event->kind != SPY_START)
            continue;
        *grown += gpus[event->job] > 0 && now > gpus[event->job];
        *shrunk += now < gpus[event->job];
        gpus[event->job] = now;
    }
}

static void test_resized_jobs_keep_their_progress(void **state)
{
    static const double parameters[] = {0.0, 500.0, 1e9};
    size_t grown = 0;
    size_t shrunk = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct spy_options options = options_of(seed);

        spy_make(&it, &options, seed);
        for (uint32_t i = 0; i < it.jobs.count; i++)
            it.all[i].is_preemptible = true;
        for (size_t i = 0; i < 3; i++) {
            const struct lull_cluster_policy_ops ops = at_parameter(parameters[i]);
            struct lull_cluster_run *run = spy_run(&it, &ops, NULL, &spied);
            struct lull_cluster_run *twin = spy_run(&it, &ops, NULL, &again);

            spy_check(&it, run, &spied);
            holds(spied.count == again.count && memcmp(spied.events, again.events,
                                                       spied.count * sizeof(spied.events[0])) == 0,
                  seed);
            count_resizes(&grown, &shrunk);
            lull_cluster_run_destroy(run);
            lull_cluster_run_destroy(twin);
        }
    }
    print_message("%zu times more GPUs, %zu times fewer\n", grown, shrunk);
    assert_true(grown > 100 && shrunk > 100);
}

/* ---- by hand -------------------------------------------------------------------------------- */

/* One node of so many GPUs, no jobs yet. */
static void begin_case(uint32_t gpus)
{
    it = (struct spy_case){.types = {{.name = "GPU"}}, .nodes = {{.gpus = gpus}}};
    it.cluster = (struct lull_cluster){it.types, 1, it.nodes, 1, 1};
    it.jobs.all = it.all;
}

static struct lull_cluster_job *add_job(int64_t arrival_s)
{
    const size_t job = it.jobs.count++;

    it.all[job] = (struct lull_cluster_job){
        .arrival_ns = arrival_s * SPY_S,
        .deadline_ns = LULL_CLUSTER_NEVER,
        .weight = 1.0,
        .is_preemptible = true,
        .points = it.points[job],
    };
    return &it.all[job];
}

static void add_point(struct lull_cluster_job *job, uint32_t gpus, int64_t time_s, double energy_j)
{
    it.points[job - it.all][job->point_count++] =
        (struct lull_cluster_point){.gpus = gpus, .time_ns = time_s * SPY_S, .energy_j = energy_j};
}

static int64_t end_s(uint32_t job, double second_j)
{
    const struct lull_cluster_policy_ops ops = at_parameter(second_j);
    struct lull_cluster_run *run = spy_run(&it, &ops, NULL, &spied);
    const int64_t end_ns = lull_cluster_run_outcomes(run)[job].end_ns;

    spy_check(&it, run, &spied);
    lull_cluster_run_destroy(run);
    return end_ns / SPY_S;
}

/* A job grows onto a GPU that another leaves: 1000 of its 10,000 s are done, 7 s to begin again,
   and what is left takes half as long. */
static void test_grows_onto_a_free_gpu(void **state)
{
    struct lull_cluster_job *job;

    (void)state;
    begin_case(2);
    job = add_job(0);
    add_point(job, 1, 1000, 1e5);
    job = add_job(0);
    add_point(job, 2, 5000, 1e6);
    add_point(job, 1, 10000, 1e6);
    assert_int_equal(end_s(1, 500.0), 1000 + 7 + 4500);
}

/* Not for its last seconds. */
static void test_does_not_grow_near_its_end(void **state)
{
    struct lull_cluster_job *job;

    (void)state;
    begin_case(2);
    job = add_job(0);
    add_point(job, 1, 1000, 1e5);
    job = add_job(0);
    add_point(job, 2, 505, 1e5);
    add_point(job, 1, 1010, 1e5);
    assert_int_equal(end_s(1, 500.0), 1010);
}

/* One that has both GPUs gives one back to a shorter job that comes when 0.8 of its own work is
   left, begins again within 30 s, and takes it back 2000 s later: then 0.603 is left, and 7 s to
   begin again. */
static void test_shrinks_for_who_waits(void **state)
{
    struct lull_cluster_job *job;

    (void)state;
    begin_case(2);
    job = add_job(0);
    add_point(job, 2, 5000, 1e6);
    add_point(job, 1, 10000, 1e6);
    job = add_job(1000);
    add_point(job, 1, 2000, 2e5);
    assert_int_equal(end_s(1, 500.0), 3000);
    assert_int_equal(end_s(0, 500.0), 3000 + 7 + 3015);
}

/* The slow clock, unless the deadline requires another one; a job whose deadline no clock can meet
 * is treated as without one. */
static void test_clocks_and_deadlines(void **state)
{
    struct lull_cluster_job *job;

    (void)state;
    begin_case(1);
    job = add_job(0);
    add_point(job, 1, 100, 40000.0);
    add_point(job, 1, 120, 30000.0);
    assert_int_equal(end_s(0, 0.0), 120);
    assert_int_equal(end_s(0, 499.0), 120);
    assert_int_equal(end_s(0, 501.0), 100);
    job->deadline_ns = 110 * SPY_S;
    assert_int_equal(end_s(0, 0.0), 100);
    job->deadline_ns = 90 * SPY_S;
    assert_int_equal(end_s(0, 0.0), 120);
}

/* One whose deadline is near goes before one that is shorter, but not before one that takes less
   than a fourth; nor where it cannot meet it any more, or only time counts. */
static void test_urgent_jobs_go_first(void **state)
{
    struct lull_cluster_job *job;

    (void)state;
    begin_case(1);
    job = add_job(0);
    add_point(job, 1, 100, 1e4);
    job = add_job(10);
    add_point(job, 1, 100, 1e4);
    job = add_job(20);
    add_point(job, 1, 90, 1e4);
    assert_int_equal(end_s(1, 500.0), 290);
    it.all[1].deadline_ns = 260 * SPY_S;
    assert_int_equal(end_s(1, 500.0), 200);
    assert_int_equal(end_s(1, 10000.0), 200);
    assert_int_equal(end_s(1, 1e9), 290);
    it.all[2].arrival_ns = 95 * SPY_S;
    it.points[2][0].time_ns = 24 * SPY_S;
    assert_int_equal(end_s(1, 500.0), 224);
    it.all[2].arrival_ns = 20 * SPY_S;
    it.points[2][0].time_ns = 90 * SPY_S;
    it.all[1].deadline_ns = 105 * SPY_S;
    assert_int_equal(end_s(1, 500.0), 290);
}

/* If only time counts and jobs have one operating point each, the policy follows the order of srsf,
 * restarts included. */
static void test_is_srsf_where_only_time_counts(void **state)
{
    struct spy_options options = options_of(3);

    (void)state;
    options.clocks = options.elastic = options.types = 1;
    options.has_deadlines = options.has_weights = false;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct lull_cluster_policy_ops ops = at_parameter(1e9);

        spy_make(&it, &options, seed);
        for (uint32_t i = 0; i < it.jobs.count; i++)
            it.all[i].is_preemptible = true;
        lull_cluster_run_destroy(spy_run(&it, &ops, NULL, &spied));
        lull_cluster_run_destroy(spy_run(&it, lull_cluster_policy_find("srsf"), NULL, &again));
        holds(spied.count == again.count &&
                  memcmp(spied.events, again.events, spied.count * sizeof(spied.events[0])) == 0,
              seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resized_jobs_keep_their_progress),
        cmocka_unit_test(test_grows_onto_a_free_gpu),
        cmocka_unit_test(test_does_not_grow_near_its_end),
        cmocka_unit_test(test_shrinks_for_who_waits),
        cmocka_unit_test(test_clocks_and_deadlines),
        cmocka_unit_test(test_urgent_jobs_go_first),
        cmocka_unit_test(test_is_srsf_where_only_time_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
