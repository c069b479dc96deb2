/*
 * One point of a sweep: when it has been measured well enough, its time and power, and its
 * marks. The GPU is simulated, with given counter steps, clock and
 * noise.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/core/sweep_point.h"

#include "tests/core/property.h"

static const struct lull_sweep_rules rules = {
    .min_s = 2.0,
    .max_s = 12.0,
    .min_launches = 20,
    .min_refreshes = 20,
    .interval_ratio = 0.005,
    .noise_ratio = 0.02,
    .counter_ratio = 0.05,
    .clock_ratio = 0.03,
};

/* A GPU at a point, and its faults. */
struct gpu {
    double sm_mhz;
    double set_mhz;
    double power_w;
    double polled_ratio; /* its polled power */
    double refresh_s;
    double launch_ms;
    double noise_ratio; /* of time and polled power, standard deviation */
    double reset_s;     /* the counter starts again then; INFINITY */
    double stuck_s;     /* it hangs from then on */
    bool is_capped, is_throttled, has_others;
    bool has_own_limit;
    bool has_no_counter;
    double base_time_ms;
    uint64_t seed;
};

static const struct gpu good = {
    .sm_mhz = 900.0,
    .set_mhz = 900.0,
    .power_w = 250.0,
    .polled_ratio = 1.0,
    .refresh_s = 0.1,
    .launch_ms = 25.0,
    .reset_s = INFINITY,
    .stuck_s = INFINITY,
    .base_time_ms = NAN,
    .seed = 1,
};

static double counter_at(const struct gpu *gpu, double time_s)
{
    const double counted_s = floor(fmin(time_s, gpu->stuck_s) / gpu->refresh_s) * gpu->refresh_s;

    return 1000.0 +
           gpu->power_w * (counted_s >= gpu->reset_s ? counted_s - gpu->reset_s - 5.0 : counted_s);
}

/* The next refresh, as polls of the counter would see it. */
static struct lull_sweep_edge edge_at(const struct gpu *gpu, double time_s)
{
    const double at_s = (floor(time_s / gpu->refresh_s) + 1.0) * gpu->refresh_s;

    if (gpu->has_no_counter || at_s > gpu->stuck_s)
        return (struct lull_sweep_edge){false, time_s, NAN};
    return (struct lull_sweep_edge){true, at_s, counter_at(gpu, at_s + 1e-9)};
}

static struct lull_sweep_result measure(const struct gpu *gpu, const struct lull_sweep_rules *by)
{
    const struct lull_sweep_target target = {
        .sm_mhz = gpu->set_mhz,
        .step_mhz = 15.0,
        .has_own_limit = gpu->has_own_limit,
        .has_counter = !gpu->has_no_counter,
        .base_sm_mhz = 1410.0,
        .base_time_ms = gpu->base_time_ms,
    };
    const struct lull_sweep_edge begin = edge_at(gpu, 100.0);
    struct lull_sweep_point point;
    struct lull_sweep_result result;
    struct lull_sweep_edge end;
    struct lull_random random;
    double now_s = begin.time_s;

    lull_random_init(&random, gpu->seed);
    lull_sweep_point_begin(&point, &begin, gpu->refresh_s);
    while (!lull_sweep_point_is_done(&point, by, now_s)) {
        const double launches = fmax(floor(100.0 / gpu->launch_ms), 1.0);
        const double time_noise = lull_random_normal(&random, 1.0, gpu->noise_ratio);
        const double power_noise = lull_random_normal(&random, 1.0, gpu->noise_ratio);
        const struct lull_sweep_look look = {
            .sm_mhz = gpu->sm_mhz,
            .mem_mhz = NAN,
            .power_w = gpu->power_w * gpu->polled_ratio * power_noise,
            .temperature_c = 60.0,
            .reasons = gpu->is_capped ? 4 : 0,
            .is_capped = gpu->is_capped,
            .is_throttled = gpu->is_throttled,
            .has_others = gpu->has_others,
        };

        lull_sweep_point_look(&point, &look);
        now_s += launches * gpu->launch_ms * 1e-3;
        lull_sweep_point_run(&point, (uint64_t)launches,
                             launches * gpu->launch_ms * 1e-3 * time_noise);
        if (!gpu->has_no_counter)
            lull_sweep_point_count(&point, counter_at(gpu, now_s));
    }
    end = edge_at(gpu, now_s);
    lull_sweep_point_end(&point, by, &target, &end, 0.0, 0.0, &result);
    return result;
}

