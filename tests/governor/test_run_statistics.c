/*
 * The iterations of a run that count, from synthetic logs:
 * repetitions only at the start of a job are not counted. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/run/run_sampling.h"

enum { GPUS = 2 };

#include "fake_control.h"

static const struct lull_controller *controller_fake(const struct lull_control *control)
{
    (void)control;
    return NULL;
}

static struct lull_controller_gpu_view gpu_view_fake(const struct lull_controller *controller,
                                                     uint32_t gpu)
{
    (void)controller;
    (void)gpu;
    return (struct lull_controller_gpu_view){0};
}

static const struct lull_section *sections_fake(const struct lull_track *track, uint32_t *count_out)
{
    (void)track;
    *count_out = 0;
    return NULL;
}

static const struct lull_device_info *info_fake(const struct lull_control *control, uint32_t gpu)
{
    static const struct lull_device_info model;

    (void)control;
    (void)gpu;
    return &model;
}

static void sampling_fake(struct lull_run_sampling *sampling, const struct lull_control *control,
                          const struct lull_boundaries *boundaries, size_t first, size_t last)
{
    (void)sampling;
    (void)control;
    (void)boundaries;
    (void)first;
    (void)last;
}

static double ratio_fake(const struct lull_run_sampling *sampling,
                         const struct lull_control *control, uint32_t gpu, double iteration_ms)
{
    (void)sampling;
    (void)control;
    (void)gpu;
    (void)iteration_ms;
    return 0.0;
}

#define lull_run_sampling_add sampling_fake
#define lull_run_sampling_ratio ratio_fake
#define lull_control_gpu_count count_fake
#define lull_control_gpu(control, gpu) gpu_fake(control, gpu)
#define lull_control_log log_fake
#define lull_control_info info_fake
#define lull_control_controller controller_fake
#define lull_controller_look_gpu gpu_view_fake
#define lull_track_sections sections_fake
#include "governor/run/run_statistics.c"

static int64_t now_ms;

static int set_up(void **state)
{
    (void)state;
    now_ms = 0;
    for (uint32_t i = 0; i < GPUS; i++) {
        lull_run_log_init(&logs[i], &(struct lull_energy_source){.power_refresh_s = 0.1});
        states[i] = (struct lull_control_gpu){.process = (int32_t)i};
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < GPUS; i++)
        lull_run_log_fini(&logs[i]);
    return 0;
}

/* A sequence that is found after some time, and of which so many iterations are seen. */
static void find(uint32_t gpu, int64_t search_ms, uint32_t iterations, int64_t iteration_ms,
                 enum lull_controller_phase phase)
{
    now_ms += search_ms;
    for (uint32_t i = 0; i <= iterations; i++) {
        lull_run_log_add_boundary(
            &logs[gpu], &(struct lull_boundary){
                            .time_ns = now_ms * LULL_NS_PER_MS, .first = i == 0, .phase = phase});
        now_ms += i < iterations ? iteration_ms : 0;
    }
}

static void expect(enum lull_run_part part, uint64_t iterations, double iteration_ms)
{
    struct lull_run_statistics statistics;

    lull_run_statistics_compute(NULL, part, &statistics);
    assert_int_equal(statistics.iterations, iterations);
    assert_float_equal(statistics.iteration_ms, iteration_ms, 1e-9);
}

static void what_repeats_at_the_begin_alone_is_no_iteration(void **state)
{
    double slowdown, half_width;

    (void)state;
    find(0, 100, 86, 10, LULL_PHASE_DESCENDING);
    expect(LULL_RUN_PART_DESCENT, 86, 10.0); /* all that is known so far */
    find(0, 12000, 20, 1300, LULL_PHASE_DESCENDING);
    expect(LULL_RUN_PART_DESCENT, 20, 1300.0);
    find(0, 0, 30, 1313, LULL_PHASE_SETTLED);
    expect(LULL_RUN_PART_DESCENT, 20, 1300.0);
    expect(LULL_RUN_PART_SETTLED, 30, 1313.0);
    assert_true(lull_run_statistics_change(NULL, &slowdown, &half_width));
    assert_float_equal(slowdown, 0.01, 1e-9);
}

static void what_was_known_for_long_stays(void **state)
{
    (void)state;
    find(0, 5000, 50, 100, LULL_PHASE_DESCENDING);
    find(0, 4999, 10, 200, LULL_PHASE_DESCENDING); /* known for 5 s, found in less */
    expect(LULL_RUN_PART_WHOLE, 60, 7000.0 / 60.0);
    find(0, 8000, 10, 300,
         LULL_PHASE_DESCENDING); /* all that was known counts, not the last of it alone */
    expect(LULL_RUN_PART_WHOLE, 70, 10000.0 / 70.0);
    find(0, 30000, 10, 300, LULL_PHASE_SETTLED);
    expect(LULL_RUN_PART_WHOLE, 10, 300.0);
    find(0, 30000, 10, 500,
         LULL_PHASE_DESCENDING); /* the search had settled, so these were iterations of the job */
    expect(LULL_RUN_PART_WHOLE, 20, 400.0);
}

static void the_rank_with_most_iterations_has_them_behind_the_warm_up(void **state)
{
    (void)state;
    find(0, 0, 500, 1, LULL_PHASE_DESCENDING);
    find(0, 1000, 10, 100, LULL_PHASE_DESCENDING);
    now_ms = 0;
    find(1, 500, 12, 100, LULL_PHASE_DESCENDING);
    assert_ptr_equal(lull_run_statistics_boundaries(NULL), &logs[1].boundaries);
    expect(LULL_RUN_PART_WHOLE, 12, 100.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_repeats_at_the_begin_alone_is_no_iteration, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_known_for_long_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_rank_with_most_iterations_has_them_behind_the_warm_up,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
