/*
 * The steps of US 2025/0264922 A1, one test each, on the real control path: controller, tracks,
 * schedule, guard and feed-forward, against a simulated job. The descent is the patent's own: one
 * operating point lower at a time. (tests/core/section/test_descent.c has the same steps for the
 * search alone; tests/run for the whole program on the emulated node.)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "job_sim.h"

/* A job whose link is fed down to point 3 of 0..7, and what the controller made of it. */
struct story {
    struct job_sim_config config;
    struct lull_controller *controller;
    struct job_sim_result result;
    const struct lull_target *target;
    uint32_t target_count;
};

static void tell(struct story *story, uint32_t knee_point)
{
    struct lull_controller_config control;
    uint32_t points[4];

    job_sim_config_default(&story->config);
    story->config.points = 8;
    story->config.knee_point = knee_point;
    story->config.iterations = 800;
    for (uint32_t i = 0; i < story->config.gpus; i++)
        points[i] = story->config.points;
    lull_controller_config_default(&control);
    control.only_sections = true;
    control.strategy = LULL_DESCENT_STEP;
    story->controller = lull_controller_create(&control, story->config.gpus, points);
}

static void run(struct story *story)
{
    job_sim_run(&story->config, story->controller, &story->result);
    story->target = lull_controller_look(story->controller).targets;
    story->target_count = lull_controller_look(story->controller).target_count;
    assert_int_equal(story->target_count, 1);
}

static void test_s210_the_communication_section_is_found(void **state)
{
    struct story story;
    uint32_t count;
    const struct lull_section *sections;

    (void)state;
    tell(&story, 3);
    run(&story);
    for (uint32_t i = 0; i < story.config.gpus; i++) {
        sections = lull_track_sections(lull_controller_look_gpu(story.controller, i).track, &count);
        assert_int_equal(count, 1);
        assert_int_equal(sections[0].calls, 2); /* the collective and the short one behind it */
        assert_true(sections[0].length_ms.mean > story.config.exposed_ms);
        assert_true(sections[0].length_ms.mean < story.config.exposed_ms + 15.0);
    }
    lull_controller_destroy(story.controller);
}

static void test_s220_the_clock_is_lowered_in_the_section_only(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    assert_true(story.result.longest_low_ms > 0.5 * story.config.exposed_ms);
    /* A collective on a point that degrades takes longer; one iteration bounds it all the same. */
    assert_true(story.result.longest_low_ms < story.config.exposed_ms + story.config.compute_ms);
    assert_true(story.result.computed_low * 100 <= story.result.computed);
    lull_controller_destroy(story.controller);
}

static void test_s221_the_descent_starts_at_the_highest_point(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    story.config.iterations = 8; /* learning: nothing has been decided */
    job_sim_run(&story.config, story.controller, &story.result);
    assert_int_equal(story.result.last_ran_at, 0);
    lull_controller_destroy(story.controller);

    tell(&story, 3);
    run(&story);
    assert_true(story.result.ran_at[0] > 0);
    assert_int_equal(story.target->records[0].point, 1);
    lull_controller_destroy(story.controller);
}

static void test_s222_the_next_point_is_one_lower(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    for (uint32_t i = 0; i < story.target->record_count; i++)
        assert_int_equal(story.target->records[i].point, i + 1);
    lull_controller_destroy(story.controller);
}

static void test_s223_the_section_runs_at_the_lowered_point(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    for (uint32_t point = 1; point <= story.target->record_count; point++)
        assert_true(story.result.ran_at[point] > 0);
    for (uint32_t point = story.target->record_count + 1; point < story.config.points; point++)
        assert_int_equal(story.result.ran_at[point], 0);
    lull_controller_destroy(story.controller);
}

static void test_s224_the_guard_compares_with_the_reference(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    for (uint32_t i = 0; i < story.target->record_count; i++) {
        const struct lull_descent_record *record = &story.target->records[i];

        if (record->verdict == LULL_VERDICT_NOT_DEGRADED)
            assert_true(record->pairs >= 3 && record->slowdown_ratio < 0.01);
        else
            assert_true(record->slowdown_ratio > 0.01);
    }
    lull_controller_destroy(story.controller);
}

static void test_s225_degradation_returns_to_the_previous_point(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    assert_int_equal(story.target->records[story.target->record_count - 1].verdict,
                     LULL_VERDICT_DEGRADED);
    assert_int_equal(story.target->records[story.target->record_count - 1].point, 4);
    assert_int_equal(story.target->descent.good, 3);
    assert_int_equal(story.target->reason, LULL_REASON_DEGRADES_BELOW);
    lull_controller_destroy(story.controller);
}

static void test_s226_the_devices_minimum_is_kept(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 7);
    run(&story);
    assert_int_equal(story.target->descent.good, 7);
    assert_int_equal(story.target->record_count, 7);
    assert_int_equal(story.target->reason, LULL_REASON_LOWEST);
    lull_controller_destroy(story.controller);
}

static void test_s227_the_kept_point_serves_the_section_from_then_on(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 3);
    run(&story);
    assert_true(story.target->settled);
    assert_int_equal(story.result.last_ran_at, 3);
    assert_true(story.result.ran_at[3] > story.config.iterations / 3);
    lull_controller_destroy(story.controller);
}

static void test_s230_performance_is_monitored_after_the_descent(void **state)
{
    struct story story;

    (void)state;
    tell(&story, 5);
    story.config.iterations = 2500;
    story.config.knee_moves_at = 700;
    story.config.knee_after = 2;
    run(&story);
    assert_true(story.target->descent.good <= 2);
    assert_true(story.target->settled);
    assert_true(story.result.last_ran_at <= 2);
    lull_controller_destroy(story.controller);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s210_the_communication_section_is_found),
        cmocka_unit_test(test_s220_the_clock_is_lowered_in_the_section_only),
        cmocka_unit_test(test_s221_the_descent_starts_at_the_highest_point),
        cmocka_unit_test(test_s222_the_next_point_is_one_lower),
        cmocka_unit_test(test_s223_the_section_runs_at_the_lowered_point),
        cmocka_unit_test(test_s224_the_guard_compares_with_the_reference),
        cmocka_unit_test(test_s225_degradation_returns_to_the_previous_point),
        cmocka_unit_test(test_s226_the_devices_minimum_is_kept),
        cmocka_unit_test(test_s227_the_kept_point_serves_the_section_from_then_on),
        cmocka_unit_test(test_s230_performance_is_monitored_after_the_descent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
