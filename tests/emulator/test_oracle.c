/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>

#include "emulator/oracle.h"
#include "emulator/oracle_limits.h"

static struct lull_oracle_answer answer;

static struct lull_oracle_job long_job(void)
{
    return (struct lull_oracle_job){
        .model = lull_gpu_model_find("A100", 4),
        .gpus = 2,
        .compute_ms = 300,
        .profile = "lammps",
        .bytes = 6.9e9, /* 300 ms */
        .link_gbs = 23,
        .channels = 4,
        .tolerance_ratio = 0.01,
    };
}

static void test_reference_times_follow_the_job(void **state)
{
    const struct lull_oracle_job job = long_job();

    (void)state;
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), 0);
    check_within("compute, ms", answer.compute_s * 1e3, 299.9, 300.1);
    check_within("transfer, ms", answer.transfer_s * 1e3, 299.9, 300.1);
    assert_int_equal(answer.count, 81);
    assert_true(answer.points[0].mhz == 1410 && answer.points[80].mhz == 210);
}

static void test_latency_costs_but_does_not_invert(void **state)
{
    const struct lull_oracle_job job = long_job();
    const struct lull_oracle_outcome *ideal;
    const struct lull_oracle_outcome *real;

    (void)state;
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), 0);
    ideal = &answer.points[answer.best[LULL_ORACLE_IDEAL]].outcomes[LULL_ORACLE_IDEAL];
    real = &answer.points[answer.best[LULL_ORACLE_REAL]].outcomes[LULL_ORACLE_REAL];
    check_within("ideal saving", ideal->saving_ratio, 0.05, 0.15);
    check_within("saving with latency / ideal", real->saving_ratio / ideal->saving_ratio, 0.7, 1);
    check_within("slowdown with latency", real->slowdown_ratio, -0.001, 0.01);
    check_within("ideal slowdown", ideal->slowdown_ratio, -0.001, 0.01);
}

static void test_sections_shorter_than_the_latency_save_nothing_much(void **state)
{
    struct lull_oracle_job job = long_job();

    (void)state;
    job.bytes = 23e9 * 0.01;      /* 10 ms */
    job.tolerance_ratio = 0.0005; /* more would be spent on slower compute */
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), 0);
    check_within(
        "saving with latency",
        answer.points[answer.best[LULL_ORACLE_REAL]].outcomes[LULL_ORACLE_REAL].saving_ratio, 0,
        0.005);
}

static void test_answers_repeat(void **state)
{
    static struct lull_oracle_answer again;
    const struct lull_oracle_job job = long_job();

    (void)state;
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), 0);
    assert_int_equal(lull_oracle_ask(&job, &again, NULL), 0);
    assert_memory_equal(&answer, &again, sizeof(answer));
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    struct lull_oracle_job job = long_job();

    (void)state;
    job.gpus = 65;
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), -EINVAL);
    job = long_job();
    job.compute_ms = NAN;
    assert_int_equal(lull_oracle_ask(&job, &answer, NULL), -EINVAL);
}

/* Limits above what the job draws are alike; below, it draws what they allow and is slower. */
static void test_power_limits(void **state)
{
    const struct lull_gpu_model *model = lull_gpu_model_find("A100", 4);
    const double idle_ms = 50;
    struct lull_oracle_limit_job job = {model, 2, 0, 200, idle_ms, "namd"};
    struct lull_oracle_limit limits[] = {
        {.limit_w = 400}, {.limit_w = 390}, {.limit_w = 175}, {.limit_w = 150}, {.limit_w = 125}};
    enum { LIMITS = sizeof(limits) / sizeof(limits[0]) };

    (void)state;
    assert_int_equal(lull_oracle_ask_limits(&job, limits, LIMITS, NULL), 0);
    check_within("free, ms", limits[0].time_s * 1e3, 249.9, 251);
    assert_true(limits[0].time_s == limits[1].time_s && limits[0].energy_j == limits[1].energy_j);
    for (int i = 2; i < LIMITS; i++) {
        assert_true(limits[i].time_s > limits[i - 1].time_s);
        check_within("power of each GPU, share of its limit",
                     limits[i].energy_j / job.gpus / limits[i].time_s / limits[i].limit_w, 0.9, 1);
    }
    job.seed = 3; /* units that are not alike: the slower one is waited for */
    assert_int_equal(lull_oracle_ask_limits(&job, limits, LIMITS, NULL), 0);
    assert_true(limits[0].energy_j > 0.0);
    limits[0].limit_w = 401;
    assert_int_equal(lull_oracle_ask_limits(&job, limits, LIMITS, NULL), -EINVAL);
    limits[0].limit_w = 400;
    job.wait_ms = NAN;
    assert_int_equal(lull_oracle_ask_limits(&job, limits, LIMITS, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_times_follow_the_job),
        cmocka_unit_test(test_latency_costs_but_does_not_invert),
        cmocka_unit_test(test_sections_shorter_than_the_latency_save_nothing_much),
        cmocka_unit_test(test_answers_repeat),
        cmocka_unit_test(test_power_limits),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