static void test_good(void **state)
{
    const struct lull_sweep_result result = measure(&good, &rules);

    (void)state;
    assert_int_equal(result.marks, 0);
    assert_true(result.is_counted);
    assert_near(result.power_w, 250.0, 1e-6);
    assert_near(result.time_ms, 25.0, 1e-9);
    assert_near(result.window_s, 2.1, 0.2);
    assert_near(result.energy_j, 250.0 * result.window_s, 1e-6);
    assert_near(result.sm_mhz, 900.0, 0.0);
    assert_near(result.sm_min_mhz, 900.0, 0.0);
    assert_near(result.temperature_c, 60.0, 0.0);
    assert_true(isnan(result.mem_mhz));
}

/* Between edges at refreshes power is exact, whatever the refresh. */
static void test_power_is_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_random random;
        struct gpu gpu = good;
        struct lull_sweep_result result;

        lull_random_init(&random, seed);
        gpu.refresh_s = 0.02 + 0.08 * lull_random_uniform(&random);
        gpu.power_w = 50.0 + 400.0 * lull_random_uniform(&random);
        gpu.launch_ms = 0.5 + 30.0 * lull_random_uniform(&random);
        gpu.noise_ratio = 0.004;
        gpu.seed = seed;
        result = measure(&gpu, &rules);
        holds(result.marks == 0, seed);
        holds(fabs(result.power_w / gpu.power_w - 1.0) < 1e-6, seed);
        holds(fabs(result.time_ms / gpu.launch_ms - 1.0) < 0.01, seed);
    }
}

/* A noisy point takes longer, up to the maximum; a point that stays noisy is marked. */
static void test_noise(void **state)
{
    struct gpu gpu = good;
    struct lull_sweep_result result;

    (void)state;
    gpu.noise_ratio = 0.015;
    result = measure(&gpu, &rules);
    assert_true(result.window_s > 2.5 && result.window_s < 12.3);
    assert_int_equal(result.marks, 0);
    gpu.noise_ratio = 0.3;
    result = measure(&gpu, &rules);
    assert_near(result.window_s, 12.1, 0.2);
    assert_int_equal(result.marks & LULL_SWEEP_NOISE, LULL_SWEEP_NOISE);
}

/* Launches of 1.5 s: after the most there are 8, or 9. */
static void test_short(void **state)
{
    struct gpu gpu = good;
    struct lull_sweep_rules few = rules;

    (void)state;
    gpu.launch_ms = 1500.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_SHORT);
    few.min_launches = 5;
    assert_int_equal(measure(&gpu, &few).marks, 0);
    gpu = good;
    gpu.refresh_s = 1.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_SHORT);
    few.min_refreshes = 12;
    assert_int_equal(measure(&gpu, &few).marks, 0);
}

static void test_clock(void **state)
{
    struct gpu gpu = good;

    (void)state;
    gpu.sm_mhz = 915.0; /* a reading may be off by one step */
    assert_int_equal(measure(&gpu, &rules).marks, 0);
    gpu.sm_mhz = 930.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_CLOCK);
    gpu.sm_mhz = 870.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_CLOCK);
    gpu.sm_mhz = NAN;
    assert_int_equal(measure(&gpu, &rules).marks, 0);
}

/* The clock is read as set, but the kernel is slower than it can be there: 1410/900 x 1.03. */
static void test_impossible_time(void **state)
{
    struct gpu gpu = good;

    (void)state;
    gpu.base_time_ms = 25.0 / (1410.0 / 900.0 * 1.029);
    assert_int_equal(measure(&gpu, &rules).marks, 0);
    gpu.base_time_ms = 25.0 / (1410.0 / 900.0 * 1.031);
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_CLOCK);
    gpu.is_capped = true;
    gpu.has_own_limit = true;
    assert_int_equal(measure(&gpu, &rules).marks, 0);
}

