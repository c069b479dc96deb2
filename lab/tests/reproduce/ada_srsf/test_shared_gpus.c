/*
 * The recorded completion times of Ada-SRSF's released simulator, job by job, for each placement
 * and rule; as released, and without its accounting error. Skipped if the data are absent.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/core/property.h"
#include "core/stats/random.h"
#include "lab/reproduce/ada_srsf/shared_gpus.h"
#include "trace/lines.h"

enum { JOBS = 160, MAX_COLUMNS = 40, SETS = 2 };

static const int seeds[SETS] = {1, 3};

/* All recorded columns and 30 sets of our own; or every ninth column and 5 sets. */
static size_t every = 9;
static uint64_t own_sets = 5;

struct column {
    char name[40];
    int64_t completion_ms[JOBS];
};

static struct {
    struct lull_shared_job jobs[JOBS];
    struct column columns[MAX_COLUMNS];
    size_t column_count;
} it;

/* kind: "jobs" or "jct" */
static struct lull_lines *open_data(const char *kind, int seed)
{
    struct lull_lines *lines = NULL;
    char path[512];

    snprintf(path, sizeof(path), LULL_SCHED_DATA "/ada/%s-160-s%d-x10.csv", kind, seed);
    assert_int_equal(lull_lines_open(path, &lines, NULL), 0);
    return lines;
}

static double number(char **rest)
{
    return atof(lull_lines_cell(rest));
}

static void read_jobs(int seed)
{
    struct lull_lines *lines = open_data("jobs", seed);
    char *rest;
    size_t count = 0;

    assert_int_equal(lull_lines_next(lines, &rest, NULL), 1);
    while (lull_lines_next(lines, &rest, NULL) == 1) {
        struct lull_shared_job *const job = &it.jobs[count++];

        lull_lines_cell(&rest);
        job->arrival_ms = (int64_t)number(&rest);
        job->workers = (uint32_t)number(&rest);
        lull_lines_cell(&rest);
        job->iterations = (uint32_t)number(&rest);
        job->forward_ms = (uint32_t)number(&rest);
        job->backward_ms = (uint32_t)number(&rest);
        job->model_mb = number(&rest);
        job->memory_mb = number(&rest);
    }
    assert_int_equal(count, JOBS);
    lull_lines_close(lines);
}

static void read_columns(int seed)
{
    struct lull_lines *lines = open_data("jct", seed);
    char *rest;

    it.column_count = 0;
    assert_int_equal(lull_lines_next(lines, &rest, NULL), 1);
    lull_lines_cell(&rest);
    while (rest != NULL)
        snprintf(it.columns[it.column_count++].name, sizeof(it.columns[0].name), "%s",
                 lull_lines_cell(&rest));
    for (size_t job = 0; lull_lines_next(lines, &rest, NULL) == 1; job++) {
        lull_lines_cell(&rest);
        for (size_t i = 0; i < it.column_count; i++)
            it.columns[i].completion_ms[job] = (int64_t)number(&rest);
    }
    lull_lines_close(lines);
}

/* lwf4_ada, lwf4_ada_corrected, ff_srsf2 */
static struct lull_shared_setup parse(const char *name)
{
    struct lull_shared_setup setup = lull_shared_published;
    const char *rule = strchr(name, '_') + 1;

    setup.kappa = strncmp(name, "lwf", 3) == 0 ? (uint32_t)atoi(name + 3) : LULL_SHARED_FIRST_FIT;
    if (strncmp(rule, "srsf", 4) == 0) {
        setup.at_once = (uint32_t)atoi(rule + 4);
    } else {
        setup.rule = LULL_SHARED_ADADUAL;
        setup.asking_moves_transfers = strcmp(rule, "ada") == 0;
    }
    return setup;
}

static void test_every_job(void **state)
{
    int64_t completion_ms[JOBS];
    size_t columns = 0;

    (void)state;
    for (size_t set = 0; set < SETS; set++) {
        read_jobs(seeds[set]);
        read_columns(seeds[set]);
        for (size_t i = every == 1 ? 0 : set; i < it.column_count; i += every) {
            const struct lull_shared_setup setup = parse(it.columns[i].name);
            struct lull_shared_result result = {.completion_ms = completion_ms};

            assert_int_equal(lull_shared_simulate(&setup, it.jobs, JOBS, &result), 0);
            for (size_t job = 0; job < JOBS; job++)
                if (completion_ms[job] != it.columns[i].completion_ms[job])
                    fail_msg("seed %d, %s, job %zu: %lld ms, recorded %lld", seeds[set],
                             it.columns[i].name, job, (long long)completion_ms[job],
                             (long long)it.columns[i].completion_ms[job]);
            columns++;
        }
    }
    assert_int_equal(columns, every == 1 ? 60 : 8);
}

/* One row of golden.csv, whose placement and rule are columns of their own. */
static void compare_summary(char *rest)
{
    const int seed = (int)number(&rest);
    const char *variant = lull_lines_cell(&rest);
    const char *placement = lull_lines_cell(&rest);
    const char *rule = lull_lines_cell(&rest);
    const double average_ms = number(&rest);
    int64_t completion_ms[JOBS];
    struct lull_shared_result result = {.completion_ms = completion_ms};
    struct lull_shared_setup setup;
    char name[40];
    double sum_ms = 0.0;

    snprintf(name, sizeof(name), "%s_%s%s", placement, rule,
             strcmp(variant, "corrected") == 0 ? "_corrected" : "");
    setup = parse(name);
    read_jobs(seed);
    assert_int_equal(lull_shared_simulate(&setup, it.jobs, JOBS, &result), 0);
    for (size_t i = 0; i < JOBS; i++)
        sum_ms += (double)completion_ms[i];
    assert_near(sum_ms / JOBS, average_ms, 0.00501);
    lull_lines_cell(&rest);
    lull_lines_cell(&rest);
    assert_int_equal(result.makespan_ms, (int64_t)number(&rest));
    assert_near(result.busy_ratio, number(&rest), 0.000501);
}

