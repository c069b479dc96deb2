/*
 * Cost and the choice of an operating point, on the published power-limit logs if they are
 * available (LULL_ZEUS_DATA). SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "core/tuning/cost.h"
#include "power_log.h"
#include "../property.h"
#include "trace/lines.h"

enum { MAX_POINTS = 16, EXPECTED_COLUMNS = 12 };

static const struct lull_cost_point *select_point(const struct lull_job_selector *selector,
                                                  const struct lull_cost_point *points,
                                                  size_t count)
{
    struct lull_error err = {0};
    size_t index = count;

    assert_int_equal(lull_job_select(selector, points, count, &index, &err), 0);
    return &points[index];
}

/* The columns of EXPECTED.csv from the third on. */
static const struct lull_job_selector selectors[] = {
    {.aim = LULL_JOB_ENERGY},
    {.aim = LULL_JOB_TIME},
    {.aim = LULL_JOB_COST, .price.eta_ratio = 0.0},
    {.aim = LULL_JOB_COST, .price.eta_ratio = 0.5},
    {.aim = LULL_JOB_COST, .price.eta_ratio = 1.0},
    {.aim = LULL_JOB_COST, .price.eta_ratio = 0.5}, /* as if the job had one GPU */
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.05},
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.10},
    {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = 0.20},
};

enum { COST_COLUMN = 3, ONE_GPU_COLUMN = 5, ZEUS_SLOWDOWN_COLUMN = 6, SLOWDOWN_COLUMN = 9 };

struct tally {
    unsigned logs;
    unsigned one_gpu_is_wrong; /* logs whose choice a wrong number of GPUs changes */
    unsigned dominated;        /* lowest limits within the slowdown that cost more energy */
};

static double energy_at(const struct lull_cost_point *points, size_t count, double level)
{
    for (size_t i = 0; i < count; i++)
        if (points[i].level == level)
            return points[i].energy_j;
    fail_msg("no point at %g", level);
    return 0.0;
}

static void check_log(char *line, struct tally *tally)
{
    struct lull_cost_point points[MAX_POINTS];
    const size_t count = power_log_read(lull_lines_cell(&line), points, MAX_POINTS);
    const double gpus = power_log_number(lull_lines_cell(&line));
    double expected[EXPECTED_COLUMNS] = {0};

    for (size_t i = 0; i < EXPECTED_COLUMNS; i++)
        expected[i] = power_log_number(lull_lines_cell(&line));
    for (size_t i = 0; i < sizeof(selectors) / sizeof(selectors[0]); i++) {
        struct lull_job_selector selector = selectors[i];
        const bool is_slowdown = selector.aim == LULL_JOB_SLOWDOWN;

        selector.price.max_power_w = points[0].level;
        selector.price.gpu_count = i == ONE_GPU_COLUMN ? 1 : (uint32_t)gpus;
        assert_near(select_point(&selector, points, count)->level,
                    expected[is_slowdown ? i + SLOWDOWN_COLUMN - ZEUS_SLOWDOWN_COLUMN : i], 0.0);
        if (is_slowdown)
            tally->dominated +=
                energy_at(points, count, expected[i]) >
                energy_at(points, count, expected[i + SLOWDOWN_COLUMN - ZEUS_SLOWDOWN_COLUMN]);
    }
    tally->logs++;
    tally->one_gpu_is_wrong += expected[COST_COLUMN] != expected[ONE_GPU_COLUMN];
}

static void test_the_published_logs_are_decided_rightly(void **state)
{
    struct tally tally = {0};
    struct lull_lines *lines = NULL;
    struct lull_error err = {0};
    char *line = NULL;

    (void)state;
    if (lull_lines_open(PROFILES "EXPECTED.csv", &lines, &err) < 0)
        skip();
    assert_int_equal(lull_lines_next(lines, &line, &err), 1);
    while (lull_lines_next(lines, &line, &err) == 1)
        check_log(line, &tally);
    lull_lines_close(lines);
    assert_int_equal(tally.logs, 12);
    assert_int_equal(tally.one_gpu_is_wrong, 3);
    assert_true(tally.dominated > 0);
}