/* A limit of the row's own may hold the clock down, below it but not above. */
static void test_held_down(void **state)
{
    struct gpu gpu = good;

    (void)state;
    gpu.is_capped = true;
    gpu.sm_mhz = 600.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_POWER);
    gpu.has_own_limit = true;
    assert_int_equal(measure(&gpu, &rules).marks, 0);
    assert_int_equal(measure(&gpu, &rules).reasons, 4);
    gpu.sm_mhz = 1410.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_CLOCK);
    gpu = good;
    gpu.is_throttled = true;
    gpu.sm_mhz = 600.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_THERMAL);
}

static void test_others(void **state)
{
    struct gpu gpu = good;

    (void)state;
    gpu.has_others = true;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_OTHER_PROCESS);
}

/* Polled power takes the place of a counter that goes back, hangs, or is off by more than
 * 5 %. */
static void test_counter(void **state)
{
    const double bad[] = {1.06, 0.94};
    struct gpu gpu = good;
    struct lull_sweep_result result;

    (void)state;
    gpu.reset_s = 101.0;
    result = measure(&gpu, &rules);
    assert_int_equal(result.marks, LULL_SWEEP_COUNTER);
    assert_false(result.is_counted);
    assert_near(result.power_w, 250.0, 1e-6);
    gpu = good;
    gpu.stuck_s = 101.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_COUNTER);
    gpu.stuck_s = 99.0;
    assert_int_equal(measure(&gpu, &rules).marks, LULL_SWEEP_COUNTER);
    for (uint32_t i = 0; i < 2; i++) {
        gpu = good;
        gpu.polled_ratio = bad[i];
        result = measure(&gpu, &rules);
        assert_int_equal(result.marks, LULL_SWEEP_COUNTER);
        assert_near(result.power_w, 250.0 * bad[i], 1e-6);
    }
    gpu.polled_ratio = 1.04;
    assert_int_equal(measure(&gpu, &rules).marks, 0);
}

/* Without a counter there is nothing to mark: power is polled. */
static void test_no_counter(void **state)
{
    struct gpu gpu = good;
    struct lull_sweep_result result;

    (void)state;
    gpu.has_no_counter = true;
    result = measure(&gpu, &rules);
    assert_int_equal(result.marks, 0);
    assert_false(result.is_counted);
    assert_near(result.energy_j, 250.0 * result.window_s, 1e-6);
}

/* It goes back between the last look and the edge. */
static void test_counter_at_the_end(void **state)
{
    const struct lull_sweep_edge begin = {true, 10.0, 1000.0};
    const struct lull_sweep_edge end = {true, 14.0, 1900.0};
    const struct lull_sweep_target target = {.sm_mhz = 900.0,
                                             .step_mhz = 15.0,
                                             .has_counter = true,
                                             .base_sm_mhz = NAN,
                                             .base_time_ms = NAN};
    struct lull_sweep_point point;
    struct lull_sweep_result result;

    (void)state;
    lull_sweep_point_begin(&point, &begin, 0.1);
    lull_sweep_point_run(&point, 100, 4.0);
    lull_sweep_point_count(&point, 1950.0);
    lull_sweep_point_end(&point, &rules, &target, &end, 0.0, 0.0, &result);
    assert_int_equal(result.marks, LULL_SWEEP_COUNTER);
    assert_true(isnan(result.power_w));
}

/* One run gives no information on noise, however many launches it has. */
static void test_one_run_is_not_enough(void **state)
{
    const struct lull_sweep_edge begin = {true, 10.0, 1000.0};
    struct lull_sweep_point point;

    (void)state;
    lull_sweep_point_begin(&point, &begin, 0.1);
    lull_sweep_point_run(&point, 100, 3.0);
    assert_false(lull_sweep_point_is_done(&point, &rules, 13.0));
    lull_sweep_point_run(&point, 100, 3.0);
    assert_true(lull_sweep_point_is_done(&point, &rules, 16.0));
    assert_false(lull_sweep_point_is_done(&point, &rules, 11.9));
}