static void test_summaries(void **state)
{
    struct lull_lines *lines = NULL;
    char *rest;
    size_t rows = 0;

    (void)state;
    assert_int_equal(lull_lines_open(LULL_SCHED_DATA "/ada/golden.csv", &lines, NULL), 0);
    assert_int_equal(lull_lines_next(lines, &rest, NULL), 1);
    /* Some: the same runs as above. */
    for (; lull_lines_next(lines, &rest, NULL) == 1; rows++)
        if (rows % (4 * every) == 0)
            compare_summary(rest);
    assert_int_equal(rows, 60);
    lull_lines_close(lines);
}

/* ---- job sets of our own, drawn from the published ranges ------------------------------------ */

static void draw_jobs(uint64_t seed)
{
    static const struct lull_shared_job nets[] = {
        {.forward_ms = 36, .backward_ms = 54, .model_mb = 526.4, .memory_mb = 4527.0},
        {.forward_ms = 25, .backward_ms = 37, .model_mb = 99.2, .memory_mb = 3213.0},
        {.forward_ms = 35, .backward_ms = 52, .model_mb = 103.0, .memory_mb = 3291.0},
        {.forward_ms = 32, .backward_ms = 47, .model_mb = 251.8, .memory_mb = 2751.0},
    };
    static const uint32_t workers[][2] = {{1, 80}, {2, 14}, {4, 26}, {8, 30}, {16, 8}, {32, 2}};
    struct lull_random random;
    size_t count = 0;

    lull_random_init(&random, seed);
    for (size_t kind = 0; kind < sizeof(workers) / sizeof(workers[0]); kind++)
        for (uint32_t i = 0; i < workers[kind][1]; i++) {
            struct lull_shared_job *const job = &it.jobs[count++];

            *job = nets[lull_random_below(&random, 4)];
            job->workers = workers[kind][0];
            job->iterations = 10 + (uint32_t)lull_random_below(&random, 51);
            job->arrival_ms = (int64_t)lull_random_below(&random, 12000);
        }
    assert_int_equal(count, JOBS);
}

static double average_ms(enum lull_shared_rule rule)
{
    int64_t completion_ms[JOBS];
    struct lull_shared_result result = {.completion_ms = completion_ms};
    struct lull_shared_setup setup = lull_shared_published;
    double sum_ms = 0.0;

    setup.rule = rule;
    assert_int_equal(lull_shared_simulate(&setup, it.jobs, JOBS, &result), 0);
    for (size_t i = 0; i < JOBS; i++)
        sum_ms += (double)completion_ms[i];
    return sum_ms / JOBS;
}

/* Against one transfer at a time, LWF-1 both. AdaDUAL without its error is no better than that. */
static void test_giving_way_is_better(void **state)
{
    double ratio = 0.0;
    double adadual_ratio = 0.0;
    int better = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= own_sets; seed++) {
        double one_ms;
        double ours_ms;

        draw_jobs(seed);
        one_ms = average_ms(LULL_SHARED_SRSF);
        ours_ms = average_ms(LULL_SHARED_SRTF);
        better += ours_ms < one_ms;
        ratio += ours_ms / one_ms / (double)own_sets;
        adadual_ratio += average_ms(LULL_SHARED_ADADUAL) / one_ms / (double)own_sets;
    }
    print_message("average completion over %d sets, one transfer at a time 1: ours %.3f (better in "
                  "%d), AdaDUAL %.3f\n",
                  (int)own_sets, ratio, better, adadual_ratio);
    assert_true(better >= (int)own_sets - 2 && ratio < 0.9);
    assert_true(adadual_ratio > 0.95);
}

static void test_what_cannot_run(void **state)
{
    const struct lull_shared_job jobs[] = {
        {.workers = 65, .iterations = 1, .forward_ms = 1, .backward_ms = 1},
        {.workers = 1, .iterations = 1, .forward_ms = 1, .backward_ms = 1, .memory_mb = 40000.0},
        {.arrival_ms = 5, .workers = 2, .iterations = 3, .forward_ms = 4, .backward_ms = 6},
    };
    int64_t completion_ms[3];
    struct lull_shared_result result = {.completion_ms = completion_ms};

    (void)state;
    assert_int_equal(lull_shared_simulate(&lull_shared_published, jobs, 3, &result), 0);
    assert_int_equal(completion_ms[0], -1);
    assert_int_equal(completion_ms[1], -1);
    assert_int_equal(completion_ms[2], 30);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest recorded[] = {
        cmocka_unit_test(test_every_job),
        cmocka_unit_test(test_summaries),
    };
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_what_cannot_run),
        cmocka_unit_test(test_giving_way_is_better),
    };
    int rc;

    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        every = 1;
        own_sets = 30;
    }
    rc = cmocka_run_group_tests(own, NULL, NULL);

    if (rc != 0 || access(LULL_SCHED_DATA "/ada/golden.csv", R_OK) == 0)
        return rc != 0 ? rc : cmocka_run_group_tests(recorded, NULL, NULL);
    puts("skipped: no recorded completion times at " LULL_SCHED_DATA);
    return 77;
}
