/*
 * `lull simulate cluster --bound` from its inside: a run, the process beside it, and what comes
 * back. argv[1]: the directory of lull-bound. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cluster/bound.h"
#include "../core/property.h"

static const char *directory;

static const struct lull_cluster_type types[] = {{.name = "fast"}, {.name = "frugal"}};
static const struct lull_cluster_node nodes[] = {{.type = 0, .gpus = 4}, {.type = 1, .gpus = 4}};
static const struct lull_cluster cluster = {types, 2, nodes, 2, 1};

#define S INT64_C(1000000000)

/* On either type; until the run's end frugal GPUs have room for one of the two. First come, first
   served, the first gets the fast ones, though it is the one that the frugal ones would save more.
 */
static const struct lull_cluster_mode modes[][2] = {
    {{.type = 0, .gpus = 4, .time_ns = 100 * S, .energy_j = 1000.0},
     {.type = 1, .gpus = 4, .time_ns = 200 * S, .energy_j = 200.0}},
    {{.type = 0, .gpus = 4, .time_ns = 100 * S, .energy_j = 1000.0},
     {.type = 1, .gpus = 4, .time_ns = 200 * S, .energy_j = 600.0}},
};
static const struct lull_cluster_job jobs_all[] = {
    {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .mode_count = 2, .modes = modes[0]},
    {.deadline_ns = LULL_CLUSTER_NEVER, .weight = 1.0, .mode_count = 2, .modes = modes[1]},
};
static const struct lull_cluster_jobs jobs = {jobs_all, 2};

static struct lull_cluster_run *run_fifo(void)
{
    struct lull_cluster_run *run = NULL;

    assert_int_equal(lull_cluster_simulate(&cluster, &jobs, &lull_cluster_policy_fifo, &run, NULL),
                     0);
    return run;
}

static void test_bound(void **state)
{
    struct lull_cluster_run *run = run_fifo();
    double bound_j = 0.0, run_j, idle_j;
    struct lull_error err = {0};

    (void)state;
    setenv("PATH", directory, 1);
    lull_cluster_run_energy(run, &run_j, &idle_j);
    assert_near(run_j, 1600.0, 1e-9);
    assert_int_equal(lull_cluster_bound(&cluster, &jobs, run, 50.0, &bound_j, &err), 0);
    assert_near(bound_j, 1200.0, 1e-9);
    assert_true(bound_j <= 1200.0);
    lull_cluster_run_destroy(run);
}

static void test_no_such_program(void **state)
{
    struct lull_cluster_run *run = run_fifo();
    struct lull_error err = {0};
    double bound_j = 0.0;

    (void)state;
    setenv("PATH", "/nowhere", 1);
    assert_int_equal(lull_cluster_bound(&cluster, &jobs, run, 50.0, &bound_j, &err), -ENOENT);
    assert_non_null(strstr(err.text, "lull-bound"));
    assert_non_null(strstr(err.text, "path"));
    lull_cluster_run_destroy(run);
}

static void test_slots_that_are_too_short(void **state)
{
    struct lull_cluster_run *run = run_fifo();
    struct lull_error err = {0};
    double bound_j = 0.0;

    (void)state;
    assert_int_equal(lull_cluster_bound(&cluster, &jobs, run, 1e-6, &bound_j, &err), -ERANGE);
    assert_non_null(strstr(err.text, "longer"));
    lull_cluster_run_destroy(run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_no_such_program),
        cmocka_unit_test(test_slots_that_are_too_short),
    };

    directory = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