static void test_cost_weighs_every_gpu(void **state)
{
    const struct lull_job_price price = {.eta_ratio = 0.25, .max_power_w = 300.0, .gpu_count = 4};

    (void)state;
    assert_near(lull_job_cost(&price, 1000.0, 2.0), 250.0 + 0.75 * 1200.0 * 2.0, 1e-9);
}

static void test_the_aims_differ(void **state)
{
    const struct lull_cost_point points[] = {
        {100.0, 100.0, 3.0}, {200.0, 120.0, 1.5}, {300.0, 180.0, 1.4}};
    struct lull_job_selector selector = {.aim = LULL_JOB_ENERGY};

    (void)state;
    assert_ptr_equal(select_point(&selector, points, 3), &points[0]);
    selector.aim = LULL_JOB_TIME;
    assert_ptr_equal(select_point(&selector, points, 3), &points[2]);
    selector.aim = LULL_JOB_DELAY;
    assert_ptr_equal(select_point(&selector, points, 3), &points[1]);
    selector.aim = LULL_JOB_SLOWDOWN;
    assert_ptr_equal(select_point(&selector, points, 3), &points[2]);
    selector.slowdown_ratio = 0.1;
    assert_ptr_equal(select_point(&selector, points, 3), &points[1]);
}

static void test_equal_points_fall_to_the_first(void **state)
{
    const struct lull_cost_point points[] = {{300.0, 100.0, 1.0}, {200.0, 100.0, 1.0}};
    const struct lull_job_selector selector = {.aim = LULL_JOB_DELAY};

    (void)state;
    assert_ptr_equal(select_point(&selector, points, 2), &points[0]);
}

static void test_nonsense_is_refused(void **state)
{
    const struct lull_cost_point good = {300.0, 100.0, 1.0};
    const struct lull_cost_point bad[] = {
        {300.0, -1.0, 1.0}, {300.0, 1.0, 0.0}, {300.0, NAN, 1.0}, {INFINITY, 1.0, 1.0}};
    const struct lull_job_selector energy = {.aim = LULL_JOB_ENERGY};
    const struct lull_job_selector wrong[] = {
        {.aim = LULL_JOB_COST, .price = {1.5, 300.0, 1}},
        {.aim = LULL_JOB_COST, .price = {0.5, 300.0, 0}},
        {.aim = LULL_JOB_COST, .price = {0.5, -1.0, 1}},
        {.aim = LULL_JOB_SLOWDOWN, .slowdown_ratio = -0.1},
    };
    struct lull_error err = {0};
    size_t index = 77;

    (void)state;
    assert_int_equal(lull_job_select(&energy, &good, 0, &index, &err), -EINVAL);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lull_job_select(&energy, &bad[i], 1, &index, &err), -EINVAL);
        assert_int_equal(lull_job_select(&wrong[i], &good, 1, &index, &err), -EINVAL);
    }
    assert_int_equal(index, 77);
}

static void test_names_go_both_ways(void **state)
{
    enum lull_job_aim aim = LULL_JOB_COST;

    (void)state;
    for (int i = LULL_JOB_COST; i <= LULL_JOB_DELAY; i++) {
        assert_int_equal(lull_job_aim_parse(lull_job_aim_name((enum lull_job_aim)i), &aim), 0);
        assert_int_equal((int)aim, i);
    }
    assert_int_equal(lull_job_aim_parse("speed", &aim), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_published_logs_are_decided_rightly),
        cmocka_unit_test(test_cost_weighs_every_gpu),
        cmocka_unit_test(test_the_aims_differ),
        cmocka_unit_test(test_equal_points_fall_to_the_first),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_names_go_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
