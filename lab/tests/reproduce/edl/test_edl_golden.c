/*
 * EDL against results recorded from the released code and from a repaired one that shares no code
 * with Lull's: every recorded run, and task by task where that was recorded. An argument N: every
 * N-th run only. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "edl_case.h"
#include "lab/reproduce/edl/online.h"

/* The columns of both tables of results. */
enum {
    SET,
    SEED,
    VARIANT,
    UTILISATION,
    RULE,
    HAS_DVFS,
    THETA,
    PER_NODE,
    TASKS,
    RUN_J,
    IDLE,
    TURN_ONS,
    MISSES,
    COLUMNS
};

/* No limit of nodes: at U = 1.6 the recorded runs turn on more than the 128 there are. */
static struct lull_edl_config config_of(char *const *row)
{
    struct lull_edl_config config;

    lull_edl_config_default(&config);
    assert_int_equal(lull_edl_find_variant(row[VARIANT], &config.errors), 0);
    edl_set_rule(&config, row[RULE]);
    config.has_dvfs = row[HAS_DVFS][0] == '1';
    config.theta_ratio = edl_number(row[THETA]);
    config.gpus_per_node = (uint32_t)edl_number(row[PER_NODE]);
    return config;
}

static size_t stride = 1; /* every so many rows */

static void hold_against(char *const *row, const struct lull_edl_outcome *outcome)
{
    const double run_j = edl_number(row[RUN_J]);
    const bool is_same = fabs(outcome->run_j / run_j - 1.0) <= 1e-9 &&
                         outcome->idle_s == edl_number(row[IDLE]) &&
                         (double)outcome->turn_ons == edl_number(row[TURN_ONS]) &&
                         (double)outcome->misses == edl_number(row[MISSES]);

    if (!is_same)
        fail_msg("%s seed %s %s U %s %s dvfs %s theta %s l %s: run %.10g idle %.0f on %llu late "
                 "%llu, not %s %s %s %s",
                 row[SET], row[SEED], row[VARIANT], row[UTILISATION], row[RULE], row[HAS_DVFS],
                 row[THETA], row[PER_NODE], outcome->run_j, outcome->idle_s,
                 (unsigned long long)outcome->turn_ons, (unsigned long long)outcome->misses,
                 row[RUN_J], row[IDLE], row[TURN_ONS], row[MISSES]);
}

static void run_row(char *const *row, const struct edl_set *set, bool is_online)
{
    const struct lull_edl_config config = config_of(row);
    const size_t count = (size_t)edl_number(row[TASKS]);
    struct lull_edl_job *jobs = calloc(count, sizeof(*jobs));
    struct lull_edl_outcome outcome = {0};
    struct lull_error err = {0};
    int rc;

    assert_non_null(jobs);
    assert_true(count <= set->count);
    rc = is_online ? lull_edl_simulate(&config, set->tasks, count, jobs, &outcome, &err)
                   : lull_edl_schedule(&config, set->tasks, count, jobs, &outcome, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    hold_against(row, &outcome);
    free(jobs);
}

static const struct edl_set *set_of(char *const *row, bool is_online)
{
    char name[64];

    if (is_online)
        snprintf(name, sizeof(name), "online-s%s-u%s", row[SEED], row[UTILISATION]);
    else if (strcmp(row[SET], "synthetic") == 0)
        snprintf(name, sizeof(name), "offline-s%s", row[SEED]);
    else
        snprintf(name, sizeof(name), "offline-%s-s%s", row[SET], row[SEED]);
    return edl_read(name);
}

static size_t run_table(const char *path, bool is_online)
{
    struct lull_lines *lines = edl_open(path);
    char *row[EDL_CELLS];
    size_t rows = 0;
    size_t seen = 0;

    assert_int_equal(edl_row(lines, row), COLUMNS);
    assert_string_equal(row[RUN_J], "run_j");
    while (edl_row(lines, row) == COLUMNS) {
        if (seen++ % stride != 0)
            continue;
        run_row(row, set_of(row, is_online), is_online);
        rows++;
    }
    lull_lines_close(lines);
    return rows;
}

static void test_offline_runs(void **state)
{
    (void)state;
    if (edl_is_absent()) {
        print_message("skipped: no " EDL_DATA "\n");
        skip();
    }
    assert_int_equal(run_table(EDL_DATA "golden_offline.csv", false), (1198 + stride - 1) / stride);
}

static void test_online_runs(void **state)
{
    (void)state;
    if (edl_is_absent()) {
        print_message("skipped: no " EDL_DATA "\n");
        skip();
    }
    assert_int_equal(run_table(EDL_DATA "golden_online.csv", true), (182 + stride - 1) / stride);
}

/* ---- task by task ------------------------------------------------------------------------- */

static void check_job(char *const *row, const struct lull_edl_job *job)
{
    char line[256];
    char expected[256];

    snprintf(line, sizeof(line), "%llu,%.2f,%.6f,%.6f,%.6f,%.4f,%.6f,%.6f,%u,%u",
             (unsigned long long)job->task->id, job->point.voltage_ratio, job->point.core_ratio,
             job->point.memory_ratio, job->point.time_s, job->point.power_w, job->start_s,
             job->finish_s, job->node, job->gpu);
    snprintf(expected, sizeof(expected), "%s,%s,%s,%s,%s,%s,%s,%s,%s,%s", row[0], row[1], row[2],
             row[3], row[4], row[5], row[6], row[7], row[8], row[9]);
    assert_string_equal(line, expected);
}

static void check_file(const char *theta, const char *variant)
{
    const struct edl_set *set = edl_read("offline-s1");
    const size_t count = 2048;
    struct lull_edl_job *jobs = calloc(count, sizeof(*jobs));
    struct lull_edl_outcome outcome;
    struct lull_edl_config config;
    struct lull_lines *lines;
    char *row[EDL_CELLS];
    char path[512];
    size_t rows = 0;

    lull_edl_config_default(&config);
    assert_int_equal(lull_edl_find_variant(variant, &config.errors), 0);
    config.theta_ratio = edl_number(theta);
    config.gpus_per_node = 16;
    assert_int_equal(lull_edl_schedule(&config, set->tasks, count, jobs, &outcome, NULL), 0);
    snprintf(path, sizeof(path), EDL_DATA "jobs-s1-u1.0-l16-th%s-%s.csv.gz", theta, variant);
    lines = edl_open(path);
    assert_int_equal(edl_row(lines, row), 10);
    for (; edl_row(lines, row) == 10; rows++)
        check_job(row, &jobs[rows]);
    assert_int_equal(rows, count);
    lull_lines_close(lines);
    free(jobs);
}

static void test_each_task(void **state)
{
    (void)state;
    if (edl_is_absent()) {
        print_message("skipped: no " EDL_DATA "\n");
        skip();
    }
    check_file("0.5", "published");
    check_file("0.5", "repaired");
    check_file("1.0", "published");
    check_file("1.0", "repaired");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_task),
        cmocka_unit_test(test_offline_runs),
        cmocka_unit_test(test_online_runs),
    };

    if (edl_is_absent()) {
        fprintf(stderr, "skipped: no %s\n", LULL_SCHED_DATA);
        return 77;
    }
    if (argc == 2)
        stride = strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
