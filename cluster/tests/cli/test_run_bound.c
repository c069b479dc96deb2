/* Bounds of `lull simulate cluster --bound` against runs. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cli/simulate/bound.h"
#include "tests/core/property.h"
#include "cluster/tests/simulator/cluster_case.h"

static const struct lull_cluster_type types[] = {{.name = "fast"}, {.name = "frugal"}};
static const struct lull_cluster_node nodes[] = {{.type = 0, .gpus = 4}, {.type = 1, .gpus = 4}};
static const struct lull_cluster cluster = {types, 2, nodes, 2, 1};

#define S INT64_C(1000000000)

static const struct lull_cluster_conditions nothing;

/* On either type; until the run's end frugal GPUs have room for one of the two. First come, first
   served, the first gets the fast ones, though it is the one that the frugal ones would save more.
 */
static const struct lull_cluster_point points[][2] = {
    {{.type = 0, .gpus = 4, .time_ns = 100 * S, .energy_j = 1000.0},
     {.type = 1, .gpus = 4, .time_ns = 200 * S, .energy_j = 200.0}},
    {{.type = 0, .gpus = 4, .time_ns = 100 * S, .energy_j = 1000.0},
     {.type = 1, .gpus = 4, .time_ns = 200 * S, .energy_j = 600.0}},
};
static const struct lull_cluster_job jobs_all[] = {
    {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 2, .points = points[0]},
    {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .point_count = 2, .points = points[1]},
};
static const struct lull_cluster_jobs jobs = {jobs_all, 2};

static struct lull_cluster_run *run_fifo(void)
{
    struct lull_cluster_run *run = NULL;

    assert_int_equal(
        lull_cluster_simulate(&cluster, &jobs, lull_cluster_policy_find("fifo"), NULL, &run, NULL),
        0);
    return run;
}

static void test_bound(void **state)
{
    struct lull_cluster_run *run = run_fifo();
    struct lull_cluster_bound bound = {0};
    double run_j, idle_j;
    struct lull_error err = {0};

    (void)state;
    lull_cluster_run_energy(run, &run_j, &idle_j);
    assert_near(run_j, 1600.0, 1e-9);
    assert_int_equal(lull_cluster_bound(&cluster, &jobs, run, &nothing, 50.0, &bound, &err), 0);
    assert_near(bound.run_j, 1200.0, 1e-9);
    assert_true(bound.run_j <= 1200.0);
    assert_true(bound.all_j == bound.run_j); /* idle GPUs draw nothing */
    lull_cluster_run_destroy(run);
}

/* ---- with failures, caps and nodes that are off --------------------------------------------- */

enum { CASES = 8, POLICIES = 7, SLOTS = 20 };

static const char *const policies[POLICIES] = {"fifo", "lpt", "backfill", "greedy-energy",
                                               "srsf", "hdf", "powerflow"};

static struct cluster_case it;

static struct lull_cluster_conditions conditions_of(uint64_t seed)
{
    struct lull_cluster_conditions conditions = {.turns_nodes_off = seed % 2 == 0,
                                                 .cap.peak_ratio = 1.0 + 0.1 * (double)(seed % 3)};
    const double min_w = case_least_cap_w(&it.cluster, conditions.turns_nodes_off);

    if (seed % 4 < 2) {
        conditions.failures = it.failures;
        conditions.failure_count = it.failure_count;
    }
    if (seed % 3 > 0)
        conditions.cap.cluster_w = min_w + 1500.0 * (double)(seed % 3);
    return conditions;
}

static int64_t last_end_ns(const struct lull_cluster_run *run)
{
    int64_t last_ns = 0;

    for (size_t i = 0; i < it.jobs.count; i++)
        if (lull_cluster_run_outcomes(run)[i].fate == LULL_CLUSTER_DONE &&
            lull_cluster_run_outcomes(run)[i].end_ns > last_ns)
            last_ns = lull_cluster_run_outcomes(run)[i].end_ns;
    return last_ns;
}

/* Returns whether a run is one of the schedules that the other's bound speaks of. */
static bool is_as_good(const struct lull_cluster_run *run, const struct lull_cluster_run *other)
{
    const struct lull_cluster_outcome *mine = lull_cluster_run_outcomes(run);
    const struct lull_cluster_outcome *its = lull_cluster_run_outcomes(other);

    for (size_t i = 0; i < it.jobs.count; i++)
        if (its[i].fate == LULL_CLUSTER_DONE &&
            (mine[i].fate != LULL_CLUSTER_DONE ||
             (its[i].end_ns <= it.all[i].deadline_ns && mine[i].end_ns > it.all[i].deadline_ns)))
            return false;
    return last_end_ns(run) <= last_end_ns(other);
}

static size_t compare(struct lull_cluster_run *const *runs, const struct lull_cluster_bound *bound,
                      size_t at, uint64_t seed)
{
    size_t compared = 0;

    for (size_t i = 0; i < POLICIES; i++) {
        double run_j, idle_j;

        if (!is_as_good(runs[i], runs[at]))
            continue;
        lull_cluster_run_energy(runs[i], &run_j, &idle_j);
        holds(bound->run_j <= run_j * (1.0 + 1e-9), seed);
        holds(bound->all_j <= (run_j + idle_j + lull_cluster_run_turn_on_j(runs[i])) * (1.0 + 1e-9),
              seed);
        compared += i != at;
    }
    return compared;
}

static void test_no_run_is_below(void **state)
{
    size_t compared = 0, raised = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        struct lull_cluster_run *runs[POLICIES];
        struct lull_cluster_conditions conditions;
        struct lull_error err = {0};

        case_draw(&it, seed);
        holds(lull_cluster_failures_order(it.failures, it.failure_count, it.cluster.node_count,
                                          &err) == 0,
              seed);
        conditions = conditions_of(seed);
        for (size_t i = 0; i < POLICIES; i++)
            holds(lull_cluster_simulate(&it.cluster, &it.jobs,
                                        lull_cluster_policy_find(policies[i]), &conditions,
                                        &runs[i], &err) == 0,
                  seed);
        for (size_t i = 0; i < POLICIES; i++) {
            struct lull_cluster_bound bound;

            holds(lull_cluster_bound(&it.cluster, &it.jobs, runs[i], &conditions,
                                     (double)last_end_ns(runs[i]) * 1e-9 / SLOTS, &bound,
                                     &err) == 0,
                  seed);
            compared += compare(runs, &bound, i, seed);
            raised += bound.all_j > bound.run_j;
        }
        for (size_t i = 0; i < POLICIES; i++)
            lull_cluster_run_destroy(runs[i]);
    }
    assert_true(compared > CASES && raised > CASES);
}

static void test_slots_that_are_too_short(void **state)
{
    struct lull_cluster_run *run = run_fifo();
    struct lull_error err = {0};
    struct lull_cluster_bound bound = {0};

    (void)state;
    assert_int_equal(lull_cluster_bound(&cluster, &jobs, run, &nothing, 1e-6, &bound, &err),
                     -ERANGE);
    assert_non_null(strstr(err.text, "longer"));
    lull_cluster_run_destroy(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_no_run_is_below),
        cmocka_unit_test(test_slots_that_are_too_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