/* The energy after the end of the load is subtracted. */
static void test_tail(void **state)
{
    const struct lull_sweep_edge begin = {true, 10.0, 0.0};
    const struct lull_sweep_edge end = {true, 14.1, 4.0 * 300.0 + 0.1 * 60.0};
    const struct lull_sweep_target target = {
        .sm_mhz = 900.0, .step_mhz = 15.0, .base_sm_mhz = NAN, .base_time_ms = NAN};
    struct lull_sweep_point point;
    struct lull_sweep_result result;

    (void)state;
    lull_sweep_point_begin(&point, &begin, 0.1);
    lull_sweep_point_run(&point, 2, 4.0);
    lull_sweep_point_end(&point, &rules, &target, &end, 0.1, 60.0, &result);
    assert_near(result.power_w, 300.0, 1e-9);
    assert_near(result.window_s, 4.0, 1e-9);
    assert_near(result.energy_j, 1200.0, 1e-9);
    assert_near(result.time_ms, 2000.0, 1e-9);
    assert_true(isnan(result.time_sd_ms) && isnan(result.power_sd_w));
    lull_sweep_point_end(&point, &rules, &target, &end, 4.2, 400.0, &result);
    assert_true(isnan(result.power_w));
}

/* Medians of many values: of every second, fourth ... of them. */
static void test_many_looks(void **state)
{
    const struct lull_sweep_edge begin = {true, 0.0, 0.0};
    const struct lull_sweep_edge end = {true, 1e3, 1e5};
    const struct lull_sweep_target target = {.sm_mhz = 1000.0, .step_mhz = 15.0};
    struct lull_sweep_look look = {.mem_mhz = NAN, .power_w = NAN};
    struct lull_sweep_point point;
    struct lull_sweep_result result;

    (void)state;
    lull_sweep_point_begin(&point, &begin, 0.1);
    for (uint32_t i = 0; i < 10001; i++) {
        look.sm_mhz = 1000.0 + i;
        look.temperature_c = i < 4000 ? 40.0 : 70.0;
        lull_sweep_point_look(&point, &look);
    }
    lull_sweep_point_run(&point, 1, 1.0);
    lull_sweep_point_end(&point, &rules, &target, &end, 0.0, 0.0, &result);
    assert_near(result.sm_mhz, 6000.0, 64.0);
    assert_near(result.sm_min_mhz, 1000.0, 0.0);
    assert_near(result.sm_max_mhz, 11000.0, 0.0);
    assert_near(result.temperature_c, 70.0, 0.0);
}

/* An exponential warming by 30 K in 20 s: within 1 K of its end after 68 s, still for 30 s then. */
static void test_warmth(void **state)
{
    struct lull_sweep_warmth warmth = {.is_begun = false};
    double warm_s = NAN;

    (void)state;
    for (double time_s = 0.0; time_s < 300.0 && isnan(warm_s); time_s += 0.1)
        if (lull_sweep_warmth_take(&warmth, time_s, 70.0 - 30.0 * exp(-time_s / 20.0), 30.0))
            warm_s = time_s;
    assert_true(warm_s > 68.0 && warm_s < 120.0);
    warmth = (struct lull_sweep_warmth){.is_begun = false};
    for (double time_s = 0.0; time_s < 300.0; time_s += 0.1)
        assert_false(lull_sweep_warmth_take(&warmth, time_s, time_s, 30.0));
    warmth = (struct lull_sweep_warmth){.is_begun = false};
    assert_false(lull_sweep_warmth_take(&warmth, 0.0, NAN, 30.0));
    assert_false(lull_sweep_warmth_take(&warmth, 100.0, NAN, 30.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_power_is_exact),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_impossible_time),
        cmocka_unit_test(test_held_down),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_no_counter),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_counter_at_the_end),
        cmocka_unit_test(test_one_run_is_not_enough),
        cmocka_unit_test(test_many_looks),
        cmocka_unit_test(test_warmth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
